"""The forms in which tools are told to an agent: signatures, names, findings, definitions. Pure.

What stands in these texts costs tokens at every opening: their frame is as small as can still be understood.
Each tool, server and toolbox has its name as `use_tool` takes it, in JSON where it could be misread.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from .. import legible, raw_json, tokens
from ..naming import Origin
from ..offers import Offer
from ..raw_json import Malformed, Payload
from ..schemas.signatures import MORE, Room, signature

# What an opening gives each of its tools: more than this, and it costs a fifth of all definitions.
BRIEF: Final = Room(parameters=200, sentence=56, defaults=False)

MOST_SIGNED: Final = 3
MOST_FOUND: Final = 8  # if nothing else is asked for
MOST_ASKED_FOR: Final = 50

# How far an estimate may be off without a text breaking its limit: by a share, and a small text by more.
_MARGIN: Final = 1.1
_MARGIN_TOKENS: Final = 10

Served = tuple[str, Payload, Sequence[Offer]]  # a server, what it says about itself (JSON), its tools


class Calls(NamedTuple):
    """What these texts point to: the tool that calls, and what gives whole definitions."""

    use: str
    describe: str


# An opening -------------------------------------------------------------------------------------


def signatures_text(toolbox: str, servers: Iterable[Served], failures: Iterable[str], calls: Calls) -> str:
    """What a toolbox has: one line a tool, by server."""
    lines, lossy = list[str](), False
    for server, instructions, tools in servers:
        lines += ["", _heading(server, instructions)]
        for tool in tools:
            told = signature(tool.definition, BRIEF)
            lines.append(told.text)
            lossy = lossy or told.lossy
    more = f"; {MORE} is told by {calls.describe}" if lossy else ""
    return _opened(toolbox, f"{more}.", lines, failures, calls)


def names_text(toolbox: str, servers: Iterable[Served], failures: Iterable[str], calls: Calls) -> str:
    """The same with nothing but the names of the tools."""
    lines = list[str]()
    for server, instructions, tools in servers:
        lines += ["", _heading(server, instructions)]
        if tools:
            lines.append(_names(tools))
    return _opened(toolbox, f"; {calls.describe} tells what they take.", lines, failures, calls)


def _opened(toolbox: str, more: str, lines: list[str], failures: Iterable[str], calls: Calls) -> str:
    first = f"Call with {calls.use}, toolbox {legible.name(toolbox)}, server, tool{more}"
    failed = [legible.visible(failure) for failure in failures]
    return "\n".join([first, *lines, *([""] if failed else []), *failed])


def _heading(server: str, instructions: Payload) -> str:
    said = _text(instructions)
    heading = f"server {legible.name(server)}"
    return f"{heading} says {legible.quoted(said)}" if said else heading


def _text(value: Payload) -> str:
    try:
        return raw_json.text_or_none(value) or ""
    except Malformed:
        return ""


def _names(tools: Iterable[Offer]) -> str:
    return ", ".join(legible.name(tool.name) for tool in tools)


class Fitted(NamedTuple):
    form: str
    text: str


def fitting(max_tokens: float, forms: Mapping[str, Callable[[], str]]) -> Fitted:
    """Of forms that stand in the order of their richness, the first that fits; the last where none does."""
    chosen = Fitted("", "")
    for form, text in forms.items():
        chosen = Fitted(form, text())
        if tokens.estimate(chosen.text) * _MARGIN + _MARGIN_TOKENS <= max_tokens:
            break
    return chosen


# A search ---------------------------------------------------------------------------------------

Hit = tuple[Origin, Offer]


def search_text(hits: Sequence[Hit], total: int, unseen: int, calls: Calls) -> str:
    """What was found of a total of tools, the best first: some as signatures, some more as names.

    `unseen` is how many servers nobody has started yet, so that their tools are not known.
    """
    known = f"{len(hits)} of {total} tools" + (f" (servers never started: {unseen})" if unseen else "")
    if not hits:
        return f"{known}. Try other words, in English, or open a toolbox."
    lines, lossy, toolbox = list[str](), len(hits) > MOST_SIGNED, None
    for origin, signed, named in _grouped(hits):
        if origin.toolbox != toolbox:
            toolbox = origin.toolbox
            lines.append(f"toolbox {legible.name(toolbox)}")
        lines.append(f"server {legible.name(origin.server)}")
        for tool in signed:
            told = signature(tool.definition)
            lines.append(told.text)
            lossy = lossy or told.lossy
        if named:
            lines.append(_names(named))
    more = f"; {calls.describe} tells more" if lossy else ""
    first = f"{known}. Call with {calls.use}, toolbox, server, tool{more}."
    return "\n".join([first, *lines])


def _grouped(hits: Sequence[Hit]) -> list[tuple[Origin, list[Offer], list[Offer]]]:
    """By toolbox, then server, each where its first hit is: which of its tools are signed, which named."""
    toolboxes: dict[str, dict[Origin, tuple[list[Offer], list[Offer]]]] = {}
    for at, (origin, tool) in enumerate(hits):
        servers = toolboxes.setdefault(origin.toolbox, {})
        signed, named = servers.setdefault(origin, ([], []))
        (signed if at < MOST_SIGNED else named).append(tool)
    return [(origin, *tools) for servers in toolboxes.values() for origin, tools in servers.items()]


# A description ----------------------------------------------------------------------------------


def describe_text(found: Iterable[Hit], failures: Sequence[str] = ()) -> str:
    """The whole definitions of a few tools, as compact JSON, and which could not be told."""
    listed = b",".join(listing(origin, tool) for origin, tool in found)
    parts: dict[str, Payload] = {"tools": b"[%b]" % listed}
    if failures:
        parts["_errors"] = raw_json.encoded(failures)
    return raw_json.object_of(parts.items()).decode()


def listing(origin: Origin, tool: Offer) -> bytes:
    """A tool's definition with where it is."""
    ours: dict[str, Payload] = {
        "name": raw_json.encoded(tool.name),
        "toolbox_name": raw_json.encoded(origin.toolbox),
        "source_server": raw_json.encoded(origin.server),
    }
    theirs = raw_json.members(tool.definition)
    return raw_json.object_of({**ours, **{name: theirs[name] for name in theirs if name not in ours}}.items())
