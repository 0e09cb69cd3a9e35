"""How fast a remote server is read, what waits to be sent to it, and which cancellations it hears of."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from mcp_workbench.peer import Lost
from mcp_workbench.remote.event_stream import Event, EventStream
from mcp_workbench.remote.links import Flow, RemoteLink
from mcp_workbench.remote.web import Body, Web

EVENT = b"data: x\n\n"


class Chunks:
    """Of a response, in these chunks."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


async def read(flow: Flow, body: Any, found: list[Any]) -> None:
    async for event in flow.events(body, EventStream()):
        found.append(event)  # noqa: PERF401 - seen as they come


async def test_while_a_flood_is_read_all_else_has_its_turns() -> None:
    found: list[Any] = []
    reading = asyncio.create_task(read(Flow(), Chunks(EVENT * 7000), found))
    most, before = 0, 0
    while not reading.done():
        await asyncio.sleep(0)
        most, before = max(most, len(found) - before), len(found)
    assert found == [Event("message", b"x")] * 7000
    assert most <= 1024 // len(EVENT) + 1


async def test_nothing_is_read_while_it_is_paused() -> None:
    flow, found = Flow(), list[Any]()
    flow.pause()
    reading = asyncio.create_task(read(flow, Chunks(EVENT, EVENT), found))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not found
    flow.resume()
    await reading
    assert len(found) == 2


class NoRequests:
    def waits(self, key: bytes) -> bool:
        return True

    def lose(self, key: bytes, why: Lost) -> None:
        pass


class Slow(RemoteLink):
    """To a server that takes requests when it is let to, and answers none."""

    def __init__(self) -> None:
        web = Web("http://127.0.0.1:9/", {}, (), private_networks=True)
        super().__init__(web, lambda line: None, NoRequests(), Flow())
        self.takes = asyncio.Event()
        self.told: list[bytes] = []

    async def _ask(self, key: bytes, method: str, body: Body) -> None:
        await self.takes.wait()
        async for _ in body:
            pass
        await asyncio.Event().wait()

    async def _tell(self, body: Body) -> None:
        self.told.append(body.data)


def request(key: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{}}\n' % key


def cancellation(key: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}\n' % key


async def a_few_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_the_server_has_not_taken_counts_as_unsent() -> None:
    link = Slow()
    for key in range(3):
        link.send((request(key)[:9], request(key)[9:]))
    assert link.unsent() == 3 * len(request(0))
    link.send((cancellation(2),))
    await a_few_turns()
    assert link.unsent() == 2 * len(request(0))
    link.takes.set()
    await a_few_turns()
    assert link.unsent() == 0
    await link.end()
    assert link.gone.result() == "was ended"


async def test_only_of_what_may_have_come_to_it_a_server_is_told_that_it_is_cancelled() -> None:
    link = Slow()
    link.send((request(1),))
    await a_few_turns()
    link.send((cancellation(1),))
    link.takes.set()
    link.send((request(2),))
    await a_few_turns()
    link.send((cancellation(2),))
    await a_few_turns()
    assert link.told == [cancellation(2)]
    await link.end()
