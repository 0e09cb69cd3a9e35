"""What differs from what was approved, how that is taken over, and how an agent is told of it. Pure."""

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ..errors import Findings
from ..naming import Origin, nearest
from ..printable import printable
from . import FILE_NAME
from .lock_file import Lock, Pins


class Kind(Enum):
    """What happened; the value is how a person is told."""

    SERVER_NEW = "new server"
    SERVER_GONE = "server no longer configured"
    ENTRY_CHANGED = "changed entry"
    INSTRUCTIONS_CHANGED = "changed instructions"
    TOOL_NEW = "new tool"
    TOOL_CHANGED = "changed tool"
    TOOL_GONE = "tool no longer listed"


_OF_ENTRY: Final = (Kind.SERVER_NEW, Kind.ENTRY_CHANGED)


class Change(msgspec.Struct, frozen=True):
    """One thing that is not as it was approved: its hash then and now, None where it is not there."""

    kind: Kind
    origin: Origin
    tool: str = ""
    before: str | None = None
    after: str | None = None

    @property
    def withholds(self) -> bool:
        """Whether something is kept back for it until it is approved: what is gone cannot be."""
        return self.after is not None

    @property
    def name(self) -> str:
        """By which it is chosen: `toolbox/server`, or `toolbox/server/tool`."""
        return "/".join((*self.origin, self.tool) if self.tool else self.origin)


def approved(lock: Lock, changes: Iterable[Change]) -> Lock:
    """The lock with these changes taken over: all that were found, or those that were chosen of them."""
    toolboxes = {name: dict(servers) for name, servers in lock.toolboxes.items()}
    # First the entries: a server must be known before its tools are.
    for change in sorted(changes, key=lambda change: change.kind not in _OF_ENTRY):
        servers = toolboxes.setdefault(change.origin.toolbox, {})
        server = change.origin.server
        match change.kind:
            case Kind.SERVER_GONE:
                servers.pop(server, None)
            case Kind.SERVER_NEW | Kind.ENTRY_CHANGED:
                assert change.after is not None
                pins = servers.get(server, Pins(entry=change.after))
                servers[server] = replace(pins, entry=change.after)
            case Kind.INSTRUCTIONS_CHANGED:
                servers[server] = replace(servers[server], instructions=change.after or UNSET)
            case Kind.TOOL_NEW | Kind.TOOL_CHANGED | Kind.TOOL_GONE:
                tools = {name: pin for name, pin in servers[server].tools.items() if name != change.tool}
                if change.after is not None:
                    tools[change.tool] = change.after
                servers[server] = replace(servers[server], tools=tools)
    return Lock({name: servers for name, servers in toolboxes.items() if servers})


def chosen(changes: Sequence[Change], names: Iterable[str]) -> list[Change]:
    """The changes that are named: `toolbox`, `toolbox/server` with all of it, or `toolbox/server/tool`.

    A tool brings its server's entry along, without which it stays withheld; show what was chosen. Raises
    ConfigError with each name that is none of a change, or of several.
    """
    findings, taken = Findings(), set[Change]()
    for name in names:
        by_what: dict[tuple[str, ...], list[Change]] = {}
        for change in changes:
            toolbox, server = change.origin
            for what in ((toolbox,), (toolbox, server), (toolbox, server, change.tool)):
                if "/".join(what) == name:
                    by_what.setdefault(what, []).append(change)
        if len(by_what) == 1:
            taken.update(*by_what.values())
        elif by_what:
            findings.problem(
                name, "is the name of several things", "approve the whole toolbox, or rename one"
            )
        else:
            near = nearest(name, [change.name for change in changes])
            findings.problem(name, "nothing waits for approval under this name", _did_you_mean(near))
    if findings.problems:
        findings.give_up()
    with_tools = {change.origin for change in taken if change.tool and change.after}
    return [
        change
        for change in changes
        if change in taken or (change.kind in _OF_ENTRY and change.origin in with_tools)
    ]


def _did_you_mean(near: str | None) -> str:
    return f"did you mean '{near}'?" if near else "run mcp-workbench diff to see what waits"


# An agent that can run commands reads this too: it should not be the one who approves.
_WHAT_TO_DO: Final = "ask the user to read `mcp-workbench diff`, then to run `mcp-workbench approve`"
_MOST_NAMED: Final = 10
_PLAIN_NAME: Final = r"[A-Za-z0-9_./-]{1,64}"


def withheld_text(changes: Iterable[Change]) -> str:
    """What is withheld of one server and what to do about it, in one line; empty if nothing is."""
    by_kind: dict[Kind, list[str]] = {}
    for change in changes:
        if change.withholds:
            by_kind.setdefault(change.kind, []).append(change.tool)
    if Kind.SERVER_NEW in by_kind:
        return f"it is withheld, since it is not in {FILE_NAME} yet; {_WHAT_TO_DO}"
    if Kind.ENTRY_CHANGED in by_kind:
        what = "what its entry runs or reaches has changed since it was approved"
        return f"it is withheld, since {what}; {_WHAT_TO_DO}"
    changed, new = by_kind.get(Kind.TOOL_CHANGED, []), len(by_kind.get(Kind.TOOL_NEW, []))
    parts = []
    if count := len(changed) + new:
        # The name of a new tool is its server's words, which nobody has read.
        told = [f"changed: {_listed(changed)}"] * bool(changed) + [f"new: {new}"] * bool(new)
        parts.append(f"{count} {'tool' if count == 1 else 'tools'} ({'; '.join(told)})")
    if Kind.INSTRUCTIONS_CHANGED in by_kind:
        parts.append("its changed instructions")
    return f"withheld until approved: {' and '.join(parts)}; {_WHAT_TO_DO}" if parts else ""


def _listed(names: Sequence[str]) -> str:
    plain = [name for name in names if re.fullmatch(_PLAIN_NAME, name)]
    told = [f"'{name}'" for name in plain[:_MOST_NAMED]]
    if more := len(names) - len(told):
        told.append(f"{more} more" if told else f"{more} with an unusual name")
    return ", ".join(told)


def refused_text(change: Change) -> str:
    """Why a call of a tool is refused that is withheld."""
    toolbox, server = change.origin
    why = "is new" if change.kind is Kind.TOOL_NEW else "has changed"
    tool = f"Tool '{printable(change.tool)}' in server '{server}' (toolbox '{toolbox}')"
    return f"{tool} is withheld: it {why} since the server was approved; {_WHAT_TO_DO}"
