"""JSON Schema made plain enough to be told: local references followed, `allOf` merged. Pure.

Whatever the schema, the work is bounded. What can't be followed or merged is marked as cut, never guessed.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, TypeGuard

import msgspec

from . import refs

Schema = Mapping[str, Any]

# More members or elements than this are not read of any one place.
_MOST_PARTS: Final = 300
_MOST_STEPS: Final = 10_000
_MOST_NESTED: Final = 16

TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null")
UNION_KEYS: Final = ("anyOf", "oneOf")
# What a value must be, beyond its type, that no line shows, and without which a first call easily fails.
# Limits of lengths are not among them: hardly a call fails for these.
_UNTOLD: Final = frozenset(
    (
        *(
            "multipleOf",
            "pattern",
            "if",
            "not",
            "contains",
            "patternProperties",
            "propertyNames",
            "dependencies",
        ),
        *("dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"),
        *UNION_KEYS,
    )
)
# With these, a schema says what a value is, and not only what it must have besides.
_STRUCTURE: Final = frozenset(
    (
        *("type", "enum", "const", "properties", "additionalProperties", "items", "prefixItems"),
        *("$ref", "allOf", *UNION_KEYS),
    )
)
_IMPLYING: Final = {
    "object": frozenset(("properties", "required", "additionalProperties", "patternProperties")),
    "array": frozenset(("items", "prefixItems")),
    "string": frozenset(("format", "pattern")),
}
# What says nothing about which values are allowed.
ANNOTATIONS: Final = frozenset(
    ("$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "title")
)


class Plain(msgspec.Struct, frozen=True):
    """A schema without `$ref` and `allOf` at its top."""

    schema: Schema
    cut: bool = False  # whether it says more than `schema` does
    within: frozenset[str] = frozenset()  # the references that led here


class Reader:
    """Reads one document; one that asks for too much work is cut from there on."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MOST_STEPS

    def plain(self, schema: Any, within: frozenset[str] = frozenset(), nested: int = 0) -> Plain:
        if schema is True:
            return Plain({})
        if schema is False:
            return Plain({"not": {}})
        if not isinstance(schema, dict) or nested > _MOST_NESTED or self._left < 0:
            return Plain({}, cut=True)
        own, cut = _clipped(schema)
        self._left -= 1 + sum(len(part) for part in own.values() if isinstance(part, dict | list))
        plain = Plain(own, cut, within)
        reference = own.pop("$ref", None)
        parts = own.pop("allOf", None)
        if any(key in own for key in ("$dynamicRef", "$recursiveRef")):
            plain = msgspec.structs.replace(plain, cut=True)
        if reference is not None:
            plain = self._with(plain, self._referred(reference, within, nested))
        for part in parts if isinstance(parts, list) else ():
            plain = self._with(plain, self.plain(part, within, nested + 1))
        return plain

    def _with(self, one: Plain, other: Plain) -> Plain:
        merged, cut = merged_schemas(one.schema, other.schema)
        return Plain(merged, one.cut or other.cut or cut, one.within | other.within)

    def _referred(self, reference: Any, within: frozenset[str], nested: int) -> Plain:
        if not isinstance(reference, str) or reference in within:
            return Plain({}, cut=True)
        found = refs.target(self._root, reference)
        if found is refs.NOWHERE:
            return Plain({}, cut=True)
        return self.plain(found, within | {reference}, nested + 1)


def _clipped(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    cut = len(schema) > _MOST_PARTS
    own = dict(islice(schema.items(), _MOST_PARTS))
    for key, value in own.items():
        if isinstance(value, dict | list) and len(value) > _MOST_PARTS and key not in ANNOTATIONS:
            cut = True
            own[key] = (
                dict(islice(value.items(), _MOST_PARTS)) if isinstance(value, dict) else value[:_MOST_PARTS]
            )
    return own, cut


def merged_schemas(one: Schema, other: Schema) -> tuple[dict[str, Any], bool]:
    """What holds where both hold, and whether something of them is lost. Annotations are those of `one`."""
    merged, cut = {**other, **one}, False
    for key in one.keys() & other.keys() - ANNOTATIONS:
        mine, theirs = one[key], other[key]
        if mine is theirs or (_is_flat(mine) and _is_flat(theirs) and mine == theirs):
            continue
        both = _both(key, mine, theirs)
        if both is None:
            cut = True
        else:
            merged[key] = both
    return merged, cut


def _both(key: str, mine: Any, theirs: Any) -> Any:
    """One value of a keyword for two; None where there is no such thing."""
    if key == "properties" and isinstance(mine, dict) and isinstance(theirs, dict):
        return {
            name: {"allOf": [mine[name], theirs[name]]}
            if name in mine and name in theirs
            else mine.get(name, theirs.get(name))
            for name in {**mine, **theirs}
        }
    if key == "required" and isinstance(mine, list) and isinstance(theirs, list):
        return list(dict.fromkeys(name for name in [*mine, *theirs] if isinstance(name, str)))
    if key == "type":
        return _types_in_both(types(mine), types(theirs))
    if key == "enum" and _is_flat(mine) and _is_flat(theirs):
        return [value for value in mine if value in theirs] or None
    if key in ("items", "additionalProperties"):
        return False if mine is False or theirs is False else {"allOf": [mine, theirs]}
    if key in ("minimum", "minItems", "maximum", "maxItems") and is_number(mine) and is_number(theirs):
        return max(mine, theirs) if key.startswith("min") else min(mine, theirs)
    return None


def types(value: Any) -> list[str]:
    """The types that `type` names."""
    named = value if isinstance(value, list) else [value]
    return [name for name in named if isinstance(name, str)]


def _types_in_both(mine: list[str], theirs: list[str]) -> list[str] | None:
    both = [name for name in TYPES if name in _covered(mine) and name in _covered(theirs)]
    return [name for name in both if name != "integer" or "number" not in both] or None


def _covered(names: list[str]) -> list[str]:
    return [*names, "integer"] if "number" in names else names


def _is_flat(value: Any) -> bool:
    """Whether comparing it is no work, whoever wrote it."""
    if isinstance(value, list):
        return not any(isinstance(part, list | dict) for part in value)
    return not isinstance(value, dict)


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


# What a plain schema says ----------------------------------------------------------------------


def union(schema: Schema) -> tuple[str, list[Any]] | None:
    """Under which key a schema has alternatives that say what a value is, and these."""
    for key in UNION_KEYS:
        parts = schema.get(key)
        if isinstance(parts, list) and any(
            isinstance(part, dict) and part.keys() & _STRUCTURE for part in parts
        ):
            return key, parts
    return None


def all_types(schema: Schema) -> list[str]:
    """The types that a schema names, or that follow from what it says."""
    if named := types(schema.get("type")):
        return named
    implied = [name for name, keys in _IMPLYING.items() if keys & schema.keys()]
    return implied if len(implied) == 1 else []


def required(schema: Schema) -> list[str]:
    named = schema.get("required")
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def others(schema: Schema) -> Schema | None:
    """What members may be that are not named, if that is said."""
    found = schema.get("additionalProperties")
    return found if isinstance(found, dict) and found and found.get("not") != {} else None


def has_untold(schema: Schema) -> bool:
    """To be asked of what is not a union: alternatives that are left then only restrict."""
    untold = _UNTOLD & schema.keys()
    return bool(untold - {"not"}) or ("not" in untold and schema["not"] != {})
