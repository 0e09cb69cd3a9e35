"""A server's words as they may stand in a line of ours: short, without what can't be seen. Pure."""

import json
import re
from typing import Final

from .printable import is_seen

# How an emoji asks to be shown; alone it says nothing.
_PRESENTATION: Final = str.maketrans("", "", "\ufe0e\ufe0f")

LONGEST_SENTENCE: Final = 160
# Nobody finds out by more than this where the first sentence of a text ends.
_MOST_READ: Final = 4_000

_WIDE: Final = "\u2e80"  # the first of the characters of Chinese

_HEADING: Final = r"#{1,6}\s|[^\w\s]{3,}$"
_BULLET: Final = r"[-*+•]\s+|\d{1,2}[.)]\s+"
# What begins the description of something other than the tool itself.
_SECTION: Final = r"(?i:args|arguments|parameters|params|returns?|examples?|usage|notes?|raises)\s*:\s*$"
_END: Final = r"[。！？]|[.!?]+[\"')\]*]*(?=\s|$)"
_FULL_STOP: Final = r"(?:(?<!\.)\.|。)$"
_ABBREVIATION: Final = (
    r"(?i)(?:^|[\s(\[])(?:e\.\s?g|i\.\s?e|etc|vs|cf|approx|incl|no|nr|fig|dr|mr|mrs|st|ca|resp|[a-z])\.$"
)


def visible(text: str) -> str:
    """The text with each character that can't be seen, or acts on what shows it, as JSON escapes it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if is_seen(character) else json.dumps(character)[1:-1].replace("\x7f", "\\u007f")
        for character in text
    )


def quoted(text: str) -> str:
    """The text as JSON, which nothing in it can end, and nothing in it can hide from."""
    return visible(json.dumps(text, ensure_ascii=False))


def name(text: str) -> str:
    """A name as it stands; as JSON where a reader could not tell where it ends, or what is in it."""
    if re.fullmatch(r"[^\s\"'`()\[\]{},…—]+", text) and visible(text) == text:
        return text
    return quoted(text)


def first_sentence(description: str, longest: int = LONGEST_SENTENCE) -> str:
    """What a description says first, on one line of at most `longest` characters, without its full stop."""
    told = _first_paragraph(description.lstrip()[:_MOST_READ])
    sentence = " ".join(told[: _end(told)].translate(_PRESENTATION).replace("**", "").split())
    return shortened(re.sub(_FULL_STOP, "", visible(sentence)), longest)


def shortened(text: str, longest: int) -> str:
    """The text where it is not too long, else what there is room for, up to the end of a word.

    Chinese characters and their like count as two: they say twice as much, and cost it.
    """
    if _width(text) <= longest:
        return text
    end = longest - 3
    while _width(text[:end]) > longest - 3:
        end -= 1 + (_width(text[:end]) - longest + 3) // 2
    # Not every language has spaces between words: a cut that loses half of the text is none.
    at = text.rfind(" ", 0, end + 1)
    return text[: at if at > end // 2 else end].rstrip(" ,;:-—(，、") + "..."


def _width(text: str) -> int:
    return len(text) if text.isascii() else len(text) + sum(character >= _WIDE for character in text)


def _first_paragraph(text: str) -> str:
    """Its lines as one; a heading only where nothing else is there."""
    heading, told = "", list[str]()
    for line in map(str.strip, text.splitlines()):
        section = re.match(_SECTION, line)
        if told and (not line or section or re.match(_BULLET, line)):
            break
        if section:
            continue
        if re.match(_HEADING, line):
            if told:
                break
            heading = heading or line.strip("#=-*~_ ")
        elif line:
            told.append(line if told else re.sub(rf"^(?:{_BULLET})", "", line))
    return " ".join(told) or heading


def _end(text: str) -> int:
    for found in re.finditer(_END, text):
        follows = text[found.end() :].lstrip()[:1]
        if found[0] in "。！？" or not (
            follows.islower() or (follows and re.search(_ABBREVIATION, text[: found.end()][-12:]))
        ):
            return found.end()
    return len(text)
