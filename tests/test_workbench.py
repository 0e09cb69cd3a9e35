"""Tier 2: toolboxes that open, serve and close, and the conversation with a client, all in memory."""

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import config, downstream
from mcp_workbench.config import Config, Server
from mcp_workbench.eras import Declared
from mcp_workbench.errors import CallError, CallInterrupted, NotFound, ServerUnavailable, ToolboxNotOpen
from mcp_workbench.kept_results import store
from mcp_workbench.lifecycle import RestartPolicy
from mcp_workbench.link import CannotConnect, Connect
from mcp_workbench.metatools.requests import Address
from mcp_workbench.raw_json import Payload
from mcp_workbench.results import Results
from mcp_workbench.schemas import mending
from mcp_workbench.schemas.mending import Mender, mender_of
from mcp_workbench.session import Session
from mcp_workbench.toolbox import Toolbox
from mcp_workbench.wire import Answer
from mcp_workbench.workbench import Reach, Workbench

from .clock import a_few_turns, now, on_a_clock, until
from .fake_link import FakeServer, Json, dumped, knowledge_of, server_entry, silent_client, text_of, tool

Fakes = dict[str, FakeServer]


def configured(*names: str, **more: Any) -> Config:
    """A configuration of these servers, each named `toolbox/server`."""
    toolboxes: dict[str, config.Toolbox] = {}
    for name in names:
        box, server = name.split("/")
        toolboxes.setdefault(box, config.Toolbox(box, None, {})).servers[server] = server_entry(server)
    return Config(**{"toolboxes": toolboxes, "restart": RestartPolicy(crashes=1), **more})


def fakes(*names: str) -> Fakes:
    return {name: FakeServer("read", "write") for name in names}


def reaching(servers: Fakes) -> Reach:
    def reach(server: Server, toolbox: str, chain: str) -> Connect:
        return servers[f"{toolbox}/{server.name}"]

    return reach


def workbench(servers: Fakes, **more: Any) -> Workbench:
    configuration = configured(*servers, **more)
    return Workbench(configuration, reaching(servers), silent_client("ours"), knowledge_of(configuration))


async def use(bench: Workbench, path: str) -> Answer:
    """Call the tool at `toolbox/server/tool`."""
    address = Address(*path.split("/"))
    return await bench.answering(address).call(address.tool, b"{}", {}, None)


def serving(toolbox: Toolbox) -> list[str]:
    return [server.name for server, _ in toolbox.connected()]


# Opening ------------------------------------------------------------------------------------------


@on_a_clock
async def test_an_opening_starts_the_servers_of_that_toolbox_alone() -> None:
    servers = fakes("dev/files", "dev/db", "prod/files")
    async with workbench(servers) as bench:
        assert all(fake.attempts == 0 for fake in servers.values())
        toolbox = await bench.open("dev")
        assert serving(toolbox) == ["files", "db"]
        assert toolbox.failures() == []
        assert [fake.attempts for fake in servers.values()] == [1, 1, 0]
    assert [fake.ended for fake in servers.values()] == [1, 1, 0]


@on_a_clock
async def test_servers_connect_in_parallel_and_are_told_in_the_order_of_the_configuration() -> None:
    servers = fakes("dev/a", "dev/b", "dev/c")
    for fake in servers.values():
        fake.may_connect.clear()
    async with workbench(servers) as bench:
        opening = asyncio.create_task(bench.open("dev"))
        await until(lambda: all(fake.attempts == 1 for fake in servers.values()))
        for name in ("dev/c", "dev/a", "dev/b"):
            assert not opening.done()
            servers[name].may_connect.set()
            await a_few_turns()
        assert serving(await opening) == ["a", "b", "c"]


@on_a_clock
async def test_two_openings_at_the_same_time_share_one() -> None:
    servers = fakes("dev/files")
    async with workbench(servers) as bench:
        boxes = await asyncio.gather(*(bench.open("dev") for _ in range(10)))
        assert all(box is boxes[0] for box in boxes)
        assert servers["dev/files"].attempts == 1


@on_a_clock
async def test_opening_again_is_immediate_and_starts_nothing_that_serves() -> None:
    servers = fakes("dev/files")
    async with workbench(servers) as bench:
        first = await bench.open("dev")
        began = now()
        assert await bench.open("dev") is first
        assert now() == began
        assert servers["dev/files"].attempts == 1
        assert len(servers["dev/files"].asked("tools/list")) == 1


@on_a_clock
async def test_opening_again_tries_only_what_failed() -> None:
    servers = fakes("dev/files", "dev/db")
    servers["dev/db"].refuse(CannotConnect("port is in use"))
    async with workbench(servers) as bench:
        toolbox = await bench.open("dev")
        assert serving(toolbox) == ["files"]
        assert toolbox.failures() == ["Failed to connect to server 'db' in toolbox 'dev': port is in use"]
        servers["dev/db"].accept()
        again = await bench.open("dev")
        assert serving(again) == ["files", "db"]
        assert again.failures() == []
        assert [fake.attempts for fake in servers.values()] == [1, 2]


@on_a_clock
async def test_a_caller_who_gives_up_does_not_stop_the_opening() -> None:
    servers = fakes("dev/files")
    servers["dev/files"].may_connect.clear()
    async with workbench(servers) as bench:
        opening, other = (asyncio.create_task(bench.open("dev")) for _ in range(2))
        await until(lambda: servers["dev/files"].attempts)
        opening.cancel()
        await asyncio.wait([opening])
        servers["dev/files"].may_connect.set()
        assert serving(await other) == ["files"]
        assert text_of(await use(bench, "dev/files/read")) == "read"
        assert servers["dev/files"].attempts == 1


@on_a_clock
async def test_an_opening_answers_before_clients_give_up_and_goes_on() -> None:
    servers = fakes("dev/files", "dev/slow")
    servers["dev/slow"].hang("tools/list")
    async with workbench(servers) as bench:
        began = now()
        toolbox = await bench.open("dev")
        assert now() - began == pytest.approx(50)
        assert serving(toolbox) == ["files"]
        assert toolbox.failures() == [
            "Server 'slow' in toolbox 'dev' is still starting; its tools can be used as soon as it is ready"
        ]
        servers["dev/slow"].answer(servers["dev/slow"].asked("tools/list")[0], {"tools": [tool("late")]})
        assert text_of(await use(bench, "dev/slow/late")) == "late"


@on_a_clock
async def test_an_unknown_toolbox_is_told_to_the_letter_with_the_nearest_name() -> None:
    async with workbench(fakes("production/files")) as bench:
        for asking in (bench.open("prodution"), use(bench, "prodution/files/read")):
            with pytest.raises(NotFound) as caught:
                await asking
            assert str(caught.value) == "Toolbox 'prodution' not found. Did you mean 'production'?"
        with pytest.raises(NotFound, match=r"^Toolbox 'x' not found$"):
            bench.close("x")


@on_a_clock
async def test_a_toolbox_whose_servers_are_all_disabled_opens_empty() -> None:
    empty = Config(toolboxes={"dev": config.Toolbox("dev", None, {})})

    def reach(server: Server, toolbox: str, chain: str) -> Connect:
        raise AssertionError("there is no server")

    async with Workbench(empty, reach, silent_client(), knowledge_of(empty)) as bench:
        toolbox = await bench.open("dev")
        assert serving(toolbox) == []
        await a_few_turns()
        assert bench.close("dev") == (0, 0)
        await bench.open("dev")


@on_a_clock
async def test_an_invalid_tool_is_named_with_its_server_and_toolbox() -> None:
    servers = fakes("dev/files")
    servers["dev/files"].tools.append({"name": "bad"})
    async with workbench(servers) as bench:
        toolbox = await bench.open("dev")
        assert serving(toolbox) == ["files"]
        assert toolbox.failures() == [
            "Server 'files' in toolbox 'dev': "
            "tool 'bad' is left out, its definition is invalid: inputSchema is missing"
        ]


# Using --------------------------------------------------------------------------------------------


@on_a_clock
async def test_using_a_tool_opens_its_toolbox() -> None:
    servers = fakes("dev/files", "dev/db")
    async with workbench(servers) as bench:
        assert text_of(await use(bench, "dev/files/write")) == "write"
        assert [fake.attempts for fake in servers.values()] == [1, 1]
        await bench.open("dev")
        assert [fake.attempts for fake in servers.values()] == [1, 1]


@on_a_clock
async def test_where_use_does_not_open_it_is_an_error_that_says_how() -> None:
    servers = fakes("dev/files")
    async with workbench(servers, open_on_use=False, meta_tool_prefix="workbench_") as bench:
        with pytest.raises(ToolboxNotOpen) as caught:
            await use(bench, "dev/files/read")
        assert str(caught.value) == "Toolbox 'dev' is not open; open it with workbench_open_toolbox"
        assert servers["dev/files"].attempts == 0
        await bench.open("dev")
        assert text_of(await use(bench, "dev/files/read")) == "read"


@on_a_clock
async def test_use_waits_for_its_own_server_only() -> None:
    servers = fakes("dev/files", "dev/slow")
    servers["dev/slow"].may_connect.clear()
    async with workbench(servers) as bench:
        began = now()
        assert text_of(await use(bench, "dev/files/read")) == "read"
        assert now() == began
        waiting = asyncio.create_task(use(bench, "dev/slow/read"))
        await a_few_turns()
        assert not waiting.done()
        servers["dev/slow"].may_connect.set()
        assert text_of(await waiting) == "read"


@on_a_clock
async def test_an_unknown_server_or_tool_is_told_to_the_letter() -> None:
    async with workbench(fakes("dev/filesystem")) as bench:
        with pytest.raises(NotFound) as caught:
            await use(bench, "dev/filesystm/read")
        assert str(caught.value) == (
            "Server 'filesystm' not found in toolbox 'dev'. Did you mean 'filesystem'?"
        )
        with pytest.raises(NotFound) as caught:
            await use(bench, "dev/database/read")
        assert str(caught.value) == "Server 'database' not found in toolbox 'dev'"
        with pytest.raises(NotFound) as caught:
            await use(bench, "dev/filesystem/delete_all")
        assert str(caught.value) == ("Tool 'delete_all' not found in server 'filesystem' (toolbox 'dev')")


@on_a_clock
async def test_a_name_that_leads_nowhere_starts_nothing() -> None:
    servers = fakes("dev/files")
    async with workbench(servers) as bench:
        with pytest.raises(NotFound):
            await use(bench, "dev/other/read")
        await a_few_turns()
        assert servers["dev/files"].attempts == 0


@on_a_clock
async def test_the_same_tool_name_on_two_servers_reaches_each() -> None:
    servers = fakes("dev/a", "dev/b", "prod/a")
    for name, fake in servers.items():
        fake.behave("tools/call", {"content": [{"type": "text", "text": name}]})
    async with workbench(servers) as bench:
        for name in servers:
            assert text_of(await use(bench, f"{name}/read")) == name


@on_a_clock
async def test_one_slow_call_holds_nobody_up() -> None:
    servers = fakes("dev/files")
    servers["dev/files"].hang("tools/call")
    async with workbench(servers) as bench:
        slow = asyncio.create_task(use(bench, "dev/files/read"))
        await until(lambda: servers["dev/files"].asked("tools/call"))
        servers["dev/files"].behave("tools/call", {"content": []})
        began = now()
        await asyncio.gather(*(use(bench, "dev/files/read") for _ in range(1000)))
        assert now() == began
        servers["dev/files"].answer(servers["dev/files"].asked("tools/call")[0], {"content": []})
        await slow


# Closing ------------------------------------------------------------------------------------------


@on_a_clock
async def test_closing_makes_everything_uncallable_at_once_and_leaves_the_others() -> None:
    servers = fakes("dev/files", "dev/db", "prod/files")
    servers["dev/files"].hang("tools/call")
    async with workbench(servers, open_on_use=False) as bench:
        await bench.open("dev")
        await bench.open("prod")
        calling = asyncio.create_task(use(bench, "dev/files/read"))
        await until(lambda: servers["dev/files"].asked("tools/call"))
        assert bench.close("dev") == (2, 4)
        with pytest.raises(ToolboxNotOpen):
            await use(bench, "dev/db/read")
        with pytest.raises(CallInterrupted, match="was closed; the call may have been carried out"):
            await calling
        assert text_of(await use(bench, "prod/files/read")) == "read"
        await until(lambda: servers["dev/files"].ended and servers["dev/db"].ended)
        assert servers["prod/files"].ended == 0
        assert servers["prod/files"].attempts == 1


@on_a_clock
async def test_closing_does_not_wait_for_a_stubborn_process() -> None:
    servers = fakes("dev/files")
    async with workbench(servers) as bench:
        await bench.open("dev")
        servers["dev/files"].may_end.clear()
        assert bench.close("dev") == (1, 2)
        assert bench.close("dev") == (0, 0)
        servers["dev/files"].may_end.set()


@on_a_clock
async def test_closing_what_is_not_open_answers_zeros() -> None:
    async with workbench(fakes("dev/files")) as bench:
        assert bench.close("dev") == (0, 0)


@on_a_clock
async def test_closing_counts_what_served() -> None:
    servers = fakes("dev/files", "dev/db")
    servers["dev/db"].refuse(CannotConnect("no"))
    async with workbench(servers) as bench:
        await bench.open("dev")
        assert bench.close("dev") == (1, 2)


@on_a_clock
async def test_who_waits_for_a_server_learns_of_the_closing() -> None:
    servers = fakes("dev/files")
    servers["dev/files"].may_connect.clear()
    async with workbench(servers) as bench:
        opening = asyncio.create_task(bench.open("dev"))
        calling = asyncio.create_task(use(bench, "dev/files/read"))
        await until(lambda: servers["dev/files"].attempts)
        assert bench.close("dev") == (0, 0)
        with pytest.raises(ServerUnavailable, match="was closed"):
            await calling
        assert (await opening).failures() == [
            "Failed to connect to server 'files' in toolbox 'dev': was closed"
        ]


@on_a_clock
async def test_who_waits_while_the_workbench_shuts_down_is_told_so() -> None:
    servers = fakes("dev/files", "dev/db", "prod/files")
    servers["dev/db"].may_connect.clear()
    servers["prod/files"].hang("tools/call")
    async with workbench(servers) as bench:
        opening = asyncio.create_task(bench.open("dev"))
        calling = asyncio.create_task(use(bench, "prod/files/read"))
        await use(bench, "dev/files/read")
        await until(lambda: servers["prod/files"].asked("tools/call"))
        bench.close_all()
        why = "was closed as the workbench is shutting down"
        assert (await opening).failures() == [
            f"Failed to connect to server '{name}' in toolbox 'dev': {why}" for name in ("files", "db")
        ]
        with pytest.raises(CallInterrupted, match=f"{why}; the call may have been carried out"):
            await calling


@on_a_clock
async def test_a_toolbox_can_be_opened_again_and_waits_for_the_end_of_its_old_servers() -> None:
    servers = fakes("dev/files")
    fake = servers["dev/files"]
    async with workbench(servers) as bench:
        await bench.open("dev")
        fake.may_end.clear()
        bench.close("dev")
        opening = asyncio.create_task(bench.open("dev"))
        await asyncio.sleep(3)
        assert fake.attempts == 1
        fake.may_end.set()
        assert serving(await opening) == ["files"]
        assert text_of(await use(bench, "dev/files/read")) == "read"


@on_a_clock
@pytest.mark.parametrize("turns", [0, 1, 20])
async def test_closing_and_opening_again_and_again_never_overtakes_the_first_end(turns: int) -> None:
    servers = fakes("dev/files")
    fake = servers["dev/files"]
    async with workbench(servers) as bench:
        await bench.open("dev")
        fake.may_end.clear()
        bench.close("dev")
        for _ in range(3):
            opening = asyncio.create_task(bench.open("dev"))
            await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            bench.close("dev")
            await opening
        last = asyncio.create_task(bench.open("dev"))
        await asyncio.sleep(3)
        assert fake.attempts == 1
        fake.may_end.set()
        assert serving(await last) == ["files"]


@on_a_clock
async def test_the_end_of_the_workbench_waits_for_every_server_that_still_ends() -> None:
    servers = fakes("dev/files")
    fake = servers["dev/files"]

    async def work() -> None:
        async with workbench(servers) as bench:
            await bench.open("dev")
            fake.may_end.clear()
            bench.close("dev")
            opening = asyncio.create_task(bench.open("dev"))
            await a_few_turns()
            bench.close("dev")
            await opening

    working = asyncio.create_task(work())
    await asyncio.sleep(3)
    assert not working.done()
    fake.may_end.set()
    await working
    assert fake.ended == 1


@on_a_clock
async def test_the_end_of_the_workbench_is_the_end_of_every_server() -> None:
    servers = fakes("dev/files", "dev/db", "prod/files")
    async with workbench(servers) as bench:
        await bench.open("dev")
        await bench.open("prod")
    assert all(fake.ended == 1 for fake in servers.values())


@on_a_clock
async def test_a_thousand_openings_and_closings_leave_nothing_behind() -> None:
    servers = fakes("dev/files")
    fake = servers["dev/files"]
    async with workbench(servers) as bench:
        before = len(asyncio.all_tasks())
        for _ in range(1000):
            await bench.open("dev")
            bench.close("dev")
        await until(lambda: fake.ended == 1000)
        await a_few_turns()
        assert len(asyncio.all_tasks()) == before
        assert fake.attempts == 1000


# Isolation ----------------------------------------------------------------------------------------


@on_a_clock
async def test_toolboxes_with_the_same_server_share_nothing() -> None:
    servers = fakes("dev/files", "prod/files")
    async with workbench(servers) as bench:
        dev, prod = await bench.open("dev"), await bench.open("prod")
        servers["prod/files"].tools = [tool("only_here")]
        servers["prod/files"].list_changed()
        await asyncio.sleep(2)
        assert text_of(await use(bench, "prod/files/only_here")) == "only_here"
        with pytest.raises(NotFound):
            await use(bench, "dev/files/only_here")
        servers["dev/files"].crash()
        await a_few_turns()
        assert dev.failures()
        assert prod.failures() == []
        with pytest.raises(ServerUnavailable):
            await use(bench, "dev/files/read")
        assert text_of(await use(bench, "prod/files/only_here")) == "only_here"


@on_a_clock
async def test_nine_good_servers_are_usable_at_once_beside_each_kind_of_bad_one() -> None:
    good = [f"dev/good{at}" for at in range(9)]
    servers = fakes(*good, "dev/missing", "dev/exits", "dev/hangs", "dev/garbage", "dev/bug", "dev/group")
    servers["dev/missing"].refuse(CannotConnect("command not found"))
    servers["dev/exits"].hang("initialize")
    servers["dev/hangs"].hang("initialize")
    servers["dev/garbage"].behave("initialize", "hello")
    servers["dev/bug"].refuse(RuntimeError("bug"))
    servers["dev/group"].refuse(BaseExceptionGroup("group", [ValueError("deep")]))
    async with workbench(servers) as bench:
        opening = asyncio.create_task(bench.open("dev"))
        await until(lambda: servers["dev/exits"].asked("initialize"))
        servers["dev/exits"].crash()
        began = now()
        for name in good:
            assert text_of(await use(bench, f"{name}/read")) == "read"
        assert now() == began
        toolbox = await opening
        assert serving(toolbox) == [name.removeprefix("dev/") for name in good]
        told = "\n".join(toolbox.failures())
        assert len(toolbox.failures()) == 6
        for reason in ("command not found", "exited with code 1", "still starting", "not MCP"):
            assert reason in told
        for name in good:
            assert text_of(await use(bench, f"{name}/read")) == "read"


@on_a_clock
async def test_a_server_that_cannot_even_be_ended_leaves_its_siblings_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = fakes("dev/files", "dev/db")
    async with workbench(servers) as bench:
        await bench.open("dev")

        async def broken() -> None:
            raise OSError("cannot be ended")

        monkeypatch.setattr(servers["dev/db"].life, "end", broken)
        servers["dev/db"].crash()
        await a_few_turns()
        assert text_of(await use(bench, "dev/files/read")) == "read"
        assert bench.close("dev") == (1, 4)
        await bench.open("dev")
        assert text_of(await use(bench, "dev/db/read")) == "read"


# The conversation with a client -------------------------------------------------------------------


class Client:
    """A client's end of a session: asks, and keeps what it is told of its own accord."""

    def __init__(
        self, servers: Fakes, configuration: Config, fixed: Sequence[str] = (), runtime: str = ""
    ) -> None:
        """`runtime` is the folder in which long results are kept."""
        self.session = Session(
            configuration,
            reaching(servers),
            self._take,
            Declared("ours"),
            knowledge_of(configuration),
            Results(configuration, {"XDG_RUNTIME_DIR": runtime}),
            fixed,
        )
        self.lines: list[Any] = []
        self._next = 0

    def _take(self, parts: Sequence[Payload]) -> None:
        line = b"".join(parts)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self.lines.append(json.loads(line))

    def say(self, frame: bytes) -> None:
        self.session.peer.receive(frame)

    def send(self, method: str, params: Any) -> int:
        self._next += 1
        self.say(dumped({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}))
        return self._next

    def answers(self, key: object) -> list[Json]:
        return [line for line in self.lines if "method" not in line and line["id"] == key]

    async def ask(self, method: str, params: Any = None) -> Json:
        key = self.send(method, params)
        for _ in range(1000):
            if not self.answers(key):
                await asyncio.sleep(0.01)
        (answer,) = self.answers(key)
        return answer

    async def call(self, name: str, arguments: Any, **more: Any) -> Json:
        answer = await self.ask("tools/call", {"name": name, "arguments": arguments, **more})
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    async def open(self, toolbox: str) -> Json:
        result = await self.call("open_toolbox", {"toolbox_name": toolbox})
        opened: Json = json.loads(result["content"][0]["text"])
        return opened


@asynccontextmanager
async def client(servers: Fakes, **more: Any) -> AsyncIterator[Client]:
    agent = Client(servers, configured(*servers, **more))
    async with agent.session.workbench:
        yield agent


def error_text(result: Json) -> str:
    assert result["isError"] is True
    text = result["content"][0]["text"]
    assert isinstance(text, str)
    return text


USE = {"tool": {"toolbox": "dev", "server": "files", "tool": "read"}}


@on_a_clock
async def test_a_client_opens_uses_and_closes() -> None:
    async with client(fakes("dev/files")) as agent:
        hello = await agent.ask("initialize", {"protocolVersion": "2025-06-18"})
        assert "dev (1 servers)" in hello["result"]["instructions"]
        listed = await agent.ask("tools/list", {})
        assert [each["name"] for each in listed["result"]["tools"]] == [
            "open_toolbox",
            "use_tool",
            "close_toolbox",
        ]
        opened = json.loads((await agent.call("open_toolbox", {"toolbox_name": "dev"}))["content"][0]["text"])
        assert [each["name"] for each in opened["tools"]] == ["read", "write"]
        assert (await agent.call("use_tool", USE)) == {"content": [{"type": "text", "text": "read"}]}
        closed = await agent.call("close_toolbox", {"toolbox_name": "dev"})
        assert closed["content"][0]["text"] == (
            '{"toolbox":"dev","servers_disconnected":1,"tools_unregistered":2}'
        )


@on_a_clock
async def test_errors_of_the_agent_are_results_that_it_can_read() -> None:
    async with client(fakes("dev/files")) as agent:
        assert error_text(await agent.call("open_toolbox", {"toolbox_name": "x"})) == "Toolbox 'x' not found"
        assert error_text(await agent.call("close_toolbox", {"toolbox_name": "x"})) == "Toolbox 'x' not found"
        assert error_text(await agent.call("use_tool", {**USE, "extra": 1})) == (
            "Invalid parameters: Unrecognized key: 'extra'"
        )
        assert error_text(await agent.call("open_toolbox", None)) == (
            "Invalid parameters: expected object, received null"
        )


@on_a_clock
async def test_an_unknown_tool_of_ours_is_an_error_of_the_protocol() -> None:
    async with client(fakes("dev/files")) as agent:
        for name in ("workbench_list_toolboxes", "dev__files_read", ""):
            answer = await agent.ask("tools/call", {"name": name, "arguments": {}})
            assert answer["error"]["code"] == -32602
            assert "not found" in answer["error"]["message"]


@on_a_clock
async def test_the_prefix_is_part_of_the_names() -> None:
    async with client(fakes("dev/files"), meta_tool_prefix="workbench_") as agent:
        opened = await agent.call("workbench_open_toolbox", {"toolbox_name": "dev"})
        assert "isError" not in opened
        assert "error" in await agent.ask("tools/call", {"name": "open_toolbox", "arguments": {}})


@on_a_clock
@pytest.mark.parametrize("meta", [[], 5, "text"])
async def test_a_meta_of_the_wrong_type_is_refused_as_the_clients_mistake(meta: Any) -> None:
    servers = fakes("dev/files")
    async with client(servers) as agent:
        answer = await agent.ask("tools/call", {"name": "use_tool", "arguments": USE, "_meta": meta})
        assert answer["error"]["code"] == -32602
        assert servers["dev/files"].asked("tools/call") == []


@on_a_clock
@pytest.mark.parametrize("meta", [None, {"progressToken": None}])
async def test_a_meta_or_token_of_null_is_none(meta: Any) -> None:
    servers = fakes("dev/files")
    async with client(servers) as agent:
        assert "result" in await agent.ask(
            "tools/call", {"name": "use_tool", "arguments": USE, "_meta": meta}
        )
        [sent] = servers["dev/files"].asked("tools/call")
        assert "_meta" not in sent["params"]


@on_a_clock
async def test_a_key_with_a_lone_surrogate_passes_through_in_meta_and_arguments() -> None:
    servers = fakes("dev/files")
    async with client(servers) as agent:
        await agent.call("use_tool", {**USE, "arguments": {"\ud800": "\udfff"}}, _meta={"\ud801": 1})
        (asked,) = servers["dev/files"].asked("tools/call")
        assert asked["params"]["arguments"] == {"\ud800": "\udfff"}
        assert asked["params"]["_meta"] == {"\ud801": 1}


@on_a_clock
async def test_a_native_name_with_a_lone_surrogate_is_not_found() -> None:
    async with client(fakes("dev/files")) as agent:
        answer = await agent.ask("tools/call", {"name": "\ud800", "arguments": {}})
        told = ascii(answer["error"])  # a failure with the character itself could not be shown
    assert "-32602" in told
    assert "Tool '\\ud800' not found" in told.replace("\\\\", "\\")


@on_a_clock
async def test_arguments_as_text_of_many_lines_reach_the_server_in_one_frame() -> None:
    servers = fakes("dev/files")
    async with client(servers) as agent:
        result = await agent.call("use_tool", {**USE, "arguments": '{\n  "path": "a\\nb"\n}'})
        assert "isError" not in result
        (asked,) = servers["dev/files"].asked("tools/call")
        assert asked["params"]["arguments"] == {"path": "a\nb"}


@on_a_clock
@pytest.mark.parametrize(
    ("params", "fails"),
    [
        ({}, False),
        (None, False),
        ({"cursor": None}, False),
        ({"_meta": {"cursor": "x"}}, False),
        ({"cursor": "x"}, True),
        ({"cursor": ""}, True),
        ({"cursor": 5}, True),
    ],
)
async def test_the_list_has_one_page_and_no_other_cursor(params: Any, fails: bool) -> None:
    async with client(fakes("dev/files")) as agent:
        answer = await agent.ask("tools/list", params)
        assert ("error" in answer) is fails
        if fails:
            assert answer["error"]["code"] == -32602


@on_a_clock
async def test_an_unknown_method_is_an_error_and_a_ping_is_answered() -> None:
    async with client(fakes("dev/files")) as agent:
        assert (await agent.ask("tasks/list"))["error"]["code"] == -32601
        assert (await agent.ask("ping"))["result"] == {}


@on_a_clock
@pytest.mark.parametrize(
    ("frame", "key", "code"),
    [
        (b"garbage", None, -32700),
        (b'{"id":7,"method":"ping","x":NaN}', 7, -32700),
        (b'{"id":"\\ud800","method":"ping","x":NaN}', "\ud800", -32700),
        (b'{"id":7,"method":5}', 7, -32600),
        (b'{"id":7}', 7, -32600),
        (b"[]", None, -32600),
        (b"5", None, -32600),
        (b"[" * 100_000, None, -32700),
    ],
)
async def test_a_malformed_frame_is_answered_once_and_the_conversation_goes_on(
    frame: bytes, key: object, code: int
) -> None:
    async with client(fakes("dev/files")) as agent:
        agent.say(frame)
        await a_few_turns()
        (line,) = agent.lines
        assert line["id"] == key
        assert line["error"]["code"] == code
        assert (await agent.ask("ping"))["result"] == {}


@on_a_clock
async def test_a_batch_with_garbage_is_answered_at_most_once() -> None:
    async with client(fakes("dev/files")) as agent:
        agent.say(b'[1,{"id":"a","method":"ping"},{"method":"notifications/x"}]')
        await a_few_turns()
        (answers,) = agent.lines
        assert sorted(str(answer["id"]) for answer in answers) == ["None", "a"]


@on_a_clock
async def test_a_cancellation_reaches_the_server_with_its_own_id_once_and_no_answer_follows() -> None:
    servers = fakes("dev/files")
    fake = servers["dev/files"]
    async with client(servers) as agent:
        await agent.call("use_tool", USE)
        fake.hang("tools/call")
        agent._next = 100
        key = agent.send("tools/call", {"name": "use_tool", "arguments": USE})
        await until(lambda: len(fake.asked("tools/call")) == 2)
        for _ in range(2):
            agent.say(dumped({"method": "notifications/cancelled", "params": {"requestId": key}}))
        await a_few_turns()
        theirs = fake.asked("tools/call")[1]["id"]
        assert theirs != key
        assert [told["params"] for told in fake.asked("notifications/cancelled")] == [{"requestId": theirs}]
        fake.answer(fake.asked("tools/call")[1], {"content": []})
        await a_few_turns()
        assert agent.answers(key) == []


@on_a_clock
async def test_a_cancelled_opening_goes_on_without_an_answer() -> None:
    servers = fakes("dev/files")
    servers["dev/files"].may_connect.clear()
    async with client(servers) as agent:
        key = agent.send("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}})
        await until(lambda: servers["dev/files"].attempts)
        agent.say(dumped({"method": "notifications/cancelled", "params": {"requestId": key}}))
        await a_few_turns()
        servers["dev/files"].may_connect.set()
        assert "isError" not in await agent.call("use_tool", USE)
        assert servers["dev/files"].attempts == 1
        assert agent.answers(key) == []


@on_a_clock
async def test_progress_comes_under_the_clients_own_token_as_long_as_it_rises() -> None:
    servers = fakes("dev/files")
    fake = servers["dev/files"]
    fake.hang("tools/call")
    async with client(servers) as agent:
        keys = [
            agent.send(
                "tools/call",
                {"name": "use_tool", "arguments": USE, "_meta": {"progressToken": token, "vendor/x": 1}},
            )
            for token in ("mine", "mine")
        ]
        await until(lambda: len(fake.asked("tools/call")) == 2)
        requests = fake.asked("tools/call")
        tokens = [request["params"]["_meta"]["progressToken"] for request in requests]
        assert requests[0]["params"]["_meta"]["vendor/x"] == 1
        assert tokens[0] != tokens[1]

        def tell(**params: Any) -> None:
            fake.say({"method": "notifications/progress", "params": {"progressToken": tokens[0], **params}})

        for progress in (1, 1, 0.5, 2.5, "x", None, 3):
            tell(progress=progress, total=4, message="m", new=[1])
        tell()
        told = [line["params"] for line in agent.lines if line.get("method") == "notifications/progress"]
        assert [params["progress"] for params in told] == [1, 2.5, 3]
        assert told[0] == {"progressToken": "mine", "progress": 1, "total": 4, "message": "m", "new": [1]}
        for request in requests:
            fake.answer(request, {"content": []})
        tell(progress=4)
        await until(lambda: all(agent.answers(key) for key in keys))
        tell(progress=5)
        assert len([line for line in agent.lines if line.get("method")]) == 3


@on_a_clock
async def test_without_a_token_no_progress_is_asked_for() -> None:
    servers = fakes("dev/files")
    async with client(servers) as agent:
        await agent.call("use_tool", USE, _meta={"vendor/x": 1})
        await agent.call("use_tool", USE)
        first, second = servers["dev/files"].asked("tools/call")
        assert first["params"]["_meta"] == {"vendor/x": 1}
        assert "_meta" not in second["params"]


@on_a_clock
async def test_a_crash_in_mid_call_is_a_result_that_says_so() -> None:
    servers = fakes("dev/files")
    servers["dev/files"].hang("tools/call")
    async with client(servers) as agent:
        key = agent.send("tools/call", {"name": "use_tool", "arguments": USE})
        await until(lambda: servers["dev/files"].asked("tools/call"))
        servers["dev/files"].crash("was ended by SIGSEGV")
        await until(lambda: agent.answers(key))
        text = error_text(agent.answers(key)[0]["result"])
        assert "'files'" in text
        assert "may have been carried out" in text


@on_a_clock
async def test_an_error_of_the_server_stays_its_own() -> None:
    servers = fakes("dev/files")
    error = {"code": -32602, "message": "path", "data": {"x": [1]}}
    servers["dev/files"].behave_as("tools/call", lambda _: dumped(error))
    async with client(servers) as agent:
        answer = await agent.ask("tools/call", {"name": "use_tool", "arguments": USE})
        assert answer["error"] == error


def test_every_error_that_an_agent_gets_is_a_call_error() -> None:
    for kind in (NotFound, ToolboxNotOpen, ServerUnavailable, CallInterrupted):
        assert issubclass(kind, CallError)


# What a server offers changes ---------------------------------------------------------------------


def changing(*tools: Json) -> FakeServer:
    """A server with these tools, and a prompt and a resource."""
    server = FakeServer(*tools)
    kinds: Json = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}}
    server.behave("initialize", {"protocolVersion": "2025-11-25", "capabilities": kinds})
    server.behave("prompts/list", {"prompts": [{"name": "p"}]})
    server.behave("resources/list", {"resources": [{"uri": "r:1", "name": "r"}]})
    server.behave("resources/templates/list", {"resourceTemplates": []})
    server.behave("resources/subscribe", {})
    return server


@on_a_clock
async def test_what_may_have_changed_is_not_known_to_be_read_only_until_it_is_listed_anew() -> None:
    servers = {"dev/files": changing(tool("read", annotations={"readOnlyHint": True}))}
    files = servers["dev/files"]
    trusting = configured(*servers, read_only_tools=True)
    trusting.toolboxes["dev"].servers["files"] = server_entry(trust_annotations=True)
    agent = Client(servers, trusting)
    async with agent.session.workbench:
        assert "isError" not in await agent.call("use_readonly_tool", USE)
        files.hang("tools/list")
        files.list_changed()
        refused = error_text(await agent.call("use_readonly_tool", USE))
        assert refused.endswith("is not known to be read-only; call it with use_tool")
        calling = asyncio.ensure_future(agent.call("use_readonly_tool", USE))
        await a_few_turns()
        files.answer(files.asked("tools/list")[-1], {"tools": files.tools})
        assert "isError" not in await calling


@on_a_clock
async def test_what_a_server_has_just_announced_can_be_called_at_once() -> None:
    servers = {"dev/files": changing(tool("read"))}
    files = servers["dev/files"]
    async with client(servers, read_only_tools=True) as agent:
        await agent.call("open_toolbox", {"toolbox_name": "dev"})
        for name in ("first", "second", "third"):
            files.tools.append(tool(name))
            files.list_changed()
            used = {"tool": {"toolbox": "dev", "server": "files", "tool": name}}
            assert "isError" not in await agent.call("use_tool", used)
        assert len(files.asked("tools/list")) == 4
        assert "not found" in error_text(
            await agent.call("use_tool", {"tool": {"toolbox": "dev", "server": "files", "tool": "fourth"}})
        )


@on_a_clock
async def test_what_could_not_be_listed_is_listed_at_the_next_opening() -> None:
    servers = {"dev/files": changing(tool("read"))}
    files = servers["dev/files"]
    files.behave_as("resources/list", lambda _: dumped({"code": -32603, "message": "waking up"}))
    async with client(servers) as agent:
        opened = await agent.open("dev")
        assert "waking up" in opened["_errors"][0]
        files.behave("resources/list", {"resources": [{"uri": "r:1", "name": "r"}]})
        assert "_errors" not in await agent.open("dev")
        assert len((await agent.ask("resources/list", {}))["result"]["resources"]) == 1
        await agent.call("open_toolbox", {"toolbox_name": "dev"})
        assert len(files.asked("resources/list")) == 2


@on_a_clock
@pytest.mark.parametrize("of", ["prompts", "resources"])
async def test_what_cannot_be_listed_anew_stays_as_it_was(of: str) -> None:
    servers = {"dev/files": changing(tool("read"))}
    files = servers["dev/files"]
    async with client(servers) as agent:
        await agent.call("open_toolbox", {"toolbox_name": "dev"})
        before = await agent.ask(f"{of}/list", {})
        assert len(before["result"][of]) == 1
        files.behave_as(f"{of}/list", lambda _: dumped({"code": -32603, "message": "busy"}))
        files.say({"method": f"notifications/{of}/list_changed"})
        await until(lambda: len(files.asked(f"{of}/list")) == 2)
        await asyncio.sleep(2)
        assert (await agent.ask(f"{of}/list", {}))["result"] == before["result"]


@on_a_clock
async def test_progress_of_a_subscription_does_not_take_the_token_of_a_call() -> None:
    servers = {"dev/files": changing(tool("read"))}
    files = servers["dev/files"]
    async with client(servers) as agent:
        await agent.call("open_toolbox", {"toolbox_name": "dev"})
        files.hang("tools/call")
        files.hang("resources/subscribe")
        agent.send("tools/call", {"name": "use_tool", "arguments": USE, "_meta": {"progressToken": "call"}})
        agent.send("resources/subscribe", {"uri": "r:1", "_meta": {"progressToken": 1}})
        await until(lambda: files.asked("resources/subscribe"))
        [asked] = files.asked("resources/subscribe")
        token = asked["params"]["_meta"]["progressToken"]
        files.say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 7}})
        told = [line for line in agent.lines if line.get("method") == "notifications/progress"]
        assert [line["params"]["progressToken"] for line in told] == [1]


@on_a_clock
async def test_what_a_client_opens_itself_is_told_of_before_it_has_listed_the_fixed_toolboxes() -> None:
    servers = fakes("dev/files", "other/files")
    agent = Client(servers, configured(*servers, tool_mode="dynamic"), fixed=["dev"])
    async with agent.session.workbench:
        await agent.ask("initialize", {"protocolVersion": "2025-11-25"})
        await agent.call("open_toolbox", {"toolbox_name": "other"})
        assert [line["method"] for line in agent.lines if "method" in line] == [
            "notifications/tools/list_changed"
        ]


@on_a_clock
async def test_a_native_call_waits_for_its_own_server_and_not_for_slower_ones() -> None:
    servers = fakes("dev/slow", "dev/files")
    servers["dev/slow"].may_connect.clear()
    servers["dev/files"].may_connect.clear()
    agent = Client(servers, configured(*servers), fixed=["dev"])
    async with agent.session.workbench:
        await agent.ask("initialize", {"protocolVersion": "2025-11-25"})
        calls = [
            agent.send("tools/call", {"name": name, "arguments": {}}) for name in ("files_read", "slow_read")
        ]
        nobodys = agent.send("tools/call", {"name": "files_nothing", "arguments": {}})
        await a_few_turns()
        servers["dev/files"].may_connect.set()
        await until(lambda: agent.answers(calls[0]))
        assert not agent.answers(calls[1])
        servers["dev/slow"].may_connect.set()
        await until(lambda: agent.answers(calls[1]) and agent.answers(nobodys))
        assert all("result" in agent.answers(call)[0] for call in calls)
        assert agent.answers(nobodys)[0]["error"]["code"] == -32602
        tools = (await agent.ask("tools/list", {}))["result"]["tools"]
        assert [tool["name"] for tool in tools[3:]] == [
            "slow_read",
            "slow_write",
            "files_read",
            "files_write",
        ]


@on_a_clock
@pytest.mark.parametrize("word", ["notifications/initialized", "tools/list"])
async def test_nothing_is_asked_of_a_client_before_it_has_said_more_than_its_greeting(word: str) -> None:
    servers = fakes("dev/files")
    agent = Client(servers, configured(*servers), fixed=["dev"])
    async with agent.session.workbench:
        await agent.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}})
        await until(lambda: servers["dev/files"].asked("notifications/initialized"))
        servers["dev/files"].say({"id": "q", "method": "roots/list"})
        await agent.ask("ping")
        await a_few_turns()
        assert not [line for line in agent.lines if line.get("method") == "roots/list"]
        if word == "tools/list":
            await agent.ask(word, {})
        else:
            agent.say(dumped({"jsonrpc": "2.0", "method": word}))
        await until(lambda: [line for line in agent.lines if line.get("method") == "roots/list"])


# What is made of arguments and results ------------------------------------------------------------


def called(name: str, **arguments: Any) -> Json:
    return {"tool": {"toolbox": "dev", "server": "files", "tool": name}, "arguments": arguments}


def taking(kind: str) -> Json:
    return {"type": "object", "properties": {"x": {"type": kind}}}


@on_a_clock
async def test_a_schema_is_read_once_for_all_calls_and_again_when_it_may_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[bytes] = []

    def counted(definition: bytes) -> Mender:
        read.append(definition)
        return mender_of(definition)

    monkeypatch.setattr(downstream, "mender_of", counted)
    servers = {"dev/files": changing(tool("read", inputSchema=taking("integer")), tool("write"))}
    files = servers["dev/files"]
    async with client(servers) as agent:
        await agent.call("open_toolbox", {"toolbox_name": "dev"})
        assert read == []
        for _ in range(3):
            await agent.call("use_tool", called("read", x="5"))
        assert len(read) == 1
        files.tools[0] = tool("read", inputSchema=taking("string"))
        files.tools.append(tool("new"))
        files.list_changed()
        await agent.call("use_tool", called("new"))  # which waits for the listing
        await agent.call("use_tool", called("read", x="5"))
    assert len(read) == 3
    sent = [it["params"]["arguments"] for it in files.asked("tools/call")]
    assert sent == [{"x": 5}, {"x": 5}, {"x": 5}, {}, {"x": "5"}]


@on_a_clock
async def test_arguments_of_a_tool_that_takes_text_alone_are_not_even_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = 0
    look = mending._in_object

    def counted(frame: Payload, plan: Any) -> Payload:
        nonlocal looked
        looked += 1
        return look(frame, plan)

    monkeypatch.setattr(mending, "_in_object", counted)
    texts = tool("read", inputSchema=taking("string"))
    servers = {"dev/files": FakeServer(texts, tool("write", inputSchema=taking("integer")))}
    async with client(servers) as agent:
        for name in ("read", "read", "write"):
            await agent.call("use_tool", called(name, x="text"))
    assert looked == 1


@asynccontextmanager
async def limited(servers: Fakes, folder: Path) -> AsyncIterator[Client]:
    """A client to whom long results of `dev/files` are shown in part."""
    configuration = configured(*servers)
    configuration.toolboxes["dev"].servers["files"] = server_entry(max_result_tokens=600)
    agent = Client(servers, configuration, runtime=str(folder))
    async with agent.session.workbench:
        yield agent
    agent.session.results.close()
    assert os.listdir(folder) == []


@on_a_clock
async def test_what_a_full_disk_cannot_keep_passes_whole_and_what_it_kept_can_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    servers = fakes("dev/files")
    whole = {"content": [{"type": "text", "text": "x" * 10_000}], "structuredContent": {"y": "y" * 10_000}}
    servers["dev/files"].behave("tools/call", whole)
    async with limited(servers, tmp_path) as agent:
        cut = await agent.call("use_tool", called("read"))
        assert "structuredContent" not in cut
        write, left = store._write, [b"x"]

        def filling(path: str, data: bytes) -> None:
            if not left:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(path, left.pop() and data)

        monkeypatch.setattr(store, "_write", filling)
        for _ in range(3):  # at first one of two parts can be kept
            assert await agent.call("use_tool", called("read")) == whole
        handle = cut["content"][-1]["uri"].rpartition("/")[2]
        part = await agent.call("read_result", {"handle": handle, "grep": "yyyy"})
        assert "isError" not in part


@on_a_clock
async def test_links_to_what_another_workbench_keeps_lead_to_it(tmp_path: Path) -> None:
    uri = f"workbench-result://{'0' * 32}"
    files = changing(tool("read"))
    link = {"type": "resource_link", "uri": uri, "name": "log"}
    files.behave("tools/call", {"content": [{"type": "text", "text": "x" * 10_000}, link]})
    files.behave("resources/read", {"contents": [{"uri": uri, "text": "theirs"}]})
    servers = {"dev/files": files}
    async with limited(servers, tmp_path) as agent:
        result = await agent.call("use_tool", called("read"))
        assert result["content"][1] == link
        theirs = await agent.ask("resources/read", {"uri": uri})
        ours = await agent.ask("resources/read", {"uri": result["content"][2]["uri"]})
    assert theirs["result"]["contents"][0]["text"] == "theirs"
    assert ours["result"]["contents"][0]["text"] == "x" * 10_000
    assert [it["params"]["uri"] for it in files.asked("resources/read")] == [uri]


@on_a_clock
async def test_a_cancellation_reaches_the_server_also_where_something_is_made_of_its_answer(
    tmp_path: Path,
) -> None:
    servers = fakes("dev/files")
    files = servers["dev/files"]
    async with limited(servers, tmp_path) as agent:
        await agent.call("open_toolbox", {"toolbox_name": "dev", "detail": "names"})
        files.hang("tools/call")
        key = agent.send("tools/call", {"name": "use_tool", "arguments": called("read")})
        await until(lambda: files.asked("tools/call"))
        agent.say(
            dumped({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": key}})
        )
        await a_few_turns()
        (cancelled,) = files.asked("notifications/cancelled")
        assert cancelled["params"]["requestId"] == files.asked("tools/call")[0]["id"]
        files.answer(files.asked("tools/call")[0], {"content": []})
        await a_few_turns()
        assert agent.answers(key) == []


@on_a_clock
async def test_what_made_room_for_other_results_is_said_to_be_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store.KeptResults.__init__, "__defaults__", (store.MOST_BYTES, 3))
    servers = fakes("dev/files")
    servers["dev/files"].behave("tools/call", {"content": [{"type": "text", "text": "x" * 10_000}]})
    async with limited(servers, tmp_path) as agent:
        results = [await agent.call("use_tool", called("read")) for _ in range(5)]
        uris = [result["content"][-1]["uri"] for result in results]
        for uri, is_kept in zip(uris, [False, False, True, True, True], strict=True):
            part = await agent.call("read_result", {"handle": uri.rpartition("/")[2], "lines": "1+9999"})
            text = "x\n[line 1 of 1]" if is_kept else "not kept any more"
            assert text in part["content"][0]["text"]
            whole = await agent.ask("resources/read", {"uri": uri})
            assert is_kept or whole["error"]["code"] == -32002
            assert not is_kept or len(whole["result"]["contents"][0]["text"]) == 10_000
