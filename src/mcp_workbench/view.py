"""What a client sees of the servers in open toolboxes under native names, and where each name leads. Pure.

Tools only of the toolboxes whose tools are shown natively; prompts, resources and templates of all.
"""

from collections.abc import Container, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from . import raw_json, uris
from .claims import Claims
from .naming import NativeNames, Origin
from .offers import KINDS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, Kind, Offer, Offers
from .pages import Shelf
from .raw_json import Payload
from .schemas.dialects import PLAIN, Dialect, in_dialect
from .uris import Show


class Native(NamedTuple):
    """Where a native name leads: to a server, and its own name for the thing."""

    origin: Origin
    own: str


_NOTHING: Final[Mapping[str, Offer]] = {}


class View:
    def __init__(
        self,
        tool_names: NativeNames,
        prompt_names: NativeNames,
        claims: Claims,
        unpromising: Container[Origin] = (),
    ) -> None:
        """`unpromising`: servers whose tools are listed without their outputSchema."""
        self.tools: dict[str, Native] = {}
        self.prompts: dict[str, Native] = {}
        self._own_tools: Mapping[str, bytes] = {}
        self._dialect = PLAIN
        self._unpromising = unpromising
        self._tool_names = tool_names
        self._prompt_names = prompt_names
        self._claims = claims
        self._shelves = {kind: Shelf(kind.member) for kind in KINDS}

    def present(self, own_tools: Mapping[str, bytes], dialect: Dialect) -> None:
        """These are the workbench's own tools: always there, and first. The client reads this dialect."""
        self._own_tools = own_tools
        self._dialect = dialect
        self._shelves[TOOLS].put(own_tools)

    def refresh(self, offered: Iterable[tuple[Origin, Offers]], native_tools: Iterable[str]) -> set[str]:
        """See what is offered now; the capabilities of which the client sees something else than before.

        `native_tools` are the toolboxes whose tools are shown.
        """
        shown_boxes = frozenset(native_tools)
        entries: dict[Kind, dict[str, bytes]] = {kind: {} for kind in KINDS}
        entries[TOOLS] |= self._own_tools
        self.tools, self.prompts = {}, {}
        for origin, offers in offered:
            show = partial(self._claims.listed, origin)
            if origin.toolbox in shown_boxes:
                self._name(offers.get(TOOLS), origin, self._tool_names, show, self.tools, entries[TOOLS])
            self._name(offers.get(PROMPTS), origin, self._prompt_names, show, self.prompts, entries[PROMPTS])
            for offer in offers.get(RESOURCES, _NOTHING).values():
                uri = show(offer.name)
                entries[RESOURCES][uri] = _addressed(offer, RESOURCES, uri)
            for offer in offers.get(TEMPLATES, _NOTHING).values():
                template = self._claims.template(origin, offer.name)
                entries[TEMPLATES][template] = _addressed(offer, TEMPLATES, template)
        self._claims.only_listed(entries[RESOURCES])
        return {kind.capability for kind in KINDS if self._shelves[kind].put(entries[kind])}

    def _name(
        self,
        offers: Mapping[str, Offer] | None,
        origin: Origin,
        names: NativeNames,
        show: Show,
        table: dict[str, Native],
        entries: dict[str, bytes],
    ) -> None:
        for offer in (offers or _NOTHING).values():
            name = names.name(*origin, offer.name)
            table[name] = Native(origin, offer.name)
            entries[name] = self._as_listed(_named(offer, name, origin, show), origin)

    def _as_listed(self, definition: bytes, origin: Origin) -> bytes:
        if origin in self._unpromising:
            from .kept_results.shortening import without_promise  # few servers' results are limited

            definition = without_promise(definition)
        return in_dialect(definition, self._dialect)

    def page(self, kind: Kind, cursor: str | None) -> bytes:
        """The result of listing. Raises `BadCursor`."""
        return self._shelves[kind].page(cursor)

    def with_shown_uris(self, origin: Origin, tools: Iterable[Offer]) -> list[Offer]:
        """Tools as their server defines them, but for the URIs of the pages that show their results."""
        show = partial(self._claims.listed, origin)
        return [Offer(tool.name, uris.in_definition(tool.definition, show)) for tool in tools]

    def tools_of(self, toolbox: str) -> list[str]:
        """The native names of a toolbox's tools."""
        return [name for name, native in self.tools.items() if native.origin.toolbox == toolbox]

    def tool(self, name: str) -> Native | None:
        return self.tools.get(name)

    def prompt(self, name: str) -> Native | None:
        return self.prompts.get(name)

    def resource(self, uri: str) -> Native | None:
        """Whose a URI is that a client uses: a resource's, or one made from a template."""
        found = self._claims.origin_of(uri)
        return Native(*found) if found else None

    def as_asked(self, uri: str, native: Native, read: Payload) -> Payload:
        """The result of reading a resource, which is in it under the URI by which it was asked for."""
        shown = self._claims.shown(*native)  # so it is known whose this is that the client has now
        if shown == uri:
            return read
        return uris.in_payload("resources/read", read, lambda it: uri if it == shown else it)


def _named(offer: Offer, name: str, origin: Origin, show: Show) -> bytes:
    """The definition under its native name, its description saying whose it is."""
    theirs = raw_json.members(uris.in_definition(offer.definition, show))
    own = theirs.get("description", b"null")
    ours: dict[str, Payload] = {"name": raw_json.encoded(name), "description": _labelled(own, origin)}
    return raw_json.object_of({**theirs, **ours}.items())


def _labelled(description: Payload, origin: Origin) -> bytes:
    label = origin.label
    # A description is a text; what else there may be has no place behind the label.
    own = bytes(description)
    if own[:1] != b'"' or own == b'""':
        return raw_json.encoded(label)
    return raw_json.encoded(f"{label} ")[:-1] + own[1:]


def _addressed(offer: Offer, kind: Kind, uri: str) -> bytes:
    if uri == offer.name:
        return offer.definition
    return bytes(
        raw_json.with_member(offer.definition, kind.key, lambda _own: raw_json.encoded(uri)),
    )
