"""A server's refusal of arguments, with the schema that an agent has not seen put beside it. Pure.

Agents that were told of tools in signatures or names alone get to know the schema when they need it.
"""

import re
from typing import Final

import msgspec

from .. import raw_json
from ..offers import Offer
from ..raw_json import Malformed, Payload
from ..wire import Answer

# How servers say that it was the arguments: SDKs answer with an error, or with a result that is one.
_OF_ARGUMENTS: Final = (
    r"(?i)-32602|validation|invalid (?:arg|param|input|type|value)"
    r"|(?:missing|unexpected|unknown|unrecognized|additional) (?:\w+ ){0,2}(?:arg|param|propert|field|key)"
    r"|required|is not of type|expected \w+,? (?:but )?(?:got|received)"
)
_MOST_READ: Final = 4_000


class _Refusal(msgspec.Struct):
    isError: bool = False  # noqa: N815
    content: list[msgspec.Raw] = []


_read_refusal = raw_json.Reader(_Refusal)


def with_schema(answer: Answer, tool: Offer) -> Answer:
    """The answer; where it refuses the arguments of a call, with the tool's input schema beside it."""
    try:
        if answer.failed:
            return _error_with_schema(answer, tool)
        if b'"isError"' not in bytes(answer.body):
            return answer
        refusal = _read_refusal(answer.body)
        if not (refusal.isError and _speaks_of_arguments(refusal.content)):
            return answer
        block = raw_json.encoded({"type": "text", "text": _schema_text(tool)})
        content = b"[" + b",".join([*refusal.content, block]) + b"]"
        return Answer("result", raw_json.with_member(answer.body, "content", lambda _: content))
    except Malformed:
        return answer


def _error_with_schema(answer: Answer, tool: Offer) -> Answer:
    parts = raw_json.members(answer.body)
    if bytes(parts.get("code", b"")) != b"%d" % raw_json.INVALID_PARAMS:
        return answer
    message = raw_json.text_or_none(parts.get("message", b"null")) or ""
    told = raw_json.encoded(f"{message}\n{_schema_text(tool)}")
    return Answer("error", raw_json.object_of({**parts, "message": told}.items()))


def _speaks_of_arguments(content: list[msgspec.Raw]) -> bool:
    return any(re.search(_OF_ARGUMENTS, text) for block in content if (text := _text_of(block)))


def _text_of(block: Payload) -> str:
    try:
        return (raw_json.text_or_none(raw_json.members(block).get("text", b"null")) or "")[:_MOST_READ]
    except Malformed:
        return ""


def _schema_text(tool: Offer) -> str:
    schema = raw_json.members(tool.definition).get("inputSchema", b"{}")
    return f"Input schema of {tool.name}: {bytes(schema).decode(errors='replace')}"
