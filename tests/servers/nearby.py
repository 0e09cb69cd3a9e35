"""Servers of the official SDK that run in the test's own process, behind a command that the workbench starts.

So a test sees what reaches a server's code, and does not wait until each process has imported the SDK.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server

from tests.workbench import PATIENCE, Json

BRIDGE = Path(__file__).with_name("bridge.py")
CHANGES = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)


class _Writing:
    """As much of a file as the SDK writes to."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()


@asynccontextmanager
async def nearby(folder: Path, make: Callable[[], Server[Any]]) -> AsyncIterator[Json]:
    """The entry of a server; each start of its command is served by another one that `make` gives."""
    lives: list[asyncio.Task[None]] = []

    async def live(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = make()
        stdin = cast("anyio.AsyncFile[str]", reader)
        stdout = cast("anyio.AsyncFile[str]", _Writing(writer))
        try:
            async with stdio_server(stdin, stdout) as (read, write):
                await server.run(read, write, server.create_initialization_options(CHANGES))
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lives.append(asyncio.create_task(live(reader, writer)))

    path = str(folder / "socket")
    async with await asyncio.start_unix_server(begin, path):
        yield {"command": sys.executable, "args": ["-I", "-S", str(BRIDGE), path]}
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*lives)
