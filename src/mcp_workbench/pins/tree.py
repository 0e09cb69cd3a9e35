"""JSON as a tree that loses nothing: doubled keys, exact numbers and any depth stay. Pure.

Nothing here is recursive, so that no nesting exhausts the stack.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, TypeAlias

import msgspec

from ..errors import inside
from ..raw_json import Malformed

# Below this the places no longer grow: a value that is nested a million deep would need a gigabyte of them.
DEEPEST_PLACE: Final = 32


class Number(msgspec.Struct, frozen=True):
    """A number as it is written."""

    text: str


class Object(msgspec.Struct):
    """The members in their order, also those whose key was there before."""

    members: list[tuple[str, "Tree"]]


Tree: TypeAlias = bool | str | Number | list["Tree"] | Object | None

_WORDS: Final[dict[str, Tree]] = {"true": True, "false": False, "null": None}


@cache
def _token() -> re.Pattern[str]:
    # Only what is not plain is read as a tree: see `canonical`.
    return re.compile(
        r'[ \t\r\n]*(?:"(?P<text>[^"\\\x00-\x1f]*)"|(?P<mark>[\[\]{}:,])|(?P<escaped>")'
        r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
        r"|(?P<word>true|false|null)|(?P<end>\Z))"
    )


_decoder = json.JSONDecoder()


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """The kind and text of each token."""
    match, at = _token().match, 0
    while True:
        found = match(text, at)
        kind = found and found.lastgroup
        if not found or not kind:
            raise Malformed("not JSON")
        at = found.end()
        if kind == "escaped":
            try:
                value, at = _decoder.raw_decode(text, at - 1)
            except json.JSONDecodeError as error:
                raise Malformed(str(error)) from None
            yield "text", value
        else:
            yield kind, found[kind]
            if kind == "end":
                return


_SCALARS: Final = ("text", "number", "word")


def parsed(definition: bytes) -> Tree:
    """The value that is written in `definition`; raises Malformed where it is not JSON."""
    try:
        tokens = _tokens(definition.decode())
    except UnicodeDecodeError:
        raise Malformed("not valid UTF-8") from None
    opened: list[list[Tree] | Object] = []
    key: str | None = None  # of the value that comes next
    value: Tree = None
    kind, token = next(tokens)
    while True:
        # A value begins here, in an array or behind a key, or as the whole.
        if kind == "mark" and token in "[{":
            inner: list[Tree] | Object = [] if token == "[" else Object([])
            _put(opened, key, inner)
            opened.append(inner)
            key, value = None, inner
            kind, token = next(tokens)
            if token != ("]" if isinstance(inner, list) else "}") or kind != "mark":
                if isinstance(inner, Object):
                    key = _key(kind, token, tokens)
                    kind, token = next(tokens)
                continue
        elif kind in _SCALARS:
            value = _scalar(kind, token)
            _put(opened, key, value)
            kind, token = next(tokens)
        else:
            raise Malformed("a value is missing")
        # What is complete now may be the last of what holds it.
        while opened and kind == "mark" and token == ("]" if isinstance(opened[-1], list) else "}"):
            value = opened.pop()
            kind, token = next(tokens)
        if not opened:
            break
        if (kind, token) != ("mark", ","):
            raise Malformed("an object or array that does not end")
        key = _key(*next(tokens), tokens) if isinstance(opened[-1], Object) else None
        kind, token = next(tokens)
    if kind != "end":
        raise Malformed("more than one value")
    return value


def _key(kind: str, token: str, tokens: Iterator[tuple[str, str]]) -> str:
    if kind != "text" or next(tokens) != ("mark", ":"):
        raise Malformed("a member without a name or value")
    return token


def _put(opened: list[list[Tree] | Object], key: str | None, value: Tree) -> None:
    if not opened:
        return
    if isinstance(holder := opened[-1], Object):
        holder.members.append((key or "", value))
    else:
        holder.append(value)


def _scalar(kind: str, token: str) -> Tree:
    if kind == "text":
        return token
    return _WORDS[token] if kind == "word" else Number(token)


PLAIN_DIGITS: Final = 15
_LONGEST_EXPONENT: Final = 18


def one_way(number: str) -> str:
    """The number as all numbers of its value are written: whole ones that are not long as digits alone.

    Never through a float or an int: two numbers that differ stay two, and none takes long to read.
    """
    mantissa, _, exponent = number.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0"  # also -0, which is the same value
    if len(exponent.lstrip("-+0")) > _LONGEST_EXPONENT:
        return number  # beyond all use: its way of writing counts
    significant = digits.rstrip("0")
    power = int(exponent or 0) - len(fraction) + len(digits) - len(significant)
    if power >= 0 and len(significant) + power <= PLAIN_DIGITS:
        return sign + significant + "0" * power
    return f"{sign}{significant}e{power}"


class Leaf(msgspec.Struct, frozen=True):
    """A key, which stands at the place that it names, or a value that holds no others."""

    place: str
    value: Tree
    is_key: bool = False


def leaves(tree: Tree, place: str = "") -> Iterator[Leaf]:
    """Every key and value of the tree in the order of the definition, a key before what it leads to."""
    waiting: list[tuple[int, Leaf]] = [(0, Leaf(place, tree))]
    while waiting:
        depth, leaf = waiting.pop()
        if leaf.is_key or not isinstance(leaf.value, (list, Object)):
            yield leaf
            continue
        named: Iterable[tuple[str | int, Tree]] = (
            leaf.value.members if isinstance(leaf.value, Object) else enumerate(leaf.value)
        )
        for key, value in reversed(list(named)):
            where = inside(leaf.place, key) if depth < DEEPEST_PLACE else leaf.place
            waiting.append((depth + 1, Leaf(where, value)))
            if isinstance(key, str):
                waiting.append((depth + 1, Leaf(where, key, is_key=True)))
