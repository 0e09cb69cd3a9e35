"""The tools of all servers, searched by what they do: by their words, and by what words and sentences mean.

Pure, but for the table and the embedder that are given to it.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from ..naming import Origin
from ..offers import Offer
from . import definitions
from .bm25 import Field, Ranking
from .spaces import Embedder, SentenceMeanings, WordMeanings
from .table import Table
from .vectors import Vector
from .words import stems, wishes, words

# Weights are round on purpose: a name says more than a text, a text more than what stands around it.
_NAME: Final = Field(4, usual=3)
_TITLE: Final = Field(2, usual=3)
_DESCRIPTION: Final = Field(1, usual=20)
_PARAMETERS: Final = Field(1, usual=5)
_ABOUT_PARAMETERS: Final = Field(0.5, usual=20)
_SERVER: Final = Field(2, usual=2)
_TOOLBOX: Final = Field(0.5, usual=10)

# What a cosine counts, where the best match by words counts one.
_MEANINGS_OF_WORDS: Final = 1.5
_WORDS_BESIDE_SENTENCES: Final = 1.0
_SENTENCES: Final = 5.0

# A tool that shares no word with the query is a match from this cosine on.
_NEAR: Final = 0.25
_NEAR_BY_SENTENCES: Final = 0.1

_LONGEST_QUERY: Final = 2_000
_MOST_WISHES: Final = 4

Scores = Mapping[int, float]


class Hit(NamedTuple):
    origin: Origin
    tool: Offer
    score: float


class _Document(NamedTuple):
    origin: Origin
    tool: Offer


class Index:
    """`load_table` is called at the first search; without a table, words alone decide."""

    def __init__(self, load_table: Callable[[], Table] | None = None) -> None:
        self._numbers = count()
        self._documents: dict[int, _Document] = {}
        self._of: dict[Origin, list[int]] = {}
        self._ranking = Ranking()
        self._load_table = load_table
        self._unplaced: list[int] = []  # what came since the last search
        self._meanings: WordMeanings | None = None
        self._sentences: SentenceMeanings | None = None

    def __len__(self) -> int:
        """The number of tools."""
        return len(self._documents)

    def put(self, origin: Origin, tools: Iterable[Offer], about: str = "") -> None:
        """These are a server's tools now, whatever it had before. `about` says what its toolbox is for."""
        self.drop(origin)
        around = [
            (_SERVER, stems(words(origin.server))),
            (_TOOLBOX, stems(words(f"{origin.toolbox} {about}"))),
        ]
        numbers = self._of[origin] = []
        for tool in tools:
            number = next(self._numbers)
            said = definitions.read(tool.definition)
            own = [
                (_NAME, stems(words(tool.name))),
                (_TITLE, stems(words(said.title))),
                (_DESCRIPTION, stems(words(said.description))),
                (_PARAMETERS, stems(words(said.parameters))),
                (_ABOUT_PARAMETERS, stems(words(said.about_parameters))),
            ]
            self._ranking.add(number, [*own, *around])
            self._documents[number] = _Document(origin, tool)
            numbers.append(number)
            if self._sentences:
                self._sentences.add(number, origin, tool, said)
        self._unplaced += numbers

    def drop(self, origin: Origin) -> None:
        """Forget a server, if it is known."""
        for number in self._of.pop(origin, ()):
            del self._documents[number]
            self._ranking.remove(number)
            if self._meanings:
                self._meanings.space.remove(number)
            if self._sentences:
                self._sentences.remove(number)

    def search(self, query: str, limit: int, toolbox: str | None = None) -> list[Hit]:
        """The best tools for a query, best first; none that does not match at all.

        Equal ones stand in the order of their names, whenever they were put here.
        """
        hits = [
            Hit(document.origin, document.tool, score)
            for number, score in self._scores(query[:_LONGEST_QUERY]).items()
            if toolbox in (None, (document := self._documents[number]).origin.toolbox)
        ]
        hits.sort(key=lambda hit: (-hit.score, hit.origin, hit.tool.name))
        return hits[:limit]

    # With an embedder of sentences ------------------------------------------------------------

    def use(self, embedder: Embedder, cache: MutableMapping[str, bytes]) -> None:
        """Rank by sentences, too, while all tools are learnt. `cache` may hold what other runs learnt."""
        self._sentences = SentenceMeanings(embedder, cache)
        for number, (origin, tool) in self._documents.items():
            self._sentences.add(number, origin, tool, definitions.read(tool.definition))

    def unlearnt(self, most: int) -> list[str]:
        """Texts whose places are missing. The embedder takes 10 ms for each: ask it in a thread."""
        return self._sentences.unlearnt(most) if self._sentences else []

    def learn(self, texts: Sequence[str], places: Iterable[Vector | None]) -> None:
        """What the embedder said of texts."""
        if self._sentences:
            self._sentences.learn(texts, places)

    # Scores -----------------------------------------------------------------------------------

    def _scores(self, query: str) -> Scores:
        if not self._sentences or not self._sentences.complete:
            return self._by_words(query, _MEANINGS_OF_WORDS)
        parts = wishes(query, _MOST_WISHES)
        places = self._sentences.places([query, *parts])
        scores = self._by_sentences(query, places[query], self._sentences)
        best: dict[int, float] = {}
        for part in parts:
            for number, score in self._by_sentences(part, places[part], self._sentences).items():
                best[number] = max(score, best.get(number, 0.0))
        return {number: scores.get(number, 0.0) + best.get(number, 0.0) for number in {**scores, **best}}

    def _by_sentences(
        self, query: str, place: Vector | None, sentences: SentenceMeanings
    ) -> dict[int, float]:
        words_too = self._by_words(query, _WORDS_BESIDE_SENTENCES)
        return _with_cosines(words_too, sentences.space.cosines(place), _SENTENCES, _NEAR_BY_SENTENCES)

    def _by_words(self, query: str, weight: float) -> dict[int, float]:
        found = self._ranking.scores(stems(words(query)))
        best = max(found.values(), default=1.0)
        scores = {number: score / best for number, score in found.items()}
        meanings = self._up_to_date()
        if meanings is None:
            return scores
        return _with_cosines(scores, meanings.space.cosines(meanings.place(query)), weight, _NEAR)

    def _up_to_date(self) -> WordMeanings | None:
        if self._meanings is None:
            if self._load_table is None:
                return None
            self._meanings = WordMeanings(self._load_table())
        for number in self._unplaced:
            if document := self._documents.get(number):
                origin, tool = document
                self._meanings.add(number, origin, tool, definitions.read(tool.definition))
        self._unplaced.clear()
        return self._meanings


def _with_cosines(scores: dict[int, float], cosines: Scores, weight: float, near: float) -> dict[int, float]:
    for number, cosine in cosines.items():
        if number in scores:
            scores[number] += weight * cosine
        elif cosine >= near:
            scores[number] = weight * cosine
    return scores
