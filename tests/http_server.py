"""An MCP server over HTTP, on sockets of this process, that can misbehave in every way a peer may."""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

Json = dict[str, Any]
Behave = Callable[["Exchange"], Awaitable[None]]

ECHO: Final[Json] = {"name": "echo", "inputSchema": {"type": "object"}}
SESSION: Final = "5e551011"


class Exchange:
    """One request, and the means to answer it, well or badly."""

    def __init__(
        self,
        method: str,
        target: str,
        headers: list[tuple[str, str]],
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.method = method
        self.target = target
        self.headers = {name.lower(): value for name, value in headers}
        self.names = [name.lower() for name, _ in headers]
        self.body = body
        self.message: Json = json.loads(body) if body else {}
        self.writer = writer
        self._reader = reader

    @property
    def asks(self) -> str:
        """The method of its message, or else its own."""
        return str(self.message.get("method", self.method))

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def head(self, status: str, *headers: str) -> None:
        self.raw("\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode())

    def status(self, status: str, body: str = "", *headers: str) -> None:
        """A whole response."""
        data = body.encode()
        self.head(status, f"Content-Length: {len(data)}", *headers)
        self.raw(data)

    def as_json(self, message: Any, *headers: str) -> None:
        self.status("200 OK", json.dumps(message), "Content-Type: application/json", *headers)

    def answer(self, result: Json, *headers: str) -> None:
        self.as_json(self.answered(result), *headers)

    def answered(self, result: Json) -> Json:
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": result}

    def stream(self, *headers: str) -> None:
        """Begin a stream of events, which ends with the connection."""
        self.head("200 OK", "Content-Type: text/event-stream", "Connection: close", *headers)

    def event(self, message: Any, *fields: str) -> None:
        data = message if isinstance(message, str) else json.dumps(message)
        self.raw("\n".join([*fields, f"data: {data}", "", ""]).encode())

    def close(self) -> None:
        self.writer.close()

    async def until_closed(self) -> None:
        """Wait until one of the two ends closes the connection."""
        try:
            await self._reader.read(1)
        except ConnectionError:
            pass
        self.writer.close()

    def reset(self) -> None:
        """Break the connection off, as a process that is killed may."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class HttpServer:
    """Speaks streamable HTTP with JSON answers; `on` has what is done otherwise, by `Exchange.asks`."""

    def __init__(self, **on: Behave) -> None:
        self.on: dict[str, Behave] = {name.replace("_", "/", 1): behave for name, behave in on.items()}
        self.heard: list[Exchange] = []
        self.connections = 0
        self.url = ""
        self._news = asyncio.Condition()

    def asked(self, what: str) -> list[Exchange]:
        return [exchange for exchange in self.heard if exchange.asks == what]

    async def hears(self, what: str, times: int = 1) -> Exchange:
        """The request of this kind that comes so often."""
        async with asyncio.timeout(60), self._news:
            await self._news.wait_for(lambda: len(self.asked(what)) >= times)
        return self.asked(what)[times - 1]

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while exchange := await _read(reader, writer):
                self.heard.append(exchange)
                async with self._news:
                    self._news.notify_all()
                await self.on.get(exchange.asks, _behave)(exchange)
                if writer.is_closing():
                    break
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange | None:
    first = await reader.readline()
    if not first:
        return None
    method, target, _ = first.decode().split()
    headers = []
    while line := (await reader.readline()).decode().strip():
        name, _, value = line.partition(":")
        headers.append((name, value.strip()))
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Exchange(method, target, headers, await reader.readexactly(length), reader, writer)


async def _behave(it: Exchange) -> None:
    match it.asks:
        case "initialize":
            greeted = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            it.answer(greeted, f"Mcp-Session-Id: {SESSION}")
        case "tools/list":
            it.answer({"tools": [ECHO]})
        case "tools/call":
            it.answer(
                {"content": [{"type": "text", "text": it.message["params"]["arguments"].get("text", "")}]}
            )
        case "GET":
            it.status("405 Method Not Allowed")
        case "DELETE":
            it.status("204 No Content")
        case _:
            it.status("202 Accepted")


async def behave(it: Exchange) -> None:
    """What a server does that is as it should be."""
    await _behave(it)


def refusing(status: str, body: str = "", *headers: str) -> Behave:
    async def refuse(it: Exchange) -> None:
        it.status(status, body, *headers)

    return refuse


def first(*behaviours: Behave) -> Behave:
    """These in turn, then as a server should."""
    left = [*behaviours]

    async def take_turns(it: Exchange) -> None:
        await (left.pop(0) if left else _behave)(it)

    return take_turns


@asynccontextmanager
async def http_server(
    tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", /, **on: Behave
) -> AsyncIterator[HttpServer]:
    server = HttpServer(**on)
    conversations: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        conversations.add(task)
        try:
            await server._converse(reader, writer)
        except asyncio.CancelledError:
            pass  # which `asyncio.streams` would report

    listening = await asyncio.start_server(converse, host, 0, ssl=tls, limit=2**25)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://{'localhost' if tls else host}:{port}/mcp"
    try:
        yield server
    finally:
        listening.close()
        for task in conversations:
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)


def entry(server: HttpServer, **more: Any) -> Json:
    return {"type": "http", "url": server.url, **more}
