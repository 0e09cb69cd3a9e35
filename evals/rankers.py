"""The ingredients of the ranking, alone and together, as `judging` takes them."""

import json
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any
from unittest.mock import patch

from evals.judging import Ranker
from mcp_workbench.naming import Origin
from mcp_workbench.offers import Offer
from mcp_workbench.search import definitions
from mcp_workbench.search.bm25 import Field, Ranking
from mcp_workbench.search.index import Index
from mcp_workbench.search.shipped import shipped_table
from mcp_workbench.search.spaces import Embedder, SentenceMeanings, WordMeanings
from mcp_workbench.search.words import COMMON, words

Tools = Sequence[Mapping[str, Any]]
Servers = Mapping[Origin, Sequence[Offer]]
Stems = Callable[[list[str]], list[str]]


def offer(tool: Mapping[str, Any]) -> Offer:
    definition = {
        "name": tool["tool"],
        "description": tool["description"],
        "inputSchema": tool["inputSchema"],
    }
    return Offer(tool["tool"], json.dumps(definition, ensure_ascii=False).encode())


def servers_of(tools: Tools, toolbox: str) -> Servers:
    """By the member that names the toolbox: `category` or `server`."""
    servers: dict[Origin, list[Offer]] = {}
    for tool in tools:
        servers.setdefault(Origin(tool[toolbox], tool["server"]), []).append(offer(tool))
    return servers


def plain(tools: Tools, stems: Stems) -> Ranker:
    """BM25 over name, description and server as one text."""
    ranking = Ranking()
    for number, tool in enumerate(tools):
        text = f"{tool['tool']} {tool['description']} {tool['server']}"
        ranking.add(number, [(Field(1, usual=25), stems(words(text)))])

    def rank(query: str, most: int) -> list[str]:
        scores = ranking.scores(stems(words(query)))
        return [tools[at]["id"] for at in sorted(scores, key=lambda at: (-scores[at], at))[:most]]

    return rank


def as_written(found: list[str]) -> list[str]:
    return [word for word in found if word not in COMMON]


def snowball() -> Stems | None:
    """The stems of the package `snowballstemmer`, where it is installed."""
    try:
        import snowballstemmer
    except ImportError:
        return None
    english, known = snowballstemmer.stemmer("english"), dict[str, str]()

    def stems(found: list[str]) -> list[str]:
        return [
            known.get(word) or known.setdefault(word, english.stemWord(word)) for word in as_written(found)
        ]

    return stems


def with_stems(servers: Servers, stems: Stems) -> Ranker:
    """The default, but for its stems."""
    swapped = patch("mcp_workbench.search.index.stems", stems)
    with swapped:
        rank = searched(filled(Index(shipped_table), servers))

    def swapped_rank(query: str, most: int) -> Sequence[str]:
        with swapped:
            return rank(query, most)

    return swapped_rank


def word_meanings_alone(tools: Tools) -> Ranker:
    meanings = WordMeanings(shipped_table())
    for number, tool in enumerate(tools):
        made = offer(tool)
        meanings.add(
            number, Origin(tool["category"], tool["server"]), made, definitions.read(made.definition)
        )

    def rank(query: str, most: int) -> list[str]:
        cosines = meanings.space.cosines(meanings.place(query))
        return [tools[at]["id"] for at in sorted(cosines, key=lambda at: -cosines[at])[:most]]

    return rank


def sentences_alone(tools: Tools, embedder: Embedder, cache: MutableMapping[str, bytes]) -> Ranker:
    meanings = SentenceMeanings(embedder, cache)
    for number, tool in enumerate(tools):
        made = offer(tool)
        meanings.add(
            number, Origin(tool["category"], tool["server"]), made, definitions.read(made.definition)
        )
    while texts := meanings.unlearnt(64):
        meanings.learn(texts, embedder.embed(texts))

    def rank(query: str, most: int) -> list[str]:
        cosines = meanings.space.cosines(meanings.places([query])[query])
        return [tools[at]["id"] for at in sorted(cosines, key=lambda at: -cosines[at])[:most]]

    return rank


def filled(index: Index, servers: Servers, about: Mapping[str, str] | None = None) -> Index:
    for origin, tools in servers.items():
        index.put(origin, tools, (about or {}).get(origin.toolbox, ""))
    return index


def learnt(index: Index, embedder: Embedder, cache: MutableMapping[str, bytes]) -> Index:
    index.use(embedder, cache)
    while texts := index.unlearnt(64):
        index.learn(texts, embedder.embed(texts))
    return index


def searched(index: Index) -> Ranker:
    def rank(query: str, most: int) -> list[str]:
        return [f"{hit.origin.server}/{hit.tool.name}" for hit in index.search(query, most)]

    return rank


def many(tools: Tools, count: int) -> Iterable[Mapping[str, Any]]:
    """As many as asked for: the given tools again and again, of other servers and with another word."""
    for number in range(count):
        tool = tools[number % len(tools)]
        turn = number // len(tools)
        own = f"variant{turn}" if turn else ""
        yield {
            **tool,
            "server": f"{tool['server']}{own}",
            "tool": f"{tool['tool']}_{own}" if own else tool["tool"],
            "description": f"{tool['description']} {own}",
        }
