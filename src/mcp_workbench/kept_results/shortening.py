"""A result that is too large for an agent, made shorter: what is cut, and what stands there then. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

from .. import raw_json
from ..config_file import LEAST_RESULT_TOKENS
from ..raw_json import Malformed, Payload

SCHEME: Final = "workbench-result://"

# About so many bytes of text, or of JSON, make a token.
BYTES_PER_TOKEN: Final = 4
# What the words and the link that stand for something left out may take.
_WORDS: Final = 640
_LEAST_SHOWN: Final = 240
# Of what is shown of a text, so much is its beginning.
_HEAD: Final = 2 / 3


def oversized(result: Payload, max_tokens: int) -> "Oversized | None":
    """What is to be kept of a tool's result whose text is too large; None if it may pass as it is.

    Only text counts, and structuredContent: images and sound stay.
    """
    limit = max(max_tokens, LEAST_RESULT_TOKENS) * BYTES_PER_TOKEN
    if len(result) <= limit:
        return None
    try:
        found = Oversized(result, limit)
    except (Malformed, RecursionError):
        return None
    return found if found.size > limit else None


def without_promise(definition: bytes) -> bytes:
    """The definition of a tool without its outputSchema.

    Clients refuse a result without the structuredContent that it promises; what is too large has none.
    """
    if b'"outputSchema"' not in definition:
        return definition
    parts = raw_json.members(definition)
    return raw_json.object_of((name, part) for name, part in parts.items() if name != "outputSchema")


class _Text:
    """A text of a result: the numbers of its blocks, what it says, and whether a resource has it."""

    __slots__ = ("data", "embedded", "places")

    def __init__(self, places: list[int], data: bytes, embedded: bool = False) -> None:
        self.places = places
        self.data = data
        self.embedded = embedded


class Oversized:
    """A result that is too large. `texts` are to be kept, each under a handle of its own."""

    def __init__(self, result: Payload, limit: int) -> None:
        self._parts = raw_json.members(result)
        self._blocks: list[Payload] = [*raw_json.elements(self._parts.get("content", b"[]"))]
        found = [text for place, block in enumerate(self._blocks) if (text := _text_of(place, block))]
        structured = bytes(self._parts.get("structuredContent", b"null"))
        self._structured = b"" if structured == b"null" else structured
        self.size = sum(len(text.data) for text in found) + len(self._structured)
        self._is_said_twice = any(_says_the_same(text.data, self._structured) for text in found)
        keeps_structured = bool(self._structured) and not self._is_said_twice
        self._cut, self._level = _to_be_cut(found, limit - (_WORDS if self._structured else 0))
        self.texts: tuple[bytes, ...] = (
            *(text.data for text in self._cut),
            *((self._structured,) if keeps_structured else ()),
        )

    def shortened(self, handles: Sequence[str], name: str, reader: str, *, links: bool = True) -> bytes:
        """The result with what it has room for; `handles` are those of `texts`, in their order.

        What cannot be cut stays as it came. `reader` is the name of the tool that reads the rest; `links`:
        there are also links to it, which clients of early revisions cannot read.
        """
        blocks: dict[int, Payload] = dict(enumerate(self._blocks))
        for text, handle in zip(self._cut, handles, strict=False):
            first, *others = text.places
            shown = _shown(text.data, self._level - _WORDS, handle, reader)
            blocks[first] = _with_text(blocks[first], shown, embedded=text.embedded)
            for place in others:
                del blocks[place]
        kept = zip(handles, self.texts, strict=True) if links else ()
        added = [_link(handle, data, name) for handle, data in kept]
        if self._structured:
            added.insert(0, self._instead_of_structured(handles, reader))
        parts = {name: part for name, part in self._parts.items() if name != "structuredContent"}
        parts["content"] = b"[" + b",".join([*blocks.values(), *added]) + b"]"
        return raw_json.object_of(parts.items())

    def _instead_of_structured(self, handles: Sequence[str], reader: str) -> bytes:
        where = "it says the same as the text"
        if not self._is_said_twice:
            where = f'{reader} {{"handle": "{handles[-1]}"}} reads it'
        said = f"[structuredContent is left out: {where}]"
        return raw_json.encoded({"type": "text", "text": said})


class _Block(msgspec.Struct):
    type: msgspec.Raw
    text: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    resource: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_read_block = raw_json.Reader(_Block)


def _text_of(place: int, block: Payload) -> _Text | None:
    try:
        read = _read_block(block)
        if bytes(read.type) == b'"text"' and read.text is not msgspec.UNSET:
            return _Text([place], _written(read.text))
        if bytes(read.type) == b'"resource"' and read.resource is not msgspec.UNSET:
            text = raw_json.members(read.resource).get("text")
            return _Text([place], _written(text), embedded=True) if text else None
    except Malformed:
        pass
    return None


def _written(text: Payload) -> bytes:
    # A file has no lone surrogates.
    return (raw_json.text_or_none(text) or "").encode(errors="replace")


def _with_text(block: Payload, text: bytes, *, embedded: bool) -> Payload:
    def changed(frame: Payload) -> Payload:
        return raw_json.with_member(frame, "text", lambda _: raw_json.encoded(text.decode()))

    return raw_json.with_member(block, "resource", changed) if embedded else changed(block)


def _says_the_same(text: bytes, structured: bytes) -> bool:
    """Whether a text is the JSON of structuredContent, or all that stands in it under one name."""
    # Whatever the spaces and escapes: to read both takes time.
    if not structured or not 1 / 4 < len(text) / len(structured) < 4:
        return False
    try:
        value = msgspec.json.decode(structured)
        alone = [*value.values()] if isinstance(value, dict) and len(value) == 1 else []
        if alone == [text.decode()]:
            return True
        if text[:1] not in b"{[":
            return False
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return bool(value == said or alone == [said])


def _to_be_cut(texts: list[_Text], room: int) -> tuple[list[_Text], int]:
    """The texts that are longer than each may be so that all have room, and how long that is."""
    sizes = sorted((len(text.data) for text in texts), reverse=True)
    left, level = room, 0
    for number, size in enumerate(reversed(sizes)):
        level = left // (len(sizes) - number)
        if size > level:
            break
        left -= size
    else:
        return [], 0
    if level >= _WORDS + _LEAST_SHOWN:
        return [text for text in texts if len(text.data) > level], level
    # Too many to show something of each: they are one text.
    first = next((text for text in texts if not text.embedded), texts[0])
    places = [text.places[0] for text in texts if text is not first]
    joined = b"\n".join(text.data for text in texts)
    return [_Text([first.places[0], *places], joined, first.embedded)], max(room, _WORDS + _LEAST_SHOWN)


def _shown(data: bytes, room: int, handle: str, reader: str) -> bytes:
    """The beginning and the end of a text, and between them how the rest is read."""
    head, tail = _beginning(data, int(room * _HEAD)), _ending(data, room - int(room * _HEAD))
    left_out = data[len(head) : len(data) - len(tail)]
    line = head.count(b"\n") + 1
    start = head.rpartition(b"\n")[2].decode()
    lines = f"{line}+{len(start)}" if start else f"{line}-"
    count = left_out.count(b"\n") + (not left_out.endswith(b"\n"))
    notice = (
        f"\n[… {count:,} lines, {len(left_out.decode()):,} characters left out. "
        f'{reader} {{"handle": "{handle}", "lines": "{lines}"}} reads on; '
        'with "grep" or "jq" instead of "lines" it searches the whole]\n'
    )
    return (head.removesuffix(b"\n") + notice.encode() + tail) if left_out else data


def _beginning(data: bytes, most: int) -> bytes:
    """The beginning of a text, up to the end of a line where one is near."""
    line_end = data.rfind(b"\n", most // 2, most) + 1
    if line_end:
        return data[:line_end]
    while most and data[most] & 0xC0 == 0x80:  # within a character
        most -= 1
    return data[:most]


def _ending(data: bytes, most: int) -> bytes:
    start = max(0, len(data) - most)
    line_start = data.find(b"\n", start, start + most // 2) + 1
    if line_start:
        return data[line_start:]
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def _link(handle: str, data: bytes, name: str) -> bytes:
    return raw_json.encoded(
        {
            "type": "resource_link",
            "uri": SCHEME + handle,
            "name": name[:60],
            "mimeType": media_type(data),
            "size": len(data),
        }
    )


def media_type(data: bytes) -> str:
    """What a text is, to who is to read it."""
    try:
        if data[:1] in (b"{", b"[") and msgspec.json.decode(data, type=msgspec.Raw):
            return "application/json"
    except (msgspec.DecodeError, RecursionError):
        pass
    return "text/plain"
