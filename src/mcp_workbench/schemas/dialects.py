"""What some clients cannot read in a tool's inputSchema, and the form in which they get it. Pure.

Unknown clients get what the server wrote. Where something is lost, the description of the schema says so.
"""

from typing import Final

import msgspec

from .. import raw_json
from ..raw_json import Malformed, Payload
from . import rewriting


class Dialect(msgspec.Struct, frozen=True):
    """What a client needs: nothing of anyOf and its like at the root of a schema, and no `$ref`.

    `hides_instructions`: it does not show its models what a server says of itself, or only the beginning.
    """

    plain_root: bool = False
    no_refs: bool = False
    hides_instructions: bool = False


PLAIN: Final = Dialect()

# By the beginning of `clientInfo.name`, in lower case. The names: apify/mcp-client-capabilities, and what
# is said below. A client is here only if a report says what it does with such a schema.
_CLIENTS: Final = {
    # Drops the tool: anthropics/claude-code#95504; the API refuses every request with it:
    # anthropics/claude-code#5973. A `$ref` as root: mikeyobrien/ralph-orchestrator#351.
    "claude-code": Dialect(plain_root=True),
    # Claude Desktop and claude.ai: the API refuses every request with it, marianfoo/mcp-sap-docs#51.
    "claude-ai": Dialect(plain_root=True, hides_instructions=True),
    # Root: the API refuses, imagekit-developer/imagekit-nodejs#150, or properties beside it are lost,
    # openai/codex#42283. A parameter with a `$ref` is shown as text: openai/codex#3152.
    "codex-mcp-client": Dialect(plain_root=True, no_refs=True, hides_instructions=True),
    # Named with the server behind it in some versions. "type and anyOf cannot be both populated":
    # google-gemini/gemini-cli#4121. "reference to undefined schema": google-gemini/gemini-cli#13326.
    "gemini-cli-mcp-client": Dialect(plain_root=True, no_refs=True),
    # Root: redhat-et/ripwire#48. `$ref` with Gemini: anomalyco/opencode#12295.
    "opencode": Dialect(plain_root=True, no_refs=True),
    # `$defs` get lost on the way to the model: PrefectHQ/fastmcp#2808, microsoft/vscode#286415.
    "visual studio code": Dialect(no_refs=True),
    "visual-studio-code": Dialect(no_refs=True),
    # Parameters with a `$ref` are not filled in: github/copilot-cli#1876. The name: github/copilot-cli#1268.
    "github-copilot-developer": Dialect(no_refs=True),
    # Tools with a `$ref` are not shown: zed-industries/zed#60162.
    "zed": Dialect(no_refs=True, hides_instructions=True),
    "cursor": Dialect(hides_instructions=True),
}


def dialect_of(client_name: str) -> Dialect:
    """The dialect of the client that calls itself so in `clientInfo`."""
    name = client_name.lower()
    return next((dialect for known, dialect in _CLIENTS.items() if name.startswith(known)), PLAIN)


def in_dialect(definition: bytes, dialect: Dialect) -> bytes:
    """A tool's definition as a client of this dialect can read it; itself where nothing is in the way.

    Only its inputSchema is ever changed.
    """
    if dialect == PLAIN:
        return definition
    try:
        return bytes(raw_json.with_member(definition, "inputSchema", lambda it: _schema_in(it, dialect)))
    except (Malformed, RecursionError):
        return definition


def _schema_in(schema: Payload, dialect: Dialect) -> Payload:
    try:
        root = msgspec.json.decode(schema)
        if not isinstance(root, dict):
            return schema
        changed = rewriting.plain(root, flat=dialect.plain_root, no_refs=dialect.no_refs)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return schema
    return schema if changed is root else raw_json.encoded(changed)
