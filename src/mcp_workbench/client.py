"""The client, as its servers know it: what it declared and has seen, how to ask and to tell it."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from . import lifecycle, progress, raw_json, upwards, wire
from .claims import Claims
from .eras import Declared
from .naming import Origin
from .peer import Gone, Patience, Peer, TimedOut, Unreadable
from .raw_json import Malformed, Payload
from .uris import Show
from .wire import Answer

# A person may have to read, think and type.
_PATIENCE: Final = Patience(quiet=lifecycle.CALL_AT_MOST, longest=lifecycle.CALL_AT_MOST)


class Client:
    def __init__(self, peer: Peer, declared: Declared, offers_changed: Callable[[], None]) -> None:
        """`offers_changed` is called when a server may have other tools, prompts or resources than before."""
        self.declared = declared
        self.offers_changed = offers_changed
        self.log_level: str | None = None  # that it asked for
        self.ready = asyncio.Event()  # it may be asked: set by its first message after `initialize`
        self.claims = Claims()
        self._peer = peer

    def shows(self, origin: Origin) -> Show:
        """How it is to see the URIs of a server."""
        return partial(self.claims.shown, origin)

    async def ask(self, method: str, params: Payload, origin: Origin, asker: Peer) -> Answer:
        """Hand a server's question on; the answer is the client's own, be it a result or an error."""
        if upwards.ASKED[method] not in self.declared.capabilities:
            return wire.error(raw_json.METHOD_NOT_FOUND, f"The client does not support {method}")
        if not self.ready.is_set():  # servers should not ask before `notifications/initialized`
            await self.ready.wait()
        given = raw_json.members(upwards.question(method, params, origin, self.shows(origin)))
        token = b""
        meta = raw_json.members_if_any(given.get("_meta", b"null"))
        if relay := progress.wanted(asker, meta):
            token = self._peer.new_token()
            given["_meta"] = raw_json.object_of({**meta, "progressToken": token}.items())
        try:
            asked = (raw_json.object_of(given.items()),)
            return await self._peer.request(method, asked, _PATIENCE, token=token, on_progress=relay)
        except TimedOut as late:
            return wire.error(raw_json.INTERNAL_ERROR, f"The client {late}")
        except Unreadable as error:
            return wire.error(raw_json.INTERNAL_ERROR, f"The client answered with {error}")
        except Gone:
            return wire.error(raw_json.INTERNAL_ERROR, "The client is gone")

    def updated(self, params: Payload, origin: Origin, known_as: Mapping[str, str]) -> None:
        """Tell of a resource that is another now, under the URI by which the client subscribed to it."""
        told = raw_json.members(params)
        own = raw_json.text_or_none(told.get("uri", b"null"))
        if own is None:
            raise Malformed("an update of nothing")
        uri = known_as.get(own) or self.claims.shown(origin, own)
        if uri != own:
            params = raw_json.object_of({**told, "uri": raw_json.encoded(uri)}.items())
        self._peer.tell(upwards.UPDATED, params)

    def tell(self, method: str, params: Payload, origin: Origin) -> None:
        """Hand on what a server tells of its own accord, where the client is to know it."""
        if method == upwards.LOGGED:
            if self.log_level is None or upwards.is_as_grave_as(self.log_level, params):
                self._peer.tell(method, upwards.log_message(params, origin))
        elif method == upwards.ELICITED and "elicitation" in self.declared.capabilities:
            self._peer.tell(method, upwards.elicited(params, origin))
