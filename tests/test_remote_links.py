"""How fast a remote server is read."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from mcp_workbench.remote.event_stream import Event, EventStream
from mcp_workbench.remote.links import Flow

EVENT = b"data: x\n\n"


class Body:
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
    reading = asyncio.create_task(read(Flow(), Body(EVENT * 7000), found))
    most, before = 0, 0
    while not reading.done():
        await asyncio.sleep(0)
        most, before = max(most, len(found) - before), len(found)
    assert found == [Event("message", b"x")] * 7000
    assert most <= 1024 // len(EVENT) + 1


async def test_nothing_is_read_while_it_is_paused() -> None:
    flow, found = Flow(), list[Any]()
    flow.pause()
    reading = asyncio.create_task(read(flow, Body(EVENT, EVENT), found))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not found
    flow.resume()
    await reading
    assert len(found) == 2
