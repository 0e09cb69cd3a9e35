"""What the catalogue knows of a server, and what can go wrong with the file that keeps it."""

import msgspec

from ..offers import Offer


class Seen(msgspec.Struct, frozen=True):
    """What a server offered when it was last seen: its own bytes, in its own order."""

    tools: tuple[Offer, ...]
    instructions: bytes
    revision: str
    first_seen: float
    last_seen: float


class Broken(Exception):
    """What is in the file is not what was written there. It is of no use to anybody, and may be put aside."""


class Unusable(Exception):
    """The file cannot be used, now or by us, and is to be left as it is."""
