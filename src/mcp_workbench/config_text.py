"""From the bytes of the configuration file to plain lists and dicts, and what can be wrong on that way.

Only `config` reads through this module. Nothing here knows which keys the file should have.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .errors import ConfigError, Findings, Problem, inside

# What people write that JSON does not have, tried in this order on the text where the parser stopped.
# The patterns here are compiled when they are needed, which is hardly ever, and not at start-up.
_HABITS = (
    (r"//|/\*|#", "a comment", "JSON has no comments: remove it"),
    (r"'", "a single quote", 'JSON has double quotes only: write "…"'),
    (r"(True|False|None)\b", "a word that JSON does not have", "write true, false or null"),
    (r"[\w$-]+\s*:(?!//)", "a key without quotes", 'put the key into double quotes: "…"'),
)
_PARSER_HINTS = {
    "Expecting ',' delimiter": "put a comma between the entries, and close every { and [",
    "Expecting ':' delimiter": 'write "key": value',
    "Expecting property name enclosed in double quotes": 'write "key": value, and close every {',
    "Expecting value": "write a value here, and close every { and [",
    "Extra data": "the file ends with the } of its first {: remove what follows",
    "Invalid control character at": r"close the string on its own line; a line break in it is written \n",
    "Invalid \\escape": r"write \\ for one backslash, as in C:\\tools",
    "Unterminated string starting at": 'close the string with "',
}
_TRAILING_COMMA = r",\s*[}\]]"
_LONE_SURROGATE = "[\ud800-\udfff]"
# Longer ones are infinite as a float, and Python refuses to make an int of 4,300 digits.
_LONGEST_NUMBER = 300


class _TooLarge(float):
    """Stands where a number stood that no float holds."""


class _Object(dict[str, Any]):
    """A JSON object that remembers which keys were written more than once."""

    __slots__ = ("doubled",)
    doubled: tuple[str, ...]


def read(data: bytes, findings: Findings) -> Any:
    """The JSON value in `data`; raises ConfigError where it has none."""
    try:
        tree = _parse(_decode(data))
    except ConfigError as error:
        raise ConfigError(error.problems, findings.warnings) from None
    outside_json: list[Problem] = []
    for place, node in nodes(tree):
        findings.problems.extend(_slips(place, node))
        outside_json.extend(_outside_json(place, node))
    if outside_json:
        raise ConfigError([*outside_json, *findings.problems], findings.warnings)
    return tree


def nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every value in `tree` with its place, in the order of the file."""
    # Not recursive: the parser accepts a nesting that would exhaust the stack of a Python function.
    waiting = [("", tree)]
    while waiting:
        place, node = waiting.pop()
        yield place, node
        if isinstance(node, dict):
            waiting.extend((inside(place, key), node[key]) for key in reversed(node))
        elif isinstance(node, list):
            waiting.extend((inside(place, at), node[at]) for at in reversed(range(len(node))))


def _decode(data: bytes) -> str:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        place = _line_and_column(data[: error.start].decode())
        raise ConfigError([Problem(place, "not UTF-8", "save the file as UTF-8")]) from None


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction)
    except json.JSONDecodeError as error:
        raise ConfigError([_syntax_problem(text, error)]) from None
    except RecursionError:
        raise ConfigError([Problem("", "too deeply nested", "check for a repeated [ or {")]) from None


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    entries = _Object(pairs)
    entries.doubled = ()
    if len(entries) < len(pairs):
        times = Counter(key for key, _ in pairs)
        entries.doubled = tuple(key for key in entries if times[key] > 1)
    return entries


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _LONGEST_NUMBER else _TooLarge("inf")


def _fraction(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _TooLarge(number)


def _syntax_problem(text: str, error: json.JSONDecodeError) -> Problem:
    if not text.strip():
        return Problem("", "the file is empty", 'write {"toolboxes": {}}')
    position, message, hint = _explain(text, error)
    return Problem(_line_and_column(text[:position]), message, hint)


def _line_and_column(before: str) -> str:
    lines = before.split("\n")
    return f"line {len(lines)}, column {len(lines[-1]) + 1}"


def _explain(text: str, error: json.JSONDecodeError) -> tuple[int, str, str]:
    # Python versions stop before or after a trailing comma; it is the comma that the reader looks for.
    comma = len(text[: error.pos].rstrip()) - 1
    for position in (error.pos, comma):
        if re.match(_TRAILING_COMMA, text[max(position, 0) :]):
            return position, "a comma after the last entry", "remove the comma"
    for habit, name, hint in _HABITS:
        if re.match(habit, text[error.pos :]):
            return error.pos, name, hint
    if error.pos >= len(text.rstrip()):
        return error.pos, "the file ends too early", "close every { and ["
    return error.pos, f"not JSON: {error.msg}", _PARSER_HINTS.get(error.msg, "")


def _slips(place: str, node: Any) -> Iterator[Problem]:
    """What JSON allows and nobody means."""
    if isinstance(node, str) and "\0" in node:
        yield Problem(place, "has a NUL character in it", "remove the \\u0000")
    if isinstance(node, _Object):
        for key in node.doubled:
            yield Problem(
                inside(place, key), "the key is written twice", "both count as one: remove one of them"
            )


def _outside_json(place: str, node: Any) -> Iterator[Problem]:
    """What Python's parser lets through although no JSON value is like it."""
    if isinstance(node, _TooLarge):
        yield Problem(place, "a number that is too large", "write a smaller one")
    elif isinstance(node, float) and not math.isfinite(node):
        yield Problem(place, "not a finite number", "JSON has no NaN and no Infinity: write a number")
    texts = node if isinstance(node, dict) else [node] if isinstance(node, str) else ()
    for text in texts:
        if not text.isascii() and re.search(_LONE_SURROGATE, text):
            yield Problem(place, "half of a surrogate pair in a text", "write the character itself")
