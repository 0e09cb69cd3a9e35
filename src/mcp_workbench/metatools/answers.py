"""What the meta-tools answer. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from .. import raw_json, wire
from ..config import Toolbox
from ..offers import Offer
from ..raw_json import Payload
from ..wire import Answer
from .definitions import NO_DESCRIPTION


def text_result(text: str, *, is_error: bool = False) -> Answer:
    ending = b',"isError":true}' if is_error else b"}"
    return wire.result(b'{"content":[{"type":"text","text":%b}]%b' % (raw_json.encoded(text), ending))


class Connected(msgspec.Struct, frozen=True):
    """A server that serves: what it says about itself (JSON, maybe null), and its tools."""

    server: str
    instructions: Payload
    tools: Sequence[Offer]


def opened(toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str]) -> Answer:
    """The answer of `open_toolbox`: compact, in the order of the configuration, then the server's own."""
    tools = [_listed(toolbox.name, it.server, tool) for it in connected for tool in it.tools]
    listed = {"tools": b"[" + b",".join(tools) + b"]"}
    return _opened(toolbox, connected, failures, listed)


def opened_natively(
    toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str], names: Sequence[str]
) -> Answer:
    """The same where the tools are called natively, by these names."""
    listed = {"tools_registered": b"%d" % len(names), "tools": raw_json.encoded(names)}
    return _opened(toolbox, connected, failures, listed)


def _opened(
    toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str], listed: Mapping[str, bytes]
) -> Answer:
    if failures and not connected:
        return text_result("\n".join(failures), is_error=True)
    parts: dict[str, Payload] = {
        "toolbox": raw_json.encoded(toolbox.name),
        "description": raw_json.encoded(toolbox.description or NO_DESCRIPTION),
        "servers_connected": b"%d" % len(connected),
        **listed,
    }
    if instructions := [(it.server, it.instructions) for it in connected if _is_filled(it.instructions)]:
        parts["server_instructions"] = raw_json.object_of(instructions)
    if failures:
        parts["_errors"] = raw_json.encoded(failures)
    return text_result(raw_json.object_of(parts.items()).decode())


def _is_filled(value: Payload) -> bool:
    return bytes(value)[:1] == b'"' and bytes(value) != b'""'


def _listed(toolbox: str, server: str, tool: Offer) -> bytes:
    ours: dict[str, Payload] = {
        "name": raw_json.encoded(tool.name),
        "toolbox_name": raw_json.encoded(toolbox),
        "source_server": raw_json.encoded(server),
    }
    theirs = raw_json.members(tool.definition)
    return raw_json.object_of({**ours, **{name: theirs[name] for name in theirs if name not in ours}}.items())


def closed(toolbox: str, servers: int, tools: int) -> Answer:
    return text_result(
        raw_json.encoded(
            {"toolbox": toolbox, "servers_disconnected": servers, "tools_unregistered": tools}
        ).decode()
    )
