"""The parts of a text that `read_result` answers with. Pure."""

import re
from typing import Any, Final

import msgspec

from ..config_file import LEAST_RESULT_TOKENS
from ..errors import InvalidParameters
from .shortening import BYTES_PER_TOKEN

# What is said behind a part about the rest.
_NOTE: Final = 200
_END: Final = 10**12
_LINES: Final = re.compile(
    r"(?:(?P<first>[0-9]{1,9})(?:\+(?P<offset>[0-9]{1,9})|(?P<to>-)(?P<last>[0-9]{1,9})?)?|-(?P<end>[0-9]{1,9}))"
)


class Span(msgspec.Struct, frozen=True):
    """Lines, counted from 1; the first may begin at a character. `from_end`: so many, the last ones."""

    first: int = 1
    last: int = _END
    offset: int = 0
    from_end: int = 0

    def within(self, count: int) -> "Span":
        """The same in a text of so many lines."""
        first = max(1, count - self.from_end + 1) if self.from_end else max(1, self.first)
        return Span(first, min(self.last, count), self.offset)


def span_of(lines: str | None) -> Span:
    if lines is None:
        return Span()
    found = _LINES.fullmatch(lines.strip())
    if not found:
        raise InvalidParameters(f'lines: expected "10-40", "10-", "-20" or "10+500", received "{lines[:40]}"')
    if found["end"]:
        return Span(from_end=max(1, int(found["end"])))
    first = int(found["first"])
    if found["offset"]:
        return Span(first, offset=int(found["offset"]))
    if found["to"]:
        return Span(first, int(found["last"] or _END))
    return Span(first, first)


def room(max_tokens: int) -> int:
    """How many bytes an answer may have."""
    return max(max_tokens, LEAST_RESULT_TOKENS) * BYTES_PER_TOKEN


def count_of_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))


def lines_of(data: bytes, span: Span, max_tokens: int) -> str:
    """Some lines as they are, as many as an answer has room for, and how to go on."""
    lines = data.split(b"\n")
    count = count_of_lines(data)
    span = span.within(count)
    if span.first > count:
        return f"[there are only {count:,} lines]"
    left, offset = room(max_tokens) - _NOTE, span.offset
    shown: list[str] = []
    for number in range(span.first, span.last + 1):
        text = lines[number - 1].decode(errors="replace")[offset:]
        size = len(text.encode()) + 1
        if size > left:
            if shown:
                return _with_note(shown, f'line {number - 1:,} of {count:,}; "lines": "{number}-" goes on')
            part = text.encode()[: left - 1].decode(errors="ignore")
            at = f"{number}+{offset + len(part)}"
            return _with_note([part], f'within line {number:,} of {count:,}; "lines": "{at}" goes on')
        shown.append(text)
        left, offset = left - size, 0
    return _with_note(shown, f"line {span.last:,} of {count:,}")


def _with_note(rows: list[str], note: str) -> str:
    return "\n".join([*rows, f"[{note}]"])


def answer_of(found: dict[str, Any], *, asked: str) -> str:
    """What a search found, in words; `asked` is "grep" or "jq"."""
    if "error" in found:
        raise InvalidParameters(str(found["error"]))
    rows = [str(row) for row in found["found"]]
    if not found["next"]:
        return "\n".join(rows) if rows else "[nothing found]"
    if asked == "grep":
        return _with_note(rows, f'there may be more; "lines": "{found["next"]}" with this grep goes on')
    return _with_note(rows, "there is more: ask for less, as with .[0:10], keys or select()")
