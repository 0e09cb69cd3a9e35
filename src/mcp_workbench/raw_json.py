"""JSON that stays bytes: the members that a decision needs are read, all else passes as it came. Pure."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from types import UnionType
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

Payload = bytes | Raw

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002

_NO_OBJECT: Final = "not a JSON object"

T = TypeVar("T")


class Malformed(ValueError):
    """What was said is not JSON, or not what it should be. The code is for frames that are no messages."""

    def __init__(self, why: str, code: int = PARSE_ERROR) -> None:
        super().__init__(why)
        self.code = code


def begins_with(opening: bytes, frame: Payload) -> bool:
    """Whether this is its first byte that is not white space."""
    return bytes(frame).lstrip(b" \t\r\n")[:1] == opening


class Reader(Generic[T]):
    """Reads the members of an object that a struct names, and leaves the others alone."""

    takes_lone_surrogates = True  # in its texts; in payloads they always pass

    def __init__(self, shape: type[T]) -> None:
        self.shape = shape
        self._fast = msgspec.json.Decoder(shape).decode

    def __call__(self, frame: Payload) -> T:
        try:
            return self._fast(frame)
        except msgspec.ValidationError as error:
            raise Malformed(str(error), INVALID_REQUEST) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if not begins_with(b"{", frame):  # a line of a log, say: there may be very many
                raise Malformed(_NO_OBJECT) from None
            return self._slowly(frame)

    def _slowly(self, frame: Payload) -> T:
        # msgspec refuses the escape of a lone surrogate ("\ud800"), which JSON allows.
        found = _members(_text(frame))
        values: dict[str, object] = {}
        try:
            for field in msgspec.structs.fields(self.shape):  # type: ignore[arg-type]
                if (text := found.pop(field.encode_name, None)) is not None:
                    values[field.name] = _decode(text, field.type, self.takes_lone_surrogates)
            if found and self.shape.__struct_config__.forbid_unknown_fields:  # type: ignore[attr-defined]
                raise Malformed("unknown fields", INVALID_REQUEST)
            return self.shape(**values)
        except (msgspec.DecodeError, TypeError, RecursionError) as error:
            raise Malformed(str(error), INVALID_REQUEST) from None


def _decode(text: str, kind: object, takes_lone_surrogates: bool) -> object:
    kinds = kind.__args__ if isinstance(kind, UnionType) else (kind,)
    if Raw in kinds:
        return Raw(text.encode())
    if str in kinds and text[0] == '"' and takes_lone_surrogates:
        return str(json.loads(text))
    if kind == list[Raw] and text[0] == "[":
        return [Raw(element.encode()) for element in _elements(text)]
    if kind == dict[str, Raw] and text[0] == "{":
        return {name: Raw(member.encode()) for name, member in _members(text).items()}
    return msgspec.json.decode(text, type=kind)


_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_elements = msgspec.json.Decoder(list[Raw]).decode


def members(frame: Payload) -> dict[str, Payload]:
    """The members of a JSON object in their order, each as its own bytes."""
    try:
        return dict(_read_members(frame))
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {name: text.encode() for name, text in _members(_text(frame)).items()}


def members_if_any(frame: Payload | UnsetType) -> dict[str, Payload]:
    """The same of an object that may be missing, or `null` as some write what is missing."""
    return {} if frame is UNSET or bytes(frame) == b"null" else members(frame)


def elements(frame: Payload) -> list[Raw]:
    """The elements of a JSON array, each as its own bytes."""
    try:
        return _read_elements(frame)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None
    except (msgspec.DecodeError, RecursionError):
        return [Raw(text.encode()) for text in _elements(_text(frame))]


def text_or_none(value: Payload) -> str | None:
    """The text that a JSON value is; None for `null`."""
    try:
        return msgspec.json.decode(value, type=str | None)
    except msgspec.ValidationError as error:
        raise Malformed(str(error), INVALID_REQUEST) from None
    except msgspec.DecodeError:
        try:
            return str(json.loads(bytes(value)))  # with a lone surrogate in it
        except ValueError as error:
            raise Malformed(str(error)) from None


Change = Callable[[Payload], Payload]


def with_member(frame: Payload, key: str, change: Change) -> Payload:
    """The object with one member changed; itself where it has no such member, or that stays as it is."""
    parts = members(frame)
    if key not in parts:
        return frame
    changed = change(parts[key])
    if changed is parts[key]:
        return frame
    return object_of({**parts, key: changed}.items())


def with_elements(frame: Payload, change: Change) -> Payload:
    """The array with each element changed; itself where all of them stay as they are."""
    before = elements(frame)
    after = [change(element) for element in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return frame
    return b"[" + b",".join(after) + b"]"


def object_of(parts: Iterable[tuple[str, Payload]]) -> bytes:
    """A JSON object with these members, spliced."""
    return b"{" + b",".join(b"%b:%b" % (encoded(name), value) for name, value in parts) + b"}"


_SPACE = re.compile(r"[ \t\r\n]*")


def _refuse_constant(name: str) -> object:
    raise Malformed(f"{name} is not JSON")


# Numbers stay text: only their extent matters here, and int() is quadratic in their length.
_scanner = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=str, parse_float=str)


def _text(frame: Payload) -> str:
    try:
        return bytes(frame).decode()
    except UnicodeDecodeError:
        raise Malformed("not valid UTF-8") from None


def _members(text: str) -> dict[str, str]:
    """Like `members`, for text that msgspec does not take."""
    return dict(_parts(text, "{", "}"))


def _elements(text: str) -> list[str]:
    return [element for _, element in _parts(text, "[", "]")]


def _parts(text: str, opening: str, closing: str) -> Iterator[tuple[str, str]]:
    """The members of an object, or the elements of an array under empty names, as they are written."""
    try:
        at = _after_space(text, 0)
        separator, at = text[at : at + 1], at + 1
        if separator != opening:
            raise Malformed(_NO_OBJECT if opening == "{" else "not a JSON array")
        at = _after_space(text, at)
        if text[at : at + 1] == closing:
            separator, at = closing, at + 1
        while separator != closing:
            at, name = _after_space(text, at), ""
            if opening == "{":
                if text[at : at + 1] != '"':
                    raise Malformed("a member without a name")
                name, at = _scanner.raw_decode(text, at)
                at = _after_space(text, at)
                if text[at : at + 1] != ":":
                    raise Malformed("a member without a value")
                at = _after_space(text, at + 1)
            _, end = _scanner.raw_decode(text, at)
            yield name, text[at:end]
            at = _after_space(text, end)
            separator, at = text[at : at + 1], at + 1
            if separator not in (",", closing):
                raise Malformed("an object or array that does not end")
    except json.JSONDecodeError as error:
        raise Malformed(str(error)) from None
    except RecursionError:
        raise Malformed("nested too deeply") from None
    if _after_space(text, at) != len(text):
        raise Malformed("more than one value")


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


_encode = msgspec.json.encode


def encoded(value: object) -> bytes:
    """The value as JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which can be escaped, but not encoded
        return json.dumps(value, separators=(",", ":")).encode()
