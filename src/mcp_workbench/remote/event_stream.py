"""Server-sent events, cut out of their stream as it comes. Knows no loop and no socket."""

from typing import Final

import msgspec

from ..wire import LONGEST_LINE

_MOST_DIGITS: Final = 9


class Event(msgspec.Struct, frozen=True):
    kind: str
    data: bytes


class Overflow(msgspec.Struct, frozen=True):
    """Stands in the place of an event that is longer than allowed. Nothing comes after it."""


class EventStream:
    """Cuts one stream into events, in time linear in its bytes whatever the chunks are."""

    def __init__(self, limit: int = LONGEST_LINE) -> None:
        self.last_id: bytes | None = None  # of the last whole event that had one
        self.retry: float | None = None  # the seconds to wait before the stream is asked for again
        self._limit = limit
        self.begin_anew()

    def begin_anew(self) -> None:
        """What comes now is the beginning of another stream that goes on with this one."""
        self._line = bytearray()  # the one that has begun
        self._ended_with_cr = False
        self._begun = False
        self._overflow = False
        self._clear()

    def _clear(self) -> None:
        self._size = 0  # of the lines of this event
        self._kind = "message"
        self._data = bytearray()
        self._id = self.last_id

    def feed(self, chunk: bytes) -> list[Event | Overflow]:
        """The events that this chunk completes; those without data are none, but their ids count."""
        events: list[Event | Overflow] = []
        if not chunk or self._overflow:
            return events
        if self._ended_with_cr and chunk[0] == ord("\n"):
            chunk = chunk[1:]
            self._ended_with_cr = False
            if not chunk:
                return events
        self._ended_with_cr = chunk[-1] == ord("\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        start, end = 0, chunk.find(b"\n")
        while end >= 0 and not self._overflow:
            self._line += memoryview(chunk)[start:end]
            self._take(events)
            start = end + 1
            end = chunk.find(b"\n", start)
        self._line += memoryview(chunk)[start:]
        self._look(events)
        return events

    def _look(self, events: list[Event | Overflow]) -> None:
        """Give up what has become too long: its end may never come."""
        if not self._overflow and self._size + len(self._line) > self._limit:
            self._overflow = True
            events.append(Overflow())
        if self._overflow:
            self._line.clear()
            self._data.clear()

    def _take(self, events: list[Event | Overflow]) -> None:
        """Take in one whole line."""
        self._look(events)
        if self._overflow:
            return
        line = bytes(self._line)
        self._line.clear()
        if not self._begun:
            self._begun = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self.last_id = self._id
            if self._data:
                events.append(Event(self._kind, bytes(memoryview(self._data)[:-1])))
            self._clear()
        elif not line.startswith(b":"):
            self._size += len(line)
            self._take_field(*line.partition(b":")[::2])

    def _take_field(self, name: bytes, value: bytes) -> None:
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data += value
            self._data += b"\n"
        elif name == b"event":
            self._kind = value.decode(errors="replace") or "message"
        elif name == b"id":
            if b"\0" not in value:
                self._id = value
        elif name == b"retry" and value.isdigit():
            self.retry = int(value[:_MOST_DIGITS]) / 1000
