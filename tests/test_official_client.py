"""The official SDK on both sides: its client in front of the command, its servers behind it.

A client that talks to a server through the workbench must see what one sees that talks to it directly.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.server.elicitation import render_elicitation_schema
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.shared.uri_template import UriTemplate
from mcp_types.methods import parse_server_notification, parse_server_request, validate_server_result
from pydantic import FileUrl

from .servers import lowlevel_server
from .servers.asking_server import NOTE, PAGE, Asking, Person
from .servers.nearby import nearby
from .workbench import COMMAND, PATIENCE, Json, fake, talking_to, toolboxes, until

# What a revision of the future does without is deprecated; here it is relayed.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")

ROOT = Path(__file__).parent.parent
LOWER = ["-m", "tests.servers.lowlevel_server"]
TYPED = ["-m", "tests.servers.typed_server"]
ENTRIES: dict[str, Json] = {
    name: {"command": sys.executable, "args": args, "cwd": str(ROOT)}
    for name, args in (("lower", LOWER), ("typed", TYPED))
}

# What is called with each, to be compared.
CALLS: list[tuple[str, str, Json]] = [
    ("lower", "echo", {"text": "ünïcödé ☃ 😀"}),
    ("lower", "weather", {"city": "Tromsø"}),
    ("lower", "picture", {}),
    ("lower", "unknown", {}),
    ("lower", "refuses", {}),
    ("lower", "breaks", {}),
    ("lower", "fails", {}),
    ("typed", "place", {"name": "here", "inhabitants": 2}),
    ("typed", "place", {"inhabitants": -1, "name": "nowhere"}),
    ("typed", "place", {"inhabitants": "many"}),
    ("typed", "add", {"a": 1, "b": 2.5}),
    ("typed", "picture", {}),
    ("typed", "fails", {"why": "it rains"}),
    ("typed", "breaks", {}),
]


@pytest.fixture(autouse=True)
def accepted(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What the workbench writes is what the official client, and the servers that run here, expect."""
    caplog.set_level(logging.DEBUG)
    yield
    for record in caplog.get_records("call"):
        assert record.levelno < logging.WARNING, record.getMessage()
        assert "not defined at" not in record.getMessage(), record.getMessage()


def written(folder: Path, config: Json) -> Path:
    file = folder / "workbench-config.json"
    file.write_text(json.dumps(config))
    return file


def through_workbench(folder: Path, config: Json) -> StdioServerParameters:
    return StdioServerParameters(
        command=COMMAND[0],
        # The SDK's client hands little of the environment on: the cache would be that of whoever runs this.
        args=[*COMMAND[1:], "--config", str(written(folder, config)), "--catalogue", ":memory:"],
    )


def directly(name: str) -> StdioServerParameters:
    return StdioServerParameters(**ENTRIES[name])


@asynccontextmanager
async def client_of(folder: Path, mode: str, **box: Json) -> AsyncIterator[Client]:
    async with Client(through_workbench(folder, toolboxes(box=box)), mode=mode) as client:
        yield client


def use(server: str, tool: str, arguments: Json) -> Json:
    return {"tool": {"toolbox": "box", "server": server, "tool": tool}, "arguments": arguments}


async def opened(client: Client) -> Json:
    result = await client.call_tool("open_toolbox", {"toolbox_name": "box"})
    assert not result.is_error, result
    answer: Json = json.loads(result.content[0].text)  # type: ignore[union-attr]
    return answer


async def outcome(client: Client, tool: str, arguments: Json) -> Any:
    """What a caller sees: a result, or an error."""
    try:
        return (await client.call_tool(tool, arguments)).model_dump(by_alias=True, exclude_unset=True)
    except MCPError as error:
        return error.error.model_dump(by_alias=True)


async def all_tools(client: Client) -> list[list[types.Tool]]:
    """The tools on each page of the list; the client checks the results of those that it knows."""
    page = await client.list_tools()
    pages = [page.tools]
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        pages.append(page.tools)
    return pages


both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])


@both_eras
async def test_the_official_client_connects_opens_uses_and_closes(tmp_path: Path, mode: str) -> None:
    async with client_of(tmp_path, mode, it=fake(tools=["echo", "is_error"])) as client:
        assert client.server_info
        assert client.server_info.name == "mcp-workbench"
        assert client.instructions
        assert client.instructions.startswith("Available Toolboxes:\n\nbox (1 servers)\n")
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["open_toolbox", "use_tool", "close_toolbox"]
        assert [tool["name"] for tool in (await opened(client))["tools"]] == ["echo", "is_error"]
        result = await client.call_tool("use_tool", use("it", "echo", {"text": "hello"}))
        assert [block.model_dump(exclude_unset=True) for block in result.content] == [
            {"type": "text", "text": "hello"}
        ]
        assert (await client.call_tool("use_tool", use("it", "is_error", {}))).is_error
        assert (await client.call_tool("use_tool", use("it", "ehco", {}))).is_error
        with pytest.raises(MCPError, match="not found") as missing:
            await client.call_tool("workbench_list_toolboxes", {})
        assert missing.value.code == -32602
        closed = await client.call_tool("close_toolbox", {"toolbox_name": "box"})
        assert not closed.is_error


async def test_results_and_errors_are_those_that_a_direct_client_sees(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "mcp")  # of the servers' own failures
    async with AsyncExitStack() as stack:
        lower = await stack.enter_async_context(nearby(tmp_path, lambda: lowlevel_server.server))
        config = toolboxes(box={**ENTRIES, "lower": lower}) | {"toolMode": "dynamic"}
        through = await stack.enter_async_context(Client(through_workbench(tmp_path, config)))
        opening = asyncio.create_task(opened(through))
        direct = {
            "lower": await stack.enter_async_context(Client(lowlevel_server.server, mode="legacy")),
            "typed": await stack.enter_async_context(Client(directly("typed"), mode="legacy")),
        }
        assert "_errors" not in await opening
        for client in (through, *direct.values()):
            await all_tools(client)
        for server, tool, arguments in CALLS:
            expected = await outcome(direct[server], tool, arguments)
            assert await outcome(through, "use_tool", use(server, tool, arguments)) == expected
            assert await outcome(through, f"box__{server}_{tool}", arguments) == expected


@pytest.mark.parametrize("name", ENTRIES)
async def test_the_bytes_of_definitions_and_results_are_the_servers_own(tmp_path: Path, name: str) -> None:
    entry, config = ENTRIES[name], toolboxes(box={name: ENTRIES[name]})
    workbench = (*COMMAND, "--config", str(written(tmp_path, config)))
    async with (
        talking_to(entry["command"], *entry["args"], folder=ROOT) as direct,
        talking_to(*workbench, folder=tmp_path) as through,
    ):
        await through.initialize()
        opening, _ = await asyncio.gather(through.open("box"), direct.initialize())
        definitions: list[Json] = []
        cursor: Json = {}
        while cursor is not None:
            page = (await direct.ask("tools/list", cursor))["result"]
            definitions += page["tools"]
            cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None  # type: ignore[assignment]
        added = {"toolbox_name": "box", "source_server": name}
        assert opening["tools"] == [{**definition, **added} for definition in definitions]
        for server, tool, arguments in CALLS:
            if server == name:
                asked = {"name": tool, "arguments": arguments}
                used = {"name": "use_tool", "arguments": use(name, tool, arguments)}
                await direct.begin("tools/call", asked, "the same")
                await through.begin("tools/call", used, "the same")
                expected, seen = (json.loads(client.lines[-1]) for client in (direct, through))
                assert seen == expected
                assert payload(through.lines[-1]) == payload(direct.lines[-1])


def payload(line: bytes) -> bytes:
    """The result or error of an answer as it was written."""
    return line.rstrip()[min(at for at in (line.find(b'"result":'), line.find(b'"error":')) if at >= 0) :]


async def test_a_call_that_the_official_client_gives_up_is_cancelled_in_the_official_server(
    tmp_path: Path,
) -> None:
    async with client_of(tmp_path, "auto", lower=ENTRIES["lower"]) as client:
        await opened(client)
        arguments = use("lower", "waits", {"folder": str(tmp_path)})
        call = asyncio.create_task(client.call_tool("use_tool", arguments))
        await until((tmp_path / "began").exists)
        call.cancel()
        await asyncio.wait((call,))
        assert call.cancelled()
        await until((tmp_path / "cancelled").exists)
        result = await client.call_tool("use_tool", use("lower", "echo", {"text": "still here"}))
        assert not result.is_error


async def test_many_calls_at_once_get_their_own_answers(tmp_path: Path) -> None:
    async with (
        nearby(tmp_path, lambda: lowlevel_server.server) as lower,
        client_of(tmp_path, "auto", lower=lower, typed=ENTRIES["typed"]) as client,
    ):
        await opened(client)

        async def added(number: int) -> Any:
            result = await client.call_tool("use_tool", use("typed", "add", {"a": number, "b": 0.5}))
            return result.structured_content

        async def echoed(number: int) -> Any:
            result = await client.call_tool("use_tool", use("lower", "echo", {"text": str(number)}))
            return result.content[0].text  # type: ignore[union-attr]

        sums = asyncio.gather(*(added(number) for number in range(100)))
        echoes = asyncio.gather(*(echoed(number) for number in range(100)))
        assert await sums == [{"result": number + 0.5} for number in range(100)]
        assert await echoes == [str(number) for number in range(100)]


# Refused arguments and long results ---------------------------------------------------------------


async def test_how_the_official_server_refuses_arguments_is_understood_and_nothing_else(
    tmp_path: Path,
) -> None:
    refused: list[tuple[str, Json]] = [("place", {}), ("place", {"name": 5}), ("add", {"a": 1, "b": []})]
    failed: list[tuple[str, Json]] = [("fails", {"why": "login required"}), ("breaks", {}), ("none", {})]
    async with client_of(tmp_path, "legacy", typed=ENTRIES["typed"]) as client:
        await client.call_tool("open_toolbox", {"toolbox_name": "box", "detail": "names"})
        for tool, arguments in refused:
            result = await client.call_tool("use_tool", use("typed", tool, arguments))
            own, beside = (block.text for block in result.content if block.type == "text")
            assert result.is_error
            assert own.startswith(f"Error executing tool {tool}: ")
            assert beside.startswith(f'Input schema of {tool}: {{"')
        for tool, arguments in failed:
            result = await client.call_tool("use_tool", use("typed", tool, arguments))
            assert result.is_error
            assert len(result.content) == 1


@pytest.mark.parametrize("way", ["proxy", "dynamic", "fixed"])
async def test_the_official_client_takes_results_that_are_shown_in_part(tmp_path: Path, way: str) -> None:
    items = {"items": [{"n": n} for n in range(2000)]}
    content = [{"type": "text", "text": "2,000 items"}]
    schema = {"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]}
    listed = {
        "name": "list",
        "does": "result",
        "with": {"json": json.dumps({"content": content, "structuredContent": items})},
        "inputSchema": {"type": "object"},
        "outputSchema": schema,
    }
    config = toolboxes(box={"it": fake(tools=[listed]) | {"maxResultTokens": 600}})
    started = through_workbench(tmp_path, config | {"toolMode": "dynamic" if way == "dynamic" else "proxy"})
    started.args += ["--toolbox", "box"] * (way == "fixed")
    async with Client(started, mode="legacy") as client:
        await client.call_tool("open_toolbox", {"toolbox_name": "box"})
        await all_tools(client)
        names = {"dynamic": "box__it_list", "fixed": "it_list", "proxy": "use_tool"}
        result = await client.call_tool(names[way], use("it", "list", {}) if way == "proxy" else {})
        assert not result.is_error
        assert result.structured_content is None
        (link,) = (block for block in result.content if block.type == "resource_link")
        (whole,) = (await client.read_resource(link.uri)).contents
        assert isinstance(whole, types.TextResourceContents)
        assert json.loads(whole.text) == items
        handle = link.uri.rpartition("/")[2]
        part = await client.call_tool("read_result", {"handle": handle, "grep": '"n": 77}'})
        assert '{"n": 77}' in part.content[0].text  # type: ignore[union-attr]


# All that a server may offer, ask and tell ------------------------------------------------------


@dataclass
class Talk:
    """The official client before the workbench, and official servers behind it."""

    client: Client
    way: str
    servers: list[Asking]  # those that were started, in that order

    def native(self, name: str) -> str:
        return f"it_{name}" if self.way == "fixed" else f"box__it_{name}"

    async def call(self, tool: str, arguments: Json | None = None, **options: Any) -> types.CallToolResult:
        """Call a tool in the way that there is."""
        if self.way == "proxy":
            return await self.client.call_tool("use_tool", use("it", tool, arguments or {}), **options)
        return await self.client.call_tool(self.native(tool), arguments, **options)

    async def text(self, tool: str, arguments: Json | None = None, **options: Any) -> str:
        """The text of a call that succeeds."""
        result = await self.call(tool, arguments, **options)
        assert not result.is_error, result
        return text_of(result)

    async def told(self, tool: str, arguments: Json | None = None, **options: Any) -> Any:
        """The same where that text is JSON."""
        return json.loads(await self.text(tool, arguments, **options))


def text_of(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@asynccontextmanager
async def connected(
    folder: Path, way: str, *boxes: str, record: Path | None = None, **callbacks: Any
) -> AsyncIterator[Talk]:
    """The same server in each of these toolboxes, none of which is open but a fixed one."""
    servers: list[Asking] = []

    def another() -> Server[Any]:
        servers.append(Asking(len(servers)))
        return servers[-1].server

    async with nearby(folder, another) as entry:
        config = toolboxes(**{box: {"it": entry} for box in boxes or ("box",)})
        config["toolMode"] = "dynamic" if way == "dynamic" else "proxy"
        started = through_workbench(folder, config)
        if way == "fixed":
            started.args += ["--toolbox", "box"]
        if record:
            started = recorded(started, record)
        async with Client(started, mode="legacy", **callbacks) as client:
            yield Talk(client, way, servers)


@asynccontextmanager
async def talking(folder: Path, way: str, **options: Any) -> AsyncIterator[Talk]:
    """The same with the one toolbox open, its tools known to the client where they are native."""
    async with connected(folder, way, **options) as talk:
        if way != "fixed":
            await opened(talk.client)
        await talk.client.list_tools()
        yield talk


def by(*ways: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", ways)


every_way = by("proxy", "dynamic", "fixed")

Note = types.ServerNotification


class Notes:
    """A message handler that keeps what it gets."""

    def __init__(self) -> None:
        self.all: list[Note] = []

    async def __call__(self, message: Note | Exception) -> None:
        assert not isinstance(message, Exception), message
        self.all.append(message)

    def of(self, kind: type[Any]) -> list[Any]:
        return [note for note in self.all if isinstance(note, kind)]

    def methods(self) -> list[str]:
        return [note.method for note in self.all]


class Steps:
    """A progress callback that keeps what it gets."""

    def __init__(self) -> None:
        self.all: list[tuple[float, float | None, str | None]] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.all.append((progress, total, message))


# Sampling ---------------------------------------------------------------------------------------


@every_way
async def test_a_server_samples_with_the_clients_model(tmp_path: Path, way: str) -> None:
    asked: list[types.CreateMessageRequestParams] = []

    async def sample(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        asked.append(params)
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(text="ünïcödé ☃"),
            model="tiny",
            stop_reason="maxTokens",
            _meta={"vendor/x": 1},
        )

    async with talking(tmp_path, way, sampling_callback=sample) as talk:
        told = await talk.told("samples", {"prompt": "What now?"})
    (params,) = asked
    assert params.model_dump(by_alias=True, exclude={"meta"}, exclude_none=True) == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "What now?"}}],
        "maxTokens": 7,
        "systemPrompt": "Be brief.",
        "temperature": 0.5,
        "stopSequences": ["\n"],
        "modelPreferences": {"hints": [{"name": "small"}]},
        "metadata": {"vendor": [1, None]},
    }
    assert told["answer"] == {
        "role": "assistant",
        "content": {"type": "text", "text": "ünïcödé ☃"},
        "model": "tiny",
        "stopReason": "maxTokens",
        "_meta": {"vendor/x": 1},
    }


@by("proxy")
async def test_a_server_hears_how_its_question_gets_on(tmp_path: Path, way: str) -> None:
    async def sample(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        assert context.meta
        for step in (1, 2.5, 4):
            await context.session.send_progress_notification(context.meta["progress_token"], step, 4, "hm")
        return SAMPLED

    async with talking(tmp_path, way, sampling_callback=sample) as talk:
        assert (await talk.told("samples", {"prompt": "What now?"}))["steps"] == [1, 2.5, 4]


SAMPLED = types.CreateMessageResult(role="assistant", content=types.TextContent(text="42"), model="tiny")


async def samples(
    context: ClientRequestContext, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult:
    return SAMPLED


@by("proxy", "fixed")
async def test_a_sampling_that_the_client_refuses_is_refused_in_its_words(tmp_path: Path, way: str) -> None:
    async def sample(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.ErrorData:
        return types.ErrorData(code=-1, message="The user said no", data={"why": ["busy"]})

    async with talking(tmp_path, way, sampling_callback=sample) as talk:
        # The server hands the error that it got on to who called it.
        with pytest.raises(MCPError) as refused:
            await talk.call("samples", {"prompt": "What now?"})
        assert (await talk.told("knows"))["capabilities"] == {"sampling": {}}
    assert refused.value.error == types.ErrorData(code=-1, message="The user said no", data={"why": ["busy"]})


@by("fixed")
async def test_a_server_may_give_tools_to_a_model_that_can_use_them(tmp_path: Path, way: str) -> None:
    async def sample(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResultWithTools:
        assert params.tools
        wanted = types.ToolUseContent(name=params.tools[0].name, id="1", input={"at": "me"})
        return types.CreateMessageResultWithTools(
            role="assistant", content=[wanted], model="tiny", stop_reason="toolUse"
        )

    can = types.SamplingCapability(tools=types.SamplingToolsCapability())
    async with talking(tmp_path, way, sampling_callback=sample, sampling_capabilities=can) as talk:
        (use_of_tool,) = await talk.told("samples_with_tools")
    assert use_of_tool == {"type": "tool_use", "name": "look", "id": "1", "input": {"at": "me"}}


async def test_a_server_gives_no_tools_to_a_model_that_cannot_use_them(tmp_path: Path) -> None:
    async with talking(tmp_path, "dynamic", sampling_callback=samples) as talk:
        with pytest.raises(MCPError, match="does not support sampling tools"):
            await talk.call("samples_with_tools")


@by("proxy", "dynamic")
async def test_a_question_is_withdrawn_with_the_call_that_it_was_asked_for(tmp_path: Path, way: str) -> None:
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def sample(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        try:
            asked.set()
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        return SAMPLED

    async with talking(tmp_path, way, sampling_callback=sample) as talk, asyncio.timeout(PATIENCE):
        await given_up(talk.call("waits", {"asking": True}), once=asked)
        await withdrawn.wait()
        await until(lambda: talk.servers[0].cancelled)
        assert await talk.told("knows")


# Elicitation ------------------------------------------------------------------------------------


def elicits(
    asked: list[types.ElicitRequestParams], *answers: types.ElicitResult | types.ErrorData
) -> ElicitationFnT:
    """A user who gives these answers, one after the other."""
    left = iter(answers)

    async def elicit(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        asked.append(params)
        return next(left)

    return elicit


@every_way
async def test_a_form_reaches_the_user_and_each_of_the_answers_the_server(tmp_path: Path, way: str) -> None:
    asked: list[types.ElicitRequestParams] = []
    filled = types.ElicitResult(action="accept", content={"name": "Ånn", "age": 7, "newsletter": True})
    sparse = types.ElicitResult(action="accept", content={"name": "Bo"})
    refused = (types.ElicitResult(action="decline"), types.ElicitResult(action="cancel"))
    user = elicits(asked, filled, sparse, *refused)
    async with talking(tmp_path, way, elicitation_callback=user) as talk:
        person = {"name": "Ånn", "age": 7, "newsletter": True}
        assert await talk.told("elicits") == {"action": "accept", "data": person}
        person = {"name": "Bo", "age": 0, "newsletter": False}
        assert await talk.told("elicits") == {"action": "accept", "data": person}
        assert await talk.told("elicits") == {"action": "decline"}
        assert await talk.told("elicits") == {"action": "cancel"}
    for params in asked:
        assert isinstance(params, types.ElicitRequestFormParams)
        assert params.message == "[box/it] Who are you?"
        assert params.requested_schema == render_elicitation_schema(Person)


@by("dynamic")
async def test_a_form_that_the_client_cannot_show_is_refused_in_its_words(tmp_path: Path, way: str) -> None:
    user = elicits([], types.ErrorData(code=-32603, message="No window"))
    async with talking(tmp_path, way, elicitation_callback=user) as talk:
        with pytest.raises(MCPError) as refused:
            await talk.call("elicits")
    assert refused.value.error == types.ErrorData(code=-32603, message="No window")


@every_way
async def test_the_user_is_sent_to_a_page_and_told_when_that_is_done(tmp_path: Path, way: str) -> None:
    asked: list[types.ElicitRequestParams] = []
    notes = Notes()
    user = elicits(asked, *(types.ElicitResult(action=action) for action in ("accept", "decline", "cancel")))
    async with talking(tmp_path, way, elicitation_callback=user, message_handler=notes) as talk:
        for action in ("accept", "decline", "cancel"):
            assert await talk.text("sends_to_a_page", {"id": "one"}) == action
        await talk.call("completes", {"id": "one"})
        (complete,) = notes.of(types.ElicitCompleteNotification)
    for params in asked:
        assert isinstance(params, types.ElicitRequestURLParams)
        assert (params.message, params.url) == ("[box/it] Sign in, please.", PAGE)
        assert params.elicitation_id == complete.params.elicitation_id


@by("proxy", "dynamic")
async def test_a_call_may_need_a_page_first(tmp_path: Path, way: str) -> None:
    notes = Notes()
    async with talking(tmp_path, way, elicitation_callback=elicits([]), message_handler=notes) as talk:
        with pytest.raises(MCPError) as needed:
            await talk.call("needs_a_page", {"id": "one"})
        (page,) = UrlElicitationRequiredError.from_error(needed.value.error).elicitations
        await talk.call("completes", {"id": "one"})
        (complete,) = notes.of(types.ElicitCompleteNotification)
    assert (page.message, page.url) == ("[box/it] Sign in first.", PAGE)
    assert page.elicitation_id == complete.params.elicitation_id


@by("proxy", "dynamic")
async def test_two_servers_that_ask_at_once_each_get_their_own_answer(tmp_path: Path, way: str) -> None:
    both_asked = asyncio.Event()
    asked: list[str] = []

    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        if len(asked) == 2:
            both_asked.set()
        await both_asked.wait()
        return types.ElicitResult(action="accept", content={"name": params.message})

    async with connected(tmp_path, way, "left", "right", elicitation_callback=elicit) as talk:
        answers = {}

        async def ask(box: str) -> None:
            await talk.client.call_tool("open_toolbox", {"toolbox_name": box})
            address = {"toolbox": box, "server": "it", "tool": "elicits"}
            name, arguments = (
                ("use_tool", {"tool": address}) if way == "proxy" else (f"{box}__it_elicits", {})
            )
            result = await talk.client.call_tool(name, arguments)
            answers[box] = json.loads(text_of(result))["data"]["name"]

        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(ask("left"), ask("right"))
    assert answers == {"left": "[left/it] Who are you?", "right": "[right/it] Who are you?"}


# Roots ------------------------------------------------------------------------------------------


async def lists_roots(context: ClientRequestContext) -> types.ListRootsResult:
    roots = [types.Root(uri=FileUrl("file:///home/a%20b"), name="home"), types.Root(uri=FileUrl("file:///c"))]
    return types.ListRootsResult(roots=roots)


@every_way
async def test_a_server_lists_the_clients_roots_and_hears_of_new_ones(tmp_path: Path, way: str) -> None:
    changed = "notifications/roots/list_changed"
    async with talking(tmp_path, way, list_roots_callback=lists_roots) as talk:
        assert await talk.told("lists_roots") == ["file:///home/a%20b", "file:///c"]
        assert changed not in talk.servers[0].heard
        await talk.client.send_roots_list_changed()
        await talk.call("knows")  # comes after it
        assert talk.servers[0].heard.count(changed) == 1


# What is declared -------------------------------------------------------------------------------


CALLBACKS: Json = {
    "sampling": {"sampling_callback": samples},
    "elicitation": {"elicitation_callback": elicits([])},
    "roots": {"list_roots_callback": lists_roots},
}
NEEDS = {
    "samples": "sampling",
    "elicits": "elicitation",
    "sends_to_a_page": "elicitation",
    "lists_roots": "roots",
}


@pytest.mark.parametrize("declared", ["", *CALLBACKS])
async def test_a_server_knows_what_the_client_declared_and_nothing_else_is_asked(
    tmp_path: Path, declared: str
) -> None:
    # What reached this client undeclared it would refuse as an invalid request.
    async with talking(tmp_path, "dynamic", **CALLBACKS.get(declared, {})) as talk:
        known = (await talk.told("knows"))["capabilities"]
        assert [*known] == ([declared] if declared else [])
        for tool, needed in NEEDS.items():
            if needed != declared:
                with pytest.raises(MCPError) as refused:
                    await talk.call(tool, {"prompt": "What now?", "id": "one"})
                assert refused.value.code == types.METHOD_NOT_FOUND


async def test_a_server_knows_all_details_of_what_the_client_declared(tmp_path: Path) -> None:
    callbacks = {key: callback for each in CALLBACKS.values() for key, callback in each.items()}
    can = types.SamplingCapability(tools=types.SamplingToolsCapability())
    direct = Asking()
    async with (
        talking(tmp_path, "proxy", sampling_capabilities=can, **callbacks) as talk,
        Client(direct.server, mode="legacy", sampling_capabilities=can, **callbacks) as client,
    ):
        expected = json.loads(text_of(await client.call_tool("knows")))
        assert expected["capabilities"]["sampling"] == {"tools": {}}
        assert await talk.told("knows") == expected


@by("proxy", "dynamic")
async def test_what_a_client_says_in_meta_reaches_the_servers_code(tmp_path: Path, way: str) -> None:
    meta: Any = {"vendor/x": {"deep": [1.5, None]}, "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}
    async with talking(tmp_path, way) as talk:
        assert (await talk.told("knows", meta=meta))["meta"] == meta


# Lists that change ------------------------------------------------------------------------------


CHANGES = [f"notifications/{kind}/list_changed" for kind in ("prompts", "resources", "tools")]


@by("proxy", "dynamic")
async def test_a_handler_hears_of_each_opening_and_closing_once_and_then_lists_anew(
    tmp_path: Path, way: str
) -> None:
    seen: list[tuple[str, list[str]]] = []

    async def relist(message: Note | Exception) -> None:
        """As clients do: list anew what has changed."""
        match message:
            case types.ToolListChangedNotification():
                seen.append((message.method, [tool.name for tool in (await client.list_tools()).tools]))
            case types.PromptListChangedNotification():
                seen.append((message.method, [it.name for it in (await client.list_prompts()).prompts]))
            case types.ResourceListChangedNotification():
                seen.append((message.method, [it.uri for it in (await client.list_resources()).resources]))
            case _:
                pytest.fail(f"unexpected: {message}")

    async with connected(tmp_path, way, message_handler=relist) as talk:
        client = talk.client
        assert client.server_capabilities.tools
        assert bool(client.server_capabilities.tools.list_changed) == (way == "dynamic")
        meta_tools = [tool.name for tool in (await client.list_tools()).tools]
        assert meta_tools == ["open_toolbox", "use_tool", "close_toolbox"]
        tools = [talk.native(tool.__name__) for tool in Asking()._all_tools()]
        expected = [
            (CHANGES[0], ["box__it_letter"]),
            (CHANGES[1], ["memo://plan", "memo://dot"]),
            (CHANGES[2], meta_tools + tools),
        ]
        told = 3 if way == "dynamic" else 2
        answer = await opened(client)
        if way == "dynamic":
            assert answer["tools"] == tools
        await until(lambda: len(seen) >= told)
        assert sorted(seen) == expected[:told]
        seen.clear()
        await client.call_tool("close_toolbox", {"toolbox_name": "box"})
        await until(lambda: len(seen) >= told)
        assert sorted(seen) == [(CHANGES[0], []), (CHANGES[1], []), (CHANGES[2], meta_tools)][:told]
        assert (await client.list_resource_templates()).resource_templates == []


async def test_the_tools_of_a_fixed_toolbox_are_in_the_first_list_and_not_told_of(tmp_path: Path) -> None:
    notes = Notes()
    async with connected(tmp_path, "fixed", message_handler=notes) as talk:
        assert talk.client.server_capabilities.tools == types.ToolsCapability(list_changed=True)
        names = [tool.name for tool in (await talk.client.list_tools()).tools]
        assert names[3:] == [talk.native(tool.__name__) for tool in Asking()._all_tools()]
        assert (await talk.client.list_prompts()).prompts[0].name == "it_letter"
        await talk.call("knows")
        assert notes.all == []


@pytest.mark.parametrize("asked", ["tool", "prompt", "resource", "completion"])
async def test_what_is_in_a_fixed_toolbox_is_there_for_a_client_that_need_not_list_it(
    tmp_path: Path, asked: str
) -> None:
    async with connected(tmp_path, "fixed") as talk:
        match asked:
            case "tool":
                assert await talk.text("knows")
            case "prompt":
                assert (await talk.client.get_prompt("it_letter", {"to": "Ann"})).messages
            case "resource":
                assert (await talk.client.read_resource("memo://plan")).contents
            case "completion":
                ref = types.PromptReference(name="it_letter")
                assert (await talk.client.complete(ref, {"name": "to", "value": "A"})).completion.values


async def test_a_handler_hears_of_what_a_server_has_more_and_finds_it_at_the_end(tmp_path: Path) -> None:
    notes = Notes()
    async with talking(tmp_path, "fixed", message_handler=notes) as talk:
        before = await talk.client.list_tools()
        await talk.call("grows", {"name": "leaf"})
        await until(lambda: len(notes.all) >= 3)
        assert sorted(notes.methods()) == CHANGES
        after = await talk.client.list_tools()
        assert after.tools[:-1] == before.tools
        assert after.tools[-1].name == "it_leaf"
        assert (await talk.client.list_prompts()).prompts[-1].name == "it_leaf"
        assert (await talk.client.list_resources()).resources[-1].uri == "memo://grown/leaf"
        assert await talk.text("leaf") == "leaf of 0"


async def test_the_pages_of_many_tools_are_turned_to_their_end(tmp_path: Path) -> None:
    config = toolboxes(box={"many": fake(tools=["echo"], many_tools=1100)})
    started = through_workbench(tmp_path, config)
    started.args += ["--toolbox", "box"]
    async with Client(started, mode="legacy") as client:
        first = await client.list_tools()
        pages = await all_tools(client)
        names = [tool.name for page in pages for tool in page]
        assert len(pages) > 2
        assert names[3:] == ["many_echo", *(f"many_tool_{number}" for number in range(1100))]
        assert (await client.list_tools(cursor=first.next_cursor)).tools == pages[1]
        with pytest.raises(MCPError) as refused:
            await client.list_tools(cursor="mine")
        assert refused.value.code == types.INVALID_PARAMS
        assert text_of(await client.call_tool(names[-1], {"text": "the last"})) == "the last"


# As a direct client sees it ---------------------------------------------------------------------


@asynccontextmanager
async def both(folder: Path, way: str) -> AsyncIterator[tuple[Client, Talk]]:
    """A client that talks to the same server directly, and the talk through the workbench."""
    async with Client(Asking().server, mode="legacy") as direct, talking(folder, way) as talk:
        yield direct, talk


def named(definition: Any, talk: Talk) -> Any:
    """The definition of a tool or prompt as the workbench offers it natively."""
    label = " ".join(filter(None, ("[box/it]", definition.description)))
    return definition.model_copy(update={"name": talk.native(definition.name), "description": label})


@by("dynamic", "fixed")
async def test_native_definitions_are_the_servers_own_but_for_the_name_and_the_label(
    tmp_path: Path, way: str
) -> None:
    async with both(tmp_path, way) as (direct, talk):
        expected = [named(tool, talk) for tool in (await direct.list_tools()).tools]
        assert any(tool.output_schema and tool.icons and tool.meta and tool.annotations for tool in expected)
        assert (await talk.client.list_tools()).tools[3:] == expected


@by("dynamic", "fixed")
async def test_structured_content_is_checked_against_the_schema_as_it_is_directly(
    tmp_path: Path, way: str
) -> None:
    async def checked(client: Client, tool: str, reading: Json | None) -> Any:
        try:
            return (await client.call_tool(tool, {"reading": reading})).structured_content
        except RuntimeError as error:  # the client's own, of what does not fit
            return str(error).replace(tool, "TOOL")

    async with both(tmp_path, way) as (direct, talk):
        for fits in ({"celsius": -3.5}, {"celsius": 1, "sky": "grey", "new": None}):
            assert await checked(direct, "measures", fits) == fits
            assert await checked(talk.client, talk.native("measures"), fits) == fits
        for fails in ({"celsius": "cold"}, {"celsius": 1, "sky": 2}, {"sky": "grey"}, None):
            complaint = await checked(direct, "measures", fails)
            assert "TOOL" in complaint
            assert await checked(talk.client, talk.native("measures"), fails) == complaint


@every_way
async def test_prompts_resources_and_templates_are_the_servers_own(tmp_path: Path, way: str) -> None:
    async with both(tmp_path, way) as (direct, talk):
        expected = [named(prompt, talk) for prompt in (await direct.list_prompts()).prompts]
        assert (await talk.client.list_prompts()).prompts == expected
        pages = [await direct.list_resources(), await direct.list_resources(cursor="1")]
        assert pages[1].next_cursor is None
        listed = await talk.client.list_resources()
        assert listed.resources == [resource for page in pages for resource in page.resources]
        templates = (await direct.list_resource_templates()).resource_templates
        assert (await talk.client.list_resource_templates()).resource_templates == templates


@by("proxy", "fixed")
async def test_a_prompt_is_got_as_it_is_directly(tmp_path: Path, way: str) -> None:
    async with both(tmp_path, way) as (direct, talk):
        arguments = {"to": "Ånn", "tone": ""}
        expected = await direct.get_prompt("letter", arguments)
        assert len(expected.messages) == 3
        assert await talk.client.get_prompt(talk.native("letter"), arguments) == expected
        for wrong in ("letter", talk.native("postcard")):
            with pytest.raises(MCPError) as missing:
                await talk.client.get_prompt(wrong)
            assert missing.value.code == types.INVALID_PARAMS


@by("proxy", "fixed")
async def test_resources_are_read_as_they_are_directly_listed_or_made_from_a_template(
    tmp_path: Path, way: str
) -> None:
    async with both(tmp_path, way) as (direct, talk):
        (template,) = (await talk.client.list_resource_templates()).resource_templates
        made = UriTemplate.parse(template.uri_template).expand({"author": "Å/b", "title": "a b?"})
        for uri in ("memo://plan", "memo://dot", made):
            expected = await direct.read_resource(uri)
            assert expected.contents[0].uri == uri
            assert await talk.client.read_resource(uri) == expected
        for uri in ("memo://nowhere", "memo://notes/half"):
            with pytest.raises(MCPError) as expected_error:
                await direct.read_resource(uri)
            with pytest.raises(MCPError) as missing:
                await talk.client.read_resource(uri)
            assert missing.value.error == expected_error.value.error


@by("dynamic", "fixed")
async def test_arguments_are_completed_as_they_are_directly(tmp_path: Path, way: str) -> None:
    async with both(tmp_path, way) as (direct, talk):
        prompts = types.PromptReference(name="letter"), types.PromptReference(name=talk.native("letter"))
        template = types.ResourceTemplateReference(uri=str(NOTE))
        for known, own in (prompts, (template, template)):
            for context in (None, {"tone": "kind"}):
                asked = ({"name": "to", "value": "Å"}, context)
                expected = await direct.complete(known, *asked)
                assert "to=Å" in expected.completion.values
                assert await talk.client.complete(own, *asked) == expected
        with pytest.raises(MCPError) as missing:
            await talk.client.complete(types.PromptReference(name="nobody's"), {"name": "to", "value": ""})
        assert missing.value.code == types.INVALID_PARAMS


async def test_what_a_server_of_the_higher_level_offers_asks_and_tells_is_as_it_is_directly(
    tmp_path: Path,
) -> None:
    asked: list[types.ElicitRequestParams] = []

    def answering() -> ElicitationFnT:
        return elicits(asked, types.ElicitResult(action="accept", content={"name": "Å"}))

    async with AsyncExitStack() as stack:
        config = toolboxes(box={"it": ENTRIES["typed"]}) | {"toolMode": "dynamic"}
        clients = (
            Client(directly("typed"), mode="legacy", elicitation_callback=answering()),
            Client(through_workbench(tmp_path, config), mode="legacy", elicitation_callback=answering()),
        )
        through = await stack.enter_async_context(clients[1])
        opening = asyncio.create_task(opened(through))
        direct = await stack.enter_async_context(clients[0])
        await opening
        talk = Talk(through, "dynamic", [])
        tools = [named(tool, talk) for tool in (await direct.list_tools()).tools]
        assert (await through.list_tools()).tools[3:] == tools
        prompts = [named(prompt, talk) for prompt in (await direct.list_prompts()).prompts]
        assert (await through.list_prompts()).prompts == prompts
        assert await through.list_resources() == await direct.list_resources()
        assert await through.list_resource_templates() == await direct.list_resource_templates()
        for uri in ("town://mayor", "town://houses/7"):
            assert await through.read_resource(uri) == await direct.read_resource(uri)
        expected = await direct.get_prompt("visit", {"who": "Å"})
        assert await through.get_prompt("box__it_visit", {"who": "Å"}) == expected
        argument = {"name": "number", "value": "1"}
        house = types.ResourceTemplateReference(uri="town://houses/{number}")
        expected_values = (await direct.complete(house, argument)).completion
        assert expected_values.values == ["10", "11", "12"]
        assert (await through.complete(house, argument)).completion == expected_values
        expected_result = await direct.call_tool("settles")
        assert expected_result.structured_content == {"result": "Å settles"}
        assert await through.call_tool("box__it_settles") == expected_result
        expected_steps, steps = Steps(), Steps()
        await direct.call_tool("counts", {"to": 5}, progress_callback=expected_steps)
        await through.call_tool("box__it_counts", {"to": 5}, progress_callback=steps)
        assert steps.all == expected_steps.all == [(step, 5, None) for step in range(1, 6)]
    assert [params.message for params in asked] == ["Who comes?", "[box/it] Who comes?"]


# The same server twice --------------------------------------------------------------------------


async def test_the_uris_of_the_same_server_twice_lead_back_to_each(tmp_path: Path) -> None:
    notes = Notes()
    async with connected(tmp_path, "proxy", "left", "right", message_handler=notes) as talk:
        client = talk.client
        for box in ("left", "right"):
            await client.call_tool("open_toolbox", {"toolbox_name": box})
        plans = [it.uri for it in (await client.list_resources()).resources if it.name == "plan"]
        templates = [it.uri_template for it in (await client.list_resource_templates()).resource_templates]
        assert (plans[0], templates[0]) == ("memo://plan", str(NOTE))
        assert len({*plans}) == len({*templates}) == 2
        for number, (plan, template) in enumerate(zip(plans, templates, strict=True)):
            own = talk.servers[number]
            contents = (await client.read_resource(plan)).contents[0]
            assert contents.model_dump(exclude_none=True) == {"uri": plan, "text": f"plan of {own.number}"}
            note = UriTemplate.parse(template).expand({"author": "Å", "title": "a/b"})
            contents = (await client.read_resource(note)).contents[0]
            text = f"a/b by Å, in {own.number}"
            assert contents.model_dump(exclude_none=True) == {"uri": note, "text": text}
            ref = types.ResourceTemplateReference(uri=template)
            completed = (await client.complete(ref, {"name": "author", "value": ""})).completion
            assert completed.values[0] == str(NOTE)
            await client.subscribe_resource(plan)
            assert own.subscribed == {"memo://plan"}
            box = ("left", "right")[number]
            address = {"toolbox": box, "server": "it", "tool": "touches"}
            await client.call_tool("use_tool", {"tool": address, "arguments": {"uri": "memo://plan"}})
            assert notes.of(types.ResourceUpdatedNotification)[-1].params.uri == plan
            address = {"toolbox": box, "server": "it", "tool": "links"}
            linking = await client.call_tool(
                "use_tool", {"tool": address, "arguments": {"uri": "memo://plan"}}
            )
            link, embedded = linking.content
            assert isinstance(link, types.ResourceLink)
            assert isinstance(embedded, types.EmbeddedResource)
            assert link.uri == embedded.resource.uri == plan


# Subscriptions, logging, progress, cancellation -------------------------------------------------


@by("proxy", "fixed")
async def test_a_handler_hears_of_updates_while_the_client_is_subscribed(tmp_path: Path, way: str) -> None:
    notes = Notes()
    uri = "memo://plan"
    async with talking(tmp_path, way, message_handler=notes) as talk:
        await talk.call("touches", {"uri": uri})
        await talk.client.subscribe_resource(uri)
        assert await talk.told("touches", {"uri": uri}) == [uri]
        await talk.client.unsubscribe_resource(uri)
        assert await talk.told("touches", {"uri": uri}) == []
    (updated,) = notes.of(types.ResourceUpdatedNotification)
    assert updated.params.uri == uri


@by("proxy", "fixed")
async def test_the_level_reaches_the_server_and_only_graver_messages_the_client(
    tmp_path: Path, way: str
) -> None:
    logged: list[types.LoggingMessageNotificationParams] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params)

    async with talking(tmp_path, way, logging_callback=log) as talk:
        await talk.call("logs", {"logger": "own"})
        assert [(it.level, it.logger, it.data) for it in logged] == [
            (level, "box/it/own", {"said": level}) for level in ("debug", "warning", "error")
        ]
        logged.clear()
        await talk.client.set_logging_level("warning")
        await talk.call("logs")
        assert talk.servers[0].level == "warning"
        assert [(it.level, it.logger) for it in logged] == [("warning", "box/it"), ("error", "box/it")]


async def test_a_level_that_is_set_before_the_opening_holds_for_what_is_opened(tmp_path: Path) -> None:
    async with connected(tmp_path, "dynamic") as talk:
        await talk.client.set_logging_level("alert")
        assert talk.servers == []
        await opened(talk.client)
        await talk.call("knows")  # comes after the level
        assert talk.servers[0].level == "alert"


@every_way
async def test_a_callback_gets_all_progress_in_order_and_before_the_result(tmp_path: Path, way: str) -> None:
    steps = Steps()
    async with talking(tmp_path, way) as talk:
        assert await talk.text("counts", {"to": 100}, progress_callback=steps) == "counted"
        assert steps.all == [(step / 4, 100, f"step {step}") for step in range(1, 101)]
        await talk.text("counts", {"to": 1})  # of which nobody wants to know
    assert len(steps.all) == 100


async def given_up(call: Coroutine[Any, Any, Any], once: asyncio.Event) -> None:
    """Cancel the scope of a call when something has happened."""
    scope = anyio.CancelScope()

    async def give_up() -> None:
        await once.wait()
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(give_up)
        with scope:
            await call
    assert scope.cancelled_caught


@every_way
async def test_a_call_whose_scope_is_cancelled_is_cancelled_in_the_server_once(
    tmp_path: Path, way: str
) -> None:
    async with talking(tmp_path, way) as talk, asyncio.timeout(PATIENCE):
        await talk.call("knows")
        server = talk.servers[0]
        other = asyncio.create_task(talk.call("waits"))
        await server.began.wait()
        server.began.clear()
        await given_up(talk.call("waits"), once=server.began)
        await talk.call("knows")  # comes after the cancellation
        await until(lambda: server.cancelled)
        assert server.cancelled == server.heard.count("notifications/cancelled") == 1
        other.cancel()
        await asyncio.wait((other,))
        await talk.call("knows")
        await until(lambda: server.cancelled == 2)
        assert server.heard.count("notifications/cancelled") == 2


# What the workbench writes ----------------------------------------------------------------------


def recorded(command: StdioServerParameters, record: Path) -> StdioServerParameters:
    """The same command with all that it reads and writes kept in files."""
    script = 'tee "$0.in" | "$@" | tee "$0.out"'
    return StdioServerParameters(
        command="sh", args=["-c", script, str(record), command.command, *command.args]
    )


def messages(file: Path) -> list[types.JSONRPCMessage]:
    """Every line of a record, each of which must be a message."""
    data = file.read_bytes()
    assert data.endswith(b"\n")
    return [types.jsonrpc_message_adapter.validate_json(line) for line in data.splitlines()]


# Each tool that asks or tells something, with its arguments.
ASKING_AND_TELLING: list[tuple[str, Json]] = [
    ("samples", {"prompt": "What now?"}),
    ("elicits", {}),
    ("sends_to_a_page", {"id": "one"}),
    ("needs_a_page", {"id": "one"}),
    ("completes", {"id": "one"}),
    ("lists_roots", {}),
    ("logs", {}),
    ("measures", {"reading": {"celsius": 1}}),
    ("links", {"uri": "memo://plan"}),
    ("nobody's", {}),
]
RELAYED = {
    "sampling/createMessage",
    "elicitation/create",
    "roots/list",
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/message",
    "notifications/progress",
    "notifications/resources/updated",
}


@every_way
async def test_each_line_of_a_session_is_a_message_as_the_sdk_knows_it(tmp_path: Path, way: str) -> None:
    record = tmp_path / "record"
    answers = types.ElicitResult(action="accept", content={"name": "Å"}), types.ElicitResult(action="decline")
    answers_of_the_model = iter([SAMPLED])
    left_open = asyncio.Event()

    async def sample(
        context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        for answer in answers_of_the_model:
            return answer
        left_open.set()
        await asyncio.Event().wait()  # until it is withdrawn
        return SAMPLED

    async with talking(
        tmp_path,
        way,
        record=record,
        sampling_callback=sample,
        elicitation_callback=elicits([], *answers),
        list_roots_callback=lists_roots,
    ) as talk:
        client, revision = talk.client, talk.client.protocol_version
        await client.send_ping()
        await client.set_logging_level("debug")
        for tool, arguments in ASKING_AND_TELLING:
            with suppress(MCPError):
                await talk.call(tool, arguments)
        await talk.call("counts", {"to": 3}, progress_callback=Steps())
        for listing in (client.list_resources, client.list_resource_templates, client.list_prompts):
            await listing()
        await client.subscribe_resource("memo://plan")
        await talk.call("touches", {"uri": "memo://plan"})
        await client.unsubscribe_resource("memo://plan")
        await client.read_resource("memo://dot")
        await client.get_prompt(talk.native("letter"), {"to": "Å"})
        await client.complete(types.PromptReference(name=talk.native("letter")), {"name": "to", "value": ""})
        await given_up(talk.call("waits", {"asking": True}), once=left_open)
        await client.call_tool("close_toolbox", {"toolbox_name": "box"})

    said = messages(record.with_suffix(".in"))
    methods = {it.id: it.method for it in said if isinstance(it, types.JSONRPCRequest)}
    answered: list[Any] = []
    asked: list[Any] = []
    relayed: set[str] = set()
    for message in messages(record.with_suffix(".out")):
        match message:
            case types.JSONRPCResponse(id=request_id, result=result):
                validate_server_result(methods[request_id], revision, result)
                answered.append(request_id)
            case types.JSONRPCError(id=request_id):
                answered.append(request_id)
            case types.JSONRPCRequest(id=request_id, method=method, params=params):
                parse_server_request(method, revision, params)
                asked.append(request_id)
                relayed.add(method)
            case types.JSONRPCNotification(method=method, params=params):
                parse_server_notification(method, revision, params)
                relayed.add(method)
    assert relayed >= RELAYED
    assert len({*asked}) == len(asked)
    (cancelled,) = [
        it.params["requestId"]
        for it in said
        if isinstance(it, types.JSONRPCNotification) and it.method == "notifications/cancelled" and it.params
    ]
    assert sorted(answered) == sorted(methods.keys() - {cancelled})
