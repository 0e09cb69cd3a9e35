"""URIs of resources, as a client sees them: a server's own while it leads back to it, else marked. Pure.

A marked URI is `workbench://{toolbox}/{server}/` with the server's own behind it, unchanged: so templates
stay templates. What stands in a payload is rewritten only where it must be; all else passes as it came.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from . import raw_json
from .naming import Origin
from .raw_json import Malformed, Payload

SCHEME: Final = "workbench://"

# URIs that a server shows without listing them, in results: so many are remembered, further ones are marked.
MOST_UNLISTED: Final = 10_000
# Each is tried for a URI that nobody has shown yet.
MOST_TEMPLATES: Final = 2_000

_VARIABLE: Final = r"\{[^{}]*\}"

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


class Claims:
    """Which server each URI belongs to that clients see in its own form: who showed it first.

    What nobody has shown yet belongs to the server whose template fits.
    """

    def __init__(self) -> None:
        self._owners: dict[str, Origin] = {}
        self._templates: dict[str, Origin] = {}
        self._listed: frozenset[str] = frozenset()
        self._unlisted: Counter[Origin] = Counter()

    def shown(self, origin: Origin, uri: str) -> str:
        """The form in which a client is to see this URI of a server's, wherever it stands."""
        return self._shown(origin, uri, listed=False)

    def listed(self, origin: Origin, uri: str) -> str:
        """The same in a list, or in a definition that is listed."""
        return self._shown(origin, uri, listed=True)

    def _shown(self, origin: Origin, uri: str, *, listed: bool) -> str:
        owner = self._owners.get(uri)
        if owner == origin:
            return uri
        # A workbench behind this one marks its URIs too: ours must stand in front of these.
        if owner or uri.startswith(SCHEME):
            return marked(origin, uri)
        if not listed:
            maker = self._made_by(uri)
            if (maker and maker != origin) or self._unlisted[origin] >= MOST_UNLISTED:
                return marked(origin, uri)
            self._unlisted[origin] += 1
        self._owners[uri] = origin
        return uri

    def template(self, origin: Origin, template: str) -> str:
        """The form in which a client is to see a template: its own if nothing can be made from it that
        could be made from another server's.
        """
        owner = self._templates.get(template)
        if owner == origin:
            return template
        if owner or template.startswith(SCHEME) or len(self._templates) >= MOST_TEMPLATES:
            return marked(origin, template)
        if any(other != origin and _may_overlap(template, own) for own, other in self._templates.items()):
            return marked(origin, template)
        self._templates[template] = origin
        return template

    def only_listed(self, uris: Iterable[str]) -> None:
        """These are the URIs that are listed now. Of earlier lists clients may have others still."""
        listed = frozenset(uris)
        for uri in self._listed - listed:
            if owner := self._owners.get(uri):
                if self._unlisted[owner] < MOST_UNLISTED:
                    self._unlisted[owner] += 1
                else:
                    del self._owners[uri]
        self._listed = listed

    def origin_of(self, uri: str) -> tuple[Origin, str] | None:
        """Whose URI or template this is, and its own form of it; None if no server showed it."""
        if found := unmarked(uri):
            return found
        owner = self._owners.get(uri) or self._templates.get(uri) or self._made_by(uri)
        return (owner, uri) if owner else None

    def _made_by(self, uri: str) -> Origin | None:
        """Whose template a URI was made from, if it was."""
        return next((origin for template, origin in self._templates.items() if fits(template, uri)), None)

    def release(self, toolbox: str) -> None:
        """Forget what the servers of a toolbox have shown."""
        for shown in (self._owners, self._templates):
            for uri in [uri for uri, origin in shown.items() if origin.toolbox == toolbox]:
                del shown[uri]
        for origin in [origin for origin in self._unlisted if origin.toolbox == toolbox]:
            del self._unlisted[origin]


def fits(template: str, uri: str) -> bool:
    """Whether a URI may have come from a template (RFC 6570); its variables may stand for anything."""
    first, *between = _literals(template)
    if not between:
        return template == uri
    last = between.pop()
    at, end = len(first), len(uri) - len(last)
    if at > end or not uri.startswith(first) or not uri.endswith(last):
        return False
    for part in between:  # each at its first place: so there is most room for those behind it
        at = uri.find(part, at, end) + len(part)
        if at < len(part):
            return False
    return True


@functools.lru_cache(MOST_TEMPLATES)
def _literals(template: str) -> tuple[str, ...]:
    """What stands before, between and behind its variables."""
    return tuple(re.split(_VARIABLE, template))


def _may_overlap(one: str, other: str) -> bool:
    """Whether something could be made from both templates, going by how they begin."""
    begins, other_begins = _literals(one)[0], _literals(other)[0]
    return begins.startswith(other_begins) or other_begins.startswith(begins)


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
