"""Servers of the official SDK over HTTP, in this process, each at a port of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route


@asynccontextmanager
async def served(app: Any, **options: Any) -> AsyncIterator[int]:
    """The port at which an ASGI application is served."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", **options))
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await serving


@asynccontextmanager
async def streamable(server: Server[Any], **options: Any) -> AsyncIterator[str]:
    """The URL of a server over streamable HTTP."""
    async with served(server.streamable_http_app(**options)) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def two_channels(server: Server[Any]) -> AsyncIterator[str]:
    """The URL of a server over HTTP+SSE, as revision 2024-11-05 has it."""
    transport = SseServerTransport("/messages/")

    async def connect(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    app = Starlette(routes=[Route("/sse", connect), Mount("/messages/", app=transport.handle_post_message)])
    async with served(app) as port:
        yield f"http://127.0.0.1:{port}/sse"
