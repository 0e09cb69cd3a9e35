"""What the definition of a tool says to who looks for one. Pure."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

# Schemas may be deep and wide; what tells a tool from others stands near the top.
_DEEPEST = 4
_MOST_PARAMETERS = 100


class Said(msgspec.Struct, frozen=True):
    """The texts of a definition."""

    title: str = ""
    description: str = ""
    parameters: str = ""  # their names
    about_parameters: str = ""


def read(definition: bytes) -> Said:
    """Its texts; those that are not there, or are no texts, are empty."""
    tool = _decoded(definition)
    if not isinstance(tool, dict):
        return Said()
    names: list[str] = []
    texts: list[str] = []
    for name, schema in _parameters(tool.get("inputSchema"), _DEEPEST):
        if len(names) >= _MOST_PARAMETERS:
            break
        names.append(name)
        if text := _text(schema, "description"):
            texts.append(text)
    title = _text(tool, "title") or _text(tool.get("annotations"), "title")
    return Said(title, _text(tool, "description"), " ".join(names), " ".join(texts))


def _decoded(definition: bytes) -> Any:
    try:
        return msgspec.json.decode(definition)
    except RecursionError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return json.loads(definition)  # with a lone surrogate in it
    except (ValueError, RecursionError):
        return None


def _text(of: object, key: str) -> str:
    value = of.get(key) if isinstance(of, dict) else None
    return value if isinstance(value, str) else ""


def _parameters(schema: object, depth: int) -> Iterator[tuple[str, object]]:
    if not isinstance(schema, dict) or depth == 0:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield name, inner
        yield from _parameters(inner, depth - 1)
    yield from _parameters(schema.get("items"), depth - 1)
    for key in ("anyOf", "oneOf", "allOf"):
        alternatives = schema.get(key)
        for alternative in alternatives if isinstance(alternatives, list) else ():
            yield from _parameters(alternative, depth - 1)
