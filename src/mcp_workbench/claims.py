"""Whose each URI is that a client sees in its server's own form: who showed it first. Pure.

What belongs to a server stays its own when its toolbox closes: a client may have it still, and it must not
lead elsewhere.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from .naming import Origin
from .templates import Templates
from .uris import SCHEME, marked, normal, unmarked

# URIs that a server shows without listing them, in results: so many are remembered, further ones are marked.
# So many are remembered, too, of each server in a toolbox that was closed, the newest.
MOST_UNLISTED: Final = 10_000
# Those of open toolboxes: further ones are marked. Of closed toolboxes as many are remembered.
MOST_TEMPLATES: Final = 2_000


class Claims:
    """Which server each URI belongs to that clients see in its own form.

    What nobody has shown yet belongs to the server whose template fits.
    """

    def __init__(self) -> None:
        self._owners: dict[str, Origin] = {}
        self._listed: frozenset[str] = frozenset()
        self._unlisted: defaultdict[Origin, set[str]] = defaultdict(set)
        # By their normal forms, those owned or listed that have another one.
        self._written: defaultdict[str, set[str]] = defaultdict(set)
        self._template_owners: dict[str, Origin] = {}
        self._templates = Templates()
        self._closed_templates: dict[str, None] = {}  # in the order in which their toolboxes were closed
        self._marked_templates: defaultdict[Origin, set[str]] = defaultdict(set)

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
        if owner or normal(uri).startswith(SCHEME):
            return marked(origin, uri)
        if any(self._owners[other] != origin for other in self._written_otherwise(uri)):
            return marked(origin, uri)
        if not listed:
            if len(self._unlisted[origin]) >= MOST_UNLISTED or self._templates.made_by_another(origin, uri):
                return marked(origin, uri)
            self._unlisted[origin].add(uri)
        self._owners[uri] = origin
        self._remember(uri)
        return uri

    def template(self, origin: Origin, template: str) -> str:
        """The form in which a client is to see a template: its own if nothing can be made from it that
        could be made from another server's. It stays the same.
        """
        owner = self._template_owners.get(template)
        if owner == origin:
            self._closed_templates.pop(template, None)
            return template
        those_marked = self._marked_templates[origin]
        if template not in those_marked:
            open_ones = len(self._template_owners) - len(self._closed_templates)
            may_be_own = not owner and not template.startswith(SCHEME) and open_ones < MOST_TEMPLATES
            if may_be_own and self._templates.may_take(origin, template):
                self._templates.take(origin, template)
                self._template_owners[template] = origin
                return template
            if len(those_marked) >= MOST_UNLISTED:
                those_marked.clear()
            those_marked.add(template)
        return marked(origin, template)

    def only_listed(self, uris: Iterable[str]) -> None:
        """These URIs are listed now, as shown. Of earlier lists clients may have others still."""
        listed = frozenset(uris)
        before, self._listed = self._listed, listed
        for uri in before - listed:
            owner = self._owners.get(uri)
            if owner and len(self._unlisted[owner]) < MOST_UNLISTED:
                self._unlisted[owner].add(uri)
            else:
                self._forget(uri)
        for uri in listed - before:
            self._remember(uri)
            if owner := self._owners.get(uri):
                self._unlisted[owner].discard(uri)

    def origin_of(self, uri: str) -> tuple[Origin, str] | None:
        """Whose URI or template this is, and its own form of it; None if no server showed it.

        Where it was shown with other escapes, it is as its server wrote it.
        """
        if owner := self._owners.get(uri) or self._template_owners.get(uri):
            return owner, uri
        found = unmarked(uri)
        if uri not in self._listed and (others := self._written_otherwise(uri)):
            other = others[0]
            whose = unmarked(other) or (self._owners[other], other)
            # Of two forms of one server's it may be either.
            return whose if len(others) == 1 else (whose[0], found[1] if found else uri)
        if found:
            return found
        maker = self._templates.maker(uri)
        return (maker, uri) if maker else None

    def release(self, toolbox: str) -> None:
        """A toolbox was closed. Of what its servers have shown, the oldest is forgotten."""
        shown: defaultdict[Origin, list[str]] = defaultdict(list)
        for uri, origin in self._owners.items():
            if origin.toolbox == toolbox:
                shown[origin].append(uri)
        for origin, uris in shown.items():
            self._listed -= frozenset(uris)
            self._unlisted.pop(origin, None)  # opened again, it has its whole share
            for uri in uris[: max(0, len(uris) - MOST_UNLISTED)]:
                self._forget(uri)
        closed = [it for it, origin in self._template_owners.items() if origin.toolbox == toolbox]
        self._closed_templates |= dict.fromkeys(closed)
        if surplus := [*self._closed_templates][: max(0, len(self._closed_templates) - MOST_TEMPLATES)]:
            self._forget_templates(surplus)

    def _forget_templates(self, templates: Iterable[str]) -> None:
        for template in templates:
            del self._template_owners[template], self._closed_templates[template]
        self._templates = Templates()
        for template, origin in self._template_owners.items():
            self._templates.take(origin, template)

    def _remember(self, uri: str) -> None:
        if (form := normal(uri)) != uri:
            self._written[form].add(uri)

    def _forget(self, uri: str) -> None:
        self._owners.pop(uri, None)
        if (form := normal(uri)) in self._written:
            self._written[form].discard(uri)
            if not self._written[form]:
                del self._written[form]

    def _written_otherwise(self, uri: str) -> list[str]:
        """Those shown that differ from a URI only in what is escaped."""
        form = normal(uri)
        others = [*self._written.get(form, ())]
        if form != uri and (form in self._owners or form in self._listed):
            others.append(form)
        return [other for other in others if other != uri]
