"""Reads signatures back, and says what in them is not as the definition has it: an agent's eyes, for tests.

Types are compared as sets of alternatives. Where `…` stands more may be meant than is written, elsewhere not.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MORE = "…"
ENDS_A_KEY = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
WORD = re.compile(r"(string|integer|number|boolean|object|null|any|never)(\([^()]*\))?")
LITERAL = re.compile(r"true|false|-?\d[\d.eE+-]*")


@dataclass
class Word:
    name: str
    detail: str = ""
    more: bool = False


@dataclass
class Literal:
    value: str  # as JSON
    more: bool = False


@dataclass
class Array:
    items: "Type"
    more: bool = False


@dataclass
class Fixed:
    """An array whose elements have types of their own."""

    items: list["Type"]
    more: bool = False


@dataclass
class Member:
    required: bool
    type: "Type | None"  # unknown where only the name is told
    default: str | None = None


@dataclass
class Object:
    members: dict[str, Member] = field(default_factory=dict)
    others: "Type | None" = None
    more: bool = False


Alternative = Word | Literal | Array | Fixed | Object


@dataclass
class Type:
    alternatives: list[Alternative]
    more: bool = False


@dataclass
class Line:
    name: str
    parameters: Type
    sentence: str
    lossy: bool


# From text --------------------------------------------------------------------------------------


class Unreadable(ValueError):
    pass


def read(line: str) -> Line:
    """What an agent learns from a signature."""
    return _Text(line).line()


class _Text:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.lossy = text, 0, False

    def line(self) -> Line:
        if "\n" in self.text:
            raise Unreadable("more than one line")
        name = self.string() if self.sees('"') else self.until(f"{MORE}(")
        if self.sees(MORE):
            self.more()
        self.must("(")
        parameters = self.parameters()
        rest = self.text[self.at :]
        if rest and not rest.startswith(" — "):
            raise Unreadable(f"{rest!r} after the parameters of {self.text!r}")
        return Line(name, parameters, rest[3:], self.lossy)

    def parameters(self) -> Type:
        start = self.at
        try:
            found = Type([self.members(")")])
        except Unreadable:
            self.at = start
            found = self.type()
            self.must(")")
        return found

    def members(self, closing: str) -> Object:
        found = Object()
        while not self.take(closing):
            if found.members or found.others or found.more:
                self.must(", ")
            if self.sees(MORE):
                found.more = found.more | self.more()
            elif self.take("[key]: "):
                found.others = self.type()
            else:
                name = self.string() if self.sees('"') else self.match(ENDS_A_KEY)[0]
                if name in found.members:
                    raise Unreadable(f"{name!r} stands there twice")
                optional = self.take("?")
                kind = self.type() if self.take(": ") else None
                default = self.literal() if self.take(" = ") else None
                found.members[name] = Member(not optional, kind, default)
        return found

    def type(self) -> Type:
        found = Type([])
        while True:
            if self.sees(MORE):
                found.more = self.more()
            else:
                found.alternatives.append(self.alternative())
            if not self.take("|"):
                return found

    def alternative(self) -> Alternative:
        found: Alternative
        if self.take("("):
            items = self.type()
            self.must(")")
            self.must("[]")
            found = Array(items)
        elif self.take("{"):
            found = self.members("}")
        elif self.take("["):
            found = Fixed([])
            while not self.take("]"):
                if found.items:
                    self.must(", ")
                if self.sees(f"{MORE}]"):
                    found.more = self.more()
                    continue
                found.items.append(self.type())
        elif word := WORD.match(self.text, self.at):
            self.at = word.end()
            found = Word(word[1], (word[2] or "")[1:-1])
        else:
            found = Literal(self.literal())
        while True:
            if self.sees(MORE):
                found.more = self.more()
            elif self.take("[]"):
                found = Array(Type([found]))
            else:
                return found

    def more(self) -> bool:
        self.must(MORE)
        self.lossy = True
        return True

    def literal(self) -> str:
        return json.dumps(self.string() if self.sees('"') else json.loads(self.match(LITERAL)[0]))

    def string(self) -> str:
        try:
            value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            raise Unreadable(str(error)) from None
        return str(value)

    def until(self, ends: str) -> str:
        start = self.at
        while self.text[self.at] not in ends:
            self.at += 1
        return self.text[start : self.at]

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if not found:
            raise Unreadable(f"{self.text[self.at : self.at + 40]!r} in {self.text!r}")
        self.at = found.end()
        return found

    def sees(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        seen = self.sees(text)
        self.at += len(text) * seen
        return seen

    def must(self, text: str) -> None:
        if not self.take(text):
            raise Unreadable(f"no {text!r} at {self.text[self.at : self.at + 40]!r} in {self.text!r}")


# From a schema ----------------------------------------------------------------------------------


def meant(schema: Any, root: Any, nested: int = 0) -> Type:
    """What a schema allows, for schemas that people write: `allOf` has no two of one keyword but objects'."""
    if nested > 12:  # where it leads back to itself; nothing shows so much
        return Type([], more=True)
    if isinstance(schema, bool):
        return Type([Word("any" if schema else "never")])
    schema = flat(schema, root)
    if schema.get("not") == {}:
        return Type([Word("never")])
    found: list[Alternative] = []
    for key in ("anyOf", "oneOf"):
        if any(set(part) - {"required"} for part in schema.get(key, ())):
            rest = {name: value for name, value in schema.items() if name not in (key, "nullable")}
            for part in schema[key]:
                found += meant(together(part, rest), root, nested + 1).alternatives
            return Type(found + [Word("null")] * (schema.get("nullable") is True))
    if "const" in schema:
        found = [Literal(json.dumps(schema["const"]))]
    elif schema.get("enum"):
        found = [Literal(json.dumps(value)) for value in schema["enum"]]
    else:
        named = schema.get("type") or implied(schema)
        found = [
            of_type(name, schema, root, nested) for name in ([named] if isinstance(named, str) else named)
        ]
    found = [Word("null") if it == Literal("null") else it for it in found]
    return Type(found + [Word("null")] * (schema.get("nullable") is True))


def implied(schema: Any) -> str:
    if {"properties", "required", "additionalProperties"} & schema.keys():
        return "object"
    return "array" if {"items", "prefixItems"} & schema.keys() else "any"


def of_type(name: str, schema: Any, root: Any, nested: int) -> Alternative:
    if name == "array":
        fixed = schema.get("prefixItems") or (
            schema["items"] if isinstance(schema.get("items"), list) else None
        )
        if fixed:
            return Fixed([meant(part, root, nested + 1) for part in fixed])
        return Array(meant(schema.get("items") or {}, root, nested + 1))
    if name != "object":
        return Word(name)
    required = schema.get("required", [])
    members = {
        key: Member(key in required, meant(part, root, nested + 1), default_of(part, root))
        for key, part in {**dict.fromkeys(required, True), **schema.get("properties", {})}.items()
    }
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and others and others != {"not": {}}:
        return Object(members, meant(others, root, nested + 1))
    return Object(members) if members else Word("object")


def default_of(schema: Any, root: Any) -> str | None:
    schema = {} if isinstance(schema, bool) else flat(schema, root)
    return json.dumps(schema["default"]) if "default" in schema else None


def flat(schema: Any, root: Any) -> Any:
    """The schema with what it refers to, and all of its `allOf`, beside its own keywords."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    if "$ref" in schema:
        own = together(own, flat(pointed_at(root, schema["$ref"]), root))
    for part in schema.get("allOf", ()):
        own = together(own, flat(part, root))
    return own


def together(one: Any, other: Any) -> Any:
    """Both at once."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one if other is True else other
    return {
        **other,
        **one,
        **(
            {"properties": {**one.get("properties", {}), **other.get("properties", {})}}
            if "properties" in one or "properties" in other
            else {}
        ),
        **(
            {"required": [*one.get("required", []), *other.get("required", [])]}
            if "required" in one or "required" in other
            else {}
        ),
    }


def pointed_at(root: Any, reference: str) -> Any:
    found = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found[step.replace("~1", "/").replace("~0", "~")]
    return found


# Both ---------------------------------------------------------------------------------------------


def told_wrongly(text: str, definition: Any) -> list[str]:
    """What the line for a definition says that is not so, or hides without saying so."""
    line = read(text)
    wrong = [] if line.name == definition["name"] else [f"its name is {definition['name']!r}"]
    schema = definition["inputSchema"]
    parameters = meant(schema, schema)
    # A tool that takes an object of which nothing is said takes nothing.
    told = [Object() if it == Word("object") else it for it in parameters.alternatives]
    return [*wrong, *differences(line.parameters, Type(told, parameters.more), "")]


def differences(told: Type, real: Type, where: str) -> list[str]:
    wrong = [
        f"{where}: {alternative} is not meant"
        for alternative in told.alternatives
        if not any(agree(alternative, other, where) for other in real.alternatives)
        and not (real.more or (isinstance(alternative, Word) and alternative.more))
    ]
    if not told.more and not any(
        isinstance(it, Word) and it.name == "any" and it.more for it in told.alternatives
    ):
        wrong += [
            f"{where}: {alternative} is not told"
            for alternative in real.alternatives
            if not any(agree(other, alternative, where) for other in told.alternatives)
        ]
    if len(told.alternatives) == len(real.alternatives) == 1 and wrong:
        return [*details(told.alternatives[0], real.alternatives[0], where)] or wrong
    return wrong


def agree(told: Alternative, real: Alternative, where: str) -> bool:
    return type(told) is type(real) and not any(True for _ in details(told, real, where))


def details(told: Alternative, real: Alternative, where: str) -> Iterable[str]:
    """Where two alternatives differ."""
    if isinstance(told, Word) and isinstance(real, Word) and told.name != real.name:
        yield f"{where}: {told.name} is {real.name}"
    elif isinstance(told, Literal) and isinstance(real, Literal) and told.value != real.value:
        yield f"{where}: {told.value} is {real.value}"
    elif isinstance(told, Array) and isinstance(real, Array):
        yield from differences(told.items, real.items, f"{where}[]")
    elif isinstance(told, Fixed) and isinstance(real, Fixed):
        if not told.more and len(told.items) != len(real.items):
            yield f"{where}: another length"
        for one, other in zip(told.items, real.items, strict=False):
            yield from differences(one, other, f"{where}[]")
    elif isinstance(told, Object) and isinstance(real, Object):
        yield from members_differ(told, real, where)


def members_differ(told: Object, real: Object, where: str) -> Iterable[str]:
    if extra := told.members.keys() - real.members.keys():
        yield f"{where}: has no {extra}"
    if not told.more and (missing := real.members.keys() - told.members.keys()):
        yield f"{where}: {missing} is not told"
    for name in told.members.keys() & real.members.keys():
        one, other = told.members[name], real.members[name]
        if one.required != other.required:
            yield f"{where}.{name}: required is {other.required}"
        if one.default is not None and one.default != other.default:
            yield f"{where}.{name}: its default is {other.default}"
        if one.type and other.type:
            yield from differences(one.type, other.type, f"{where}.{name}")
    if told.others and real.others:
        yield from differences(told.others, real.others, f"{where}[key]")
    elif told.others or (real.others and not told.more):
        yield f"{where}: other members"
