"""What the meta-tools answer. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from .. import raw_json, wire
from ..config import Toolbox
from ..config_file import Detail
from ..naming import Origin
from ..offers import Offer
from ..raw_json import Payload
from ..wire import Answer
from .definitions import NO_DESCRIPTION
from .forms import Calls, listing, names_text, signatures_text


def text_result(text: str, *, is_error: bool = False) -> Answer:
    ending = b',"isError":true}' if is_error else b"}"
    return wire.result(b'{"content":[{"type":"text","text":%b}]%b' % (raw_json.encoded(text), ending))


class Connected(msgspec.Struct, frozen=True):
    """What is told of a server: what it says about itself (JSON, maybe null), and its tools.

    Where it does not serve yet, they are those of the last time.
    """

    server: str
    instructions: Payload
    tools: Sequence[Offer]
    serves: bool = True


def told(
    form: Detail, toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str], ways_on: Calls
) -> str:
    """The answer of `open_toolbox` in one of its forms."""
    if form == "full":
        return opened(toolbox, connected, failures)
    served = [(it.server, it.instructions, it.tools) for it in connected]
    write = {"signatures": signatures_text, "names": names_text}[form]
    return write(toolbox.name, served, failures, ways_on)


def opened(toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str]) -> str:
    """The answer of `open_toolbox`: compact, in the order of the configuration, then the server's own."""
    tools = [listing(Origin(toolbox.name, it.server), tool) for it in connected for tool in it.tools]
    return _opened(toolbox, connected, failures, {"tools": b"[" + b",".join(tools) + b"]"})


def opened_natively(
    toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str], names: Sequence[str]
) -> str:
    """The same where the tools are called natively, by these names."""
    listed = {"tools_registered": b"%d" % len(names), "tools": raw_json.encoded(names)}
    return _opened(toolbox, connected, failures, listed)


def _opened(
    toolbox: Toolbox, connected: Sequence[Connected], failures: Sequence[str], listed: Mapping[str, bytes]
) -> str:
    parts: dict[str, Payload] = {
        "toolbox": raw_json.encoded(toolbox.name),
        "description": raw_json.encoded(toolbox.description or NO_DESCRIPTION),
        "servers_connected": b"%d" % sum(it.serves for it in connected),
        **listed,
    }
    if instructions := [(it.server, it.instructions) for it in connected if _is_filled(it.instructions)]:
        parts["server_instructions"] = raw_json.object_of(instructions)
    if failures:
        parts["_errors"] = raw_json.encoded(failures)
    return raw_json.object_of(parts.items()).decode()


def _is_filled(value: Payload) -> bool:
    return bytes(value)[:1] == b'"' and bytes(value) != b'""'


def closed(toolbox: str, servers: int, tools: int) -> Answer:
    return text_result(
        raw_json.encoded(
            {"toolbox": toolbox, "servers_disconnected": servers, "tools_unregistered": tools}
        ).decode()
    )
