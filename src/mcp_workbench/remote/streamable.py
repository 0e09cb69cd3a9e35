"""A server over streamable HTTP: each message is a POST, answered by JSON or by a stream of events."""

import asyncio
import os
import re
from collections.abc import Callable
from typing import Final

import httpx2
from msgspec import UNSET

from .. import raw_json, wire
from ..link import Requests
from ..peer import Lost
from ..raw_json import Malformed
from .event_stream import EventStream, Overflow
from .links import EVENTS, JSON, POSTED, Flow, RemoteLink, media_type
from .web import Body, Web, answers_as_error, beginning, drained, reason, too_long, whole

_SESSION: Final = "mcp-session-id"
_REVISION: Final = "mcp-protocol-version"
_LAST_ID: Final = "last-event-id"
_IN_A_HEADER: Final = r"[!-~]+"
_OLDER: Final = '; if it is older than streamable HTTP, its entry needs "type": "sse"'
_FORGOTTEN: Final = "does not know its session any more (HTTP 404)"

_RETRIES: Final = 5  # in a row, all in vain
_RETRY_AFTER: Final = 1.0
_LONGEST_DELAY: Final = 30.0
_BETWEEN_BARREN: Final = 0.05  # doubled for each stream that brought nothing
_BETWEEN_FAILED: Final = 0.25  # doubled, times a jitter
_ENDS_WITHIN: Final = 1.0  # a stream, once it has brought its answer


class StreamableLink(RemoteLink):
    def __init__(self, web: Web, receive: Callable[[bytes], None], requests: Requests, flow: Flow) -> None:
        super().__init__(web, receive, requests, flow)
        self._agreed: dict[str, str] = {}  # headers that follow from the handshake

    # What we send ---------------------------------------------------------------------------------

    async def _ask(self, key: bytes, method: str, body: Body) -> None:
        is_greeting = method == "initialize"
        stream = EventStream()
        async with self._web.exchange("POST", self._web.url, {**POSTED, **self._agreed}, body) as response:
            if response.status_code >= 400:
                await self._refused(response, key, is_greeting)
                return
            if is_greeting:
                self._keep_session(response)
            kind = media_type(response)
            if kind == JSON:
                self._take(await whole(self._flow.chunks(response)), is_greeting)
            elif kind == EVENTS:
                broken = await self._follow(response, stream, key, is_greeting)
            else:
                what = f"with {kind}, which is not MCP" if kind else "with nothing"
                raise Lost(f"answered {what} (HTTP {response.status_code})", done=True)
        if kind == JSON:
            self._fail(key, Lost("answered with something else", done=True))
        elif self._requests.waits(key):
            await self._resume(key, stream, broken, is_greeting)

    async def _tell(self, body: Body) -> None:
        async with self._web.exchange("POST", self._web.url, {**POSTED, **self._agreed}, body) as response:
            if response.status_code >= 400:
                await self._refused(response, None, False)
            await drained(response)

    async def _refused(self, response: httpx2.Response, key: bytes | None, is_greeting: bool) -> None:
        if response.status_code == 404 and _SESSION in self._agreed:
            self._forgotten(key, done=False)
            return
        body = await beginning(response)
        if key and answers_as_error(response, body, key):
            self._hear(body)
        else:
            why = self._web.refusal(response, body)
            hint = _OLDER if is_greeting and response.status_code in (404, 405) else ""
            raise Lost(f"{why}{hint}", done=why.done)

    def _forgotten(self, key: bytes | None, *, done: bool) -> None:
        """The server has to be greeted anew: this link is of no use any more."""
        if key:  # before all others, of which less is known
            self._fail(key, Lost(_FORGOTTEN, done=done))
        del self._agreed[_SESSION]
        self._lose(_FORGOTTEN)

    async def _leave(self) -> None:
        if _SESSION in self._agreed:
            async with self._web.exchange("DELETE", self._web.url, self._agreed):
                pass

    # What comes of it -----------------------------------------------------------------------------

    def _keep_session(self, response: httpx2.Response) -> None:
        if session := response.headers.get(_SESSION):
            if not re.fullmatch(_IN_A_HEADER, session):
                raise Lost("gave a session id that no header may hold", done=False)
            self._agreed[_SESSION] = session

    def _take(self, message: bytes, is_greeting: bool) -> None:
        if is_greeting and (revision := _revision_in(message)):
            self._agreed[_REVISION] = revision
        self._hear(message)

    async def _follow(
        self, response: httpx2.Response, stream: EventStream, key: bytes | None, is_greeting: bool = False
    ) -> str:
        """Hear what a stream brings; why it ended. `key` is the request that it answers, if it does."""
        loop = asyncio.get_running_loop()
        answered = False
        try:
            async with asyncio.timeout(None) as limit:
                async for event in self._flow.events(response, stream):
                    if isinstance(event, Overflow):
                        self._overflow(key)
                        return ""
                    self._take(event.data, is_greeting)
                    if key and not answered and not self._requests.waits(key):
                        answered = True
                        limit.reschedule(loop.time() + _ENDS_WITHIN)
        except TimeoutError:
            return ""
        except httpx2.HTTPError as error:
            return f"broke off its answer ({reason(error)})"
        return "ended its answer before that was complete"

    def _overflow(self, key: bytes | None) -> None:
        if key:
            self._fail(key, too_long())
        else:
            self._lose(str(too_long()))

    async def _resume(self, key: bytes, stream: EventStream, broken: str, is_greeting: bool) -> None:
        """Ask for the rest of a stream that ended without its answer, as long as anybody waits for that."""
        failed = barren = 0
        while self._requests.waits(key):
            seen = stream.last_id
            if not seen or failed > _RETRIES:
                raise Lost(broken, done=True)
            await asyncio.sleep(max(_delay(stream), _BETWEEN_BARREN * 2 ** min(barren, 6)))
            stream.begin_anew()
            try:
                async with self._web.exchange("GET", self._web.url, self._asking_for(stream)) as response:
                    if response.status_code == 404 and _SESSION in self._agreed:
                        self._forgotten(key, done=True)
                        return
                    if media_type(response) == EVENTS and response.status_code == 200:
                        failed, broken = 0, await self._follow(response, stream, key, is_greeting)
                        barren = barren + 1 if stream.last_id == seen else 0
                        continue
                    if response.status_code < 500:
                        raise Lost(
                            f"{broken} and does not go on with it (HTTP {response.status_code})", done=True
                        )
            except Lost as lost:
                if lost.done:
                    raise
            failed += 1

    # What it says of its own accord ---------------------------------------------------------------

    def _greeted(self) -> None:
        self._begin(self._listen())

    async def _listen(self) -> None:
        """Hear what the server says when nothing was asked, if it has a stream for that."""
        stream = EventStream()
        has_served = False
        failed = barren = 0
        while not self.gone.done():
            try:
                async with self._web.exchange("GET", self._web.url, self._asking_for(stream)) as response:
                    serves = response.status_code == 200 and media_type(response) == EVENTS
                    if response.status_code == 404 and _SESSION in self._agreed and has_served:
                        self._forgotten(None, done=False)
                    if not serves and (response.status_code < 500 or not has_served):
                        return
                    seen = stream.last_id
                    if serves:
                        has_served, failed = True, 0
                        await self._follow(response, stream, None)
                        barren = barren + 1 if stream.last_id == seen else 0
                    else:
                        failed += 1
            except Lost as lost:
                failed += 1
                if failed > _RETRIES and not lost.done:
                    self._lose(str(lost))
            stream.begin_anew()
            delay = max(_delay(stream), _BETWEEN_BARREN * 2 ** min(barren, 9))
            if failed:
                delay = _BETWEEN_FAILED * 2 ** min(failed, 7) * os.urandom(1)[0] / 256
            await asyncio.sleep(delay)

    def _asking_for(self, stream: EventStream) -> dict[str, str]:
        headers = {"accept": EVENTS, **self._agreed}
        if stream.last_id:
            headers[_LAST_ID] = stream.last_id.decode(errors="surrogateescape")
        return headers


def _delay(stream: EventStream) -> float:
    return _RETRY_AFTER if stream.retry is None else min(stream.retry, _LONGEST_DELAY)


def _revision_in(message: bytes) -> str:
    """The revision that an answer to `initialize` settles on."""
    try:
        result = wire.read_envelope(message).result
        if result is not UNSET:
            revision = raw_json.text_or_none(raw_json.members(result).get("protocolVersion", b"null")) or ""
            return revision if re.fullmatch(_IN_A_HEADER, revision) else ""
    except Malformed:
        pass  # whoever asked will find that out, too
    return ""
