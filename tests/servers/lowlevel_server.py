"""A server of the official SDK's lower level, whose tools answer in all the ways that there are.

python -m tests.servers.lowlevel_server
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from tests.servers.dot import DOT

Context = ServerRequestContext[Any]
Arguments = dict[str, Any]


def text(said: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=said)], **more)


async def echo(ctx: Context, given: Arguments) -> types.CallToolResult:
    return text(str(given.get("text")))


async def weather(ctx: Context, given: Arguments) -> types.CallToolResult:
    reading = {"city": given["city"], "celsius": -3.50, "gusts": [1, 2.25, None], "snow": {"deep": True}}
    return text(str(reading), structured_content=reading)


async def picture(ctx: Context, given: Arguments) -> types.CallToolResult:
    annotations = types.Annotations(audience=["user"], priority=0.5)
    return types.CallToolResult(
        content=[
            types.ImageContent(data=DOT, mime_type="image/png", annotations=annotations),
            types.AudioContent(data="AAAA", mime_type="audio/wav"),
            types.ResourceLink(name="dot", uri="file:///dot.png", mime_type="image/png"),
            types.EmbeddedResource(
                resource=types.TextResourceContents(uri="file:///dot.txt", text="ünïcödé ☃")
            ),
        ]
    )


async def unknown(ctx: Context, given: Arguments) -> types.CallToolResult:
    """Fields that no revision has yet, as far as the SDK lets them out."""
    return types.CallToolResult.model_validate(
        {
            "content": [{"type": "text", "text": "new", "_meta": {"vendor/block": [1]}}],
            "_meta": {"vendor/result": {"kept": True}},
            "futureField": {"a": 1},
        }
    )


async def refuses(ctx: Context, given: Arguments) -> types.CallToolResult:
    raise MCPError(code=-32099, message="not on a Sunday", data={"days": ["Monday"]})


async def breaks(ctx: Context, given: Arguments) -> types.CallToolResult:
    raise RuntimeError("a bug of this server")


async def fails(ctx: Context, given: Arguments) -> types.CallToolResult:
    return text("the disk is full", is_error=True)


async def counts(ctx: Context, given: Arguments) -> types.CallToolResult:
    for step in range(1, given["to"] + 1):
        await ctx.session.report_progress(step, given["to"], f"step {step}")
    return text("counted")


async def waits(ctx: Context, given: Arguments) -> types.CallToolResult:
    """Says by files that it began and that it was cancelled."""
    folder = Path(given["folder"])
    (folder / "began").touch()
    try:
        await asyncio.Event().wait()
    finally:
        (folder / "cancelled").touch()
    return text("never")


TOOLS: list[Callable[[Context, Arguments], Awaitable[types.CallToolResult]]] = [
    echo,
    weather,
    picture,
    unknown,
    refuses,
    breaks,
    fails,
    counts,
    waits,
]


def defined(name: str) -> types.Tool:
    definition: dict[str, Any] = {"name": name, "inputSchema": {"type": "object"}, "x-vendor": {"kept": 1.5}}
    if name == "weather":
        definition |= {
            "title": "The weather",
            "description": "What it is like outside",
            "inputSchema": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
            "outputSchema": {"type": "object", "properties": {"celsius": {"type": "number"}}},
            "annotations": {"readOnlyHint": True, "futureHint": "kept"},
            "icons": [{"src": "data:,x", "sizes": ["1x1"]}],
            "_meta": {"vendor/tool": 1},
        }
    return types.Tool.model_validate(definition)


async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Three to a page."""
    start = int(params.cursor) if params and params.cursor else 0
    tools = [defined(tool.__name__) for tool in TOOLS[start : start + 3]]
    return types.ListToolsResult(tools=tools, next_cursor=str(start + 3) if start + 3 < len(TOOLS) else None)


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    for tool in TOOLS:
        if tool.__name__ == params.name:
            return await tool(ctx, params.arguments or {})
    raise MCPError(code=-32602, message=f"no tool {params.name}")


server: Server[Any] = Server("lower", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
