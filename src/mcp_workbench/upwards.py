"""What servers ask and tell of their own accord, as clients are to see it: named for its server. Pure.

All else in it passes as it came.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from . import raw_json, uris
from .naming import Origin
from .raw_json import Malformed, Payload
from .uris import Show

# What servers may ask of a client, and which capability of it each needs. Servers are told of these alone.
ASKED: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
# What ends with the request that it was asked for; `roots/list` is asked for its own sake.
ASKED_FOR_A_REQUEST: Final = ("sampling/createMessage", "elicitation/create")

LOGGED: Final = "notifications/message"
UPDATED: Final = "notifications/resources/updated"
ELICITED: Final = "notifications/elicitation/complete"

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

# A call that can be made only after its user has been somewhere (SEP-1036).
URL_ELICITATION_REQUIRED: Final = -32042


class _Code(msgspec.Struct):
    code: float  # by which clients know it, however it is written


_read_code = raw_json.Reader(_Code)


def question(method: str, params: Payload, origin: Origin, show: Show) -> Payload:
    """The parameters of what a server asks. An elicitation says whose it is: it may ask for secrets."""
    if method == "elicitation/create":
        return _elicitation(params, origin)
    return uris.in_payload(method, params, show)


def log_message(params: Payload, origin: Origin) -> Payload:
    """The parameters of a log message; its logger says whose it is."""
    told = raw_json.members(params)
    own = raw_json.text_or_none(told.get("logger", b"null"))
    logger = "/".join(filter(None, (*origin, own)))
    return raw_json.object_of({**told, "logger": raw_json.encoded(logger)}.items())


def is_as_grave_as(level: str, params: Payload) -> bool:
    """Whether a log message is of this level or a graver one; so is one whose level is not known."""
    own = raw_json.text_or_none(raw_json.members(params).get("level", b"null"))
    return own not in LEVELS or LEVELS.index(own) >= LEVELS.index(level)


def elicited(params: Payload, origin: Origin) -> Payload:
    """The parameters of the word that an elicitation is complete."""
    return raw_json.with_member(params, "elicitationId", lambda own: _elicitation_id(own, origin))


def failure(error: Payload, origin: Origin) -> Payload:
    """An error of a server; the elicitations in one say whose they are."""
    try:
        if _read_code(error).code != URL_ELICITATION_REQUIRED:
            return error
        return raw_json.with_member(error, "data", lambda data: _in_elicitations(data, origin))
    except Malformed:
        return error  # not of the shape in which there would be one


def _in_elicitations(data: Payload, origin: Origin) -> Payload:
    def named(elicitations: Payload) -> Payload:
        before = raw_json.elements(elicitations)
        after = [*_named(before, origin)]
        return elicitations if after == before else b"[" + b",".join(after) + b"]"

    return raw_json.with_member(data, "elicitations", named)


def _named(elicitations: Iterable[Payload], origin: Origin) -> Iterator[Payload]:
    """Those that can say whose they are: no other may reach a user. What is none stays."""
    for elicitation in elicitations:
        try:
            yield _elicitation(elicitation, origin) if bytes(elicitation)[:1] == b"{" else elicitation
        except Malformed:
            pass


def _elicitation(params: Payload, origin: Origin) -> Payload:
    asked = raw_json.members(params)
    own = raw_json.text_or_none(asked.get("message", b"null"))
    asked["message"] = raw_json.encoded(f"{origin.label} {own or ''}")
    if "elicitationId" in asked:
        asked["elicitationId"] = _elicitation_id(asked["elicitationId"], origin)
    return raw_json.object_of(asked.items())


def _elicitation_id(own: Payload, origin: Origin) -> Payload:
    """Ids are unique within a server: with its names, within the workbench. They never come back."""
    text = raw_json.text_or_none(own)
    return own if text is None else raw_json.encoded(f"{uris.path_of(origin)}/{text}")
