"""What a way to a running server is, whatever transport it goes by."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from .peer import Lost
from .raw_json import Payload


class CannotConnect(Exception):
    """An attempt to reach a server failed; its text says why, for a person to mend it."""


class Link(Protocol):
    gone: "asyncio.Future[str]"  # done, with the reason, when the server is not there any more

    @property
    def last_output(self) -> float | None:
        """When it last said anything beside its messages, by the loop's time."""

    def send(self, parts: Sequence[Payload]) -> None:
        """Send one line, given in parts."""

    def unsent(self) -> int:
        """How many bytes it has not taken yet."""

    def last_words(self) -> str:
        """What it said last beside its messages, as the end of an error's text; empty if nothing."""

    def mask(self, text: str) -> str:
        """The text without the secrets that the server was started with."""

    async def end(self) -> None:
        """End it, and wait until nothing of it is left."""


class Requests(Protocol):
    """The requests that go by a link, by their ids: where each has a way of its own, one can fail alone."""

    def waits(self, key: bytes) -> bool:
        """Whether this one has no answer yet."""

    def lose(self, key: bytes, why: Lost) -> None:
        """No answer to this one will come, if it has none yet."""


class Connect(Protocol):
    """Reaches one server: starts its process, say. Raises `CannotConnect`.

    It need not watch the time: it is cancelled when it has taken too long.
    """

    async def __call__(self, receive: Callable[[bytes], None], requests: Requests) -> Link: ...
