"""A server's refusal of arguments, with the schema that an agent has not seen put beside it. Pure.

Agents that were told of tools in signatures or names alone get to know the schema when they need it.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from .. import raw_json
from ..offers import Offer
from ..raw_json import Malformed, Payload
from ..schemas.mending import mender_of
from ..schemas.misfits import breaks
from ..wire import Answer
from .complaints import is_of_arguments, is_of_something_else

_MOST_READ: Final = 4_000
_MOST_BLOCKS: Final = 10


class _Refusal(msgspec.Struct):
    isError: bool = False  # noqa: N815
    content: list[msgspec.Raw] = []


_read_refusal = raw_json.Reader(_Refusal)


def with_schema(answer: Answer, tool: Offer, arguments: Payload) -> Answer:
    """The answer; where it refuses these arguments, as the agent gave them, with the input schema beside it.

    A failure counts as a refusal where its words say so, and where the arguments break the schema: some
    servers say no more than that something went wrong.
    """
    try:
        return (
            _error_with_schema(answer, tool, arguments) if answer.failed else _result(answer, tool, arguments)
        )
    except Malformed:
        return answer


def _result(answer: Answer, tool: Offer, arguments: Payload) -> Answer:
    if b'"isError"' not in bytes(answer.body):
        return answer
    refusal = _read_refusal(answer.body)
    if not refusal.isError or not _is_refused(map(_text_of, refusal.content[:_MOST_BLOCKS]), tool, arguments):
        return answer
    block = raw_json.encoded({"type": "text", "text": _schema_text(tool)})
    content = b"[" + b",".join([*refusal.content, block]) + b"]"
    parts = {**raw_json.members(answer.body), "content": content}
    return Answer("result", raw_json.object_of(parts.items()))


def _error_with_schema(answer: Answer, tool: Offer, arguments: Payload) -> Answer:
    parts = raw_json.members(answer.body)
    message = raw_json.text_or_none(parts.get("message", b"null")) or ""
    if bytes(parts.get("code", b"")) == b"%d" % raw_json.INVALID_PARAMS:
        refused = not is_of_something_else(message)
    else:
        said = (message[:_MOST_READ], _beginning(parts.get("data", b"null")))
        refused = _is_refused(said, tool, arguments)
    if not refused:
        return answer
    told = raw_json.encoded(f"{message}\n{_schema_text(tool)}")
    return Answer("error", raw_json.object_of({**parts, "message": told}.items()))


def _is_refused(said: Iterable[str], tool: Offer, arguments: Payload) -> bool:
    told = "\n".join(said)
    schema = _schema(tool)
    if is_of_arguments(told, _parameters(schema)):
        return True
    return not is_of_something_else(told) and breaks(mender_of(tool.definition).mended(arguments), schema)


def _text_of(block: Payload) -> str:
    try:
        return _beginning(raw_json.members(block).get("text", b"null"))
    except Malformed:
        return ""


def _beginning(value: Payload) -> str:
    """The beginning of a text, or of the JSON of what is none."""
    try:
        return (raw_json.text_or_none(value) or "")[:_MOST_READ]
    except Malformed:
        return bytes(value)[:_MOST_READ].decode(errors="replace")


def _schema(tool: Offer) -> Payload:
    return raw_json.members(tool.definition).get("inputSchema", b"{}")


def _parameters(schema: Payload) -> Iterable[str]:
    try:
        return raw_json.members(raw_json.members(schema).get("properties", b"{}"))
    except Malformed:
        return ()


def _schema_text(tool: Offer) -> str:
    return f"Input schema of {tool.name}: {bytes(_schema(tool)).decode(errors='replace')}"
