"""Whether arguments plainly break a tool's schema: what is missing, unknown or of another type. Pure.

What is not understood fits. It decides nothing about a call, only what its failure was probably due to.
"""

from typing import Any, Final

import msgspec

from ..raw_json import Payload
from . import refs

_DEEPEST: Final = 12

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def breaks(arguments: Payload, schema: Payload) -> bool:
    """Whether a server that takes its own schema seriously refuses these."""
    try:
        root, given = msgspec.json.decode(schema), msgspec.json.decode(arguments)
        return not isinstance(given, dict) or not _fits(given, root, root, 0)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _fits(value: Any, schema: Any, root: Any, depth: int) -> bool:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return schema is not False
    if "$ref" in schema:  # up to draft 7 what stands beside it does not count
        return _fits(value, refs.target(root, schema["$ref"]), root, depth + 1)
    if not _is_of_type(value, schema.get("type")) or not _is_one_of(value, schema):
        return False
    if isinstance(value, dict):
        return _object_fits(value, schema, root, depth)
    if isinstance(value, list) and "prefixItems" not in schema and isinstance(schema.get("items"), dict):
        return all(_fits(element, schema["items"], root, depth + 1) for element in value)
    return True


def _object_fits(value: dict[str, Any], schema: dict[str, Any], root: Any, depth: int) -> bool:
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and any(isinstance(it, str) and it not in value for it in required):
        return False
    named = properties if isinstance(properties, dict) else {}
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    if is_closed and any(name not in named for name in value):
        return False
    return all(_fits(value[name], named[name], root, depth + 1) for name in value if name in named)


def _is_of_type(value: Any, named: Any) -> bool:
    names = named if isinstance(named, list) else [named]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        return True
    return any(_is_a(value, name) for name in names)


def _is_a(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _is_one_of(value: Any, schema: dict[str, Any]) -> bool:
    admitted = schema.get("enum")
    return not isinstance(admitted, list) or value in admitted
