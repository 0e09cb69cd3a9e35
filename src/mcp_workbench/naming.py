"""Names: whose something is, which name was probably meant, which one a client sees natively. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final, NamedTuple

# Comparing is slow, and a server may list thousands of tools with names of any length.
_MOST_COMPARED: Final = 300
_LONGEST_COMPARED: Final = 64

LONGEST_NAME: Final = 64
_HASH_LENGTH: Final = 12
_ILLEGAL: Final = r"[^A-Za-z0-9_-]"
_LOOKS_HASHED: Final = rf"_[0-9a-f]{{{_HASH_LENGTH}}}\Z"


class Origin(NamedTuple):
    """A server of a toolbox: where something that a client sees comes from."""

    toolbox: str
    server: str

    def __str__(self) -> str:
        return f"server '{self.server}' in toolbox '{self.toolbox}'"

    @property
    def path(self) -> str:
        return f"{self.toolbox}/{self.server}"

    @property
    def label(self) -> str:
        """What stands before a server's own words where a client shows them to people."""
        return f"[{self.toolbox}/{self.server}]"


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that is most like a name that was not found, if any is."""
    import difflib  # only a mistaken call needs it

    by_folded = {_folded(candidate): candidate for candidate in islice(candidates, _MOST_COMPARED)}
    found = difflib.get_close_matches(_folded(name), by_folded, n=1)
    return by_folded[found[0]] if found else None


def _folded(name: str) -> str:
    return name[:_LONGEST_COMPARED].casefold()


class NativeNames:
    """The names under which clients see the tools and prompts of servers, beside the tools of the workbench.

    `{toolbox}__{server}_{tool}` where that is legal and could only mean this one, else the same made legal,
    with a hash. What it could mean follows from the configuration alone: names are the same whichever
    servers are up, and whatever these list. They are never taken apart again.
    """

    def __init__(
        self, servers: Iterable[tuple[str, str]], reserved: Collection[str] = (), without_prefix: str = ""
    ) -> None:
        """`servers` are all pairs of toolbox and server. Names in `without_prefix` begin with the server."""
        self._reserved = frozenset(reserved)
        self._bare = without_prefix
        self._beginnings = Counter(self._beginning(toolbox, server) for toolbox, server in servers)

    def _beginning(self, toolbox: str, server: str) -> str:
        return f"{server}_" if toolbox == self._bare else f"{toolbox}__{server}_"

    def name(self, toolbox: str, server: str, own: str) -> str:
        beginning = self._beginning(toolbox, server)
        plain = beginning + own
        if (
            len(plain) <= LONGEST_NAME
            and plain not in self._reserved
            and self._is_clear(beginning, plain)
            and not re.search(_ILLEGAL, plain)
            and not re.search(_LOOKS_HASHED, plain)
        ):
            return plain
        ending = "_" + _hash(toolbox, server, own)
        return re.sub(_ILLEGAL, "_", plain)[: LONGEST_NAME - len(ending)] + ending

    def _is_clear(self, beginning: str, plain: str) -> bool:
        """Whether no other server could have this name: it is of the one with the longest beginning."""
        longest = max(
            (plain[:end] for end in range(1, len(plain) + 1) if plain[:end] in self._beginnings), key=len
        )
        return longest == beginning and self._beginnings[beginning] == 1


def _hash(*parts: str) -> str:
    from .hashing import sha256  # hardly any name needs it

    # With the lengths: ("a", "bc") and ("ab", "c") are two.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return sha256(text.encode("utf-8", "surrogatepass"))[:_HASH_LENGTH]
