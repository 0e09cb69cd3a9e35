"""What a model reads in a text and a person doesn't: unseen characters, and text in other clothes. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from ..printable import is_seen, printable

# Unseen characters ------------------------------------------------------------------------------

_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MARKS_OF_DIRECTION: Final = frozenset("\u061c\u200e\u200f")
# The flags of England, Scotland and Wales, which are written with TAG characters.
_FLAGS: Final = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in name) + "\U000e007f"
    for name in ("gbeng", "gbsct", "gbwls")
)
_JOINERS: Final = frozenset("\u200c\u200d")
_RIGHT_TO_LEFT: Final = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]"


def unseen(text: str) -> Iterator[tuple[str, str]]:
    """What is in a text and cannot be seen there, each kind once."""
    if text.isascii() and text.isprintable():
        return
    told = set()
    for start, end in _unseen_runs(text):
        what = _kind_of_unseen(text, start, end)
        if what and what not in told:
            told.add(what)
            yield what, text[max(start - 30, 0) : end + 60]
    if found := re.search(r"[A-Za-z][\u0400-\u04ff]|[\u0400-\u04ff][A-Za-z]", text):
        yield "mixes letters that look alike", text[max(found.start() - 30, 0) : found.end() + 30]


def _unseen_runs(text: str) -> Iterator[tuple[int, int]]:
    start = -1
    for at, character in enumerate(text):
        # Spaces of all sorts show: what follows them stands apart.
        if is_seen(character) or character in "\n\t" or (character > "\x85" and character.isspace()):
            if start >= 0:
                yield start, at
            start = -1
        elif start < 0:
            start = at
    if start >= 0:
        yield start, len(text)


def _kind_of_unseen(text: str, start: int, end: int) -> str:
    """What a run of unseen characters is; empty for those that honest texts have."""
    run, before, after = text[start:end], text[start - 1 : start], text[end : end + 1]
    if "\x1b" in run or "\x9b" in run:
        return "has an ANSI escape in it"
    if any("\U000e0000" <= character <= "\U000e007f" for character in run):
        if before == "\U0001f3f4" and run in _FLAGS:
            return ""
        return "has text in TAG characters, which only a model reads"
    if any(
        "\U000e0100" <= character <= "\U000e01ef" or "\ufe00" <= character <= "\ufe0f" for character in run
    ):
        if len(run.strip("\u200d")) == 1 and before > "\x7f":  # of a symbol or an ideograph
            return ""
        if run == "\ufe0f" and after == "\u20e3":  # a digit on a key
            return ""
        return f"has hidden data in variation selectors{_said_by_selectors(run)}"
    if _BIDI.intersection(run):
        if _MARKS_OF_DIRECTION.issuperset(run) and re.search(_RIGHT_TO_LEFT, text):
            return ""
        return "has characters in it that turn the direction of text"
    if run == "\r":
        return "" if after == "\n" else "has control characters in it"
    if run == "\ufeff" and start == 0:
        return ""
    if len(run) == 1 and run in _JOINERS and before > "\x7f" and after > "\x7f":
        return ""
    if any(character < "\xa0" for character in run):
        return "has control characters in it"
    return "has invisible characters in it"


def _said_by_selectors(run: str) -> str:
    """The text that is hidden in a run of variation selectors, each of which can stand for a byte."""
    said = bytes(
        ord(character) - (0xFE00 if character <= "\ufe0f" else 0xE0100 - 16)
        for character in run
        if "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    )
    text = _text_in(said)
    return f": {printable(text)!r}" if text else ""


# Encoded text -----------------------------------------------------------------------------------

_BASE64: Final = r"[A-Za-z0-9+/_-]{22,}"
_HEX: Final = r"\b(?:0x)?((?:[0-9a-fA-F]{2}){12,})\b"
_ESCAPES: Final = (
    r"(?:\\x[0-9a-fA-F]{2}){6,}|(?:\\u[0-9a-fA-F]{4}){6,}|(?:%[0-9a-fA-F]{2}){8,}"
    r"|(?:&#(?:x[0-9a-fA-F]{2,4}|[0-9]{2,4});){6,}"
)


def encoded(text: str) -> Iterator[tuple[str, str]]:
    """Text that is written so that people don't see what it says, each kind once."""
    if len(text) < 12:
        return
    for kind, pattern, decode in (
        ("base64", _BASE64, _from_base64),
        ("hexadecimal", _HEX, _from_hex),
        ("escapes", _ESCAPES, _from_escapes),
    ):
        for found in re.finditer(pattern, text):
            if said := _text_in(decode(found[0])):
                yield f"has text in {kind}", said
                break


def _from_base64(text: str) -> bytes:
    import binascii

    whole = text if len(text) % 4 != 1 else text[:-1]
    return binascii.a2b_base64(whole.translate(str.maketrans("-_", "+/")) + "=" * (-len(whole) % 4))


def _from_hex(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _from_escapes(text: str) -> bytes:
    if codes := re.findall(r"&#([0-9]+);", text):
        numbers = [int(code) for code in codes]
    else:
        numbers = [int(code, 16) for code in re.findall(r"[0-9a-fA-F]{2,4}", text)]
    # Other alphabets have a reason to be escaped.
    return "".join(map(chr, numbers)).encode("ascii", "replace")


def _text_in(data: bytes) -> str:
    """The text that these bytes are; empty if they are none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    plain = sum(character.isprintable() or character in "\r\n\t" for character in text)
    letters = sum(character.isalpha() or character == " " for character in text)
    return text if len(text) >= 6 and plain == len(text) and letters >= len(text) * 0.6 else ""
