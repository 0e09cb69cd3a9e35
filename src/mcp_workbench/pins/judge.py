"""Which of a server's tools may be seen and called, by what was approved. Pure.

`entry_change` comes before a server is started, `judged` whenever it has listed its tools.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import UNSET

from ..naming import Origin
from ..offers import Offer
from .canonical import definition_hash
from .changes import Change, Kind
from .lock_file import Lock


class Judgement(msgspec.Struct, frozen=True):
    """What of a server may be used, and all that differs from what was approved."""

    tools: frozenset[str]
    instructions: bool  # whether they may be shown; true as well if there are none
    changes: tuple[Change, ...]


def hashes(tools: Iterable[Offer]) -> dict[str, str]:
    """The hash of each tool, by name."""
    return {tool.name: definition_hash(tool.definition) for tool in tools}


def entry_change(lock: Lock, origin: Origin, entry: str) -> Change | None:
    """Why a server must not be started, by the hash of its entry; None if that was approved."""
    pins = lock.pins(origin)
    if pins is None:
        return Change(Kind.SERVER_NEW, origin, after=entry)
    if pins.entry != entry:
        return Change(Kind.ENTRY_CHANGED, origin, before=pins.entry, after=entry)
    return None


def judged(
    lock: Lock, origin: Origin, entry: str, tools: Mapping[str, str], instructions: str | None = None
) -> Judgement:
    """What of a server may be used, by the hashes of its entry, of all its tools and of its instructions.

    Nothing may where the entry was not approved; how the tools differ is told all the same.
    """
    pins = lock.pins(origin)
    of_entry = entry_change(lock, origin, entry)
    changes = [of_entry] if of_entry else []
    said = None if pins is None or pins.instructions is UNSET else pins.instructions
    if instructions != said:
        changes.append(Change(Kind.INSTRUCTIONS_CHANGED, origin, before=said, after=instructions))
    known = pins.tools if pins else {}
    for name, now in tools.items():
        if name not in known:
            changes.append(Change(Kind.TOOL_NEW, origin, name, after=now))
        elif known[name] != now:
            changes.append(Change(Kind.TOOL_CHANGED, origin, name, known[name], now))
    changes += [
        Change(Kind.TOOL_GONE, origin, name, before=pin) for name, pin in known.items() if name not in tools
    ]
    usable = () if of_entry else (name for name, now in tools.items() if known.get(name) == now)
    may_show = instructions is None or (of_entry is None and instructions == said)
    return Judgement(frozenset(usable), may_show, tuple(changes))


def gone(lock: Lock, configured: Collection[Origin]) -> list[Change]:
    """The servers that were approved and are configured no more: nothing is withheld for them."""
    return [
        Change(Kind.SERVER_GONE, origin, before=pins.entry)
        for origin in lock.origins()
        if origin not in configured and (pins := lock.pins(origin))
    ]
