"""When two definitions are the same, whatever way they are written: one hash for each. Pure.

The order of keys, white space, escapes and the way of writing a number make no difference; everything else
does. The order of an array counts, also that of `required` and `enum`: models read them in their order.
"""

import json
from operator import itemgetter
from typing import Final

import msgspec

from .. import raw_json
from ..hashing import sha256
from ..raw_json import Malformed
from .tree import PLAIN_DIGITS, Number, Object, Tree, one_way, parsed

# So that those who keep hashes can tell what they are, and another kind can be told from them.
PREFIX: Final = "sha256:"


def definition_hash(definition: bytes) -> str:
    """The hash of the whole of a definition, whatever is in it: `sha256:` and 64 digits.

    One that has a key twice is like no other, since which of the two counts is for its reader to choose.
    What is no JSON is hashed as it stands.
    """
    return PREFIX + sha256(canonical(definition))


def canonical(definition: bytes) -> bytes:
    """The definition as all definitions of its meaning are written; itself where it is no JSON."""
    try:
        return _canonical_if_plain(definition)
    except (ValueError, RecursionError):
        pass  # doubled keys, half a surrogate pair, a deep nesting: nobody means any of them
    if len(definition) > _LONGEST_ODD:
        return definition
    try:
        return written(parsed(definition))
    except Malformed:
        return definition


# The slow way reads a megabyte in a second, and all servers wait meanwhile.
_LONGEST_ODD: Final = 1 << 16


def _canonical_if_plain(definition: bytes) -> bytes:
    """The same, 20 times as quick."""
    return _encode(_decode(definition.decode()))


class _NotPlain(ValueError):
    """Here is what a plain decoder would lose."""


def _once(members: list[tuple[str, object]]) -> dict[str, object]:
    by_key = dict(members)
    if len(by_key) < len(members):
        raise _NotPlain
    return by_key


def _integer(digits: str) -> int | msgspec.Raw:
    return int(digits) if len(digits) <= PLAIN_DIGITS else _number(digits)


def _number(text: str) -> msgspec.Raw:
    return msgspec.Raw(one_way(text).encode())


def _constant(_: str) -> None:
    raise _NotPlain  # NaN is no JSON


_decode = json.JSONDecoder(
    object_pairs_hook=_once, parse_int=_integer, parse_float=_number, parse_constant=_constant
).decode
_encode = msgspec.json.Encoder(order="sorted").encode

_WORDS: Final = {None: b"null", True: b"true", False: b"false"}
_key_of = itemgetter(0)


def written(tree: Tree) -> bytes:
    """The tree as JSON, its keys sorted; doubled ones stay, in the order in which they stood."""
    out: list[bytes] = []
    waiting: list[Tree | bytes] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, bytes):
            out.append(node)
        elif isinstance(node, str):
            out.append(raw_json.encoded(node))
        elif isinstance(node, Number):
            out.append(one_way(node.text).encode())
        elif isinstance(node, Object):
            waiting.append(b"}")
            for at, (key, value) in reversed(list(enumerate(sorted(node.members, key=_key_of)))):
                waiting.append(value)
                waiting.append((b"," if at else b"") + raw_json.encoded(key) + b":")
            waiting.append(b"{")
        elif isinstance(node, list):
            waiting.append(b"]")
            for at, value in reversed(list(enumerate(node))):
                waiting.append(value)
                if at:
                    waiting.append(b",")
            waiting.append(b"[")
        else:
            out.append(_WORDS[node])
    return b"".join(out)
