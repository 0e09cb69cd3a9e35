"""Text that is safe to show: nothing in it acts on what shows it, and nothing hides. Pure."""

# Those are printable in Python's eyes, and nobody sees them: fillers, joiners, blanks, selectors of variants.
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)


def is_seen(character: str) -> bool:
    """Whether a character shows as itself where it is printed, and acts on nothing else."""
    return character.isprintable() and character not in _UNSEEN


def printable(text: str) -> str:
    """The text with control, bidi and invisible characters escaped.

    A server's words must not act on a terminal, nor hide from those who read them there.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if is_seen(character) or character in "\n\t" or _is_emoji(text[at - 1 : at], character)
        # Nothing of an escape can run into what follows.
        else f"\\u{ord(character):04x}"
        if character <= "\uffff"
        else f"\\U{ord(character):08x}"
        for at, character in enumerate(text)
    )


def _is_emoji(before: str, character: str) -> bool:
    """Whether this is the selector that makes the symbol before it a coloured one: ⚠️."""
    return character == "\ufe0f" and (
        "\u2190" <= before <= "\u2bff" or "\U0001f000" <= before <= "\U0001faff"
    )
