"""JSON Schemas rewritten in plainer words, for who cannot read all of the language. Pure.

Names of properties are kept. Where something is lost, descriptions say so.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from .. import raw_json
from . import refs

_DEEPEST: Final = 40
# What may be written out in place of `$ref`, where a node may have so many bytes.
_MOST_NODES: Final = 10_000
_PER_NODE: Final = 32
_MOST_WAYS: Final = 8
_LONGEST_NOTE: Final = 400

_UNIONS: Final = ("anyOf", "oneOf")
_CONDITIONS: Final = ("not", "if", "then", "else", "enum", "const")
_AT_ROOT: Final = (*_UNIONS, "allOf", *_CONDITIONS)
# What stands in these is named by somebody: a key there is no keyword.
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
# What stands in these is no schema.
_VALUES: Final = ("default", "enum", "const", "examples", "example", "required", "dependentRequired")

Schema = dict[str, Any]


def plain(root: Schema, *, flat: bool, no_refs: bool) -> Schema:
    """The schema with a root that says plainly which properties there are (`flat`), or without `$ref`.

    The same object if it is so already.
    """
    flatten = flat and any(key in root for key in (*_AT_ROOT, "$ref"))
    refs = list(_refs(root)) if no_refs or flatten else []
    # What is flattened is no longer found where a `$ref` into it leads.
    if refs and (no_refs or not all(map(_is_into_definitions, refs))):
        root = _Inlined(root).root()
    return _Flat(root).root() if flatten else root


def _is_into_definitions(ref: object) -> bool:
    return isinstance(ref, str) and ref.startswith(("#/$defs/", "#/definitions/"))


def _refs(part: Any, *, named: bool = False) -> Iterator[object]:
    """Each `$ref` in a schema, or in a list of schemas, or in one by name."""
    if isinstance(part, list):
        for element in part:
            yield from _refs(element)
    elif isinstance(part, dict):
        if named:
            for schema in part.values():
                yield from _refs(schema)
            return
        if "$ref" in part:
            yield part["$ref"]
        for key, value in part.items():
            if key not in _VALUES:
                yield from _refs(value, named=key in (*_NAMED, "$defs", "definitions"))


def _noted(schema: Schema, note: str) -> Schema:
    """The schema with something said behind its description."""
    described = schema.get("description")
    before = f"{described} " if isinstance(described, str) and described else ""
    return {**schema, "description": f"{before}({note})"}


# References ---------------------------------------------------------------------------------------


class _Inlined:
    """A schema in which what each `$ref` stands for is written out in its place."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MOST_NODES

    def root(self) -> Schema:
        written: Schema = self._schema(self._root, (), 0)
        return written

    def _schema(self, part: Any, on_the_way: tuple[str, ...], depth: int) -> Any:
        """A schema, or a list of schemas, written out; `on_the_way` are the `$ref` that led to it."""
        if on_the_way:
            self._left -= 1 + (len(part) // _PER_NODE if isinstance(part, str) else 0)
        if isinstance(part, list):
            return [self._schema(element, on_the_way, depth + 1) for element in part]
        if not isinstance(part, dict):
            return part
        written: Schema = {}
        if "$ref" in part:
            written = self._referred(part["$ref"], on_the_way, depth)
        for key, value in part.items():
            if key in _VALUES:
                self._left -= len(raw_json.encoded(value)) // _PER_NODE if on_the_way else 0
                written[key] = value
            elif key in _NAMED and isinstance(value, dict):
                written[key] = {
                    name: self._schema(schema, on_the_way, depth + 1) for name, schema in value.items()
                }
            elif key not in ("$ref", "$defs", "definitions"):
                written[key] = self._schema(value, on_the_way, depth + 1)
        return written

    def _referred(self, ref: object, on_the_way: tuple[str, ...], depth: int) -> Schema:
        found = refs.target(self._root, ref)
        name = str(ref).rpartition("/")[2] or "the whole"
        if found is True:
            return {}
        if not isinstance(found, dict):
            return _noted({}, "it is not said here what this may be")
        kind = {"type": found["type"]} if isinstance(found.get("type"), str) else {}
        if ref in on_the_way:
            return _noted(kind, f"another {name}, as above")
        if self._left < 0 or depth > _DEEPEST:
            return _noted(kind, f"{name}, which is too large to be shown here")
        written: Schema = self._schema(found, (*on_the_way, str(ref)), depth + 1)
        return dict(written)


# The root -----------------------------------------------------------------------------------------


class _Flat:
    """A schema whose root says plainly which properties there are, whatever they depend on."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MOST_NODES
        self._notes: list[str] = []

    def root(self) -> Schema:
        flat = {"properties": {}, **self._merged(self._root, 0), "type": "object"}
        notes = "; ".join(dict.fromkeys(self._notes))
        return _noted(flat, notes if len(notes) <= _LONGEST_NOTE else _DEPENDS) if notes else flat

    def _merged(self, schema: Schema, depth: int) -> Schema:
        """The schema without what may not stand at the root."""
        flat = {key: value for key, value in schema.items() if key not in (*_AT_ROOT, "$ref")}
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            return flat
        beside = [refs.target(self._root, schema["$ref"])] if "$ref" in schema else []
        flat = _all_of([flat, *self._branches([*beside, *_list(schema.get("allOf"))], depth)])
        for key in _UNIONS:
            if branches := self._branches(_list(schema.get(key)), depth):
                self._tell(branches)
                flat = _beside(flat, _one_of(branches))
        if any(key in schema for key in _CONDITIONS):
            self._notes.append(_DEPENDS)
            named = self._branches([schema.get(key) for key in ("if", "then", "else")], depth)
            flat = _beside(flat, _one_of([{}, *named]))
        return flat

    def _branches(self, branches: Iterable[object], depth: int) -> list[Schema]:
        """The branches that may be taken, flat: arguments are an object always."""
        return [
            {} if branch is True else self._merged(branch, depth + 1)
            for branch in branches
            if branch is True or (isinstance(branch, dict) and _is_for_objects(branch))
        ]

    def _tell(self, branches: list[Schema]) -> None:
        """Tell which properties belong together."""
        ways = list(dict.fromkeys(" and ".join(_required_values(branch)) for branch in branches))
        if 1 < len(ways) <= _MOST_WAYS:
            self._notes.append("give either " + ", or ".join(way or "none of these" for way in ways))
        elif len(ways) > 1 or any(_properties(branch) != _properties(branches[0]) for branch in branches):
            self._notes.append(_DEPENDS)


_DEPENDS: Final = "which values go together is checked by the server"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_for_objects(schema: Schema) -> bool:
    kinds = schema.get("type", "object")
    return "object" in (kinds if isinstance(kinds, list) else [kinds])


def _required(schema: Schema) -> list[str]:
    return [name for name in _list(schema.get("required")) if isinstance(name, str)]


def _required_values(schema: Schema) -> Iterator[str]:
    """The names that are required, with the value where there is but one."""
    for name in _required(schema):
        property_ = _properties(schema).get(name)
        value = property_.get("const") if isinstance(property_, dict) else None
        yield f"{name}={value}" if isinstance(value, str) else name


def _properties(schema: Schema) -> Schema:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _all_of(schemas: list[Schema]) -> Schema:
    """The properties of all, required where one requires them."""
    if len(schemas) == 1:
        return schemas[0]
    merged: Schema = {}
    for schema in schemas:
        merged = {**merged, **{key: value for key, value in schema.items() if key not in merged}}
    _set(merged, "properties", _united(schemas, "allOf"))
    _set(merged, "required", list(dict.fromkeys(name for schema in schemas for name in _required(schema))))
    _set(merged, "additionalProperties", _others(schemas))
    return merged


def _beside(flat: Schema, union: Schema) -> Schema:
    """The schema with what a union adds; what it says itself of a property holds in every branch."""
    known = {name for name, property_ in _properties(flat).items() if property_ not in ({}, True)}
    new = {name: property_ for name, property_ in _properties(union).items() if name not in known}
    return _all_of([flat, {**union, "properties": new}])


def _one_of(schemas: list[Schema]) -> Schema:
    """The properties of all, required where all require them."""
    merged: Schema = {}
    common = [name for name in _required(schemas[0]) if all(name in _required(other) for other in schemas)]
    _set(merged, "properties", _united(schemas, "anyOf"))
    _set(merged, "required", common)
    _set(merged, "additionalProperties", _others(schemas))
    return merged


def _others(schemas: list[Schema]) -> Any:
    """What is said of further properties, if all that name some say the same: one may name another's."""
    said = [schema.get("additionalProperties") for schema in schemas if _says_which(schema)]
    return said[0] if said and all(other == said[0] for other in said) else None


def _says_which(schema: Schema) -> bool:
    return bool(_properties(schema)) or "additionalProperties" in schema


def _set(schema: Schema, key: str, value: Any) -> None:
    if value is None or value == {} or value == []:
        schema.pop(key, None)
    else:
        schema[key] = value


def _united(schemas: list[Schema], keyword: str) -> Schema:
    """All properties; one that is described differently is each of these, or one of these."""
    described: dict[str, list[Any]] = {}
    for schema in schemas:
        for name, property_ in _properties(schema).items():
            those = described.setdefault(name, [])
            if property_ is not True and property_ != {} and property_ not in those:
                those.append(property_)
    return {
        name: those[0] if len(those) == 1 else _joined(those, keyword) if those else {}
        for name, those in described.items()
    }


def _joined(schemas: list[Any], keyword: str) -> Schema:
    if keyword == "anyOf" and (values := _values(schemas)):
        return values
    return {keyword: schemas}


def _values(schemas: list[Any]) -> Schema | None:
    """One enum of all values, as tells the branches of a union apart."""
    values: list[Any] = []
    for schema in schemas:
        if not isinstance(schema, dict) or not schema.keys() <= {"const", "enum", "type"}:
            return None
        more = [schema["const"]] if "const" in schema else schema.get("enum")
        if not isinstance(more, list):
            return None
        values += (value for value in more if value not in values)
    kinds = [schema["type"] for schema in schemas if "type" in schema]
    alike = len(kinds) == len(schemas) and all(kind == kinds[0] for kind in kinds)
    return {**({"type": kinds[0]} if alike else {}), "enum": values}
