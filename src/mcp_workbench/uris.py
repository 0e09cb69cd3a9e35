"""URIs of resources in what servers say: how one is marked with whose it is, and where they stand. Pure.

A marked URI is `workbench://{toolbox}/{server}/` with the server's own behind it, unchanged: so templates
stay templates. What stands in a payload is rewritten only where it must be; all else passes as it came.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from . import raw_json
from .naming import Origin
from .raw_json import Malformed, Payload

SCHEME: Final = "workbench://"

# What must be written with an escape, or may be.
_ESCAPABLE: Final = r"[^A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]"
_ESCAPE: Final = r"%([0-9A-Fa-f]{2})?"
_RESERVED: Final = ":/?#[]@!$&'()*+,;="

Show = Callable[[str], str]


def path_of(origin: Origin) -> str:
    """Both names as one text that no other two names make."""
    from urllib.parse import quote  # only where it matters whose something is

    return f"{quote(origin.toolbox, safe='')}/{quote(origin.server, safe='')}"


def marked(origin: Origin, uri: str) -> str:
    return f"{SCHEME}{path_of(origin)}/{uri}"


def unmarked(uri: str) -> tuple[Origin, str] | None:
    """Whose a marked URI is, and its own form; None if it is not marked."""
    if not uri.startswith(SCHEME):
        return None
    from urllib.parse import unquote

    toolbox, _, rest = uri[len(SCHEME) :].partition("/")
    server, slash, own = rest.partition("/")
    return (Origin(unquote(toolbox), unquote(server)), own) if slash else None


def normal(uri: str) -> str:
    """The one form of all that differ only in what is escaped (RFC 3986, 6.2.2): SDKs write any of these."""
    if not re.search(_ESCAPABLE, uri):
        return uri
    from urllib.parse import quote  # hardly any has escapes

    return quote(re.sub(_ESCAPE, _escape, uri), safe=f"{_RESERVED}%", errors="surrogatepass")


def _escape(found: re.Match[str]) -> str:
    if not found[1]:
        return "%25"
    character = chr(int(found[1], 16))
    # Whether a reserved one is escaped matters.
    plain = character.isascii() and (character.isalnum() or character in "-._~")
    return character if plain else found[0].upper()


# Where URIs stand ---------------------------------------------------------------------------------

_KEYS: Final = (b'"uri"', b'resourceUri"')
_KEYS_BEHIND_QUOTE: Final = (b'uri"', b'resourceUri"', b'ui/resourceUri"')
_SMALL: Final = 4096
_FEW: Final = 200


def may_stand_in(message: bytes) -> bool:
    """Whether anything of a message is to be looked at."""
    if len(message) > _SMALL:
        # An image or a long text has few quotes, and one byte is found twenty times as fast as five are.
        at = 0
        for _ in range(_FEW):
            at = message.find(b'"', at) + 1
            if not at:
                return False
            if message.startswith(_KEYS_BEHIND_QUOTE, at):
                return True
    return _KEYS[0] in message or _KEYS[1] in message


def in_payload(method: str, payload: Payload, show: Show) -> Payload:
    """What is said in or in answer to `method`, with the URIs in it as a client is to see them."""
    rewrite = _IN.get(method)
    return _where_possible(rewrite)(payload, show) if rewrite else payload


def in_definition(definition: bytes, show: Show) -> bytes:
    """The definition of a tool, with the page that shows its results."""
    return bytes(_where_possible(_in_meta)(definition, show)) if _KEYS[1] in definition else definition


Rewrite = Callable[[Payload, Show], Payload]


def _where_possible(rewrite: Rewrite) -> Rewrite:
    """A part that is not of the shape in which a URI would be found stays as it is, and hinders no other."""

    def rewritten(part: Payload, show: Show) -> Payload:
        try:
            return rewrite(part, show)
        except (Malformed, RecursionError):
            return part

    return rewritten


def _at(key: str, rewrite: Rewrite) -> Rewrite:
    """Rewrites one member of an object."""
    inner = _where_possible(rewrite)
    return lambda frame, show: raw_json.with_member(frame, key, lambda part: inner(part, show))


def _each(rewrite: Rewrite) -> Rewrite:
    """Rewrites all elements of an array."""
    inner = _where_possible(rewrite)
    return lambda frame, show: raw_json.with_elements(frame, lambda part: inner(part, show))


def _uri(value: Payload, show: Show) -> Payload:
    own = raw_json.text_or_none(value)
    if own is None:
        return value
    shown = show(own)
    return value if shown == own else raw_json.encoded(shown)


_in_ui: Final = _at("ui", _at("resourceUri", _uri))
_in_early_ui: Final = _at("ui/resourceUri", _uri)  # as the first drafts of MCP Apps have it
_in_meta: Final = _at("_meta", lambda meta, show: _in_early_ui(_in_ui(meta, show), show))
_in_link: Final = _at("uri", _uri)
_in_embedded: Final = _at("resource", _in_link)


def _by_type(rewrites: Mapping[str, Rewrite]) -> Rewrite:
    """Rewrites a block of one of these types."""

    def rewritten(block: Payload, show: Show) -> Payload:
        kind = raw_json.text_or_none(raw_json.members(block).get("type", b"null"))
        rewrite = rewrites.get(kind or "")
        return rewrite(block, show) if rewrite else block

    return rewritten


def _in_blocks(of: Rewrite) -> Rewrite:
    """The content of a result or message: a block, or a list of blocks."""
    in_each, in_one = _each(of), _where_possible(of)
    return lambda content, show: (in_each if bytes(content)[:1] == b"[" else in_one)(content, show)


_RESOURCES: Final = {"resource_link": _in_link, "resource": _in_embedded}
_in_tool_result: Final = _at("content", _in_blocks(_by_type(_RESOURCES)))  # has no such results within
_in_content: Final = _at("content", _in_blocks(_by_type({**_RESOURCES, "tool_result": _in_tool_result})))
_in_messages: Final = _at("messages", _each(_in_content))

_IN: Final[dict[str, Rewrite]] = {
    "tools/call": lambda result, show: _in_meta(_in_content(result, show), show),
    "prompts/get": _in_messages,
    "resources/read": _at("contents", _each(_in_link)),
    "sampling/createMessage": _in_messages,
}
