"""Bytes to messages and back: lines, envelopes, splicing. Knows no loop, process or socket.

A message stays bytes. Of each only the envelope is decoded; what is inside passes through as it came.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .raw_json import Payload, Reader, begins_with, encoded

LONGEST_LINE: Final = 16 * 1024 * 1024
# A piece of a line that is smaller is gathered with its neighbours: an object of its own would outweigh it.
_SMALL_PIECE: Final = 4096
_AN_END: Final = 512  # bytes, enough for an id and what stands beside it


class TooLong(bytes):
    """The beginning and the end of a line that was longer than allowed, in its place."""


class Lines:
    """Cuts a stream into lines, in time linear in its bytes whatever the chunks are."""

    def __init__(self, limit: int = LONGEST_LINE) -> None:
        self._limit = limit
        self._begun: list[bytes | bytearray] = []
        self._size = 0

    @property
    def overflow(self) -> bool:
        """Whether the line that has begun is too long already, wherever it may end."""
        return self._size > self._limit

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that this chunk completes, without their ends."""
        # Not split(): it looks at every byte by itself, find() at many at once.
        start, end = 0, chunk.find(b"\n")
        if 0 < end == len(chunk) - 1 <= self._limit and not self._begun:
            return [chunk[:end]]  # one whole line, as almost always
        lines: list[bytes | TooLong] = []
        while end >= 0:
            self._add(chunk[start:end])
            self._finish(lines)
            start = end + 1
            end = chunk.find(b"\n", start)
        self._add(chunk[start:])
        return lines

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        if len(piece) >= _SMALL_PIECE or not self._begun:
            self._begun.append(piece)
        elif isinstance(last := self._begun[-1], bytearray):
            last += piece
        else:
            self._begun.append(bytearray(piece))
        self._size += len(piece)
        if self.overflow:
            self._begun = _both_ends(self._begun)

    def _finish(self, lines: list[bytes | TooLong]) -> None:
        if self._begun:
            line = b"".join(self._begun)
            lines.append(TooLong(line) if self.overflow else line)
            self._begun.clear()
        self._size = 0


def _both_ends(pieces: Sequence[bytes | bytearray]) -> list[bytes | bytearray]:
    first = b"".join(piece[:_AN_END] for piece in pieces)[:_AN_END]
    last = b"".join(piece[-_AN_END:] for piece in pieces)[-_AN_END:]
    return [first, last]


class Envelope(msgspec.Struct, gc=False):
    """The part of a JSON-RPC message that decides where it goes."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What a request is answered with: `member` is "result" or "error", `body` its JSON.

    `frame` is the message that it came in, to be searched without copying what may be large.
    """

    member: str
    body: Payload
    frame: Payload = b""

    @property
    def failed(self) -> bool:
        return self.member == "error"


read_envelope = Reader(Envelope)

# Where peers write the id: most at the beginning, the TypeScript SDK at the end. Compiled when first needed.
_ID: Final = rb'"id"\s*:\s*(-?\d+|"[^"\\]*")\s*'
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_BESIDE: Final = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*'
_ID_FIRST: Final = rb"\s*\{\s*(?:" + _BESIDE + rb",\s*)*" + _ID + b","
_ID_LAST: Final = rb",\s*" + _ID + rb"(?:,\s*" + _BESIDE + rb")*\}\s*\Z"
# Half a frame may end with the id of something else: beside the version it is the frame's own.
_ID_BESIDE_VERSION: Final = rb",\s*(?:%b,\s*%b|%b,\s*%b),?\s*\}\s*\Z" % (_VERSION, _ID, _ID, _VERSION)


def id_of(frame: Payload) -> bytes | None:
    """The id in a frame that is damaged (`NaN`, a comma too many) or too long, where it can still be told."""
    if isinstance(frame, TooLong):
        return _id_at_an_end(frame)
    frame = bytes(frame)
    if b'"id"' not in frame or not begins_with(b"{", frame):
        return None
    try:
        value = json.loads(frame)
    except RecursionError:
        return _id_at_an_end(frame)
    except ValueError:
        found = re.match(_ID_FIRST, frame) or re.search(_ID_BESIDE_VERSION, frame[-_AN_END:])
        return found[found.lastindex or 1] if found else None
    key = value.get("id") if isinstance(value, dict) else None
    return encoded(key) if isinstance(key, int | str) and not isinstance(key, bool) else None


def _id_at_an_end(frame: Payload) -> bytes | None:
    found = re.match(_ID_FIRST, frame) or re.search(_ID_LAST, frame[-_AN_END:])
    return found[1] if found else None


def is_id(value: Payload) -> bool:
    """Whether this JSON may be the id of a request: MCP has strings and numbers only."""
    return bytes(value)[:1] in b'"-0123456789'


def repaired(frame: bytes) -> bytes:
    """The frame itself, or where its UTF-8 is broken, the frame with U+FFFD in those places."""
    if frame.isascii():
        return frame
    try:
        frame.decode()
    except UnicodeDecodeError:
        return frame.decode(errors="replace").encode()
    return frame


def result(body: Payload) -> Answer:
    return Answer("result", body)


def error(code: int, message: str) -> Answer:
    return Answer("error", b'{"code":%d,"message":%b}' % (code, encoded(message)))


def answer_line(request_id: Payload, answer: Answer) -> list[Payload]:
    """One answer as a line, in parts, so that a large body is not copied for it."""
    return [b'{"jsonrpc":"2.0","id":%b,"%b":' % (request_id, answer.member.encode()), answer.body, b"}\n"]


def request_line(request_id: bytes, method: str, params: Sequence[Payload]) -> list[Payload]:
    """One request as a line, in parts; `params` come in parts, too."""
    return [
        b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":' % (request_id, encoded(method)),
        *params,
        b"}\n",
    ]


def notification_line(method: str, params: Payload = b"") -> bytes:
    if not params:
        return b'{"jsonrpc":"2.0","method":%b}\n' % encoded(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (encoded(method), params)
