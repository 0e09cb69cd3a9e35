"""A tool's definition as one line: `read_file(path: string, head?: integer) — first sentence`. Pure.

Types are written as TypeScript has them, with `integer`, `string(date)` and `integer(1..10)` besides. `…`
stands after, or in place of, what a line can't hold, and makes it lossy: who calls the tool had better read
its definition.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from .. import legible, raw_json
from ..raw_json import Malformed, Payload
from . import reading
from .reading import TYPES, Plain, Reader, Schema, is_number, merged_schemas

MORE: Final = "…"

LONGEST_NAME: Final = 200
_LONGEST_LITERAL: Final = 60
_LONGEST_DEFAULT: Final = 16
_MOST_ALTERNATIVES: Final = 12
_ALTERNATIVES_OF_MANY: Final = 3
_MOST_NESTED: Final = 30
# A parameter's description that is longer says much that its name does not.
_LONGEST_DESCRIPTION: Final = 160

# zod writes these for every integer.
_LARGEST_SAFE: Final = 2**53 - 1
_LARGEST_TOLD: Final = 10**20
_IDENTIFIER: Final = r"[A-Za-z_$][\w$]*"
_FORMAT: Final = r"[\w.-]{1,24}"

_Member = tuple[str, bool]  # as it is written, and whether it must be there


class Signature(msgspec.Struct, frozen=True):
    text: str
    lossy: bool  # whether the definition says more that a call may need


class Room(msgspec.Struct, frozen=True):
    """How much of a line its parts may take, in characters."""

    parameters: int
    sentence: int
    defaults: bool = True  # whether what a parameter is when it is left out has a place


AMPLE: Final = Room(480, legible.LONGEST_SENTENCE)


class _Detail(msgspec.Struct, frozen=True):
    """How much is told of each parameter."""

    depth: int
    defaults: bool
    alternatives: int
    untyped: bool = False  # only the names of parameters that may be left out


# The first of these that fits is taken.
_DETAILS: Final = (
    _Detail(5, True, _MOST_ALTERNATIVES),
    _Detail(5, False, _MOST_ALTERNATIVES),
    _Detail(2, False, 6),
    _Detail(1, False, 4),
    _Detail(0, False, 4, untyped=True),
)


def signature(definition: Payload, room: Room = AMPLE) -> Signature:
    """The line for a definition, whatever that is."""
    told = _decoded(definition)
    own_name, description = told.get("name"), told.get("description")
    if isinstance(own_name, str) and own_name:
        short = own_name if len(own_name) <= LONGEST_NAME else own_name[:LONGEST_NAME]
        name, cut = legible.name(short), short is not own_name
    else:
        name, cut = "?", True
    said = description.strip() if isinstance(description, str) else ""
    sentence = legible.first_sentence(said, room.sentence)
    parameters = _parameters(told.get("inputSchema"), room, has_manual=len(said) > len(sentence) + 20)
    return Signature(
        f"{name}{MORE if cut else ''}({parameters.text})" + (f" — {sentence}" if sentence else ""),
        cut or parameters.lossy,
    )


def _decoded(definition: Payload) -> Schema:
    try:
        parts = raw_json.members(definition)
    except Malformed:
        return {}
    return {key: _value(parts[key]) for key in ("name", "description", "inputSchema") if key in parts}


def _value(part: Payload) -> Any:
    try:
        return msgspec.json.decode(part)
    except (msgspec.DecodeError, RecursionError):
        try:
            return json.loads(bytes(part))  # with a lone surrogate in it
        except (ValueError, RecursionError):
            return None


def _parameters(schema: Any, room: Room, has_manual: bool) -> Signature:
    members: list[_Member] = []
    for detail in _DETAILS:
        if detail.defaults and not room.defaults:
            continue
        writer = _Writer(schema, detail, has_manual)
        members = writer.parameters(schema)
        text = ", ".join(told for told, _ in members)
        if len(text) <= room.parameters:
            return Signature(text, writer.lossy)
    return Signature(_cut(members, room.parameters), True)


def _cut(members: Sequence[_Member], longest: int) -> str:
    """As many as there is room for; those that a call must have find it first."""
    room, kept = longest - len(MORE), set[int]()
    for wanted in (True, False):
        for at, (told, required) in enumerate(members):
            if required is wanted and told != MORE and len(told) + 2 <= room:
                kept.add(at)
                room -= len(told) + 2
    return ", ".join([*(members[at][0] for at in sorted(kept)), MORE])


class _Writer:
    """Writes the types of one document; `lossy` says afterwards whether something was left out."""

    def __init__(self, root: Any, detail: _Detail, has_manual: bool) -> None:
        """`has_manual`: the tool's description goes on after its first sentence."""
        self._plain = Reader(root).plain
        self._detail = detail
        self._has_manual = has_manual
        self._nested = 0  # how many types are being written, one within the other
        self.lossy = False

    def parameters(self, schema: Any) -> list[_Member]:
        """What a tool takes."""
        plain = self._plain(schema)
        if reading.union(plain.schema):
            return [(self._type(plain, 0), True)]
        if reading.types(plain.schema.get("type")) not in ([], ["object"]):
            return [(self._more(), True)]
        members = self._members(plain, 0)
        cut = plain.cut or reading.has_untold(plain.schema) or self._detail.untyped
        return [*members, (self._more(), True)] if cut else members

    def _more(self) -> str:
        self.lossy = True
        return MORE

    def _type(self, plain: Plain, depth: int) -> str:
        return "|".join(self._alternatives(plain, depth))

    def _alternatives(self, plain: Plain, depth: int) -> list[str]:
        """The types that a value may have, each written once."""
        if self._nested > _MOST_NESTED:
            return [self._more()]
        self._nested += 1
        united = reading.union(plain.schema)
        told = self._united(plain, *united, depth) if united else self._single(plain, depth)
        self._nested -= 1
        if plain.schema.get("nullable") is True:
            told.append("null")
        told = list(dict.fromkeys(told))
        if len(told) <= self._detail.alternatives:
            return told
        # Its definition has to be read anyway: a few show what they look like.
        return [*told[:_ALTERNATIVES_OF_MANY], self._more()]

    def _united(self, plain: Plain, key: str, parts: Sequence[Any], depth: int) -> list[str]:
        base = {name: value for name, value in plain.schema.items() if name not in (key, "nullable")}
        told: list[str] = []
        for part in parts:
            own = self._plain(part, plain.within)
            merged, cut = merged_schemas(own.schema, base)
            cut = cut or plain.cut or own.cut
            told += self._alternatives(Plain(merged, cut, plain.within | own.within), depth)
        return told

    def _single(self, plain: Plain, depth: int) -> list[str]:
        schema = plain.schema
        if schema.get("not") == {}:
            return ["never"]
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            told = [self._literal(value) for value in values]
        else:
            told = [self._of_type(name, plain, depth) for name in reading.all_types(schema)] or ["any"]
        if plain.cut or reading.has_untold(schema) or self._needs_words(schema, told):
            told[-1] = told[-1].removesuffix(MORE) + self._more()
        return told

    def _needs_words(self, schema: Schema, told: Sequence[str]) -> bool:
        """Whether a description has to be read: it is long, or all that may tell what the value is."""
        description = schema.get("description")
        said = len(description) if isinstance(description, str) else 0
        if said > _LONGEST_DESCRIPTION:
            return True
        shapeless = any(kind.replace("[]", "") in ("any", "object") for kind in told)
        return shapeless and (said > 0 or self._has_manual)

    def _literal(self, value: Any) -> str:
        if isinstance(value, str):
            return legible.quoted(value) if len(value) <= _LONGEST_LITERAL else self._more()
        return _number_or_word(value) or self._more()

    def _of_type(self, name: str, plain: Plain, depth: int) -> str:
        if name == "object":
            return self._object(plain, depth)
        if name == "array":
            return self._array(plain, depth)
        if name == "string":
            return self._string(plain.schema)
        if name in ("integer", "number"):
            return f"{name}{_range(plain.schema)}"
        return name if name in TYPES or name == "any" else "any" + self._more()

    def _string(self, schema: Schema) -> str:
        form = schema.get("format", schema.get("contentEncoding"))
        if form is None:
            return "string"
        plainly = isinstance(form, str) and re.fullmatch(_FORMAT, form, re.ASCII)
        return f"string({form})" if plainly else "string" + self._more()

    def _array(self, plain: Plain, depth: int) -> str:
        schema = plain.schema
        items = schema.get("items", {})
        fixed = schema.get("prefixItems", items)
        if isinstance(fixed, list) and fixed:
            rest = schema.get("additionalItems", False) if fixed is items else items
            return self._tuple(fixed, rest in (False, {}), plain.within, depth)
        told = self._alternatives(self._plain({} if items == [] else items, plain.within), depth)
        if told == [MORE]:
            return f"any{MORE}[]"
        return f"({'|'.join(told)})[]" if len(told) > 1 else f"{told[0]}[]"

    def _tuple(self, fixed: Sequence[Any], ends: bool, within: frozenset[str], depth: int) -> str:
        if depth >= self._detail.depth or len(fixed) > _MOST_ALTERNATIVES:
            return f"[{self._more()}]"
        told = [self._type(self._plain(part, within), depth + 1) for part in fixed]
        return f"[{', '.join(told if ends else [*told, self._more()])}]"

    def _object(self, plain: Plain, depth: int) -> str:
        schema = plain.schema
        if not (schema.get("properties") or reading.required(schema) or reading.others(schema)):
            return "object"
        if depth >= self._detail.depth:
            return f"{{{self._more()}}}"
        return f"{{{', '.join(told for told, _ in self._members(plain, depth + 1))}}}"

    def _members(self, plain: Plain, depth: int) -> list[_Member]:
        """What an object consists of."""
        schema, required = plain.schema, reading.required(plain.schema)
        properties = schema.get("properties")
        parts: dict[str, Any] = dict(properties) if isinstance(properties, dict) else {}
        parts |= {name: True for name in required if name not in parts}
        members = [
            (self._member(name, name in required, self._plain(part, plain.within), depth), name in required)
            for name, part in parts.items()
        ]
        if others := reading.others(schema):
            members.append((f"[key]: {self._type(self._plain(others, plain.within), depth)}", False))
        return members

    def _member(self, name: str, required: bool, plain: Plain, depth: int) -> str:
        if len(name) > _LONGEST_LITERAL:
            return self._more()
        key = name if re.fullmatch(_IDENTIFIER, name, re.ASCII) else legible.quoted(name)
        if self._detail.untyped and not required and depth == 0:
            return f"{key}?"
        default = _default(plain.schema.get("default")) if self._detail.defaults else ""
        return f"{key}{'' if required else '?'}: {self._type(plain, depth)}{default}"


def _number_or_word(value: Any) -> str:
    """A JSON number, true, false or null, if it is short."""
    short = value is None or isinstance(value, bool) or (is_number(value) and abs(value) < _LARGEST_TOLD)
    return json.dumps(value) if short else ""


def _range(schema: Schema) -> str:
    """The limits of a number, where they are not what anybody expects."""
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    upper = _number_or_word(high) if is_number(high) and high < _LARGEST_SAFE else ""
    lower = _number_or_word(low) if is_number(low) and low > -_LARGEST_SAFE else ""
    if is_number(above) or is_number(below):
        lower = f">{_number_or_word(above)}" if is_number(above) else lower
        upper = f"<{_number_or_word(below)}" if is_number(below) else upper
        return f"({lower}..{upper})"
    return f"({lower}..{upper})" if upper or lower not in ("", "0", "1", "0.0", "1.0") else ""


def _default(value: Any) -> str:
    """What stands for a parameter that is left out, where it is more than nothing."""
    if value is None or value is False or value == "":
        return ""
    told = legible.quoted(value) if isinstance(value, str) else _number_or_word(value)
    return f" = {told}" if told and len(told) <= _LONGEST_DEFAULT else ""
