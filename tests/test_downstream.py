"""Tier 2: one server and its owner, over a link in memory and on a clock that the tests own."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from mcp_workbench import downstream as downstream_module
from mcp_workbench import lifecycle
from mcp_workbench.bulkhead import to_the_end
from mcp_workbench.config import Filter
from mcp_workbench.downstream import MOST_NOISE_AT_START, Down, Downstream, Ready, Starting
from mcp_workbench.errors import CallInterrupted, NotFound, ServerBusy, ServerUnavailable
from mcp_workbench.lifecycle import RestartPolicy
from mcp_workbench.link import CannotConnect, Requests
from mcp_workbench.offers import TOOLS
from mcp_workbench.raw_json import Payload

from .clock import a_few_turns, now, on_a_clock, until
from .fake_link import (
    FakeLink,
    FakeServer,
    Json,
    call,
    downstream,
    downstream_of,
    dumped,
    running,
    server_entry,
    text_of,
    tool,
)

# As the default, but without chance: the tests say when the next attempt is.
PROMPT = RestartPolicy(first_delay=0)
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
CALM = RestartPolicy(crashes=1, probe_every=60)


def tools_of(server: Downstream) -> list[str]:
    assert isinstance(server.state, Ready), server.state
    return list(server.state.offers[TOOLS])


def reason_of(server: Downstream) -> str:
    assert isinstance(server.state, Down), server.state
    return server.state.reason


def returning(body: bytes) -> Callable[[Json], bytes]:
    return lambda _: body


# Serving ------------------------------------------------------------------------------------------


@on_a_clock
async def test_a_server_serves() -> None:
    async with running(downstream(fake := FakeServer("read", "write"))) as files:
        assert text_of(await call(files, "read")) == "read"
        assert tools_of(files) == ["read", "write"]
    assert [message["method"] for message in fake.messages] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ]
    assert fake.ended == 1


@on_a_clock
async def test_it_is_greeted_with_the_chain_that_leads_to_it() -> None:
    async with running(downstream(fake := FakeServer())) as files:
        await files.ready()
    assert fake.asked("initialize")[0]["params"]["_meta"] == {"mcp-workbench/chain": "outer,ours"}


@on_a_clock
async def test_arguments_go_and_results_come_as_they_are() -> None:
    sent: list[Json] = []
    fake = FakeServer("read")
    body = b'{ "content":[], "structuredContent" : {"x":1E400}, "_meta":{"v/x":-0}, "isError":true, "new":1 }'

    def answer(params: Json) -> bytes:
        sent.append(params)
        return body

    fake.behave_as("tools/call", answer)
    async with running(downstream(fake)) as files:
        found = await files.call("read", b'{"path" : "\\u0061"}', {"vendor/x": b"[1]"}, None)
    assert bytes(found.body) == body
    assert sent == [{"name": "read", "arguments": {"path": "a"}, "_meta": {"vendor/x": [1]}}]


@on_a_clock
async def test_an_error_of_the_server_is_its_own_answer() -> None:
    fake = FakeServer("read")
    fake.behave_as("tools/call", lambda _: b'{"code":-32602,"message":"path is missing"}')
    async with running(downstream(fake)) as files:
        found = await call(files, "read")
    assert found.failed
    assert json.loads(bytes(found.body)) == {"code": -32602, "message": "path is missing"}


@on_a_clock
async def test_all_pages_of_its_tools_are_asked_for() -> None:
    fake = FakeServer()
    pages = {None: ("a", ""), "": ("b", "more"), "more": ("c", None)}

    def page(params: Json) -> bytes:
        name, cursor = pages[params.get("cursor")]
        return dumped({"tools": [tool(name)], **({} if cursor is None else {"nextCursor": cursor})})

    fake.behave_as("tools/list", page)
    async with running(downstream(fake)) as files:
        await files.ready()
        assert tools_of(files) == ["a", "b", "c"]


@on_a_clock
async def test_a_server_without_tools_is_not_asked_for_them() -> None:
    fake = FakeServer("read")
    fake.behave("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}})
    async with running(downstream(fake)) as files:
        await files.ready()
        assert tools_of(files) == []
    assert fake.asked("tools/list") == []


@on_a_clock
async def test_an_invalid_tool_is_left_out_and_named_and_its_siblings_serve() -> None:
    async with running(downstream(FakeServer("read", {"name": "bad"}, "write"))) as files:
        ready = await files.ready()
        assert tools_of(files) == ["read", "write"]
        assert ready.left_out == (
            "tool 'bad' is left out, its definition is invalid: inputSchema is missing",
        )
        with pytest.raises(NotFound):
            await call(files, "bad")
        assert text_of(await call(files, "write")) == "write"


@on_a_clock
async def test_a_tool_that_is_filtered_out_is_neither_seen_nor_called() -> None:
    fake = FakeServer("read_file", "read_secret", "delete")
    filters = (Filter(("read_*",), ("read_secret",)),)
    async with running(downstream(fake, filters=filters)) as files:
        await files.ready()
        assert tools_of(files) == ["read_file"]
        for name in ("read_secret", "delete"):
            with pytest.raises(NotFound):
                await call(files, name)
    assert fake.asked("tools/call") == []


@on_a_clock
async def test_an_unknown_tool_is_told_to_the_letter_with_the_nearest_name() -> None:
    async with running(downstream(FakeServer("read_file"))) as files:
        with pytest.raises(NotFound) as caught:
            await call(files, "read_fil")
        assert str(caught.value) == (
            "Tool 'read_fil' not found in server 'files' (toolbox 'dev'). Did you mean 'read_file'?"
        )
        with pytest.raises(NotFound) as caught:
            await call(files, "zzz")
        assert str(caught.value) == "Tool 'zzz' not found in server 'files' (toolbox 'dev')"


@on_a_clock
async def test_a_ping_is_answered_and_anything_else_that_it_asks_is_refused() -> None:
    async with running(downstream(fake := FakeServer())) as files:
        await files.ready()
        fake.say({"id": "p", "method": "ping"})
        fake.say({"id": 1, "method": "sampling/createMessage", "params": {}})
        await a_few_turns()
        answers = [message for message in fake.messages if "method" not in message]
    assert answers[0] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert answers[1]["error"]["code"] == -32601


@on_a_clock
async def test_noise_between_frames_is_counted_and_every_call_answered() -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()
        for noise in (b"Server started!", b"   ", b'{"half":', b"\xff\xfe", b"{}", b"[]"):
            fake.say(noise)
            assert text_of(await call(files, "read")) == "read"
        assert files.noise == 5


@on_a_clock
async def test_a_server_that_floods_its_stdout_before_it_serves_is_given_up_at_once() -> None:
    fake = FakeServer()
    fake.hang("initialize")
    async with running(downstream(fake)) as files:
        await until(lambda: fake.asked("initialize"))
        began = now()
        for _ in range(3 * MOST_NOISE_AT_START):
            fake.say(b"y")
        await files.settled()
        assert now() == began
        assert reason_of(files) == (
            "printed 10,000 lines before it served" + 3 * "\nIt printed, instead of MCP: y"
        )
        assert files.noise == MOST_NOISE_AT_START


@on_a_clock
async def test_a_server_that_floods_its_stdout_while_it_serves_goes_on_serving() -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()
        for _ in range(3 * MOST_NOISE_AT_START):
            fake.say(b"y")
        assert text_of(await call(files, "read")) == "read"
        assert files.noise == 3 * MOST_NOISE_AT_START


@on_a_clock
async def test_a_server_that_answers_under_other_ids_is_explained() -> None:
    fake = FakeServer()
    fake.hang("initialize")
    async with running(downstream(fake)) as files:
        await until(lambda: fake.asked("initialize"))
        fake.say({"id": "1", "result": HELLO})
        await files.settled()
        assert reason_of(files) == (
            'connection timeout after 60 s (1 answer came with an id that nobody asked under: "1")'
        )


@on_a_clock
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_an_answer_that_is_not_json_while_it_starts_is_no_refusal(method: str) -> None:
    fake = FakeServer("read")
    fake.hang(method)
    async with running(downstream(fake)) as files:
        await until(lambda: fake.asked(method))
        began = now()
        fake.say(b'{"jsonrpc":"2.0","id":%d,"result":{},}' % fake.asked(method)[0]["id"])
        await files.settled()
        assert now() == began
        told = reason_of(files)
    assert told.startswith("it answered with what is not MCP: invalid JSON: ")
    assert "toolbox" not in told


@on_a_clock
async def test_an_answer_to_a_call_that_is_not_json_is_an_error_that_names_its_server() -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    async with running(downstream(fake)) as files:
        await files.ready()
        asked = asyncio.create_task(call(files, "read"))
        await until(lambda: fake.asked("tools/call"))
        fake.say(b'{"jsonrpc":"2.0","id":%d,"result":NaN}' % fake.asked("tools/call")[0]["id"])
        answer = await asked
    assert answer.failed
    assert b"The server 'files' in toolbox 'dev' answered with invalid JSON" in bytes(answer.body)


@on_a_clock
async def test_broken_utf8_in_an_answer_is_repaired() -> None:
    fake = FakeServer("read")
    fake.behave_as("tools/call", lambda _: b'{"content":[{"type":"text","text":"caf\xff"}]}')
    async with running(downstream(fake)) as files:
        assert text_of(await call(files, "read")) == "caf\ufffd"


@on_a_clock
async def test_an_answer_that_is_not_json_ends_its_call_with_the_reason() -> None:
    fake = FakeServer("read")
    fake.behave_as("tools/call", lambda _: b'{"content":[],"x":NaN}')
    async with running(downstream(fake)) as files:
        found = await call(files, "read")
        assert found.failed
        assert "server 'files' in toolbox 'dev' answered with invalid JSON" in bytes(found.body).decode()


# Cancelling, progress, patience --------------------------------------------------------------------


@on_a_clock
async def test_who_gives_a_call_up_has_it_cancelled_at_the_server_once() -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    async with running(downstream(fake)) as files:
        calling = asyncio.create_task(call(files, "read"))
        await until(lambda: fake.asked("tools/call"))
        calling.cancel()
        await asyncio.wait([calling])
        (told,) = fake.asked("notifications/cancelled")
        assert told["params"] == {"requestId": fake.asked("tools/call")[0]["id"]}
        fake.answer(fake.asked("tools/call")[0], {})
        await a_few_turns()
    assert len(fake.asked("notifications/cancelled")) == 1


@on_a_clock
async def test_a_call_that_takes_too_long_is_told_as_perhaps_carried_out() -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    async with running(downstream(fake, call_timeout=7.0)) as files:
        await files.ready()
        began = now()
        with pytest.raises(CallInterrupted) as caught:
            await call(files, "read")
        assert now() - began == pytest.approx(7)
        assert str(caught.value) == (
            "Server 'files' in toolbox 'dev' did not answer within 7 s and was told to stop; "
            "the call may have been carried out"
        )
        assert len(fake.asked("notifications/cancelled")) == 1
        fake.behave("tools/call", {"content": []})
        await call(files, "read")


@on_a_clock
async def test_progress_has_a_token_of_its_own_for_each_call_and_keeps_it_alive() -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    heard: dict[int, list[Json]] = {1: [], 2: []}

    def hearing(which: int) -> Callable[[Payload], None]:
        return lambda params: heard[which].append(json.loads(bytes(params)))

    async with running(downstream(fake)) as files:
        calls = [asyncio.ensure_future(files.call("read", b"{}", {}, hearing(each))) for each in (1, 2)]
        await until(lambda: len(fake.asked("tools/call")) == 2)
        requests = fake.asked("tools/call")
        tokens = [request["params"]["_meta"]["progressToken"] for request in requests]
        assert tokens[0] != tokens[1]
        for step in range(3):
            await asyncio.sleep(50)
            for token in tokens:
                fake.say(
                    {"method": "notifications/progress", "params": {"progressToken": token, "progress": step}}
                )
        fake.answer(requests[1], {"content": [{"type": "text", "text": "second"}]})
        fake.answer(requests[0], {"content": [{"type": "text", "text": "first"}]})
        assert [text_of(await calling) for calling in calls] == ["first", "second"]
    assert [told["progressToken"] for told in heard[1]] == [tokens[0]] * 3
    assert [told["progress"] for told in heard[2]] == [0, 1, 2]


@on_a_clock
async def test_progress_keeps_a_call_alive_for_ten_minutes_at_most() -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    async with running(downstream(fake)) as files:
        await files.ready()
        began = now()
        calling = asyncio.ensure_future(files.call("read", b"{}", {}, lambda params: None))
        await until(lambda: fake.asked("tools/call"))
        token = fake.asked("tools/call")[0]["params"]["_meta"]["progressToken"]
        while not calling.done():
            fake.say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
            await asyncio.sleep(30)
        with pytest.raises(CallInterrupted, match="did not answer within 600 s"):
            await calling
        assert now() - began == pytest.approx(600, abs=30)


@on_a_clock
async def test_a_server_with_1024_waiting_calls_takes_no_more_and_the_next_after_an_answer() -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    async with running(downstream(fake)) as files:
        calls = [asyncio.create_task(call(files, "read")) for _ in range(1024)]
        await until(lambda: len(fake.asked("tools/call")) == 1024)
        with pytest.raises(ServerBusy) as caught:
            await call(files, "read")
        assert str(caught.value) == (
            "Server 'files' in toolbox 'dev' takes no more calls now: "
            "1024 calls wait for its answer already; nothing was sent"
        )
        fake.answer(fake.asked("tools/call")[5], {"content": []})
        await calls[5]
        fake.behave("tools/call", {"content": []})
        await call(files, "read")
        for calling in calls:
            calling.cancel()
        await asyncio.wait(calls)


@on_a_clock
async def test_a_server_that_does_not_read_takes_no_more_calls() -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()
        fake.clog(downstream_module.MOST_UNSENT_BYTES + 1)
        with pytest.raises(ServerBusy, match="does not read what was sent to it; nothing was sent"):
            await call(files, "read")
        fake.clog(downstream_module.MOST_UNSENT_BYTES)
        await call(files, "read")


# Crashing -----------------------------------------------------------------------------------------


@on_a_clock
async def test_a_crash_in_mid_call_names_the_server_and_says_that_it_may_have_been_carried_out() -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    async with running(downstream(fake)) as files:
        calling = asyncio.create_task(call(files, "read"))
        await until(lambda: fake.asked("tools/call"))
        began = now()
        fake.crash("exited with code 1", last_words="\nThe last of its stderr:\nout of memory")
        with pytest.raises(CallInterrupted) as caught:
            await calling
        assert now() == began
        assert str(caught.value) == (
            "Server 'files' in toolbox 'dev' exited with code 1; the call may have been carried out"
            "\nThe last of its stderr:\nout of memory"
        )
    assert len(fake.asked("tools/call")) == 1


@on_a_clock
async def test_a_server_that_crashed_serves_the_next_call() -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()
        fake.crash()
        assert text_of(await call(files, "read")) == "read"
        await a_few_turns()
        assert text_of(await call(files, "read")) == "read"
    assert fake.attempts == 2
    assert fake.ended == 2


@on_a_clock
async def test_a_crash_beside_a_change_of_its_tools_ends_the_calls_in_flight_all_the_same() -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    async with running(downstream(fake)) as files:
        calling = asyncio.create_task(call(files, "read"))
        await until(lambda: fake.asked("tools/call"))
        await a_few_turns()
        fake.list_changed()
        fake.crash(last_words="\nwords")
        began = now()
        with pytest.raises(CallInterrupted, match=r"exited with code 1; .*\nwords"):
            await calling
        assert now() == began


@on_a_clock
async def test_the_old_life_is_at_its_end_before_the_new_one_begins() -> None:
    async with running(downstream(fake := FakeServer("read"), restart=PROMPT)) as files:
        await files.ready()
        fake.may_end.clear()
        fake.crash()
        calling = asyncio.create_task(call(files, "read"))
        await asyncio.sleep(5)
        assert fake.attempts == 1
        fake.may_end.set()
        await calling
        assert fake.attempts == 2


@on_a_clock
async def test_a_server_that_crashes_again_and_again_is_only_probed_once_a_minute() -> None:
    fake = FakeServer("read")
    async with running(downstream(fake, restart=RestartPolicy())) as files:
        for lives in range(1, 6):
            await files.ready()
            assert fake.attempts == lives
            fake.crash()
            await a_few_turns()
            await asyncio.sleep(0.9 if lives < 5 else 0)
        fake.refuse(CannotConnect("no such file"))
        await asyncio.sleep(0.5)
        for attempts in range(6, 12):
            await asyncio.sleep(59)
            assert fake.attempts == attempts - 1
            await asyncio.sleep(1)
            assert fake.attempts == attempts
        fake.accept()
        await asyncio.sleep(60)
        assert text_of(await call(files, "read")) == "read"


@on_a_clock
async def test_a_call_waits_for_an_attempt_that_is_near() -> None:
    near = RestartPolicy(crashes=1, probe_every=1.0)
    async with running(downstream(fake := FakeServer("read"), restart=near)) as files:
        await files.ready()
        fake.crash()
        await a_few_turns()
        began = now()
        assert text_of(await call(files, "read")) == "read"
        assert now() - began == pytest.approx(1)


@on_a_clock
async def test_a_call_that_would_wait_long_is_told_when_the_next_attempt_is() -> None:
    async with running(downstream(fake := FakeServer("read"), restart=CALM)) as files:
        await files.ready()
        fake.crash("was ended by SIGKILL")
        await a_few_turns()
        began = now()
        with pytest.raises(ServerUnavailable) as caught:
            await call(files, "read")
        assert now() == began
        assert str(caught.value) == (
            "Failed to connect to server 'files' in toolbox 'dev': was ended by SIGKILL; "
            "it is tried again in 60 s, or at once by opening the toolbox"
        )


@on_a_clock
async def test_an_attempt_that_is_asked_for_is_made_at_once() -> None:
    async with running(downstream(fake := FakeServer("read"), restart=CALM)) as files:
        await files.ready()
        fake.crash()
        await a_few_turns()
        began = now()
        files.try_again()
        files.try_again()
        await files.settled()
        assert tools_of(files) == ["read"]
        assert now() == began
        files.try_again()
        await a_few_turns()
    assert fake.attempts == 2


@on_a_clock
async def test_an_attempt_that_is_asked_for_while_the_old_life_ends_is_made_after_it() -> None:
    async with running(downstream(fake := FakeServer("read"), restart=CALM)) as files:
        await files.ready()
        fake.may_end.clear()
        fake.crash()
        await until(lambda: isinstance(files.state, Down))
        files.try_again()
        await asyncio.sleep(3)
        assert fake.attempts == 1
        fake.may_end.set()
        await files.settled()
        assert tools_of(files) == ["read"]


@on_a_clock
async def test_a_restarted_server_may_have_other_tools() -> None:
    async with running(downstream(fake := FakeServer("read"), restart=PROMPT)) as files:
        await files.ready()
        fake.tools = [tool("write")]
        fake.crash()
        await a_few_turns()
        await files.ready()
        assert tools_of(files) == ["write"]


# Never having served --------------------------------------------------------------------------------


@on_a_clock
async def test_a_server_that_never_served_is_reported_and_not_restarted() -> None:
    fake = FakeServer("read")
    fake.refuse(CannotConnect("command 'nope' not found; PATH is /bin"))
    async with running(downstream(fake)) as files:
        with pytest.raises(ServerUnavailable) as caught:
            await call(files, "read")
        assert str(caught.value) == (
            "Failed to connect to server 'files' in toolbox 'dev': command 'nope' not found; PATH is /bin"
            "; opening the toolbox tries it again"
        )
        await asyncio.sleep(100_000)
        assert fake.attempts == 1


@on_a_clock
async def test_a_filter_that_matches_no_tool_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    filters = (Filter(("read", "reed_*", "*")),)
    async with running(downstream(FakeServer("read", "write"), filters=filters)) as files:
        await files.ready()
    assert "its filter 'reed_*' matches none of its tools" in caplog.text
    assert "'read'" not in caplog.text


@on_a_clock
async def test_a_server_that_never_served_is_tried_again_when_asked() -> None:
    fake = FakeServer("read")
    fake.refuse(CannotConnect("not yet"))
    async with running(downstream(fake)) as files:
        await files.settled()
        files.try_again()
        assert isinstance(files.state, Starting)
        await files.settled()
        assert reason_of(files) == "not yet"
        fake.accept()
        files.try_again()
        assert text_of(await call(files, "read")) == "read"
    assert fake.attempts == 3


@on_a_clock
async def test_a_server_that_exits_at_once_is_explained_with_its_last_words_and_what_it_printed() -> None:
    fake = FakeServer()
    fake.hang("initialize")
    async with running(downstream(fake)) as files:
        await until(lambda: fake.asked("initialize"))
        fake.say(b"usage: serve-files FOLDER")
        fake.crash("exited with code 2", last_words="\nThe last of its stderr:\nmissing FOLDER")
        await files.settled()
        assert reason_of(files) == (
            "exited with code 2\nIt printed, instead of MCP: usage: serve-files FOLDER"
            "\nThe last of its stderr:\nmissing FOLDER"
        )
    assert fake.ended == 1


@on_a_clock
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_a_server_that_hangs_while_it_connects_is_given_up_after_a_minute(method: str) -> None:
    fake = FakeServer()
    fake.hang(method)
    async with running(downstream(fake)) as files:
        began = now()
        await files.settled()
        assert now() - began == pytest.approx(60)
        assert reason_of(files) == "connection timeout after 60 s"
        await a_few_turns()
        assert fake.ended == 1


@on_a_clock
async def test_the_time_to_connect_can_be_set() -> None:
    fake = FakeServer()
    fake.hang("initialize")
    async with running(downstream(fake, start_timeout=2.5)) as files:
        began = now()
        await files.settled()
        assert now() - began == pytest.approx(2.5)
        assert reason_of(files) == "connection timeout after 2.5 s"


@on_a_clock
async def test_all_that_comes_before_its_process_runs_is_bounded_too() -> None:
    fake = FakeServer("read")
    fake.may_connect.clear()
    async with running(downstream(fake, start_timeout=2.5, env_file=".env")) as files:
        began = now()
        await files.settled()
        assert now() == began + 2.5
        why = "connection timeout after 2.5 s, before it was started: its envFile '.env' was still being read"
        assert reason_of(files) == why
        files.try_again()
        fake.may_connect.set()
        await files.ready()


@on_a_clock
async def test_what_it_takes_to_connect_is_taken_from_the_time_to_shake_hands() -> None:
    fake = FakeServer("read")
    fake.may_connect.clear()
    fake.hang("initialize")
    async with running(downstream(fake, start_timeout=3)) as files:
        began = now()
        asyncio.get_running_loop().call_later(2, fake.may_connect.set)
        await files.settled()
        assert now() == began + 3
        assert reason_of(files) == "connection timeout after 3 s"
    assert fake.ended == 1


@on_a_clock
async def test_the_general_timeout_bounds_each_request_and_not_all_of_them() -> None:
    fake = FakeServer("read")
    for method in ("initialize", "tools/list"):
        fake.hang(method)
    async with running(downstream(fake, request_timeout=90)) as files:
        began = now()
        await until(lambda: fake.asked("initialize"))
        await asyncio.sleep(80)
        fake.answer(fake.asked("initialize")[0], HELLO)
        await until(lambda: fake.asked("tools/list"))
        await files.settled()
        assert now() - began == pytest.approx(90)
        assert reason_of(files) == "connection timeout after 90 s"


@on_a_clock
async def test_a_request_that_takes_longer_than_the_general_timeout_ends_the_attempt() -> None:
    fake = FakeServer("read")
    fake.hang("tools/list")
    async with running(downstream(fake, request_timeout=1)) as files:
        began = now()
        await files.settled()
        assert now() - began == pytest.approx(1)
        assert reason_of(files) == "connection timeout: it did not answer within 1 s"


@on_a_clock
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_a_server_that_refuses_is_explained_with_its_last_words_and_without_secrets(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeServer("read")
    fake.hang(method)
    monkeypatch.setattr(FakeLink, "mask", lambda _, text: text.replace("s3cr3t", "***"))
    async with running(downstream(fake)) as files:
        await until(lambda: fake.asked(method))
        fake.life.words = "\nThe last of its stderr:\nwhy"
        fake.say(b"a banner with s3cr3t")
        request = fake.asked(method)[0]
        fake.say({"id": request["id"], "error": {"code": 1, "message": "bad token s3cr3t"}})
        await files.settled()
        refused, *more = reason_of(files).splitlines()
    assert refused.endswith(": bad token ***")
    assert more == ["It printed, instead of MCP: a banner with ***", "The last of its stderr:", "why"]


@on_a_clock
async def test_what_a_server_prints_before_anything_is_asked_is_heard_in_its_order() -> None:
    fake = FakeServer("read")

    async def printing(receive: Callable[[bytes], None], requests: Requests) -> FakeLink:
        receive(b"a banner")
        return await FakeServer.__call__(fake, receive, requests)

    fake.hang("initialize")
    server = downstream_of(server_entry(), "dev", printing, RestartPolicy())
    async with running(server):
        await until(lambda: fake.asked("initialize"))
        fake.crash()
        await server.settled()
        assert reason_of(server) == "exited with code 1\nIt printed, instead of MCP: a banner"


@on_a_clock
async def test_an_installer_that_prints_has_two_minutes() -> None:
    fake = FakeServer()
    fake.hang("initialize")
    async with running(downstream(fake, command="npx")) as files:
        began = now()
        while isinstance(files.state, Starting):
            if fake.lives:
                fake.life.printed = now()
            await asyncio.sleep(10)
        assert now() - began == pytest.approx(120, abs=10)
        assert reason_of(files) == "connection timeout after 120 s"
    assert fake.attempts == 1


@on_a_clock
async def test_an_error_to_the_handshake_fails_the_opening_at_once_with_the_reason() -> None:
    fake = FakeServer()
    fake.behave_as("initialize", lambda _: b'{"code":-32000,"message":"license expired"}')
    async with running(downstream(fake)) as files:
        began = now()
        await files.settled()
        assert now() == began
        assert reason_of(files) == "it refused the handshake: license expired"


@on_a_clock
async def test_an_error_to_the_listing_fails_the_opening_with_the_reason() -> None:
    fake = FakeServer()
    fake.behave_as("tools/list", lambda _: b'{"code":-32000,"nothing":"said"}')
    async with running(downstream(fake)) as files:
        await files.settled()
        assert reason_of(files) == 'it did not list its tools: {"code":-32000,"nothing":"said"}'


@on_a_clock
@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("initialize", {"protocolVersion": "1990-01-01", "capabilities": {}}),
        ("initialize", []),
        ("tools/list", {}),
        ("tools/list", {"tools": "none"}),
    ],
)
async def test_an_answer_of_the_wrong_shape_fails_the_opening_with_the_reason(
    method: str, body: object
) -> None:
    fake = FakeServer()
    fake.behave(method, body)
    async with running(downstream(fake)) as files:
        await files.settled()
        assert reason_of(files).startswith("it answered with what is not MCP: ")
        await a_few_turns()
        assert fake.ended == 1


@on_a_clock
async def test_a_server_may_crash_right_after_it_listed_its_tools() -> None:
    fake = FakeServer("read")

    def list_and_crash(params: Json) -> bytes | None:
        fake.say({"id": fake.asked("tools/list")[-1]["id"], "result": {"tools": [tool("read")]}})
        fake.crash()
        return None

    fake.behave_as("tools/list", list_and_crash)
    async with running(downstream(fake, restart=CALM)) as files:
        await a_few_turns()
        assert reason_of(files) == "exited with code 1"


# Errors from nowhere --------------------------------------------------------------------------------


@on_a_clock
async def test_an_exception_from_connecting_stays_in_its_server() -> None:
    fake = FakeServer("read")
    fake.refuse(RuntimeError("bug"))
    async with running(downstream(fake)) as files:
        await files.settled()
        assert reason_of(files) == "internal error of the workbench (RuntimeError)"
        fake.accept()
        files.try_again()
        assert text_of(await call(files, "read")) == "read"


@on_a_clock
@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("unhandled", [CannotConnect("port is in use")]),
        ExceptionGroup("unhandled", [ExceptionGroup("deeper", [CannotConnect("port is in use")])]),
    ],
)
async def test_a_nested_exception_group_is_unwrapped(error: Exception) -> None:
    fake = FakeServer("read")
    fake.refuse(error)
    async with running(downstream(fake)) as files:
        await files.settled()
        assert reason_of(files) == "port is in use"


@on_a_clock
async def test_a_group_of_bugs_is_told_by_what_is_in_it() -> None:
    fake = FakeServer("read")
    fake.refuse(ExceptionGroup("unhandled", [ValueError("x")]))
    async with running(downstream(fake)) as files:
        await files.settled()
        assert reason_of(files) == "internal error of the workbench (ValueError)"


@on_a_clock
async def test_an_exception_from_ending_stays_in_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(downstream(fake := FakeServer("read"), restart=PROMPT)) as files:
        await files.ready()

        async def broken() -> None:
            raise OSError("cannot be ended")

        monkeypatch.setattr(fake.life, "end", broken)
        fake.crash()
        await a_few_turns()
        assert text_of(await call(files, "read")) == "read"


@on_a_clock
async def test_an_exception_from_sending_ends_that_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()

        def broken(parts: Any) -> None:
            raise OSError("broken pipe")

        with monkeypatch.context() as patched:
            patched.setattr(fake.life, "send", broken)
            with pytest.raises(OSError, match="broken pipe"):
                await call(files, "read")
        assert text_of(await call(files, "read")) == "read"


@on_a_clock
async def test_words_that_cannot_be_had_do_not_keep_a_crash_from_being_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    async with running(downstream(fake)) as files:
        calling = asyncio.create_task(call(files, "read"))
        await until(lambda: fake.asked("tools/call"))

        def broken() -> str:
            raise OSError("no stderr")

        asyncio.get_running_loop().set_exception_handler(None)
        monkeypatch.setattr(fake.life, "last_words", broken)
        fake.crash()
        with pytest.raises(CallInterrupted, match="exited with code 1"):
            await calling


# Changes of its tools -------------------------------------------------------------------------------


@on_a_clock
async def test_ten_thousand_changes_are_at_most_two_listings() -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()
        fake.tools = [tool("write")]
        fake.list_changed(10_000)
        await asyncio.sleep(10)
        assert tools_of(files) == ["write"]
        assert len(fake.asked("tools/list")) <= 1 + 2


@on_a_clock
async def test_changes_all_the_time_are_one_listing_a_second() -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()
        for _ in range(100):
            fake.list_changed(100)
            await asyncio.sleep(0.1)
        assert 5 <= len(fake.asked("tools/list")) <= 12


@on_a_clock
async def test_a_change_during_a_listing_is_listed_too() -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()
        fake.hang("tools/list")
        fake.list_changed()
        await until(lambda: len(fake.asked("tools/list")) == 2)
        fake.list_changed()
        fake.behave("tools/list", {"tools": [tool("new")]})
        fake.answer(fake.asked("tools/list")[1], {"tools": [tool("old")]})
        await a_few_turns()
        assert tools_of(files) == ["old"]
        await asyncio.sleep(2)
        assert tools_of(files) == ["new"]


@on_a_clock
async def test_a_change_right_after_the_first_listing_is_not_lost() -> None:
    fake = FakeServer("read")
    fake.hang("tools/list")
    async with running(downstream(fake)) as files:
        await until(lambda: fake.asked("tools/list"))
        fake.answer(fake.asked("tools/list")[0], {"tools": [tool("read")]})
        fake.list_changed()
        fake.behave("tools/list", {"tools": [tool("read"), tool("late")]})
        await asyncio.sleep(2)
        assert tools_of(files) == ["read", "late"]


@on_a_clock
async def test_a_listing_that_fails_keeps_the_old_tools() -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()
        for body in (b'{"code":1,"message":"busy"}', b"[]"):
            fake.behave_as("tools/list", returning(body))
            fake.list_changed()
            await asyncio.sleep(2)
            assert text_of(await call(files, "read")) == "read"
        fake.hang("tools/list")
        fake.list_changed()
        await asyncio.sleep(100)
        assert text_of(await call(files, "read")) == "read"
        fake.behave("tools/list", {"tools": [tool("write")]})
        fake.list_changed()
        await asyncio.sleep(2)
        assert tools_of(files) == ["write"]


@on_a_clock
async def test_calls_go_on_while_tools_are_listed_anew() -> None:
    async with running(downstream(fake := FakeServer("read"))) as files:
        await files.ready()
        fake.hang("tools/list")
        fake.list_changed()
        await until(lambda: len(fake.asked("tools/list")) == 2)
        assert text_of(await call(files, "read")) == "read"


@on_a_clock
async def test_a_crash_during_a_listing_is_a_crash() -> None:
    async with running(downstream(fake := FakeServer("read"), restart=CALM)) as files:
        await files.ready()
        fake.hang("tools/list")
        fake.list_changed()
        await until(lambda: len(fake.asked("tools/list")) == 2)
        fake.crash()
        await a_few_turns()
        assert reason_of(files) == "exited with code 1"


# Retiring -------------------------------------------------------------------------------------------


@on_a_clock
async def test_one_that_retires_ends_its_calls_at_once_and_takes_no_more() -> None:
    fake = FakeServer("read")
    fake.hang("tools/call")
    async with running(downstream(fake)) as files:
        calling = asyncio.create_task(call(files, "read"))
        await until(lambda: fake.asked("tools/call"))
        files.retire("was closed")
        with pytest.raises(ServerUnavailable, match="was closed"):
            await call(files, "read")
        with pytest.raises(CallInterrupted, match="was closed; the call may have been carried out"):
            await calling


@on_a_clock
async def test_an_owner_that_is_cancelled_waits_for_the_end_of_its_process() -> None:
    fake = FakeServer("read")
    files = downstream(fake)
    owner = asyncio.create_task(files.run())
    await files.ready()
    fake.may_end.clear()
    for _ in range(3):
        owner.cancel()
        await a_few_turns()
        assert not owner.done()
    fake.may_end.set()
    await asyncio.wait([owner])
    assert owner.cancelled()
    assert fake.ended == 1
    with pytest.raises(ServerUnavailable, match="was closed"):
        await call(files, "read")


@on_a_clock
@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_an_owner_that_is_cancelled_while_it_connects_ends_what_it_started(method: str) -> None:
    fake = FakeServer("read")
    fake.hang(method)
    async with running(downstream(fake)) as files:
        calling = asyncio.create_task(call(files, "read"))
        await until(lambda: fake.asked(method))
    with pytest.raises(ServerUnavailable, match="was closed"):
        await calling
    assert fake.ended == 1


@on_a_clock
async def test_work_that_must_not_be_left_half_done_is_done_before_a_cancellation_counts() -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(5)
        done.append("work")

    task = asyncio.create_task(to_the_end(work()))
    await a_few_turns()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert done == ["work"]


@on_a_clock
async def test_work_that_fails_says_so() -> None:
    async def work() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await to_the_end(work())


@on_a_clock
async def test_it_can_be_shown() -> None:
    async with running(downstream(FakeServer())) as files:
        assert repr(files) == "<server 'files' in toolbox 'dev' starting, 0 lines of noise>"
        await files.ready()
        assert repr(files) == "<server 'files' in toolbox 'dev' ready, 0 lines of noise>"
    assert lifecycle.RETRY_IS_NEAR == 1
