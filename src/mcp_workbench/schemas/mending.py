"""Arguments in which a model wrote text for a number, a boolean, an object or an array, mended. Pure.

Only where the tool's schema admits no text in that place, and the text can mean one thing alone. All else
stays as it came: what is right is for the server to say.
"""

import re
from typing import Any, Final

import msgspec

from .. import raw_json
from ..raw_json import Malformed, Payload
from . import refs

# How deep in the arguments, and how much of a schema, is looked at; behind that nothing is mended.
_DEEPEST: Final = 6
_MOST_SHAPES: Final = 4_000
_MOST_BRANCHES: Final = 64
_LARGEST_SCHEMA: Final = 1024 * 1024

_STRING: Final = 1
_FRACTION: Final = 2
_INTEGER: Final = 4
_BOOLEAN: Final = 8
_OBJECT: Final = 16
_ARRAY: Final = 32
_NULL: Final = 64
_ALL: Final = 127
_MENDED: Final = _FRACTION | _INTEGER | _BOOLEAN | _OBJECT | _ARRAY

_TYPES: Final = {
    "string": _STRING,
    "number": _FRACTION | _INTEGER,
    "integer": _INTEGER,
    "boolean": _BOOLEAN,
    "object": _OBJECT,
    "array": _ARRAY,
    "null": _NULL,
}

_WHOLE: Final = re.compile(r"(?:0|-?[1-9][0-9]{0,15})")
# So few digits mean the same number in every language.
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,7})\.[0-9]{1,7}")
_LARGEST_WHOLE: Final = 2**53 - 1


class Mender:
    """Mends the arguments of one tool. Made once from its inputSchema, whatever that is."""

    __slots__ = ("_plan",)

    def __init__(self, schema: Payload) -> None:
        self._plan = _plan_of(schema)

    @property
    def is_idle(self) -> bool:
        """Whether nothing could ever be mended: each parameter admits text."""
        return self._plan is None

    def mended(self, arguments: Payload) -> Payload:
        """The arguments mended; themselves where there is nothing to mend."""
        if self._plan is None:
            return arguments
        try:
            return _in_object(arguments, self._plan)
        except (Malformed, RecursionError):
            return arguments


def mender_of(definition: bytes) -> Mender:
    """What mends the arguments of the tool with this definition."""
    return Mender(raw_json.members(definition).get("inputSchema", b"{}"))


# Arguments ----------------------------------------------------------------------------------------


class _Plan:
    """What is to be mended at one place: text that stands for one of `kinds`, and what lies below."""

    __slots__ = ("elements", "kinds", "members", "others")

    def __init__(
        self,
        kinds: int,
        members: "dict[str, _Plan | None]",
        others: "_Plan | None",
        elements: "_Plan | None",
    ) -> None:
        self.kinds = kinds
        self.members = members
        self.others = others
        self.elements = elements


def _in_object(frame: Payload, plan: _Plan) -> Payload:
    parts = raw_json.members(frame)
    members, others = plan.members, plan.others
    changed: dict[str, Payload] | None = None
    for name, value in parts.items():
        if (inner := members.get(name, others)) is None:
            continue
        after = _at(value, inner)
        if after is not value:
            changed = changed or {}
            changed[name] = after
    return raw_json.object_of({**parts, **changed}.items()) if changed else frame


def _at(value: Payload, plan: _Plan) -> Payload:
    text = bytes(value)
    start = text[:1]
    if start == b'"':
        return _meant(value, plan) if plan.kinds else value
    if start == b"{" and (plan.members or plan.others):
        return _in_object(value, plan)
    if start == b"[" and (inner := plan.elements):
        return raw_json.with_elements(value, lambda element: _at(element, inner))
    return value


def _meant(value: Payload, plan: _Plan) -> Payload:
    """What a text stands for, if that is plain."""
    text = raw_json.text_or_none(value) or ""
    kinds = plan.kinds
    if kinds & _BOOLEAN and text in ("true", "false"):
        return text.encode()
    if kinds & _INTEGER and _WHOLE.fullmatch(text) and abs(int(text)) <= _LARGEST_WHOLE:
        return text.encode()
    if kinds & _FRACTION and _DECIMAL.fullmatch(text):
        return text.encode()
    if kinds & (_OBJECT | _ARRAY):
        return _written_out(value, text.strip(" \t\r\n"), plan)
    return value


def _written_out(value: Payload, text: str, plan: _Plan) -> Payload:
    """The object or array that a text is the JSON of."""
    if not (text[:1] == "{" and plan.kinds & _OBJECT) and not (text[:1] == "[" and plan.kinds & _ARRAY):
        return value
    try:
        # A message is one line; within the strings of JSON no line can end.
        written = text.encode().replace(b"\r", b" ").replace(b"\n", b" ")
        (raw_json.members if text[0] == "{" else raw_json.elements)(written)
    except (UnicodeEncodeError, Malformed, RecursionError):
        return value
    return _at(written, plan)


# Schemas ------------------------------------------------------------------------------------------


class _Shape:
    """Which types a schema admits at a place, and what it says of the places below. None says nothing."""

    __slots__ = ("elements", "kinds", "members", "others")

    def __init__(
        self,
        kinds: int = _ALL,
        members: "dict[str, _Shape] | None" = None,
        others: "_Shape | None" = None,
        elements: "_Shape | None" = None,
    ) -> None:
        self.kinds = kinds
        self.members = members or {}
        self.others = others
        self.elements = elements

    def member(self, name: str) -> "_Shape | None":
        return self.members.get(name, self.others)


def _plan_of(schema: Payload) -> _Plan | None:
    if len(schema) > _LARGEST_SCHEMA:
        return None
    try:
        root = msgspec.json.decode(schema)
        plan = _pruned(_Shapes(root).of(root, 0, frozenset()))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return plan if plan and (plan.members or plan.others) else None


def _pruned(shape: _Shape | None) -> _Plan | None:
    """The parts of a shape below which something may be mended."""
    if shape is None:
        return None
    kinds = 0 if shape.kinds & _STRING else shape.kinds & _MENDED
    others, elements = _pruned(shape.others), _pruned(shape.elements)
    members = {name: _pruned(member) for name, member in shape.members.items()}
    if others is None:
        members = {name: member for name, member in members.items() if member}
    return _Plan(kinds, members, others, elements) if kinds or members or others or elements else None


class _Shapes:
    """Reads the shapes out of one schema, up to a bound: schemas may be endless by their `$ref`."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MOST_SHAPES

    def of(self, schema: Any, depth: int, on_the_way: frozenset[str]) -> _Shape | None:
        """`on_the_way` are the `$ref` that led here without going down in the arguments."""
        self._left -= 1
        if schema is False:
            return _Shape(0)
        if not isinstance(schema, dict) or self._left < 0 or depth > _DEEPEST:
            return None
        # What is said below an `$id` of its own means something else than it seems to.
        if ("$id" in schema and schema is not self._root) or "$dynamicRef" in schema:
            return None
        if "$ref" in schema:  # up to draft 7 what stands beside it does not count
            ref = schema["$ref"]
            found = refs.target(self._root, ref)
            if found is refs.NOWHERE or ref in on_the_way:
                return None
            return self.of(found, depth, on_the_way | {ref})
        shape: _Shape | None = self._own(schema, depth)
        for part in _list(schema.get("allOf"))[:_MOST_BRANCHES]:
            admitted = self.of(part, depth, on_the_way)
            if self._left < 0:
                break
            shape = _both(shape, admitted)
            self._left -= len(shape.members) // 8 if shape else 0  # to merge is work, too
        for key in ("anyOf", "oneOf"):
            branches = _list(schema.get(key))
            if 0 < len(branches) <= _MOST_BRANCHES:
                first, *others = (self.of(branch, depth, on_the_way) for branch in branches)
                for other in others:
                    first = _either(first, other)
                shape = _both(shape, first) if self._left >= 0 else shape
        return shape

    def _own(self, schema: dict[str, Any], depth: int) -> _Shape:
        """The shape by what stands in the schema itself."""
        kinds = _kinds(schema)
        members, others, elements = {}, None, None
        if kinds & _OBJECT:
            properties = schema.get("properties")
            if isinstance(properties, dict):
                members = {
                    name: self.of(property_, depth + 1, frozenset()) or _Shape()
                    for name, property_ in properties.items()
                }
            if "patternProperties" not in schema:
                others = self.of(schema.get("additionalProperties"), depth + 1, frozenset())
        if kinds & _ARRAY and "prefixItems" not in schema:
            elements = self.of(schema.get("items"), depth + 1, frozenset())
        return _Shape(kinds, members, others, elements)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _kinds(schema: dict[str, Any]) -> int:
    """The types that `type`, `enum` and `const` admit; all where they are not understood."""
    named = schema.get("type", [])
    names = [named] if isinstance(named, str) else _list(named)
    kinds = 0
    for name in names:
        kinds |= _TYPES.get(name, _ALL) if isinstance(name, str) else _ALL
    kinds = kinds or _ALL
    values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
    if values:
        of_values = 0
        for value in values:
            of_values |= _kind(value)
        kinds &= of_values
    return kinds


def _kind(value: object) -> int:
    if isinstance(value, bool):
        return _BOOLEAN
    if isinstance(value, int | float):
        return _INTEGER if isinstance(value, int) or value.is_integer() else _FRACTION
    if isinstance(value, str):
        return _STRING
    if isinstance(value, dict):
        return _OBJECT
    return _ARRAY if isinstance(value, list) else _NULL


def _both(one: _Shape | None, other: _Shape | None) -> _Shape | None:
    """What both admit."""
    if one is None or other is None:
        return one or other
    return _Shape(
        one.kinds & other.kinds,
        {name: _both(one.member(name), other.member(name)) or _Shape() for name in _names(one, other)},
        _both(one.others, other.others),
        _both(one.elements, other.elements),
    )


def _either(one: _Shape | None, other: _Shape | None) -> _Shape | None:
    """What one of them admits."""
    if one is None or other is None:
        return None
    shape = _Shape(one.kinds | other.kinds)
    if one.kinds & other.kinds & _OBJECT:
        shape.others = _either(one.others, other.others)
        for name in _names(one, other):
            member = _either(one.member(name), other.member(name))
            if member or shape.others:
                shape.members[name] = member or _Shape()
    else:
        with_members = one if one.kinds & _OBJECT else other
        shape.members, shape.others = with_members.members, with_members.others
    if one.kinds & other.kinds & _ARRAY:
        shape.elements = _either(one.elements, other.elements)
    else:
        shape.elements = (one if one.kinds & _ARRAY else other).elements
    return shape


def _names(one: _Shape, other: _Shape) -> dict[str, None]:
    return {**dict.fromkeys(one.members), **dict.fromkeys(other.members)}
