"""`workbench.lock` as it is written: what was approved of each server. Pure.

It is made to be committed: sorted, a line for each tool, nothing in it that changes from one run to the next,
and no character that a reviewer cannot see.
"""

import json
import re
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from ..config_file import Name, sound, unknown_keys
from ..config_text import read as read_json
from ..errors import ConfigError, Findings, Problem, inside
from ..naming import Origin

VERSION: Final = 1

_A_HASH = {
    "expected": "a hash, 'sha256:' and 64 digits",
    "hint": "take the line from an earlier version of the file, or remove it and run mcp-workbench approve",
}
_THIS_VERSION = {"expected": str(VERSION), "hint": f"write {VERSION}"}
Hash = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$(?!\n)", extra=_A_HASH)]


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """What was approved of one server: its entry, its instructions if it gives any, its tools by name."""

    entry: Hash
    instructions: Hash | UnsetType = UNSET
    tools: dict[str, Hash] = {}


class Lock(msgspec.Struct, frozen=True):
    """What was approved, by the names of toolbox and server."""

    toolboxes: dict[str, dict[str, Pins]] = {}

    def pins(self, origin: Origin) -> Pins | None:
        return self.toolboxes.get(origin.toolbox, {}).get(origin.server)

    def origins(self) -> list[Origin]:
        return [Origin(toolbox, server) for toolbox, servers in self.toolboxes.items() for server in servers]


class _LockFile(msgspec.Struct):
    version: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION, extra=_THIS_VERSION)]
    toolboxes: dict[Name, dict[Name, Pins]]


def read(data: bytes) -> Lock:
    """What the file says; raises ConfigError with everything that is wrong with it.

    Who cannot read it must not serve as if there were none.
    """
    findings = Findings()
    if conflict := re.search(rb"^(?:<{7}|\|{7}|={7}|>{7})(?:[ \r]|$)", data, re.MULTILINE):
        line = data.count(b"\n", 0, conflict.start()) + 1
        findings.problem(
            f"line {line}",
            "a merge left a conflict here",
            "keep the lines of one side, then run mcp-workbench diff",
        )
        findings.give_up()
    if not data.strip():
        findings.problem("", "the file is empty", "take it from version control, or remove it")
        findings.give_up()
    tree = read_json(data, findings)
    version = tree.get("version") if isinstance(tree, dict) else None
    if isinstance(version, int) and version > VERSION:
        known = f"is {version}, and this mcp-workbench knows {VERSION}"
        raise ConfigError([Problem("version", known, "update mcp-workbench")])
    file = sound(tree, _LockFile, "", findings)
    if file is UNSET:
        findings.give_up()
    _refuse_unknown_keys(tree, file, findings)
    if findings.problems:
        findings.give_up()
    return Lock(file.toolboxes)


def _refuse_unknown_keys(tree: dict[str, object], file: _LockFile, findings: Findings) -> None:
    """They would be lost when the file is written anew, and what is lost was meant."""
    entries: list[tuple[str, object, type[msgspec.Struct]]] = [("", tree, _LockFile)]
    for toolbox, servers in file.toolboxes.items():
        for server in servers:
            place = inside(inside("toolboxes", toolbox), server)
            entries.append((place, tree["toolboxes"][toolbox][server], Pins))  # type: ignore[index]
    for place, entry, struct in entries:
        for key in unknown_keys(entry, struct):  # type: ignore[arg-type]
            findings.problem(inside(place, key), f"unknown key '{key}'", "remove it")


def written(lock: Lock) -> bytes:
    """The lock as its file: the same bytes for the same lock."""
    file = {
        "version": VERSION,
        "toolboxes": {
            toolbox: {server: _in_order(pins) for server, pins in sorted(servers.items())}
            for toolbox, servers in sorted(lock.toolboxes.items())
            if servers
        },
    }
    # With all that is not ASCII escaped: else names could be made to look like others in a review.
    return json.dumps(file, indent=2).encode() + b"\n"


def _in_order(pins: Pins) -> dict[str, object]:
    said = {} if pins.instructions is UNSET else {"instructions": pins.instructions}
    return {"entry": pins.entry, **said, "tools": dict(sorted(pins.tools.items()))}
