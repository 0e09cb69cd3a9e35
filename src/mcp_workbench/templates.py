"""Templates of URIs (RFC 6570): whose each is, and which one a URI may have been made from. Pure."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from .naming import Origin

# Of those that begin alike so many are tried; what begins like more of them counts as made from one.
MOST_TRIED: Final = 100

_VARIABLE: Final = r"\{[^{}]*\}"


class Templates:
    """Templates of several servers, of which none begins as one of another server's does.

    So how a text begins tells whose it is. Of all beginnings only those are kept that begin with no other
    one: in their order, what a text begins with stands right before it, and what begins with it right behind.
    """

    def __init__(self) -> None:
        self._beginnings: list[str] = []
        self._own: defaultdict[Origin, list[str]] = defaultdict(list)  # of these, each server's
        self._owners: dict[str, Origin] = {}  # of the beginnings
        self._literals: dict[str, list[Sequence[str]]] = {}  # of the templates, by their beginning

    def may_take(self, origin: Origin, template: str) -> bool:
        """Whether nothing can be made from a template that could be made from another server's."""
        begins = _literals_of(template)[0]
        before = self._before(begins)
        if before is not None:
            return self._owners[before] == origin
        behind, own = (_behind(those, begins) for those in (self._beginnings, self._own[origin]))
        return len(behind) == len(own)

    def take(self, origin: Origin, template: str) -> None:
        """Add one that may be taken."""
        literals = _literals_of(template)
        begins = self._before(literals[0])
        if begins is None:
            begins = literals[0]
            longer: list[str] = []
            for those in (self._beginnings, self._own[origin]):
                behind = _behind(those, begins)
                longer = those[behind.start : behind.stop]  # the same in both
                those[behind.start : behind.stop] = [begins]
            self._literals[begins] = [each for it in longer for each in self._literals.pop(it)]
            for it in longer:
                del self._owners[it]
            self._owners[begins] = origin
        self._literals[begins].append(literals)

    def maker(self, uri: str) -> Origin | None:
        """Whose template a URI was made from, if it was."""
        begins = self._before(uri)
        return None if begins is None or not self._fits_within(begins, uri) else self._owners[begins]

    def made_by_another(self, origin: Origin, uri: str) -> bool:
        """Whether a URI was made from a template of another server's."""
        begins = self._before(uri)
        return begins is not None and self._owners[begins] != origin and self._fits_within(begins, uri)

    def _fits_within(self, begins: str, uri: str) -> bool:
        templates = self._literals[begins]
        return len(templates) > MOST_TRIED or any(_fit(literals, uri) for literals in templates)

    def _before(self, text: str) -> str | None:
        """The beginning with which a text begins."""
        at = bisect_right(self._beginnings, text)
        return self._beginnings[at - 1] if at and text.startswith(self._beginnings[at - 1]) else None


def _behind(beginnings: list[str], text: str) -> range:
    """Where those stand that begin with a text."""
    start = bisect_left(beginnings, text)
    return range(start, bisect_left(beginnings, True, start, key=lambda it: not it.startswith(text)))


def _fit(literals: Sequence[str], uri: str) -> bool:
    """Whether a URI may have come from the template with these; its variables may stand for anything."""
    first, *between = literals
    if not between:
        return first == uri
    last = between.pop()
    at, end = len(first), len(uri) - len(last)
    if at > end or not uri.startswith(first) or not uri.endswith(last):
        return False
    for part in between:  # each at its first place: so there is most room for those behind it
        at = uri.find(part, at, end) + len(part)
        if at < len(part):
            return False
    return True


def _literals_of(template: str) -> Sequence[str]:
    """What stands before, between and behind its variables."""
    return re.split(_VARIABLE, template)
