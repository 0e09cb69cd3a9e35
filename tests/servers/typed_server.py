"""A server of the official SDK's higher level, with types for schemas.

python -m tests.servers.typed_server
"""

import base64

import mcp_types as types
from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from tests.servers.dot import DOT

server = MCPServer("typed", log_level="CRITICAL")  # it draws its tracebacks, which takes a second


class Place(BaseModel):
    name: str
    inhabitants: int = Field(ge=0, description="How many live there")
    near: list[str] = []


@server.tool(title="A place")
def place(name: str, inhabitants: int = 3) -> Place:
    """Describe a place."""
    return Place(name=name, inhabitants=inhabitants, near=["elsewhere"])


@server.tool()
def add(a: int, b: float) -> float:
    return a + b


@server.tool()
def picture() -> Image:
    return Image(data=base64.b64decode(DOT), format="png")


@server.tool()
def fails(why: str) -> str:
    raise ToolError(why)


@server.tool()
def breaks() -> str:
    raise KeyError("a bug of this server")


@server.tool()
async def counts(to: int, ctx: Context) -> str:
    for step in range(1, to + 1):
        await ctx.report_progress(step, to)
    return "counted"


class Newcomer(BaseModel):
    name: str


@server.tool()
async def settles(ctx: Context) -> str:
    answer = await ctx.elicit("Who comes?", Newcomer)
    return f"{answer.data.name} settles" if isinstance(answer, AcceptedElicitation) else answer.action


@server.resource("town://mayor")
def mayor() -> str:
    return "Ånn"


@server.resource("town://houses/{number}", mime_type="application/octet-stream")
def house(number: str) -> bytes:
    return number.encode()


@server.prompt(title="A visit")
def visit(who: str) -> str:
    """Ask somebody in."""
    return f"Ask {who} in."


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion:
    return types.Completion(values=[f"{argument.value}{digit}" for digit in range(3)], has_more=True)


if __name__ == "__main__":
    server.run()
