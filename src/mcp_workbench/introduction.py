"""How a server is met: the handshake, then all pages of all that it offers."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from . import eras, raw_json
from .eras import Declared, Hello
from .link import CannotConnect
from .offers import KINDS, TOOLS, Kind, Listing
from .peer import Lost, Patience, Peer, TimedOut
from .raw_json import Malformed
from .wire import Answer

# The deadline of the attempt bounds what is asked during it.
UNHURRIED: Final = Patience(quiet=86_400, longest=86_400)
# A server is there for its tools: they don't wait longer for what else it may offer.
_OTHERS_WITHIN: Final = 10.0

Listings = Mapping[Kind, Listing]


async def introduce(peer: Peer, client: Declared, patience: Patience = UNHURRIED) -> tuple[Hello, Listings]:
    """Shake hands and list, with this patience for each request. Raises `CannotConnect` or `Malformed`."""
    answer = await peer.request("initialize", (eras.initialize_params(client),), patience)
    if answer.failed:
        raise CannotConnect(f"it refused the handshake: {_message(answer)}")
    hello = eras.read_hello(answer.body)
    peer.tell("notifications/initialized")
    return hello, await list_offers(peer, hello, KINDS, patience)


async def list_offers(
    peer: Peer, hello: Hello, kinds: Iterable[Kind], patience: Patience = UNHURRIED
) -> Listings:
    """What a server offers of these kinds. Where its tools can't be had: `CannotConnect` or `Malformed`."""
    there = [kind for kind in kinds if kind.capability in hello.capabilities]
    listings = await asyncio.gather(
        *((_listed if kind is TOOLS else _listed_if_possible)(peer, kind, patience) for kind in there)
    )
    return {kind: Listing(kind) for kind in kinds} | dict(zip(there, listings, strict=True))


async def _listed(peer: Peer, kind: Kind, patience: Patience) -> Listing:
    """All pages of one kind."""
    listing = Listing(kind)
    params = b"{}"
    while True:
        page = await peer.request(kind.method, (params,), patience)
        if page.failed:
            if kind is not TOOLS and _code(page) == raw_json.METHOD_NOT_FOUND:
                return listing  # with resources there need not be templates
            raise CannotConnect(f"it did not list its {kind.noun}s: {_message(page)}")
        cursor = listing.take(page.body)
        if cursor is None:
            return listing
        params = b'{"cursor":%b}' % raw_json.encoded(cursor)


async def _listed_if_possible(peer: Peer, kind: Kind, patience: Patience) -> Listing:
    try:
        async with asyncio.timeout(_OTHERS_WITHIN):
            return await _listed(peer, kind, patience)
    except TimeoutError:
        why = f"it did not list its {kind.noun}s within {_OTHERS_WITHIN:g} s"
    except TimedOut as late:
        why = f"it did not list its {kind.noun}s: it {late}"
    except Lost as lost:
        why = f"it did not list its {kind.noun}s: it {lost}"
    except CannotConnect as error:
        why = str(error)
    except Malformed as error:
        why = f"it listed its {kind.noun}s with what is not MCP: {error}"
    listing = Listing(kind)
    listing.failure = why
    return listing


def _message(failed: Answer) -> str:
    try:
        return str(msgspec.json.decode(raw_json.members(failed.body)["message"], type=str))
    except (Malformed, KeyError, msgspec.DecodeError):
        return bytes(failed.body)[:500].decode(errors="replace")


def _code(failed: Answer) -> int | None:
    try:
        return int(bytes(raw_json.members(failed.body)["code"]))
    except (Malformed, KeyError, ValueError):
        return None
