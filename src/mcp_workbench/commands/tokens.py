"""`mcp-workbench tokens`: what a configuration costs an agent, by what it is told. Starts nothing."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from statistics import mean
from typing import Final, get_args

from .. import console, raw_json
from ..claims import Claims
from ..config import Config, Toolbox
from ..config_file import Detail
from ..counting import counter
from ..knowledge import Admitted, Knowledge
from ..legible import first_sentence
from ..metatools import answers, definitions, forms
from ..metatools.answers import Connected
from ..naming import NativeNames, Origin
from ..offers import TOOLS, Offer
from ..printable import printable
from ..raw_json import Malformed
from ..search.index import Index
from ..search.shipped import shipped_table
from ..view import View

Row = tuple[str, int]
Count = Callable[[str], int]
Seen = Mapping[Origin, Admitted]

_MOST_SEARCHES: Final = 50


def run(asked: Namespace) -> int:
    place, configuration = console.read(asked.config, asked.toolboxes)
    known = console.knowledge(configuration, place, asked.catalogue)
    seen = known.remembered(configuration.servers())
    count, is_exact = counter()
    searchable = definitions.is_searchable(configuration, known.known_tools)
    calls = definitions.ways_on(configuration, searchable=searchable)
    openings = _openings_natively if configuration.tool_mode == "dynamic" else _openings
    rows = [
        *_at_start(configuration, known, seen, count),
        *openings(configuration, seen, calls, count),
        *(_searches(configuration, seen, calls, count) if searchable else ()),
    ]
    width = max(len(what) for what, _ in rows)
    table = "\n".join(f"{what:{width}}  {tokens:>7,}" for what, tokens in rows)
    how = "with o200k_base" if is_exact else "as an estimate of o200k_base, since tiktoken cannot be used"
    unseen = [origin.path for origin in configuration.servers() if origin not in seen]
    left_out = (
        f"\nNever started, so not counted (see mcp-workbench warm): {', '.join(unseen)}" if unseen else ""
    )
    return console.say(printable(f"{table}\n\nCounted {how}.{left_out}"))


def _at_start(configuration: Config, known: Knowledge, seen: Seen, count: Count) -> Iterator[Row]:
    flat = [tool.definition.decode() for it in seen.values() for tool in it.tools.values()]
    yield f"flat: all {len(flat)} tools", count(f"[{','.join(flat)}]")
    prefix = configuration.meta_tool_prefix
    listing = definitions.instructions(configuration.toolboxes.values(), known.tool_counts, prefix)
    searchable = definitions.is_searchable(configuration, known.known_tools)
    own = definitions.meta_tools(configuration, searchable=searchable)
    listed = sum(count(definition.decode()) for definition in own.values())
    yield "at start", count(listing) + listed
    yield "  instructions", count(listing)
    yield f"  {len(own)} meta-tools", listed


def _connected(configuration: Config, seen: Seen) -> Iterator[tuple[Toolbox, list[Connected]]]:
    """The toolboxes of which anything was seen, and what."""
    for toolbox in configuration.toolboxes.values():
        connected = [
            Connected(origin.server, it.instructions, [*it.tools.values()])
            for origin, it in seen.items()
            if origin.toolbox == toolbox.name
        ]
        if connected:
            yield toolbox, connected


def _openings(configuration: Config, seen: Seen, calls: forms.Calls, count: Count) -> Iterator[Row]:
    for toolbox, connected in _connected(configuration, seen):
        richest, *others = get_args(Detail)
        yield (
            f"opening {toolbox.name}: {richest}",
            count(answers.told(richest, toolbox, connected, (), calls)),
        )
        for form in others:
            yield f"  {form}", count(answers.told(form, toolbox, connected, (), calls))


def _openings_natively(configuration: Config, seen: Seen, calls: forms.Calls, count: Count) -> Iterator[Row]:
    """What is told, and what stands in the list of tools from then on."""
    servers = configuration.servers()
    view = View(NativeNames(servers), NativeNames(servers), Claims())
    for toolbox, connected in _connected(configuration, seen):
        view.refresh(((origin, {TOOLS: it.tools}) for origin, it in seen.items()), [toolbox.name])
        told = answers.opened_natively(toolbox, connected, (), view.tools_of(toolbox.name))
        yield f"opening {toolbox.name}", count(told)
        listed, cursor = 0, None
        while True:
            page = raw_json.members(view.page(TOOLS, cursor))
            listed += sum(count(bytes(it).decode()) for it in raw_json.elements(page["tools"]))
            cursor = raw_json.text_or_none(page.get("nextCursor", b"null"))
            if cursor is None:
                break
        yield "  its tools, as they are listed", listed


def _searches(configuration: Config, seen: Seen, calls: forms.Calls, count: Count) -> Iterator[Row]:
    index = Index(shipped_table)
    for origin, it in seen.items():
        about = configuration.toolboxes[origin.toolbox].description
        index.put(origin, it.tools.values(), about or "")
    queries = [query for it in seen.values() for tool in it.tools.values() if (query := _says(tool))]
    if queries:
        asked = queries[:: len(queries) // _MOST_SEARCHES + 1]
        found = ([(hit.origin, hit.tool) for hit in index.search(query, forms.MOST_FOUND)] for query in asked)
        unseen = len(configuration.servers()) - len(seen)
        sizes = [count(forms.search_text(hits, len(index), unseen, calls)) for hits in found]
        yield f"a search, mean of {len(asked)}", round(mean(sizes))


def _says(tool: Offer) -> str:
    """What a tool says it does: somebody who looks for it asks for something like it."""
    try:
        described = raw_json.text_or_none(raw_json.members(tool.definition).get("description", b"null"))
    except Malformed:
        return ""
    return first_sentence(described or "")
