"""Lists that clients page through: in stable order, additions at the end, with cursors of our own. Pure."""

from collections.abc import Mapping
from typing import Final

# Clients that do not turn pages should still see all of a common list.
MOST_ON_A_PAGE: Final = 500
LARGEST_PAGE: Final = 512 * 1024


class BadCursor(Exception):
    """A cursor that this list never gave."""


class Shelf:
    """One list. Each entry has a number, in the order of their coming; a cursor says up to which is seen.

    Before anybody has seen a page, the order is that of the entries themselves.
    """

    def __init__(self, member: str) -> None:
        self._member = member
        self._entries: dict[str, bytes] = {}
        self._numbers: dict[str, int] = {}
        self._last_number = 0
        self._is_seen = False

    def put(self, entries: Mapping[str, bytes]) -> bool:
        """Have these, and only these, on the shelf; whether that changed anything a client sees."""
        changed = entries != self._entries
        if not changed and self._is_seen:
            return False
        seen = self._entries if self._is_seen else ()
        kept = {key: entries[key] for key in seen if key in entries}
        self._entries = {**kept, **entries}
        numbers = {key: self._numbers[key] for key in kept}
        for key in self._entries:
            if key not in numbers:
                self._last_number += 1
                numbers[key] = self._last_number
        self._numbers = numbers
        return changed

    def page(self, cursor: str | None) -> bytes:
        """The result of listing. Raises `BadCursor`."""
        self._is_seen = True
        seen = 0 if cursor is None else self._read(cursor)
        page: list[bytes] = []
        size = 0
        for key, entry in self._entries.items():
            number = self._numbers[key]
            if number <= seen:
                continue
            size += len(entry)
            if page and (len(page) == MOST_ON_A_PAGE or size > LARGEST_PAGE):
                return self._result(page, b',"nextCursor":"%b"' % self._cursor(number - 1).encode())
            page.append(entry)
        return self._result(page, b"")

    def _result(self, page: list[bytes], ending: bytes) -> bytes:
        return b'{"%b":[%b]%b}' % (self._member.encode(), b",".join(page), ending)

    def _cursor(self, number: int) -> str:
        # The number first: a cursor that lost its end is none.
        return f"{number}:{self._member}".encode().hex()

    def _read(self, cursor: str) -> int:
        try:
            number, _, member = bytes.fromhex(cursor).decode().partition(":")
            seen = int(number)
        except ValueError:
            raise BadCursor from None
        if self._cursor(seen) != cursor or member != self._member or not 0 < seen <= self._last_number:
            raise BadCursor
        return seen
