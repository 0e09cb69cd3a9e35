"""What looks wrong in a definition or in a server's instructions, for a person to look at. Pure, and offline.

It decides nothing: what withholds a tool is its hash. So it is made to stay silent on honest tools.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from ..printable import printable
from ..raw_json import Malformed
from .hidden import encoded, unseen
from .tree import Object, leaves, parsed
from .wording import suspicious, suspicious_key

_LONGEST_TEXT: Final = 8_000
_LONGEST_NAME: Final = 128
_LONGEST_DEFINITION: Final = 100_000
_LONGEST_EXCERPT: Final = 160
_MOST_FINDINGS: Final = 50

_TAGS: Final = "[\U000e0000-\U000e007f]+"


class Finding(msgspec.Struct, frozen=True):
    """One thing to look at: its place in the definition, what it is, and the text, made visible."""

    place: str
    what: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}: {self.excerpt}" if self.place else f"{self.what}: {self.excerpt}"


def visible(text: str) -> str:
    """The text as a person may see it: nothing invisible in it, and nothing that acts on a terminal.

    TAG characters, which models read and people don't, are shown as what they say.
    """
    return printable(text if text.isascii() else re.sub(_TAGS, lambda found: _untagged(found[0]), text))


def _untagged(tags: str) -> str:
    return f"⟨TAG: {_said_by_tags(tags)}⟩"


def _said_by_tags(tags: str) -> str:
    said = "".join(chr(ord(tag) - 0xE0000) for tag in tags)
    return "".join(character if character.isprintable() else "?" for character in said)


def findings(
    definition: bytes,
    own_server: str,
    other_servers: Collection[str],
    *,
    other_tools: Collection[str] = (),
    place: str = "",
) -> list[Finding]:
    """What looks wrong anywhere in a definition, in the order of it.

    `other_servers` and `other_tools` are names that this server has no reason to mention, none of them its
    own. A server's instructions are looked at in the same way, as the JSON text that they are, at the `place`
    "instructions".
    """
    found: dict[tuple[str, str], Finding] = {}
    if len(definition) > _LONGEST_DEFINITION:
        found["", ""] = Finding(place, "is very long", f"{len(definition):,} bytes")
    for where, what, excerpt in _found(
        definition, own_server, frozenset(other_servers), frozenset(other_tools), place
    ):
        found.setdefault((where, what), Finding(printable(where), what, _excerpt(excerpt)))
        if len(found) >= _MOST_FINDINGS:
            break
    return list(found.values())


def _excerpt(text: str) -> str:
    shown = visible(text[:_LONGEST_EXCERPT]).replace("\n", " ").replace("\t", " ")
    return shown + "…" if len(text) > _LONGEST_EXCERPT else shown


def _found(
    definition: bytes, own_server: str, servers: frozenset[str], tools: frozenset[str], place: str
) -> Iterator[tuple[str, str, str]]:
    try:
        tree = parsed(definition)
    except Malformed:
        tree = definition.decode(errors="replace")
    if isinstance(tree, Object):
        tools -= {value for key, value in tree.members if key == "name" and isinstance(value, str)}
    clean: set[tuple[str, bool]] = set()
    for leaf in leaves(tree, place):
        text = leaf.value
        if not isinstance(text, str) or (text, leaf.is_key) in clean:
            continue
        found = [
            *_too_long(text, is_name=leaf.is_key or leaf.place == "name"),
            *unseen(text),
            *(suspicious_key(text) if leaf.is_key else suspicious(text)),
            *encoded(text),
            *_mentioned(text, servers - {own_server}, tools),
        ]
        if not found:
            clean.add((text, leaf.is_key))
        for what, excerpt in found:
            yield leaf.place, what, excerpt


def _too_long(text: str, *, is_name: bool) -> Iterator[tuple[str, str]]:
    if len(text) > (_LONGEST_NAME if is_name else _LONGEST_TEXT):
        yield "is very long", f"{len(text):,} characters"
    if found := re.search(r"[ \t\u00a0\u3000]{100}|(?:[ \t\r]{0,20}\n){12}", text):
        yield "has a gap that pushes text out of sight", text[found.end() :].lstrip()


# Others -----------------------------------------------------------------------------------------

_WORD: Final = r"[^\W_](?:[\w-]{0,126}[^\W_])?"


def _mentioned(text: str, servers: Collection[str], tools: Collection[str]) -> Iterator[tuple[str, str]]:
    """The names of other servers and their tools that a text mentions, each kind once."""
    for names, kind, is_meant in ((servers, "server", _is_server), (tools, "tool", _is_distinctive)):
        for found in re.finditer(_WORD, text):
            if found[0] in names and is_meant(text, found):
                yield (
                    f"mentions another {kind}, '{printable(found[0])}'",
                    text[max(found.start() - 40, 0) : found.end() + 40],
                )
                break


def _is_server(text: str, found: re.Match[str]) -> bool:
    """Whether a word is meant as a server's name: many servers are named with common words."""
    if _is_distinctive(text, found):
        return True
    around = text[max(found.start() - 24, 0) : found.start()], text[found.end() : found.end() + 16]
    return bool(
        re.match(r"['\"`]?\W(?:mcp|server's|server['\"`]?s? tools?)\b", around[1], re.IGNORECASE)
        or re.search(r"\b(?:mcp|mcp server|instead of(?: the)?)\W{1,2}\Z", around[0], re.IGNORECASE)
    )


def _is_distinctive(text: str, found: re.Match[str]) -> bool:
    """Whether a word can only be the name of something."""
    name = found[0]
    return len(name) >= 6 and ("_" in name or bool(re.search(r"[a-z][A-Z]|\w-\w", name)))
