"""What the meta-tools are asked, read and refused in the words of the contract. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .. import raw_json
from ..errors import InvalidParameters
from ..raw_json import Malformed, Payload


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
