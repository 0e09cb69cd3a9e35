"""Whether what a server says is a complaint about the arguments of a call. Pure.

SDKs and validators have their own words for it, and tools that check by themselves have others. Words alone
are not enough where ordinary failures use them too ("login required", "expected 200, got 404", "Invalid
argument" from an operating system): there they count only beside the name of a parameter.
"""

import re
from collections.abc import Iterable
from typing import Final

_KINDS: Final = (
    r"(?:str(?:ing)?|num(?:ber)?|int(?:eger)?|float|bool(?:ean)?|array|list|object|dict(?:ionary)?|record"
    r"|map|null|undefined|nonoptional|date|enum)"
)
_PARAMETER: Final = r"(?:arg(?:ument)?s?|param(?:eter)?s?|propert(?:y|ies))\b"
_WHICH: Final = r"(?:required|mandatory|invalid|positional|keyword|keyword-only|input|tool|query)"

_OF_ARGUMENTS: Final = "|".join(
    (
        # SDKs
        r"-32602",
        r"\b(?:input|argument|parameter|params|schema) validation\b",
        r"validation errors? for (?:call\[|\w*(?:arguments|params|input)\b)",
        r"validating \"arguments\"",
        r"deserializ\w+ (?:\w+ )?(?:arg|param)",
        r"arguments were (?:expected|passed|not)",
        # Any of them, or a tool that checks by itself
        r"invalid (?:(?:tool|input|request|function|method|query) )?(?:arguments|param(?:eter)?s?\b)",
        r"(?<!einval: )(?<!errno 22\] )invalid argument(?: for\b|: )",
        rf"\bmissing (?:(?:\d+|a|the|values?|for|of|or|one|{_WHICH}) ){{0,6}}{_PARAMETER}",
        rf"\b(?:unexpected|unknown|unrecognized|unsupported|additional) (?:{_WHICH} )?{_PARAMETER}",
        rf"\brequired {_PARAMETER}",
        rf"{_PARAMETER}(?: \S+)? (?:is|are) (?:required|mandatory)\b|{_PARAMETER} (?:is|are) missing\b",
        r"unrecognized key|(?:missing|unknown) keywords?: ?:",
        # Validators
        r"is not of type|is not valid under any of the given schemas",
        r"must (?:not )?have (?:required|additional) propert",
        rf"expected (?:an? )?{_KINDS},? (?:but )?(?:got|received|found)\b",
        rf"\b{_KINDS} found, {_KINDS} expected",
        rf"must be (?:of type )?(?:an? )?{_KINDS}\b",
        r"is missing but it is required|missing properties:",
        r"\"code\":\s*\"(?:invalid_\w+|unrecognized_keys|too_small|too_big)\"",
        # What is parsed from text, such as another server's answer, has a line
        r"(?:missing|unknown) field `[^`]*`(?! at line)",
        r"invalid type: [^\n]{1,80}?, expected (?![^\n]{1,80} at line)",
    )
)

# These are -32602 or validation, too.
_OF_SOMETHING_ELSE: Final = (
    r"unknown tool|no such tool|\btool \S+ (?:was |is )?(?:not found|disabled|not available)"
    r"|\btool \S+ does not exist|output validation|tool output|structured ?content|output ?schema"
)

_MOST_NAMES: Final = 100


def is_of_arguments(said: str, parameters: Iterable[str]) -> bool:
    """Whether this complains about arguments; `parameters` are the names of those that the tool takes."""
    if is_of_something_else(said):
        return False
    if re.search(_OF_ARGUMENTS, said, re.IGNORECASE):
        return True
    names = "|".join(re.escape(name) for name in [*parameters][:_MOST_NAMES] if name)
    return bool(names and re.search(_of_one(names), said, re.IGNORECASE))


def is_of_something_else(said: str) -> bool:
    """Whether this is about the tool itself, or what it made."""
    return bool(re.search(_OF_SOMETHING_ELSE, said, re.IGNORECASE))


def _of_one(names: str) -> str:
    """How a parameter is spoken of that was not given, or not as it should be."""
    return (
        rf"(?<!\w)(?:{names})['\"`\]]{{0,2}}(?: field)?(?: is| are| must be|:) (?:a )?(?:required|mandatory)"
        rf"|\b(?:missing|provide|specify|requires?|required)(?::? ['\"`]|: )(?:{names})\b"
        rf"|validation errors? for \w+\s(?:{names})\b"
    )
