"""What both ways over HTTP have in common: which message goes when, and how one that fails is told.

Each request is a task of its own, so that a slow or broken answer holds up nobody else.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final

import httpx2
from msgspec import UNSET

from .. import raw_json, wire
from ..events import log
from ..large_messages import LARGE, keep_large_blocks
from ..link import Requests
from ..peer import Lost
from ..raw_json import Payload
from .event_stream import Event, EventStream, Overflow
from .web import Body, Web, as_line

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
POSTED: Final = {"accept": f"{JSON}, {EVENTS}", "content-type": JSON}

# Many small events in one chunk are taken in pieces of so many bytes.
_PIECE: Final = 1024
_MANY_LINES: Final = 64
_TELL_WITHIN: Final = 30.0
_LEAVE_WITHIN: Final = 1.0
_LONGEST_KIND: Final = 100
_INITIALIZED: Final = "notifications/initialized"
_CANCELLED: Final = "notifications/cancelled"


class Flow:
    """Whether the client takes what servers say."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def pause(self) -> None:
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    async def chunks(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        """What a response brings, as fast as the client takes it."""
        async for chunk in response.aiter_bytes():
            if not self._open.is_set():
                await self._open.wait()
            yield chunk

    async def events(self, response: httpx2.Response, stream: EventStream) -> AsyncIterator[Event | Overflow]:
        """What a stream of events brings; where it is a flood, all else that goes on has its turns."""
        async for chunk in self.chunks(response):
            size = _PIECE if chunk.count(b"\n") > _MANY_LINES else len(chunk)
            for start in range(0, len(chunk), size):
                if start:
                    await asyncio.sleep(0)
                for event in stream.feed(chunk[start : start + size]):
                    yield event


class RemoteLink:
    """A `Link` to a server over HTTP; how it is spoken to is its subclasses' matter."""

    def __init__(self, web: Web, receive: Callable[[bytes], None], requests: Requests, flow: Flow) -> None:
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._web = web
        self._receive = receive
        self._requests = requests
        self._flow = flow
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking: dict[bytes, tuple[asyncio.Task[None], Body]] = {}
        self._telling: asyncio.Task[None] | None = None  # the last that was told, after all before it
        self._initialized: asyncio.Task[None] | None = None  # while the server is being told so
        self._bodies: set[Body] = set()

    # For subclasses -------------------------------------------------------------------------------

    async def _ask(self, key: bytes, method: str, body: Body) -> None:
        """Send a request, and hear what comes until it is answered. Raises `Lost`."""
        raise NotImplementedError

    async def _tell(self, body: Body) -> None:
        """Send what is not answered. Raises `Lost`."""
        raise NotImplementedError

    async def _leave(self) -> None:
        """Say goodbye."""

    def _greeted(self) -> None:
        """The server knows that it was understood."""

    # As a `Link` ----------------------------------------------------------------------------------

    @property
    def last_output(self) -> float | None:
        return None

    def send(self, parts: Sequence[Payload]) -> None:
        if self.gone.done():
            return
        body = Body(b"".join(parts))
        if body.data[:1] == b"[":  # the answers to a batch
            self._begin(self._sending(self._tell(body)), body)
            return
        message = wire.read_envelope(body.data)
        if message.method is UNSET:
            self._begin(self._sending(self._tell(body)), body)
        elif message.id is not UNSET:
            key = bytes(message.id)
            task = self._begin(self._asked(key, message.method, body), body)
            self._asking[key] = task, body
            task.add_done_callback(lambda _: self._asking.pop(key))
        elif message.method == _CANCELLED and message.params is not UNSET:
            self._cancel(bytes(raw_json.members(message.params)["requestId"]), body)
        else:
            self._notify(message.method, body)

    def unsent(self) -> int:
        return sum(len(body.data) for body in self._bodies if not body.sent)

    def last_words(self) -> str:
        return ""

    def mask(self, text: str) -> str:
        return self._web.mask(text)

    async def end(self) -> None:
        self._lose("was ended")
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(_LEAVE_WITHIN):
                await self._leave()
        except (TimeoutError, Lost):
            pass
        await self._web.close()

    # What is under way ----------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None], body: Body | None = None) -> "asyncio.Task[None]":
        """Have this done beside all else; `body` is what it sends."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if body:
            self._bodies.add(body)
            task.add_done_callback(lambda _: self._bodies.discard(body))
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):  # the bulkhead
            log.error("the link to %s failed inside the workbench", self._web, exc_info=error)
            self._lose(_internal(error))

    async def _sending(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what sends this; what goes wrong is told in the log, since nobody waits for it."""
        try:
            async with asyncio.timeout(_TELL_WITHIN):
                await work
        except (Lost, TimeoutError) as why:
            if not self.gone.done():
                told = self.mask(str(why)) or f"did not answer within {_TELL_WITHIN:g} s"
                log.warning("the server at %s did not take a message: it %s", self._web, told)

    async def _asked(self, key: bytes, method: str, body: Body) -> None:
        try:
            if self._initialized:  # else the server has not begun to serve
                await asyncio.wait((self._initialized,))
            await self._ask(key, method, body)
        except Lost as why:
            self._fail(key, why)
        except Exception as error:  # the bulkhead
            log.exception("a request to the server at %s failed inside the workbench", self._web)
            self._fail(key, Lost(_internal(error), done=True))

    def _fail(self, key: bytes, why: Lost) -> None:
        self._requests.lose(key, Lost(self.mask(str(why)), done=why.done))

    def _notify(self, method: str, body: Body) -> None:
        """Tell it of something, after everything before."""
        before = self._telling

        async def tell() -> None:
            if before:
                await asyncio.wait((before,))
            await self._tell(body)
            if method == _INITIALIZED:
                self._initialized = None
                self._greeted()

        self._telling = self._begin(self._sending(tell()), body)
        if method == _INITIALIZED:
            self._initialized = self._telling

    def _cancel(self, key: bytes, body: Body) -> None:
        """Wait no longer for a request. Of one that cannot have come to the server, it is not told."""
        task, asked = self._asking.get(key, (None, None))
        if asked is None or asked.begun:
            self._begin(self._sending(self._tell(body)), body)
        if task:
            task.cancel()

    def _hear(self, message: bytes) -> None:
        if not self.gone.done():
            if len(message) > LARGE:
                keep_large_blocks()
            self._receive(as_line(message))

    def _lose(self, reason: str) -> None:
        if not self.gone.done():
            self.gone.set_result(self.mask(reason))


def _internal(error: BaseException) -> str:
    return f"met an internal error of the workbench ({type(error).__name__})"


def media_type(response: httpx2.Response) -> str:
    kind, _, _ = response.headers.get("content-type", "").partition(";")
    return str(kind.strip().lower()[:_LONGEST_KIND])
