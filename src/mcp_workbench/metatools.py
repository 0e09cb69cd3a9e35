"""What an agent reads and writes: the listing, the meta-tools, their arguments and their answers. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from . import raw_json, wire
from .config import Config, Toolbox
from .eras import Greeting
from .errors import InvalidParameters
from .offers import Offer
from .raw_json import Malformed, Payload
from .wire import Answer

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


# The listing ------------------------------------------------------------------------------------


def instructions(toolboxes: Collection[Toolbox], prefix: str = "") -> str:
    """The listing that a client reads when it connects. Clients parse it: "servers" is not inflected."""
    if not toolboxes:
        return NOTHING_CONFIGURED
    entries = "".join(
        f"{toolbox.name} ({len(toolbox.servers)} servers)\n"
        f"  Description: {toolbox.description or NO_DESCRIPTION}\n\n"
        for toolbox in toolboxes
    )
    return (
        f"Available Toolboxes:\n\n{entries}"
        f"To access tools from a toolbox, use {prefix}{OPEN} with the toolbox name."
    )


def greeting(config: Config, fixed: Collection[str]) -> Greeting:
    """How clients are greeted; `fixed` are the toolboxes that are open from the start."""
    listing = instructions(config.toolboxes.values(), config.meta_tool_prefix)
    return Greeting(listing, tools_change=bool(fixed) or config.tool_mode == "dynamic")


# The definitions --------------------------------------------------------------------------------


# A client can't know which tool is called: it is told to expect the worst.
_CAUTIOUS: Final = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}


def definitions(
    toolboxes: Collection[Toolbox], prefix: str = "", *, read_only: bool = False, native: bool = False
) -> dict[str, bytes]:
    """The meta-tools as they are listed, by name.

    `read_only`: with the form for tools that only read. `native`: opening puts tools into the list.
    """
    text: dict[str, object] = {"type": "string"}
    named = {**text, "enum": [toolbox.name for toolbox in toolboxes]} if toolboxes else text
    address = _object({"toolbox": text, "server": text, "tool": text}, required=["toolbox", "server", "tool"])
    passed_on = {"type": "object", "description": "What the tool's inputSchema asks for"}
    using = _object({"tool": address, "arguments": passed_on}, required=["tool"])
    given = "names" if native else "names and schemas"
    one_toolbox = _object({"toolbox_name": text}, required=["toolbox_name"])
    listed: list[dict[str, object]] = [
        {
            "name": prefix + OPEN,
            "description": _open_description(toolboxes, native),
            "inputSchema": _object({"toolbox_name": named}, required=["toolbox_name"]),
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        },
        {
            "name": prefix + USE,
            "description": f"Call a tool of a toolbox. {prefix}{OPEN} gives {given}.",
            "inputSchema": using,
            "annotations": _CAUTIOUS,
        },
    ]
    if read_only:
        listed.append(
            {
                "name": prefix + USE_READONLY,
                "description": f"Like {prefix}{USE}, for tools that change nothing; others are refused.",
                "inputSchema": using,
                "annotations": {"readOnlyHint": True, "openWorldHint": True},
            }
        )
    listed.append(
        {
            "name": prefix + CLOSE,
            "description": "Close a toolbox and end its servers.",
            "inputSchema": one_toolbox,
            "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
        }
    )
    return {str(definition["name"]): raw_json.encoded(definition) for definition in listed}


def _object(properties: Mapping[str, object], required: Sequence[str]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


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


# The arguments ----------------------------------------------------------------------------------


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The three names that lead to a tool."""

    toolbox: str
    server: str
    tool: str


class Use(msgspec.Struct, forbid_unknown_fields=True):
    tool: Address
    arguments: Raw | UnsetType = UNSET


class ToolboxName(msgspec.Struct, forbid_unknown_fields=True):
    toolbox_name: str


_read_use = raw_json.Reader(Use)
_read_toolbox_name = raw_json.Reader(ToolboxName)

_TEXT: Final = "string"
_ADDRESS_FIELDS: Final = {"toolbox": _TEXT, "server": _TEXT, "tool": _TEXT}


def toolbox_name(arguments: Payload) -> str:
    """What `open_toolbox` and `close_toolbox` are asked about."""
    try:
        return _read_toolbox_name(arguments).toolbox_name
    except Malformed:
        raise InvalidParameters(_complaints(arguments, {"toolbox_name": _TEXT})) from None


def tool_and_arguments(arguments: Payload) -> tuple[Address, Payload]:
    """Which tool `use_tool` is asked to call, and with what, as it came."""
    try:
        use = _read_use(arguments)
    except Malformed:
        raise InvalidParameters(_use_complaints(arguments)) from None
    address, given = use.tool, use.arguments
    if not (address.toolbox and address.server and address.tool):
        empty = next(part for part in _ADDRESS_FIELDS if not getattr(address, part))
        raise InvalidParameters(f"{empty} cannot be empty", of="tool identifier")
    if given is UNSET:
        return address, b"{}"
    return address, given if bytes(given)[:1] == b"{" else _meant(given)


def _meant(arguments: Raw) -> Payload:
    """The arguments where a model wrote them as the text of an object."""
    kind = _kind(arguments)
    if kind == _TEXT:
        try:
            text: str = msgspec.json.decode(arguments, type=str)
            raw_json.members(text.encode())
            # A message is one line; within the strings of JSON no line can end.
            return text.replace("\r", " ").replace("\n", " ").encode()
        except (msgspec.DecodeError, Malformed, UnicodeEncodeError):
            kind = "text that is not an object's"
    raise InvalidParameters(f"arguments: expected object, received {kind}")


def _use_complaints(arguments: Payload) -> str:
    complaints = _complaints(arguments, {"tool": "object"}, optional=("arguments",))
    if complaints:
        return complaints
    return _complaints(raw_json.members(arguments)["tool"], _ADDRESS_FIELDS, inside="tool")


def _complaints(
    frame: Payload, fields: Mapping[str, str], optional: Sequence[str] = (), inside: str = ""
) -> str:
    """What is wrong with an object that should have these fields, in the words of the contract."""
    if _kind(frame) != "object":
        return f"expected object, received {_kind(frame)}"
    found = raw_json.members(frame)
    where, place = (f"{inside}.", f" in {inside}") if inside else ("", "")
    unknown = [
        f"Unrecognized key: '{key}'{place}" for key in found if key not in fields and key not in optional
    ]
    missing = [f"{where}{name}: required" for name in fields if name not in found]
    mistyped = [
        f"{where}{name}: expected {kind}, received {_received(found[name])}"
        for name, kind in fields.items()
        if name in found and _received(found[name]) != kind
    ]
    return "; ".join([*unknown, *missing, *mistyped])


_KINDS: Final = {b"{": "object", b"[": "array", b'"': _TEXT, b"t": "boolean", b"f": "boolean", b"n": "null"}


def _kind(value: Payload) -> str:
    return _KINDS.get(bytes(value).lstrip()[:1], "number")


def _received(value: Payload) -> str:
    kind = _kind(value)
    if kind == _TEXT:
        try:
            msgspec.json.decode(value, type=str)
        except msgspec.DecodeError:
            return "a string with a lone surrogate"
    return kind


# The answers ------------------------------------------------------------------------------------


def text_result(text: str, *, is_error: bool = False) -> Answer:
    ending = b',"isError":true}' if is_error else b"}"
    return wire.result(b'{"content":[{"type":"text","text":%b}]%b' % (raw_json.encoded(text), ending))


class Connected(msgspec.Struct, frozen=True):
    """A server that serves: what it says about itself (JSON, maybe null), and its tools."""

    server: str
    instructions: Payload
    tools: Sequence[Offer]


def opened(toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str]) -> Answer:
    """The answer of `open_toolbox`: compact, in the order of the configuration, then the server's own."""
    tools = [_listed(toolbox.name, it.server, tool) for it in connected for tool in it.tools]
    listed = {"tools": b"[" + b",".join(tools) + b"]"}
    return _opened(toolbox, connected, failures, listed)


def opened_natively(
    toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str], names: Sequence[str]
) -> Answer:
    """The same where the tools are called natively, by these names."""
    listed = {"tools_registered": b"%d" % len(names), "tools": raw_json.encoded(names)}
    return _opened(toolbox, connected, failures, listed)


def _opened(
    toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str], listed: Mapping[str, bytes]
) -> Answer:
    if failures and not connected:
        return text_result("\n".join(failures), is_error=True)
    parts: dict[str, Payload] = {
        "toolbox": raw_json.encoded(toolbox.name),
        "description": raw_json.encoded(toolbox.description or NO_DESCRIPTION),
        "servers_connected": b"%d" % len(connected),
        **listed,
    }
    if instructions := [(it.server, it.instructions) for it in connected if _is_filled(it.instructions)]:
        parts["server_instructions"] = raw_json.object_of(instructions)
    if failures:
        parts["_errors"] = raw_json.encoded(failures)
    return text_result(raw_json.object_of(parts.items()).decode())


def _is_filled(value: Payload) -> bool:
    return _kind(value) == _TEXT and bytes(value) != b'""'


def _listed(toolbox: str, server: str, tool: Offer) -> bytes:
    ours: dict[str, Payload] = {
        "name": raw_json.encoded(tool.name),
        "toolbox_name": raw_json.encoded(toolbox),
        "source_server": raw_json.encoded(server),
    }
    theirs = raw_json.members(tool.definition)
    return raw_json.object_of({**ours, **{name: theirs[name] for name in theirs if name not in ours}}.items())


def closed(toolbox: str, servers: int, tools: int) -> Answer:
    return text_result(
        raw_json.encoded(
            {"toolbox": toolbox, "servers_disconnected": servers, "tools_unregistered": tools}
        ).decode()
    )
