"""Words of names and texts in any language, and what is left of them once their endings are cut. Pure."""

import re
import unicodedata
from typing import Final

# Scripts that are written without spaces, and Korean, whose words carry their particles.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_RUNS: Final = re.compile(rf"[A-Za-z]+|[0-9]+|[{_UNSPACED}]+|[^\W_A-Za-z0-9{_UNSPACED}]+")
_PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_FIRST_UNSPACED: Final = "\u0e00"
_IS_UNSPACED: Final = re.compile(rf"[{_UNSPACED}]")
_VOICING: Final = "\u3099\u309a"  # marks that make another letter in Japanese

# What stands in any request, and says nothing about which tool is meant.
_COMMON: Final = (
    "a an and are as at be been but by can could do does for from has have how i if in into is it its me my"
    " need no not of on or our please should so such that the their them then there these they this to up us"
    " use used using want was we were what when where which who will with would you your"
)
COMMON: Final = frozenset(_COMMON.split())

# A name or a description is read no further: some are whole manuals.
_LONGEST_TEXT: Final = 8_000


def words(text: str) -> list[str]:
    """The words of a text or a name in lower case. `readFile` is three: read, file, readfile.

    Accents are dropped. Where a script has no spaces, every two neighbouring characters are a word.
    """
    found: list[str] = []
    for run in _RUNS.findall(_without_accents(text[:_LONGEST_TEXT])):
        if run.islower() or run.isdigit():
            found.append(run)
        elif run[0] >= _FIRST_UNSPACED and _IS_UNSPACED.match(run):
            found += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
        elif run.isascii() and not run.isupper() and not run.istitle():
            found += [part.lower() for part in _PARTS.findall(run)]
            found.append(run.lower())
        else:
            found.append(run.lower())
    return found


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text)
    kept = "".join(c for c in apart if c in _VOICING or unicodedata.category(c)[0] != "M")
    return unicodedata.normalize("NFC", kept)


_stems: dict[str, str] = {}
_MOST_STEMS: Final = 50_000


def stems(found: list[str]) -> list[str]:
    """The stems of words, without those that are common."""
    return [_stems.get(word) or _remembered(word) for word in found if word not in COMMON]


def _remembered(word: str) -> str:
    if len(_stems) >= _MOST_STEMS:
        _stems.clear()
    return _stems.setdefault(word, stem(word))


_UNCHANGED: Final = frozenset({"news"})
_VOWEL: Final = re.compile("[aeiouy]")
_SHORT_WITHOUT_E: Final = re.compile("[^aeiouy][aeiouy][^aeiouwxy]")
_ENDINGS: Final = ("ion", "ment", "er", "or", "ly", "e")


def stem(word: str) -> str:
    """What the forms of an English word have in common; other words as they are."""
    if len(word) < 4 or not word.isascii() or word.isdigit() or word in _UNCHANGED:
        return word
    return _without_ending(_without_tense(_singular(word)))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_tense(word: str) -> str:
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest) and not word.endswith("eed"):
            if len(rest) == 3:
                return rest + "e" if _SHORT_WITHOUT_E.fullmatch(rest) else rest
            doubled = rest[-1] == rest[-2] and rest[-1] not in "lsz"
            return rest[:-1] if doubled else rest
    return word


def _without_ending(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word


# Where one wish ends and the next begins.
_SEAMS: Final = re.compile(r"[,;:+\n、，。；]+|[.!?](?=\s|$)|\b(?:and|or|then|vs)\b", re.IGNORECASE)


def wishes(query: str, most: int) -> list[str]:
    """The parts of a query that asks for several things; none where it asks for one."""
    parts = [part.strip() for part in _SEAMS.split(query)]
    found = [part for part in parts if len(part.split()) >= 2]
    return found[:most] if len(found) > 1 else []
