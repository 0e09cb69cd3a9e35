"""The command and its calls, when servers die, answers come late, ids or tokens are equal, or one is slow."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from .workbench import Client, Held, Json, fake, serving, toolboxes, until, use

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these hold processes by descriptors")

AT_ONCE = 1.0


def text_of(answer: Json) -> str:
    return str(answer["result"]["content"][0]["text"])


def received(record: Path, method: str) -> list[Json]:
    """The messages of this method that a server got, in their order."""
    lines = record.read_bytes().splitlines() if record.exists() else []
    return [message for line in lines if (message := json.loads(line)).get("method") == method]


def about(record: Path, tool: str) -> list[Json]:
    return [call for call in received(record, "tools/call") if call["params"]["name"] == tool]


def heard_by(client: Client) -> list[Json]:
    """What the client heard so far that answers nothing that it waits for."""
    heard = []
    while not client.notifications.empty():
        heard.append(client.notifications.get_nowait())
    return heard


# A death in mid-call


@pytest.mark.parametrize(
    ("death", "told"),
    [
        pytest.param({}, "exited with code 1", id="an exit"),
        pytest.param({"code": 0}, "exited with code 0", id="a good exit"),
        pytest.param({"partial": '{"jsonrpc":"2.0","id":'}, "exited with code 1", id="half an answer"),
        pytest.param({"stderr": "out of cheese\n"}, "out of cheese", id="last words"),
    ],
)
async def test_a_call_in_which_the_server_dies_says_so_and_is_not_repeated(
    tmp_path: Path, death: Json, told: str
) -> None:
    record = tmp_path / "received"
    async with serving(toolboxes(box={"files": fake(record=str(record))}), tmp_path) as client:
        await client.open("box")
        error = await client.error("box", "files", "die", **death)
        assert "Server 'files' in toolbox 'box'" in error
        assert "may have been carried out" in error
        assert told in error
        assert await client.text("box", "files", "echo", text="again") == "again"
        assert len(about(record, "die")) == 1


@pytest.mark.parametrize("held", [False, True], ids=["alone", "while another process holds its stdout"])
async def test_the_error_comes_within_a_second_of_the_death(tmp_path: Path, held: bool) -> None:
    async with serving(toolboxes(box={"files": fake(), "other": fake()}), tmp_path) as client:
        await client.open("box")
        if held:
            await client.text(
                "box", "files", "spawn_child", ignore_eof=True, ignore_sigterm=True, setsid=True
            )
        calls = [client.begin_use("box", "files", "hang") for _ in range(10)]
        server = Held(int(await client.text("box", "files", "pid")))
        others = client.begin_use("box", "other", "slow")
        os.kill(server.pid, signal.SIGKILL)
        await server.leaves()
        async with asyncio.timeout(AT_ONCE):
            answers = await asyncio.gather(*calls)
        for answer in answers:
            assert "was ended by SIGKILL; the call may have been carried out" in text_of(answer)
        assert not others.done()
        await client.text("box", "other", "release")
        assert text_of(await others) == "released"
        client.process.kill()  # the guard is quicker with the deaf


async def test_a_call_to_a_server_that_dies_again_and_again_says_when_it_is_tried_again(
    tmp_path: Path,
) -> None:
    config = {**toolboxes(box={"files": fake()}), "restart": {"crashes": 1, "within": 180}}
    async with serving(config, tmp_path) as client:
        await client.open("box")
        assert "may have been carried out" in await client.error("box", "files", "die")
        assert "tried again in" in await client.error("box", "files", "echo")
        assert (await client.open("box"))["servers_connected"] == 1
        assert await client.text("box", "files", "echo", text="back") == "back"


# Equal ids and tokens


async def test_ids_that_differ_only_in_their_type_are_told_apart(tmp_path: Path) -> None:
    async with serving(toolboxes(one={"it": fake()}, two={"it": fake()}), tmp_path) as client:
        answers = {}
        for request_id in (1000, "1000", -1000, "-1000", ""):
            answers[request_id] = client.expect(request_id)
            call = use("one", "it", "slow", key=repr(request_id))
            params = {"name": "use_tool", "arguments": call}
            client.send({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params})
        for request_id in ("-1000", 1000, "", "1000", -1000):
            await client.text("one", "it", "release", key=repr(request_id))
            assert (await answers.pop(request_id))["id"] == request_id
            assert not any(answer.done() for answer in answers.values())


async def test_an_id_that_is_in_use_is_refused_and_the_first_call_goes_on(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        first = client.begin(
            "tools/call", {"name": "use_tool", "arguments": use("box", "it", "slow")}, "same"
        )
        second = client.begin("ping", request_id="same")
        refused = await second
        assert refused["error"]["code"] == -32600
        after = client.expect("same")
        assert not first.done()
        await client.text("box", "it", "release")
        assert text_of(await after) == "released"


async def test_equal_progress_tokens_of_many_calls_to_two_toolboxes_cross_nothing(tmp_path: Path) -> None:
    records = {"one": tmp_path / "one", "two": tmp_path / "two"}
    config = toolboxes(**{name: {"it": fake(record=str(record))} for name, record in records.items()})
    async with serving(config, tmp_path) as client:
        calls = []
        for number in range(100):
            box = ("one", "two")[number % 2]
            calls.append(client.begin_use(box, "it", "progress", meta={"progressToken": 1}, n=3))
            calls.append(client.begin_use(box, "it", "echo", meta={"progressToken": 1}, text=str(number)))
        texts = [text_of(answer) for answer in await asyncio.gather(*calls)]
        assert texts[0::2] == ["done"] * 100
        assert texts[1::2] == [str(number) for number in range(100)]
        notes = heard_by(client)
        assert len(notes) == 300
        assert {note["method"] for note in notes} == {"notifications/progress"}
        assert {note["params"]["progressToken"] for note in notes} == {1}
    for record in records.values():
        tokens = [call["params"]["_meta"]["progressToken"] for call in received(record, "tools/call")]
        assert len(tokens) == len(set(tokens)) == 100


@pytest.mark.parametrize("token", [7, 0, "7", "", "a token", 1.5])
async def test_progress_comes_under_the_clients_own_token(tmp_path: Path, token: Any) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        answer = await client.begin_use("box", "it", "progress", meta={"progressToken": token}, n=3)
        assert text_of(answer) == "done"
        expected = [{"progressToken": token, "progress": value, "total": 3} for value in (1, 2, 3)]
        assert [note["params"] for note in heard_by(client)] == expected


async def test_no_progress_comes_after_the_answer(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        await client.begin_use("box", "it", "progress", meta={"progressToken": 7}, n=5, after=3)
        await client.text("box", "it", "echo", text="behind it on the same pipe")
        assert [note["params"]["progress"] for note in heard_by(client)] == [1, 2]


async def test_progress_that_does_not_rise_is_dropped(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        values = [1, 1, 0.5, 2, 2, 3, -1]
        await client.begin_use("box", "it", "progress", meta={"progressToken": 7}, values=values)
        assert [note["params"]["progress"] for note in heard_by(client)] == [1, 2, 3]


async def test_a_call_without_a_token_hears_no_progress_of_another(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        with_token = client.begin_use("box", "it", "progress", meta={"progressToken": 7}, n=2)
        without = client.begin_use("box", "it", "progress", n=2)
        await asyncio.gather(with_token, without)
        assert len(heard_by(client)) == 2


# Cancelling


async def test_a_cancel_reaches_the_server_once_with_the_servers_own_id(tmp_path: Path) -> None:
    record = tmp_path / "received"
    config = toolboxes(box={"it": fake(record=str(record), answer_cancelled=True)})
    async with serving(config, tmp_path) as client:
        await client.open("box")
        call = {"name": "use_tool", "arguments": use("box", "it", "slow", key="cancelled")}
        client.begin("tools/call", call, "the client's own")
        other = client.begin("tools/call", {"name": "use_tool", "arguments": use("box", "it", "slow")})
        await client.text("box", "it", "echo", text="both have arrived")
        for _ in range(3):
            client.tell("notifications/cancelled", {"requestId": "the client's own", "reason": "enough"})
        client.tell("notifications/cancelled", {"requestId": "nobody's"})
        client.tell("notifications/cancelled", {})
        await client.text("box", "it", "echo", text="behind the cancel on the same pipe")
        [cancelled] = [it for it in about(record, "slow") if it["params"]["arguments"]]
        told = received(record, "notifications/cancelled")
        assert [it["params"]["requestId"] for it in told] == [cancelled["id"]]
        assert not other.done()
        assert await client.text("box", "it", "release") == "1"
        await other
        assert not any(b"the client's own" in line for line in client.lines)


async def test_a_cancel_after_the_answer_reaches_nobody(tmp_path: Path) -> None:
    record = tmp_path / "received"
    async with serving(toolboxes(box={"it": fake(record=str(record))}), tmp_path) as client:
        await client.open("box")
        call = {"name": "use_tool", "arguments": use("box", "it", "echo")}
        await client.begin("tools/call", call, "answered")
        client.tell("notifications/cancelled", {"requestId": "answered"})
        await client.text("box", "it", "echo")
        assert received(record, "notifications/cancelled") == []


async def test_a_call_that_is_cancelled_before_its_server_is_ready_is_never_sent(tmp_path: Path) -> None:
    record, gate = tmp_path / "received", tmp_path / "gate"
    it = fake(record=str(record), on={"initialize": {"wait": str(gate)}})
    async with serving(toolboxes(box={"it": it}), tmp_path) as client:
        call = {"name": "use_tool", "arguments": use("box", "it", "echo", text="cancelled")}
        client.begin("tools/call", call, "cancelled")
        await until(record.exists)
        client.tell("notifications/cancelled", {"requestId": "cancelled"})
        await client.ask("ping")
        gate.touch()
        assert await client.text("box", "it", "echo", text="sent") == "sent"
        assert [it["params"]["arguments"] for it in about(record, "echo")] == [{"text": "sent"}]


async def test_a_cancelled_opening_goes_on_without_its_caller(tmp_path: Path) -> None:
    starts, gate = tmp_path / "starts", tmp_path / "gate"
    it = fake(starts=str(starts), on={"start": {"wait": str(gate)}})
    async with serving(toolboxes(box={"it": it}), tmp_path) as client:
        opening = {"name": "open_toolbox", "arguments": {"toolbox_name": "box"}}
        client.begin("tools/call", opening, "given up")
        await until(starts.exists)
        client.tell("notifications/cancelled", {"requestId": "given up"})
        await client.ask("ping")
        gate.touch()
        assert (await client.open("box"))["servers_connected"] == 1
        assert len(starts.read_text().splitlines()) == 1
        assert not any(b"given up" in line for line in client.lines)


async def test_a_call_that_timed_out_is_cancelled_once_and_its_late_answer_reaches_nobody(
    tmp_path: Path,
) -> None:
    record = tmp_path / "received"
    it = {**fake(record=str(record)), "tool_timeout_sec": 0.3}
    async with serving(toolboxes(box={"it": it}), tmp_path) as client:
        await client.open("box")
        error = await client.error("box", "it", "hang")
        assert "did not answer within 0.3 s and was told to stop" in error
        assert await client.text("box", "it", "echo", text="after it") == "after it"
        [call] = about(record, "hang")
        told = received(record, "notifications/cancelled")
        assert [it["params"]["requestId"] for it in told] == [call["id"]]
        late = {"jsonrpc": "2.0", "id": call["id"], "result": {"content": []}}
        assert await client.text("box", "it", "raw", line=json.dumps(late)) == "done"
        assert client.notifications.empty()


# Slow ones and fast ones


async def test_a_thousand_fast_calls_pass_a_slow_one(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake(), "other": fake()}), tmp_path) as client:
        await client.open("box")
        slow = [client.begin_use("box", server, "slow") for server in ("it", "other")]
        for number in range(500):
            assert await client.text("box", "it", "echo", text=str(number)) == str(number)
            assert await client.text("box", "other", "echo", text=str(number)) == str(number)
        assert not any(call.done() for call in slow)
        for server in ("it", "other"):
            await client.text("box", server, "release")
        assert [text_of(await call) for call in slow] == ["released"] * 2


async def test_a_call_waits_for_its_own_server_only(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    box = {"late": fake(on={"start": {"wait": str(gate)}}), "early": fake()}
    async with serving(toolboxes(box=box), tmp_path) as client:
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "box"}})
        late = client.begin_use("box", "late", "echo", text="late")
        assert await client.text("box", "early", "echo", text="early") == "early"
        assert not opening.done()
        assert not late.done()
        gate.touch()
        assert text_of(await late) == "late"
        assert json.loads(text_of(await opening))["servers_connected"] == 2


# The handshake


@pytest.mark.parametrize(
    ("reaction", "told"),
    [
        pytest.param(
            {"initialize": {"error": {"code": -32000, "message": "licence expired"}}},
            "it refused the handshake: licence expired",
            id="an error",
        ),
        pytest.param(
            {"initialize": {"error": {"code": -32000}}}, "it refused the handshake", id="a wordless error"
        ),
        pytest.param(
            {"initialize": {"result": "[]"}}, "it answered with what is not MCP", id="not an object"
        ),
        pytest.param(
            {"initialize": {"result": '{"protocolVersion":"1999-01-01","capabilities":{}}'}},
            "it speaks MCP revision '1999-01-01'",
            id="a revision that nobody knows",
        ),
        pytest.param({"initialize": {"exit": 3}}, "exited with code 3", id="an exit"),
        pytest.param(
            {"initialize": {"stderr": "no licence file\n", "exit": 3}}, "no licence file", id="last words"
        ),
        pytest.param(
            {"tools/list": {"error": {"code": -32603, "message": "database is down"}}},
            "it did not list its tools: database is down",
            id="an error to the listing",
        ),
        pytest.param({"tools/list": {"result": "{}"}}, "it answered with what is not MCP", id="no list"),
        pytest.param(
            {"tools/list": {"result": '{"tools":NaN}'}}, "NaN is not JSON", id="a listing that is not JSON"
        ),
    ],
)
async def test_an_error_to_the_handshake_fails_the_opening_at_once_with_its_reason(
    tmp_path: Path, reaction: Json, told: str
) -> None:
    async with serving(toolboxes(box={"files": fake(on=reaction), "good": fake()}), tmp_path) as client:
        opened = await client.open("box")  # long before any deadline, or it fails
        assert opened["servers_connected"] == 1
        [error] = opened["_errors"]
        assert error.startswith("Failed to connect to server 'files' in toolbox 'box': ")
        assert told in error
        assert "files" in await client.error("box", "files", "echo")


# Requests of servers


async def test_what_servers_ask_at_the_same_time_is_answered_to_the_one_that_asked(tmp_path: Path) -> None:
    async with serving(toolboxes(one={"it": fake()}, two={"it": fake()}), tmp_path) as client:
        await asyncio.gather(client.open("one"), client.open("two"))
        pending = client.begin_use("one", "it", "slow")
        pings = [client.text(box, "it", "ask", method="ping") for box in ("one", "two")]
        unknown = [client.text(box, "it", "ask", method=f"{box}/unknown") for box in ("one", "two")]
        for answer in await asyncio.gather(*pings):
            assert json.loads(answer) == {"jsonrpc": "2.0", "id": "ask-1", "result": {}}
        for box, text in zip(("one", "two"), await asyncio.gather(*unknown), strict=True):
            answer = json.loads(text)
            assert answer["id"] == "ask-2"
            assert answer["error"]["code"] == -32601
            assert f"{box}/unknown" in answer["error"]["message"]
        assert not pending.done()
        assert client.notifications.empty()


async def test_a_question_in_one_toolbox_does_not_touch_the_call_in_another(tmp_path: Path) -> None:
    async with serving(toolboxes(one={"it": fake()}, two={"it": fake()}), tmp_path) as client:
        mine = client.begin_use("one", "it", "slow")
        asked = await client.text("two", "it", "ask", method="ping")
        assert json.loads(asked)["result"] == {}
        forged = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "forged"}]}}
        for number in range(20):
            await client.text("two", "it", "raw", line=json.dumps({**forged, "id": number}))
        assert not mine.done()
        await client.text("one", "it", "release")
        assert text_of(await mine) == "released"
