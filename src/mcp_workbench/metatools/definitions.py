"""The listing that a client reads when it connects, and the meta-tools that it is shown. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from .. import raw_json
from ..config import Config, Toolbox
from ..eras import Greeting

OPEN: Final = "open_toolbox"
USE: Final = "use_tool"
USE_READONLY: Final = "use_readonly_tool"
CLOSE: Final = "close_toolbox"

NO_DESCRIPTION: Final = "No description provided"
# Clients cut a tool's description at 2 KB.
LONGEST_DESCRIPTION: Final = 2000

NOTHING_CONFIGURED: Final = """\
No toolboxes configured.

To configure toolboxes, add them to your workbench-config.json file.
See documentation for configuration format."""


def instructions(toolboxes: Collection[Toolbox], tool_counts: Mapping[str, int], prefix: str = "") -> str:
    """The listing that a client reads when it connects. Clients parse it: "servers" is not inflected.

    `tool_counts` says how many tools those toolboxes show of which that is known.
    """
    if not toolboxes:
        return NOTHING_CONFIGURED
    entries = "".join(f"{_listed(toolbox, tool_counts.get(toolbox.name))}\n" for toolbox in toolboxes)
    return (
        f"Available Toolboxes:\n\n{entries}"
        f"To access tools from a toolbox, use {prefix}{OPEN} with the toolbox name."
    )


def _listed(toolbox: Toolbox, tools: int | None) -> str:
    lines = (
        f"{toolbox.name} ({len(toolbox.servers)} servers)\n",
        f"  Description: {toolbox.description or NO_DESCRIPTION}\n",
        "" if tools is None else f"  Tools: {tools}\n",
    )
    return "".join(lines)


def greeting(config: Config, tool_counts: Mapping[str, int], fixed: Collection[str]) -> Greeting:
    """How clients are greeted; `fixed` are the toolboxes that are open from the start."""
    listing = instructions(config.toolboxes.values(), tool_counts, config.meta_tool_prefix)
    return Greeting(listing, tools_change=bool(fixed) or config.tool_mode == "dynamic")


# The definitions --------------------------------------------------------------------------------


# A client can't know which tool is called: it is told to expect the worst.
_CAUTIOUS: Final = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}

_TEXT: Final = {"type": "string"}


def meta_tools(config: Config) -> dict[str, bytes]:
    """The definitions of the meta-tools that this configuration has, by their names without its prefix."""
    native = config.tool_mode == "dynamic"
    opener = config.meta_tool_prefix + OPEN
    given = "names" if native else "names and schemas"
    names = [*config.toolboxes]
    address = _object({"toolbox": _TEXT, "server": _TEXT, "tool": _TEXT})
    passed_on = {"type": "object", "description": "What the tool's inputSchema asks for"}
    using = _object({"tool": address, "arguments": passed_on}, required=["tool"])
    listed: dict[str, dict[str, object]] = {
        OPEN: {
            "description": _open_description(config.toolboxes.values(), native),
            "inputSchema": _object({"toolbox_name": {**_TEXT, "enum": names} if names else _TEXT}),
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        },
        USE: {
            "description": f"Call a tool of a toolbox. {opener} gives {given}.",
            "inputSchema": using,
            "annotations": _CAUTIOUS,
        },
    }
    if config.read_only_tools:
        used = config.meta_tool_prefix + USE
        listed[USE_READONLY] = {
            "description": f"Like {used}, for tools that change nothing; others are refused.",
            "inputSchema": using,
            "annotations": {"readOnlyHint": True, "openWorldHint": True},
        }
    listed[CLOSE] = {
        "description": "Close a toolbox and end its servers.",
        "inputSchema": _object({"toolbox_name": _TEXT}),
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
    }
    return {
        name: raw_json.encoded({"name": config.meta_tool_prefix + name, **definition})
        for name, definition in listed.items()
    }


def _object(properties: Mapping[str, object], required: Sequence[str] | None = None) -> dict[str, object]:
    """The schema of an object with these properties, all of them required if nothing else is said."""
    needed = [*properties] if required is None else required
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def _open_description(toolboxes: Collection[Toolbox], native: bool) -> str:
    """Names the toolboxes too, since some clients never show `instructions`; as fully as fits."""
    gives = "adds their tools to your list of tools" if native else "returns their tools with input schemas"
    opening = f"Open a toolbox: connects to its servers and {gives}."
    if not toolboxes:
        return f"{opening} No toolboxes are configured."
    names = [toolbox.name for toolbox in toolboxes]
    described = [f"{toolbox.name}: {toolbox.description or NO_DESCRIPTION}" for toolbox in toolboxes]
    forms = (f"{opening} Toolboxes:\n" + "\n".join(described), f"{opening} Toolboxes: {', '.join(names)}")
    for form in forms:
        if len(form.encode()) <= LONGEST_DESCRIPTION:
            return form
    shown, room = f"{opening} Toolboxes: ", LONGEST_DESCRIPTION - len(opening) - 60
    for at, name in enumerate(names):
        room -= len(name.encode()) + 2
        if room < 0:
            return f"{shown}and {len(names) - at} more, which its parameter lists"
        shown += f"{name}, "
    return shown
