"""What a server offers, as it lists it: tools, prompts, resources and their templates. Pure.

Pages are drained, and what is invalid is left out and named.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from . import raw_json
from .raw_json import Malformed, Payload

MOST_OFFERS: Final = 10_000
MOST_PAGES: Final = 1_000
MOST_NAMED: Final = 100


class Kind(msgspec.Struct, frozen=True, eq=False):
    """One kind of offers: where it is listed, and what tells one from another."""

    noun: str
    method: str
    member: str
    key: str
    capability: str


TOOLS: Final = Kind("tool", "tools/list", "tools", "name", "tools")
PROMPTS: Final = Kind("prompt", "prompts/list", "prompts", "name", "prompts")
RESOURCES: Final = Kind("resource", "resources/list", "resources", "uri", "resources")
TEMPLATES: Final = Kind(
    "resource template", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources"
)
KINDS: Final = (TOOLS, PROMPTS, RESOURCES, TEMPLATES)


def list_changed(capability: str) -> str:
    """The notification that what is listed under a capability is something else now."""
    return f"notifications/{capability}/list_changed"


# By the notification that they are others now.
CHANGED: Final = {
    list_changed(capability): tuple(kind for kind in KINDS if kind.capability == capability)
    for capability in ("tools", "prompts", "resources")
}


class Offer(msgspec.Struct, frozen=True):
    """One tool, say: its name, and its whole definition as the server's own bytes, without white space."""

    name: str
    definition: bytes


Offers = Mapping[Kind, Mapping[str, Offer]]


class _SchemaHead(msgspec.Struct):
    type: Raw | UnsetType = UNSET


_read_schema_head = raw_json.Reader(_SchemaHead)


class Listing:
    """What the pages of one kind that were read so far amount to."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.offers: dict[str, Offer] = {}
        self.invalid = 0  # definitions that are left out
        self._named: list[str] = []  # the first of them
        self._cut = ""  # why what follows is not read
        self.failure = ""  # why nothing could be listed
        self._cursors: set[str] = set()

    def take(self, page: Payload) -> str | None:
        """Take in one page; the cursor of the next one, if there is one to be asked for."""
        read = raw_json.members(page)
        if self.kind.member not in read:
            raise Malformed(f"{self.kind.method} was answered without `{self.kind.member}`")
        for definition in raw_json.elements(read[self.kind.member]):
            if len(self.offers) >= MOST_OFFERS:
                self._cut = f"it lists more than {MOST_OFFERS} {self.kind.noun}s; the rest is left out"
                return None
            self._add(definition)
        # "" is a cursor like any other; only a missing one ends the list.
        cursor = raw_json.text_or_none(read.get("nextCursor", b"null"))
        if cursor is None:
            return None
        if cursor in self._cursors or len(self._cursors) >= MOST_PAGES:
            self._cut = f"its list of {self.kind.noun}s does not end; what was read until there is used"
            return None
        self._cursors.add(cursor)
        return cursor

    def _add(self, definition: Raw) -> None:
        try:
            name = _name_of(definition, self.kind)
            offer = Offer(name, compact(definition))
            if self.offers.setdefault(name, offer) != offer:
                raise Malformed(f"the {self.kind.key} is listed twice, with different definitions")
        except Malformed as why:
            self.invalid += 1
            if self.invalid <= MOST_NAMED:
                label = _label(definition, self.kind)
                told = f"{self.kind.noun} {label} is left out, its definition is invalid: {why}"
                self._named.append(told)

    @property
    def left_out(self) -> list[str]:
        """What is not among the offers, with the names that the server gave."""
        # Who reads this pays for each line of it.
        more = self.invalid > len(self._named)
        rest = f"more of its {self.kind.noun}s are left out, their definitions are invalid"
        return [*self._named, *([rest] if more else []), *([self._cut] if self._cut else [])]

    @property
    def left_out_unnamed(self) -> list[str]:
        """The same without a word of the server's."""
        told = f"{self.invalid} of its {self.kind.noun}s are left out, their definitions are invalid"
        return [*([told] if self.invalid else []), *([self._cut] if self._cut else [])]


def _name_of(definition: Raw, kind: Kind) -> str:
    members = raw_json.members(definition)
    if kind.key not in members:
        raise Malformed(f"{kind.key} is missing")
    name = raw_json.text_or_none(members[kind.key])
    if not name:
        raise Malformed(f"{kind.key} is empty")
    try:
        name.encode()
    except UnicodeEncodeError:  # msgspec reads no such name, so nobody could ask for it
        raise Malformed(f"{kind.key} has a lone surrogate in it") from None
    if kind is TOOLS:
        _check_schema(members.get("inputSchema"))
    return name


def _check_schema(schema: Payload | None) -> None:
    if schema is None:
        raise Malformed("inputSchema is missing")
    head = _read_schema_head(schema)
    if head.type is UNSET or bytes(head.type) != b'"object"':
        raise Malformed('the type of inputSchema is not "object"')


def _label(definition: Raw, kind: Kind) -> str:
    """The tool's own name where it has one, else the beginning of what stands in its place."""
    try:
        name = raw_json.members(definition).get(kind.key)
    except Malformed:
        name = None
    text = bytes(definition if name is None else name).decode(errors="replace")
    return (text if len(text) <= 80 else text[:80] + "…").replace('"', "'")


def compact(definition: Payload) -> bytes:
    """The same JSON without white space between its tokens."""
    try:
        return msgspec.json.format(bytes(definition), indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return bytes(definition)


class _Annotated(msgspec.Struct):
    annotations: Raw | UnsetType = UNSET


class _Annotations(msgspec.Struct):
    readOnlyHint: Raw | UnsetType = UNSET  # noqa: N815


_read_annotated = raw_json.Reader(_Annotated)
_read_annotations = raw_json.Reader(_Annotations)


def says_read_only(tool: Offer) -> bool:
    """Whether its server says that a tool changes nothing."""
    try:
        annotations = _read_annotated(tool.definition).annotations
        if annotations is UNSET:
            return False
        hint = _read_annotations(annotations).readOnlyHint
    except Malformed:
        return False
    return hint is not UNSET and bytes(hint) == b"true"
