"""What the meta-tools are asked, read and refused in the words of the contract. Pure."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from .. import raw_json
from ..config_file import Detail
from ..errors import InvalidParameters
from ..raw_json import Malformed, Payload

T = TypeVar("T")

# 8.0 is one: some models know no other numbers.
Count = Annotated[float, Meta(ge=1, multiple_of=1, description="a whole number of at least 1")]


class Address(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The three names that lead to a tool."""

    toolbox: str
    server: str
    tool: str


class Use(msgspec.Struct, forbid_unknown_fields=True):
    tool: Address
    arguments: Raw | UnsetType = UNSET


class Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    toolbox_name: str
    detail: Detail | None = None
    max_tokens: Count | None = None


class Closing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    toolbox_name: str


class Search(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str
    toolbox: str | None = None
    limit: Count | None = None


class Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a kept result: some lines, the lines that match, or what jq makes of it."""

    handle: str
    lines: str | None = None
    grep: str | None = None
    jq: str | None = None


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tools: list[Address]


class Reader(raw_json.Reader[T]):
    """Reads what a meta-tool is asked; says all that is wrong with it at once."""

    takes_lone_surrogates = False

    def __call__(self, frame: Payload) -> T:
        try:
            return self._fast(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._carefully(frame)

    def _carefully(self, frame: Payload) -> T:
        try:
            return super().__call__(frame)
        except Malformed:
            raise InvalidParameters("; ".join(_complaints(frame, self.shape))) from None


read_opening = Reader(Opening)
read_closing = Reader(Closing)
read_search = Reader(Search)
read_reading = Reader(Reading)
_read_use = Reader(Use)
_read_description = Reader(Description)


def tool_and_arguments(asked: Payload) -> tuple[Address, Payload]:
    """Which tool `use_tool` is asked to call, and with what, as it came."""
    use = _read_use(asked)
    address, given = use.tool, use.arguments
    if not (address.toolbox and address.server and address.tool):
        _refuse_empty(address)
    if given is UNSET:
        return address, b"{}"
    return address, given if bytes(given)[:1] == b"{" else _meant(given)


def tools_to_describe(asked: Payload) -> list[Address]:
    tools = _read_description(asked).tools
    for address in tools:
        _refuse_empty(address)
    return tools


def _refuse_empty(address: Address) -> None:
    for part in address.__struct_fields__:
        if not getattr(address, part):
            raise InvalidParameters(f"{part} cannot be empty", of="tool identifier")


def _meant(arguments: Raw) -> Payload:
    """The arguments where a model wrote them as the text of an object."""
    kind = _kind(arguments)
    if kind == "string":
        try:
            text: str = msgspec.json.decode(arguments, type=str)
            raw_json.members(text.encode())
            # A message is one line; within the strings of JSON no line can end.
            return text.replace("\r", " ").replace("\n", " ").encode()
        except (msgspec.DecodeError, Malformed, UnicodeEncodeError):
            kind = "text that is not an object's"
    raise InvalidParameters(f"arguments: expected object, received {kind}")


# What is wrong ----------------------------------------------------------------------------------


def _complaints(frame: Payload, shape: type, place: str = "") -> Iterator[str]:
    """All that keeps a value from being an object of this shape, in the words of the contract."""
    if _kind(frame) != "object":
        yield f"expected object, received {_kind(frame)}"
        return
    found = raw_json.members(frame)
    fields = {field.encode_name: field for field in msgspec.structs.fields(shape)}
    beginning, ending = (f"{place}.", f" in {place}") if place else ("", "")
    for key in found:
        if key not in fields:
            yield f"Unrecognized key: '{key}'{ending}"
    for name, field in fields.items():
        if field.required and name not in found:
            yield f"{beginning}{name}: required"
    for name, field in fields.items():
        if name in found:
            yield from _misfits(found[name], field.type, beginning + name)


def _misfits(value: Payload, kind: Any, place: str) -> Iterator[str]:
    """What is wrong with a value that is there."""
    try:
        msgspec.json.decode(value, type=kind)
    except msgspec.DecodeError:
        if _kind(value) == "object" and hasattr(kind, "__struct_fields__"):
            yield from _complaints(value, kind, place)
        elif _kind(value) == "array" and get_origin(kind) is list:
            for at, element in enumerate(raw_json.elements(value)):
                yield from _misfits(element, get_args(kind)[0], f"{place}[{at}]")
        else:
            yield f"{place}: expected {_expected(kind)}, received {_received(value)}"


def _expected(kind: Any) -> str:
    if hasattr(kind, "__metadata__"):
        return str(kind.__metadata__[0].description)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if type(None) in get_args(kind):
        return _expected(get_args(kind)[0])
    return {str: "string", list: "array"}.get(get_origin(kind) or kind, "object")


_KINDS: Final = {
    b"{": "object",
    b"[": "array",
    b'"': "string",
    b"t": "boolean",
    b"f": "boolean",
    b"n": "null",
}


def _kind(value: Payload) -> str:
    return _KINDS.get(bytes(value).lstrip()[:1], "number")


def _received(value: Payload) -> str:
    kind = _kind(value)
    if kind == "string":
        try:
            msgspec.json.decode(value, type=str)
        except msgspec.DecodeError:
            return "a string with a lone surrogate"
    return kind
