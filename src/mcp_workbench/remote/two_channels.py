"""A server over HTTP+SSE, as revision 2024-11-05 has it: one stream of events, and a place for messages."""

import asyncio
from collections.abc import Callable
from typing import Final

import httpx2

from ..link import Requests
from ..peer import Lost
from .event_stream import Event, EventStream, Overflow
from .links import EVENTS, POSTED, Flow, RemoteLink, media_type
from .web import Body, Web, beginning, drained, too_long

_NEWER: Final = '; if it speaks streamable HTTP, its entry needs "type": "http"'


class TwoChannelLink(RemoteLink):
    def __init__(self, web: Web, receive: Callable[[bytes], None], requests: Requests, flow: Flow) -> None:
        super().__init__(web, receive, requests, flow)
        self._endpoint: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()
        self._begin(self._listen())

    async def _ask(self, key: bytes, method: str, body: Body) -> None:
        await self._post(body, key)  # the answer comes by the stream

    async def _tell(self, body: Body) -> None:
        await self._post(body, None)

    async def _post(self, body: Body, key: bytes | None) -> None:
        await asyncio.wait((self._endpoint,))
        async with self._web.exchange("POST", self._endpoint.result(), POSTED, body) as response:
            if response.status_code >= 400:
                why = self._web.refusal(response, await beginning(response))
                if key:
                    self._fail(key, why)  # before all others, of which less is known
                if response.status_code == 404:
                    self._lose("does not know its session any more (HTTP 404)")
                raise why
            await drained(response)

    async def _listen(self) -> None:
        try:
            async with self._web.exchange("GET", self._web.url, {"accept": EVENTS}) as response:
                if response.status_code >= 400:
                    why = self._web.refusal(response, await beginning(response))
                    raise Lost(f"{why}{_NEWER if response.status_code == 405 else ''}", done=False)
                if media_type(response) != EVENTS:
                    raise Lost(f"has no stream of events there (HTTP {response.status_code})", done=False)
                async for event in self._flow.events(response, EventStream()):
                    self._take(event)
            self._lose("closed its stream of events")
        except Lost as lost:
            self._lose(str(lost))

    def _take(self, event: Event | Overflow) -> None:
        if isinstance(event, Overflow):
            raise too_long()
        if event.kind == "message":
            self._hear(event.data)
        elif event.kind == "endpoint" and not self._endpoint.done():
            self._endpoint.set_result(self._web.inside(event.data.decode(errors="replace")))
