"""Progress of a request that was handed on, told to who made it under the token of its own."""

import msgspec

from . import raw_json
from .peer import OnProgress, Peer
from .raw_json import Payload


class _Progress(msgspec.Struct):
    progress: float


_read_progress = raw_json.Reader(_Progress)


def wanted(peer: Peer, meta: dict[str, Payload]) -> OnProgress | None:
    """Where progress of a peer's request goes, if it wants to know; its token is taken out of the `_meta`."""
    token = meta.pop("progressToken", b"null")
    return None if bytes(token) == b"null" else _relayed_to(peer, token)


def _relayed_to(peer: Peer, token: Payload) -> OnProgress:
    """Tells the peer of the progress of one request of its, as long as it rises."""
    latest = float("-inf")

    def relay(params: Payload) -> None:
        nonlocal latest
        now = _read_progress(params).progress
        if now > latest:
            latest = now
            told = {**raw_json.members(params), "progressToken": token}
            peer.tell("notifications/progress", raw_json.object_of(told.items()))

    return relay
