"""A server of the official SDK's lower level that offers, asks and tells all that servers may."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.elicitation import elicit_with_validation
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp.shared.uri_template import UriTemplate
from pydantic import BaseModel, Field

from tests.servers.dot import DOT

Context = ServerRequestContext[Any]
Arguments = dict[str, Any]

NOTE: Final = UriTemplate.parse("memo://notes/{author}/{title}")
PAGE: Final = "https://example.com/sign-in"
READING: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"celsius": {"type": "number"}, "sky": {"enum": ["clear", "grey"]}},
    "required": ["celsius"],
}


class Person(BaseModel):
    name: str = Field(description="How to call you")
    age: int = Field(default=0, ge=0)
    newsletter: bool = False


def said(text: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], **more)


def as_json(value: Any) -> types.CallToolResult:
    return said(json.dumps(value))


class Asking:
    """One such server, and what has reached its code."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.heard: list[str] = []  # the method of each message
        self.subscribed: set[str] = set()
        self.level = ""
        self.began = asyncio.Event()  # the tool `waits`
        self.cancelled = 0
        self.grown: list[str] = []
        self._tools = {tool.__name__: tool for tool in self._all_tools()}
        self.server: Server[Any] = Server(
            "asking",
            instructions="Ask before you are asked.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_set_logging_level=self._set_level,
            on_roots_list_changed=self._ignore,
        )
        self.server.middleware.append(self._note)

    async def _note(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        self.heard.append(ctx.method)
        return await call_next(ctx)

    async def _ignore(self, ctx: Context, params: types.NotificationParams | None) -> None:
        pass

    # Tools --------------------------------------------------------------------------------------

    def _all_tools(self) -> list[Callable[[Context, Arguments], Awaitable[types.CallToolResult]]]:
        return [
            self.samples,
            self.samples_with_tools,
            self.elicits,
            self.sends_to_a_page,
            self.needs_a_page,
            self.completes,
            self.lists_roots,
            self.knows,
            self.logs,
            self.counts,
            self.waits,
            self.touches,
            self.grows,
            self.measures,
            self.links,
        ]

    async def samples(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """What the client's model says, and of how its sampling gets on."""
        steps: list[float] = []

        async def step(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        asked = types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=types.TextContent(text=given["prompt"]))],
            max_tokens=7,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["\n"],
            model_preferences=types.ModelPreferences(hints=[types.ModelHint(name="small")]),
            metadata={"vendor": [1, None]},
        )
        request = types.CreateMessageRequest(params=asked)
        answer = await ctx.session.send_request(request, types.CreateMessageResult, progress_callback=step)
        return as_json({"answer": answer.model_dump(by_alias=True, exclude_none=True), "steps": steps})

    async def samples_with_tools(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """Which tools the client's model wants to be called."""
        answer = await ctx.session.create_message(
            [types.SamplingMessage(role="user", content=types.TextContent(text="And now?"))],
            max_tokens=7,
            tools=[types.Tool(name="look", input_schema={"type": "object"})],
        )
        return as_json(
            [block.model_dump(by_alias=True, exclude_none=True) for block in answer.content_as_list]
        )

    async def elicits(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """What the user has filled in, checked by the SDK."""
        answer = await elicit_with_validation(ctx.session, "Who are you?", Person, ctx.request_id)
        return said(answer.model_dump_json())

    async def sends_to_a_page(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        answer = await ctx.session.elicit_url("Sign in, please.", PAGE, given["id"])
        return said(answer.action)

    async def needs_a_page(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        page = types.ElicitRequestURLParams(message="Sign in first.", url=PAGE, elicitation_id=given["id"])
        raise UrlElicitationRequiredError([page])

    async def completes(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """Says that the user has been to the page."""
        await ctx.session.send_elicit_complete(given["id"])
        return said("completed")

    async def lists_roots(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        return as_json([str(root.uri) for root in (await ctx.session.list_roots()).roots])

    async def knows(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """What the client has said about itself, and with this call."""
        assert ctx.session.client_capabilities
        meta = {key: value for key, value in (ctx.meta or {}).items() if key != "progress_token"}
        capabilities = ctx.session.client_capabilities.model_dump(by_alias=True, exclude_none=True)
        return as_json({"capabilities": capabilities, "meta": meta})

    async def logs(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """One message of each level, whatever level was set."""
        for level in ("debug", "warning", "error"):
            await ctx.session.send_log_message(level, {"said": level}, given.get("logger"))
        return said("logged")

    async def counts(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        for step in range(1, given["to"] + 1):
            await ctx.session.report_progress(step / 4, given["to"], f"step {step}")
        return said("counted")

    async def waits(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """Until it is cancelled; asks the client's model meanwhile if it is told to."""
        try:
            self.began.set()
            if given.get("asking"):
                await self.samples(ctx, {"prompt": "Never mind?"})
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
        return said("never")

    async def touches(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """Tells that a resource is another one now, if somebody wants to know."""
        if given["uri"] in self.subscribed:
            await ctx.session.send_resource_updated(given["uri"])
        return as_json(sorted(self.subscribed))

    async def grows(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """Has one more tool, prompt and resource from now on."""
        self.grown.append(given["name"])
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()
        return said("grown")

    async def measures(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        """A reading that is as it is given, be it as the tool's schema has it or not."""
        return said("measured", structured_content=given.get("reading"))

    async def links(self, ctx: Context, given: Arguments) -> types.CallToolResult:
        contents = types.TextResourceContents(uri=given["uri"], text="embedded")
        return types.CallToolResult(
            content=[
                types.ResourceLink(name="link", uri=given["uri"]),
                types.EmbeddedResource(resource=contents),
            ]
        )

    def _defined(self, name: str) -> types.Tool:
        definition: dict[str, Any] = {"name": name, "inputSchema": {"type": "object"}}
        if name == "measures":
            definition |= {
                "title": "A measurement",
                "description": "How it is outside",
                "outputSchema": READING,
                "annotations": {"title": "Measure", "readOnlyHint": True},
                "icons": [{"src": "data:,x", "mimeType": "image/png", "sizes": ["1x1"]}],
                "_meta": {"vendor/tool": {"kept": 1.5}},
            }
        return types.Tool.model_validate(definition)

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[self._defined(name) for name in [*self._tools, *self.grown]])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name in self.grown:
            return said(f"{params.name} of {self.number}")
        if tool := self._tools.get(params.name):
            return await tool(ctx, params.arguments or {})
        raise MCPError(code=-32602, message=f"no tool {params.name}")

    # Resources ----------------------------------------------------------------------------------

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """One to a page."""
        listed = [
            types.Resource(name="plan", uri="memo://plan", title="The plan", mime_type="text/plain", size=9),
            types.Resource(name="dot", uri="memo://dot", annotations=types.Annotations(priority=0.5)),
            *(types.Resource(name=name, uri=f"memo://grown/{name}") for name in self.grown),
        ]
        at = int(params.cursor) if params and params.cursor else 0
        following = str(at + 1) if at + 1 < len(listed) else None
        return types.ListResourcesResult(resources=listed[at : at + 1], next_cursor=following)

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(name="note", uri_template=str(NOTE), description="Of somebody")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = params.uri
        if uri == "memo://dot":
            dot = types.BlobResourceContents(uri=uri, blob=DOT, mime_type="image/png")
            return types.ReadResourceResult(contents=[dot])
        if found := NOTE.match(uri):
            text = f"{found['title']} by {found['author']}, in {self.number}"
        elif uri == "memo://plan":
            text = f"plan of {self.number}"
        else:
            raise MCPError(code=-32002, message="Resource not found", data={"uri": uri})
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=text)])

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.add(params.uri)
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.discard(params.uri)
        return types.EmptyResult()

    # Prompts, completions, logging --------------------------------------------------------------

    async def _list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        arguments = [types.PromptArgument(name="to", required=True), types.PromptArgument(name="tone")]
        letter = types.Prompt(name="letter", title="A letter", description="To write", arguments=arguments)
        return types.ListPromptsResult(prompts=[letter, *(types.Prompt(name=name) for name in self.grown)])

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != "letter":
            raise MCPError(code=-32602, message=f"no prompt {params.name}")
        plan = types.TextResourceContents(uri="memo://plan", text="plan")
        content: list[types.ContentBlock] = [
            types.TextContent(text=f"Write to {params.arguments}"),
            types.ImageContent(data=DOT, mime_type="image/png"),
            types.EmbeddedResource(resource=plan),
        ]
        messages = [types.PromptMessage(role="user", content=block) for block in content]
        return types.GetPromptResult(description="A letter", messages=messages)

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """What was asked for, as the server knows it."""
        known = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        context = params.context.arguments if params.context else None
        values = [known, f"{params.argument.name}={params.argument.value}", json.dumps(context)]
        return types.CompleteResult(completion=types.Completion(values=values, total=9, has_more=True))

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self.level = params.level
        return types.EmptyResult()
