"""The revisions of MCP that are spoken, and the handshake in each. Pure: messages in, messages out."""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from . import __version__, chains, raw_json, wire
from .chains import Ring
from .raw_json import Malformed, Payload
from .upwards import ASKED
from .wire import Answer

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST: Final = REVISIONS[-1]


class Greeting(msgspec.Struct, frozen=True):
    """What a client is told when it greets us; `tools_change`: whether its list of tools may."""

    instructions: str
    tools_change: bool


class Declared(msgspec.Struct, frozen=True):
    """What a client said of itself when it greeted us, and which workbenches lead to this one."""

    chain: str
    revision: str = LATEST
    capabilities: dict[str, Raw] = {}
    client: str = ""  # the name of the program


class Hello(msgspec.Struct, frozen=True):
    """What a server said of itself when it was greeted."""

    protocolVersion: str  # noqa: N815
    capabilities: dict[str, Raw] = {}
    instructions: Raw = Raw(b"null")


class _Asked(msgspec.Struct):
    protocolVersion: str | UnsetType = UNSET  # noqa: N815
    capabilities: dict[str, Raw] = {}
    clientInfo: Raw | UnsetType = UNSET  # noqa: N815
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


_read_asked = raw_json.Reader(_Asked)
_read_hello = raw_json.Reader(Hello)


def _offered(*, tools_change: bool) -> dict[str, object]:
    """The capabilities that are declared to a client."""
    return {
        "tools": {"listChanged": True} if tools_change else {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "logging": {},
    }


def greeted(params: Payload, greeting: Greeting, chain: str) -> tuple[Answer, Declared | None]:
    """What a client's `initialize` is answered with, and what it declared, unless it is refused."""
    try:
        asked = _read_asked(params)
        chain = chains.as_the_client_knows(chain, asked.meta)
    except Malformed as why:
        return wire.error(raw_json.INVALID_PARAMS, f"Invalid initialize: {why}"), None
    except Ring as ring:
        return wire.error(raw_json.INVALID_REQUEST, str(ring)), None
    known = isinstance(asked.protocolVersion, str) and asked.protocolVersion in REVISIONS
    revision = str(asked.protocolVersion) if known else LATEST
    body = {
        "protocolVersion": revision,
        "capabilities": _offered(tools_change=greeting.tools_change),
        "serverInfo": {"name": "mcp-workbench", "title": "MCP Workbench", "version": __version__},
        "instructions": greeting.instructions,
    }
    declared = Declared(chain, revision, asked.capabilities, _name_in(asked.clientInfo))
    return wire.result(raw_json.encoded(body)), declared


def _name_in(info: Raw | UnsetType) -> str:
    try:
        return raw_json.text_or_none(raw_json.members_if_any(info).get("name", b"null")) or ""
    except Malformed:
        return ""  # no reason not to be served


def initialize_params(client: Declared) -> bytes:
    """What a server is greeted with: it may use what the client can do and is relayed, and no more."""
    lent = {name: value for name, value in client.capabilities.items() if name in ASKED.values()}
    return raw_json.object_of(
        {
            "protocolVersion": raw_json.encoded(client.revision),
            "capabilities": raw_json.object_of(lent.items()),
            "clientInfo": raw_json.encoded({"name": "mcp-workbench", "version": __version__}),
            "_meta": raw_json.encoded({chains.META: client.chain}),
        }.items()
    )


def read_hello(hello: Payload) -> Hello:
    """How a server answered `initialize`; `Malformed` where it can't be spoken with."""
    told = _read_hello(hello)
    if told.protocolVersion not in REVISIONS:
        raise Malformed(
            f"it speaks MCP revision {told.protocolVersion!r}; known here are {', '.join(REVISIONS)}"
        )
    return told
