"""The listing that a client reads when it connects, and the meta-tools that it is shown. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, get_args

from .. import raw_json
from ..config import Config, Toolbox
from ..config_file import WITH_SCHEMAS, Detail
from ..eras import Greeting
from .forms import Calls

OPEN: Final = "open_toolbox"
USE: Final = "use_tool"
USE_READONLY: Final = "use_readonly_tool"
SEARCH: Final = "search_tools"
DESCRIBE: Final = "describe_tools"
READ: Final = "read_result"
CLOSE: Final = "close_toolbox"

# With no more tools than this, a search costs an agent more than it saves.
WORTH_SEARCHING: Final = 40

NO_DESCRIPTION: Final = "No description provided"
# Clients cut a tool's description at 2 KB.
LONGEST_DESCRIPTION: Final = 2000
# Where `instructions` and the parameter's `enum` name all toolboxes, a third list of them is kept short.
LONGEST_THIRD_LIST: Final = 300

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

# Agents carry these from the first question on: no word and no keyword more than they need. What is left out
# of annotations is what the protocol takes for granted: that a tool changes things, for worse, out there.
_READS: Final = {"readOnlyHint": True}
_CAUTIOUS: Final = {"destructiveHint": True}
_HARMLESS: Final = {"destructiveHint": False}

_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer"}


def is_searchable(config: Config, known_tools: int) -> bool:
    """Whether there is `search_tools`."""
    if config.search == "auto":
        return known_tools > WORTH_SEARCHING
    return config.search


def is_describable(config: Config, searchable: bool) -> bool:
    """Whether there is `describe_tools`; where tools are listed natively, only what is found needs it."""
    return searchable or (config.detail not in WITH_SCHEMAS and config.tool_mode == "proxy")


def ways_on(config: Config, *, searchable: bool) -> Calls:
    """What texts about tools point to: how these are called, and where their whole definitions are."""
    prefix = config.meta_tool_prefix
    describe = DESCRIBE if is_describable(config, searchable) else f"{OPEN} with detail full"
    return Calls(prefix + USE, prefix + describe)


def meta_tools(
    config: Config, *, searchable: bool = False, fixed: Collection[str] = (), describes: bool = False
) -> dict[str, bytes]:
    """The definitions of the meta-tools that there are, by their names without the prefix.

    The tools of `fixed` toolboxes stand in the client's list from the start. `describes`: what toolboxes are
    for is said here too, since the client does not show `instructions`.
    """
    prefix = config.meta_tool_prefix
    address = _object({"toolbox": _TEXT, "server": _TEXT, "tool": _TEXT})
    using = _object({"tool": address, "arguments": {"type": "object"}}, required=["tool"])
    listed: dict[str, dict[str, object]] = {
        OPEN: {
            "description": _open_description(config, fixed, describes),
            "inputSchema": _opening(config),
            "annotations": _READS,
        },
        USE: {"description": "Call a tool of a toolbox", "inputSchema": using, "annotations": _CAUTIOUS},
    }
    if config.read_only_tools:
        listed[USE_READONLY] = {
            "description": f"Like {prefix}{USE}, for tools that change nothing; others are refused",
            "inputSchema": using,
            "annotations": _READS,
        }
    if searchable:
        asked: dict[str, object] = {"query": _TEXT, "toolbox": _TEXT, "limit": _WHOLE}
        listed[SEARCH] = {
            "description": "Find tools in all toolboxes",
            "inputSchema": _object(asked, required=["query"]),
            "annotations": _READS,
        }
    if is_describable(config, searchable):
        of_use = {"type": "object", "description": f"as {prefix}{USE}'s tool"}
        listed[DESCRIBE] = {
            "description": "Full definitions of tools",
            "inputSchema": _object({"tools": {"type": "array", "items": of_use}}),
            "annotations": _READS,
        }
    if any(server.max_result_tokens for server in config.servers().values()):
        listed[READ] = {
            "description": "Read parts of a result that was too large to be shown whole",
            "inputSchema": _object(_READING, required=["handle"]),
            "annotations": _READS,
        }
    listed[CLOSE] = {
        "description": "End the servers of a toolbox",
        "inputSchema": _object({"toolbox_name": _TEXT}),
        "annotations": _HARMLESS,
    }
    return {
        name: raw_json.encoded({"name": prefix + name, **definition}) for name, definition in listed.items()
    }


_READING: Final[dict[str, object]] = {
    "handle": _TEXT,
    "lines": {
        **_TEXT,
        "description": '"10-40", "10-", "-20" (the last 20), "10+500" (line 10, character 500)',
    },
    "grep": {**_TEXT, "description": "A regular expression; with lines: within these"},
    "jq": {**_TEXT, "description": "A jq program, where the result is JSON"},
}


def _opening(config: Config) -> dict[str, object]:
    names = [*config.toolboxes]
    parameters: dict[str, object] = {"toolbox_name": {**_TEXT, "enum": names} if names else _TEXT}
    if config.tool_mode == "proxy":
        parameters |= {"detail": {**_TEXT, "enum": [*get_args(Detail)]}, "max_tokens": _WHOLE}
    return _object(parameters, required=["toolbox_name"])


def _object(properties: Mapping[str, object], required: Sequence[str] | None = None) -> dict[str, object]:
    """The schema of an object with these properties, all of them required if nothing else is said."""
    needed = [*properties] if required is None else required
    return {"type": "object", "properties": properties, "required": needed}


def _open_description(config: Config, fixed: Collection[str], describes: bool) -> str:
    """Names the toolboxes too, since some clients never show `instructions`; as fully as fits."""
    native = config.tool_mode == "dynamic"
    opening = f"Open a toolbox: {'adds its tools to your tools' if native else 'tells its tools'}."
    if fixed and not native:
        opening += f" {', '.join(fixed)}: open, its tools are among yours."
    toolboxes = config.toolboxes.values()
    if not toolboxes:
        return f"{opening} No toolboxes are configured."
    described = "".join(f"\n{toolbox.name}: {toolbox.description or NO_DESCRIPTION}" for toolbox in toolboxes)
    named = f" {', '.join(config.toolboxes)}"
    longest = LONGEST_DESCRIPTION if describes else LONGEST_THIRD_LIST
    for told in (described, named) if describes else (named,):
        form = f"{opening} Toolboxes:{told}"
        if len(form.encode()) <= longest:
            return form
    shown, room = f"{opening} Toolboxes: ", longest - len(opening.encode()) - 60
    for at, name in enumerate(config.toolboxes):
        room -= len(name.encode()) + 2
        if room < 0:
            return f"{shown}and {len(toolboxes) - at} more, which its parameter lists"
        shown += f"{name}, "
    return shown
