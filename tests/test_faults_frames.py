"""The command and its pipes, when floods, noise, halves of frames and endless lines come through them.

Memory is that of the workbench alone, as the system counts it; the loop's liveliness is pings answered while
something large passes.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import config
from mcp_workbench.toolbox import Toolbox
from mcp_workbench.transports import Transports
from mcp_workbench.workbench import Workbench

from .fake_link import knowledge_of, silent_client
from .workbench import PATIENCE, Client, Held, Json, fake, memory, serving, started, toolboxes, until, use

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these look into /proc")

MIB = 1024 * 1024
LIMIT = 16 * MIB
# Pings take well under a millisecond; a buffer that is searched anew for each chunk takes seconds.
LIVELY = 5.0

NOISE = [
    "Server v1.2.3 listening on stdio…",
    "",
    "   ",
    '{"level":"info","msg":"a log line"}',
    '{"jsonrpc":"2.0","method":',
    '"half a',
    "null",
    "42",
    "[]",
    "[1, 2",
    "{}}",
    "\u001b[32mready\u001b[0m",
    '{"jsonrpc":"2.0","id":null,"result":{}}',
    '{"jsonrpc":"2.0","id":"stranger","result":{}}',
    '{"jsonrpc":"2.0","method":"notifications/nobody/knows","params":[]}',
    '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":999}}',
    "Content-Length: 17\r",
]


async def lively_during(client: Client, large: "asyncio.Future[Json]") -> Json:
    """Ping until the answer is there; every ping must be answered soon."""
    loop, slowest, pings = asyncio.get_running_loop(), 0.0, 0
    while not large.done() or not pings:
        began = loop.time()
        await client.ask("ping")
        slowest, pings = max(slowest, loop.time() - began), pings + 1
    assert slowest < LIVELY
    return large.result()


def text_of(answer: Json) -> str:
    return str(answer["result"]["content"][0]["text"])


# stderr


@pytest.mark.parametrize("newlines", [True, False], ids=["in lines", "in one line"])
async def test_a_flood_of_stderr_before_an_answer_does_not_hold_it_up(tmp_path: Path, newlines: bool) -> None:
    async with serving(toolboxes(box={"loud": fake(), "quiet": fake()}), tmp_path) as client:
        await client.open("box")
        before = memory(client.process.pid)
        flood = client.begin_use("box", "loud", "stderr", n=100_000_000, newlines=newlines)
        assert text_of(await lively_during(client, flood)) == "done"
        assert await client.text("box", "quiet", "echo", text="still here") == "still here"
        assert memory(client.process.pid) < before + 8 * MIB


# Noise


async def test_every_call_is_answered_between_noise_on_stdout(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"noisy": fake(noise=NOISE)}), tmp_path) as client:
        assert "_errors" not in await client.open("box")
        for number in range(50):
            assert await client.text("box", "noisy", "echo", text=str(number)) == str(number)
        assert (await client.ask("ping"))["result"] == {}
        assert client.notifications.empty()


async def test_noise_on_stdout_is_counted(tmp_path: Path) -> None:
    noise = ["a banner", '{"half":', "42", ""]
    read = config.parse(json.dumps(toolboxes(box={"noisy": fake(noise=noise)})).encode())
    processes = Transports(os.environ, str(tmp_path))
    async with Workbench(read, processes.reach, silent_client(), knowledge_of(read)) as workbench:
        toolbox: Toolbox = await workbench.open("box")
        frames = 2  # the answers to the handshake and to the listing
        assert toolbox.server("noisy").noise == 3 * frames
    await processes.close()


# Chunks


async def told_by(client: Client) -> list[Json]:
    """What a client hears in a dialogue that has a bit of everything, one after the other."""
    await client.open("box")
    said: list[Any] = []
    for tool, arguments in (
        ("echo", {"text": "ünïcödé ☃ 😀"}),
        ("unknown_fields", {}),
        ("invalid_utf8", {}),
        ("is_error", {}),
        ("big", {"n": 3000}),
        ("raw", {"line": "noise", "times": 20}),
    ):
        said.append(await client.use("box", "it", tool, **arguments))
    said.append(await client.begin_use("box", "it", "error", code=-32000, message="no", data=[1]))
    said.append(await client.begin_use("box", "it", "progress", meta={"progressToken": "mine"}, n=20))
    said += [client.notifications.get_nowait() for _ in range(20)]
    for message in said:
        message.pop("id", None)
    return said


async def test_single_bytes_and_whole_bursts_make_the_same_events(tmp_path: Path) -> None:
    heard = []
    for writes in ("one_byte", "whole"):
        async with serving(toolboxes(box={"it": fake(writes=writes)}), tmp_path) as client:
            heard.append(await told_by(client))
    assert heard[0] == heard[1]


async def test_a_thousand_answers_in_one_write_reach_their_calls(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        held = [client.begin_use("box", "it", "slow") for _ in range(1000)]
        await client.ask("ping")
        assert await client.text("box", "it", "release") == "1000"
        assert [text_of(await call) for call in held] == ["released"] * 1000


async def test_a_thousand_requests_in_one_write_are_answered(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        # Writes of one turn of the loop would be many; one write makes them one burst.
        calls = [client.begin("ping", request_id=f"ping {number}") for number in range(1000)]
        assert [(await call)["id"] for call in calls] == [f"ping {number}" for number in range(1000)]


async def test_a_client_that_writes_single_bytes_is_understood(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        answer = client.begin("ping", request_id="whole")
        call = {"name": "use_tool", "arguments": use("box", "it", "echo", text="ünïcödé ☃")}
        line = json.dumps({"jsonrpc": "2.0", "id": "in bytes", "method": "tools/call", "params": call})
        slow = client.expect("in bytes")
        assert client.process.stdin
        for byte in (line + "\n").encode():
            client.write(bytes([byte]))
            await client.process.stdin.drain()
        assert text_of(await slow) == "ünïcödé ☃"
        assert (await answer)["result"] == {}


# Long lines


async def test_a_result_of_nearly_16_mib_passes_while_pings_are_answered(tmp_path: Path) -> None:
    size = int(15.9 * MIB)
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        large = client.begin_use("box", "it", "big", n=size)
        assert text_of(await lively_during(client, large)) == "x" * size


@pytest.mark.parametrize("chunk", [997, 65_536, LIMIT])
async def test_arguments_of_nearly_16_mib_pass_in_any_chunks(tmp_path: Path, chunk: int) -> None:
    size = int(15.9 * MIB)
    call = {"name": "use_tool", "arguments": use("box", "it", "echo", text="y" * size)}
    line = json.dumps({"jsonrpc": "2.0", "id": "large", "method": "tools/call", "params": call}) + "\n"
    data = memoryview(line.encode())
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        answer = client.expect("large")
        assert client.process.stdin
        for start in range(0, len(data), chunk):
            client.write(bytes(data[start : start + chunk]))
            await client.process.stdin.drain()
        assert text_of(await answer) == "y" * size


@pytest.mark.parametrize("tool", ["big", "endless_line"])
async def test_a_line_that_is_too_long_fails_that_server_alone(tmp_path: Path, tool: str) -> None:
    arguments: Json = {"n": 17 * MIB} if tool == "big" else {}
    box = {"long": fake(), "good": fake()}
    async with serving(toolboxes(box=box, other={"long": fake()}), tmp_path) as client:
        await client.open("box")
        await client.open("other")
        pids = [await client.text(*others, "pid") for others in (("box", "good"), ("other", "long"))]
        before = memory(client.process.pid)
        answer = await lively_during(client, client.begin_use("box", "long", tool, **arguments))
        assert "sent a line longer than 16 MiB" in text_of(answer)
        assert "'long' in toolbox 'box'" in text_of(answer)
        assert memory(client.process.pid) < before + 2 * LIMIT
        assert [await client.text(*others, "pid") for others in (("box", "good"), ("other", "long"))] == pids
        assert await client.text("box", "long", "echo", text="again") == "again"


async def test_a_line_of_the_client_that_is_too_long_is_refused_and_the_next_one_served(
    tmp_path: Path,
) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        before = memory(client.process.pid)
        for _ in range(5):
            client.write(b"x" * (17 * MIB))
        client.write(b"\n")
        answer = await client.notification()
        assert answer["id"] is None
        assert answer["error"]["code"] == -32600
        assert (await client.ask("ping"))["result"] == {}
        assert client.notifications.empty()
        assert memory(client.process.pid) < before + 2 * LIMIT


@pytest.mark.parametrize("place", ["first", "last"])
async def test_a_request_that_is_too_long_is_answered_under_its_own_id(tmp_path: Path, place: str) -> None:
    call = {"name": "use_tool", "arguments": use("box", "it", "echo", text="y" * (17 * MIB))}
    request: Json = {"method": "tools/call", "params": call}
    envelope: Json = {"jsonrpc": "2.0", "id": "long"}
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        answer = client.expect("long")
        client.send(envelope | request if place == "first" else request | envelope)
        async with asyncio.timeout(PATIENCE):
            error = (await answer)["error"]
        assert (error["code"], "longer than 16 MiB" in error["message"]) == (-32600, True)
        assert (await client.ask("ping"))["result"] == {}
        assert client.notifications.empty()


async def test_a_question_whose_answer_is_too_long_is_answered_with_an_error(tmp_path: Path) -> None:
    box = {"it": fake()}
    async with serving(toolboxes(box=box), tmp_path, capabilities={"sampling": {}}) as client:
        client.answers["sampling/createMessage"] = lambda _: {"text": "y" * (17 * MIB)}
        calling = client.begin_use("box", "it", "ask", method="sampling/createMessage", params={})
        async with asyncio.timeout(PATIENCE):
            assert "longer than 16 MiB" in json.dumps(await calling)


# Damaged frames


@pytest.mark.parametrize(
    "damage", [b"\xff\xfe\xfd", b'{"jsonrpc":"2.0","method":"\xc3\x28"}', b"\x00" * 100, b"\xed\xa0\x80"]
)
async def test_after_bytes_of_a_server_that_are_not_utf_8_the_next_frame_works(
    tmp_path: Path, damage: bytes
) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        assert await client.text("box", "it", "raw", hex=damage.hex(), times=3) == "done"
        broken = await client.text("box", "it", "invalid_utf8")
        assert broken == "bad \ufffd\ufffd byte"
        assert await client.text("box", "it", "echo", text="☃") == "☃"


DEEP = 100_000
PING = '"method":"ping"'


@pytest.mark.parametrize(
    ("line", "request_id", "code"),
    [
        pytest.param("{", None, -32700, id="half"),
        pytest.param("certainly not JSON", None, -32700, id="text"),
        pytest.param('{"jsonrpc":"2.0","id":"a",' + PING + "} x", "a", -32700, id="two values"),
        pytest.param("{'jsonrpc':'2.0'}", None, -32700, id="single quotes"),
        pytest.param(
            '{"jsonrpc":"2.0","id":"a",' + PING + ',"params":{"n":NaN}}', "a", -32700, id="not a number"
        ),
        pytest.param(
            '{"jsonrpc":"2.0","id":"a",' + PING + ',"params":{"n":-Infinity}}', "a", -32700, id="infinite"
        ),
        pytest.param("[" * DEEP, None, -32700, id="deep and open"),
        pytest.param(
            '{"jsonrpc":"2.0","id":"a",' + PING + ',"params":' + "[" * DEEP + "]" * DEEP + "}",
            "a",
            -32700,
            id="deep with its id first",
        ),
        pytest.param(
            "{" + PING + ',"params":{"a":' + "[" * DEEP + "]" * DEEP + '},"jsonrpc":"2.0","id":7}',
            7,
            -32700,
            id="deep with its id last",
        ),
        pytest.param("null", None, -32600, id="null"),
        pytest.param("17", None, -32600, id="a number"),
        pytest.param('"text"', None, -32600, id="a string"),
        pytest.param("[]", None, -32600, id="an empty batch"),
        pytest.param('{"jsonrpc":"2.0","id":"a"}', "a", -32600, id="neither method nor answer"),
        pytest.param('{"jsonrpc":"2.0","id":"a","method":5}', "a", -32600, id="a numeric method"),
        pytest.param('{"jsonrpc":"2.0","id":null,' + PING + "}", None, -32600, id="an id of null"),
        pytest.param('{"jsonrpc":"2.0","id":{},' + PING + "}", None, -32600, id="an id that is an object"),
        pytest.param('{"jsonrpc":"2.0","id":"a","method":"no/such"}', "a", -32601, id="an unknown method"),
        pytest.param(
            '{"jsonrpc":"2.0","id":"a","method":"tools/call","params":[]}', "a", -32602, id="a list of params"
        ),
    ],
)
async def test_a_malformed_frame_is_answered_with_an_error_and_the_next_one_served(
    tmp_path: Path, line: str, request_id: Any, code: int
) -> None:
    async with serving(toolboxes(), tmp_path) as client:
        client.write(line.encode() + b"\n")
        answer = await client.notification()
        assert (answer["id"], answer["error"]["code"]) == (request_id, code)
        assert (await client.ask("ping"))["result"] == {}
        assert client.notifications.empty()


@pytest.mark.parametrize("line", ["", " ", "\t  ", "\r", '{"jsonrpc":"2.0","method":"notifications/x"}'])
async def test_a_line_that_asks_nothing_is_answered_with_nothing(tmp_path: Path, line: str) -> None:
    async with serving(toolboxes(), tmp_path) as client:
        client.write(line.encode() + b"\n")
        assert (await client.ask("ping"))["result"] == {}
        assert client.notifications.empty()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{"id":"a",' + PING + "}", id="missing jsonrpc"),
        pytest.param('{"jsonrpc":"2.0","id":"b","id":"a",' + PING + "}", id="a doubled id"),
        pytest.param('{"jsonrpc":"2.0","id":"a","method":"no/such",' + PING + "}", id="a doubled method"),
        pytest.param(
            '{"jsonrpc":"2.0","id":"a",' + PING + ',"params":{"n":' + "9" * 10_000 + "}}",
            id="an integer of 10,000 digits",
        ),
        pytest.param('  {"jsonrpc":"2.0","id":"a",' + PING + "} \r", id="white space around it"),
        pytest.param('{"jsonrpc":"2.0","id":"a",' + PING + ',"params":"\\ud800"}', id="half a surrogate"),
    ],
)
async def test_an_unusual_frame_is_answered_once(tmp_path: Path, line: str) -> None:
    async with serving(toolboxes(), tmp_path) as client:
        client.write(line.encode() + b"\n")
        assert await client.notification() == {"jsonrpc": "2.0", "id": "a", "result": {}}
        assert (await client.ask("ping"))["result"] == {}
        assert client.notifications.empty()


async def test_what_the_client_sends_that_is_not_utf_8_is_refused_and_the_next_frame_served(
    tmp_path: Path,
) -> None:
    async with serving(toolboxes(), tmp_path) as client:
        client.write(b'{"jsonrpc":"2.0","id":"broken","method":"\xff"}\n')
        answer = await client.notification()
        assert (answer["id"], answer["error"]["code"]) == ("broken", -32700)
        assert (await client.ask("ping"))["result"] == {}


async def test_a_batch_is_answered_once_and_as_one(tmp_path: Path) -> None:
    def ping(name: str) -> Json:
        return {"jsonrpc": "2.0", "id": name, "method": "ping"}

    async with serving(toolboxes(), tmp_path) as client:
        client.send([ping("a"), {"jsonrpc": "2.0", "method": "notifications/x"}, ping("b")])
        answers: Any = await client.notification()
        assert sorted(answer["id"] for answer in answers) == ["a", "b"]
        assert (await client.ask("ping"))["result"] == {}
        assert client.notifications.empty()


async def test_what_is_no_request_in_a_batch_is_an_error_among_its_answers(tmp_path: Path) -> None:
    async with serving(toolboxes(), tmp_path) as client:
        client.send([1, {"jsonrpc": "2.0", "id": "a", "method": "ping"}])
        answers: Any = await client.notification()
        assert sorted(answer.get("error", {}).get("code", 0) for answer in answers) == [-32600, 0]
        assert (await client.ask("ping"))["result"] == {}
        assert client.notifications.empty()


async def test_numbers_of_10_000_digits_reach_the_server_as_they_are(tmp_path: Path) -> None:
    record, digits = tmp_path / "received", "9" * 10_000
    async with serving(toolboxes(box={"it": fake(record=str(record))}), tmp_path) as client:
        await client.open("box")
        call = json.dumps(use("box", "it", "echo", number="here")).replace('"here"', digits)
        params = '{"name":"use_tool","arguments":' + call + "}"
        client.write(b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":' + params.encode() + b"}\n")
        await client.text("box", "it", "pid")  # behind it on the same pipe
        assert f'"number": {digits}'.encode() in record.read_bytes()
        client.tell("notifications/cancelled", {"requestId": "a"})


async def test_a_result_that_is_nested_too_deeply_ends_its_own_call_at_once(tmp_path: Path) -> None:
    deep = '{"content":[],"structuredContent":{"deep":' + "[" * DEEP + "]" * DEEP + "}}"
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        async with asyncio.timeout(5):
            answer = await client.begin_use("box", "it", "result", json=deep)
        assert "nested too deeply" in json.dumps(answer)
        assert await client.text("box", "it", "echo", text="after it") == "after it"


# A server that reads nothing


async def all_of(calls: "list[asyncio.Future[Json]]") -> list[str]:
    return [text_of(answer) for answer in await asyncio.gather(*calls)]


async def test_the_calls_of_a_stopped_server_time_out_and_others_go_on(tmp_path: Path) -> None:
    box = {"stopped": {**fake(), "timeout": 2000}, "good": fake()}
    async with serving(toolboxes(box=box), tmp_path) as client:
        await client.open("box")
        pid = int(await client.text("box", "stopped", "pid"))
        os.kill(pid, signal.SIGSTOP)
        waiting = [client.begin_use("box", "stopped", "echo") for _ in range(1024)]
        too_many = [client.begin_use("box", "stopped", "echo") for _ in range(50)]
        for told in await all_of(too_many):
            assert "takes no more calls now: 1024 calls wait" in told
            assert "nothing was sent" in told
        for number in range(100):
            assert await client.text("box", "good", "echo", text=str(number)) == str(number)
        assert not any(call.done() for call in waiting)
        for told in await all_of(waiting):
            assert "did not answer within 2 s" in told
            assert "may have been carried out" in told
        os.kill(pid, signal.SIGCONT)
        assert await client.text("box", "stopped", "pid") == str(pid)


async def test_what_a_stopped_server_does_not_read_is_bounded(tmp_path: Path) -> None:
    box = {"stopped": {**fake(), "timeout": 5000}, "good": fake()}
    async with serving(toolboxes(box=box), tmp_path) as client:
        await client.open("box")
        os.kill(pid := int(await client.text("box", "stopped", "pid")), signal.SIGSTOP)

        async def flood() -> "tuple[int, list[asyncio.Future[Json]]]":
            calls = [client.begin_use("box", "stopped", "echo", text="z" * (8 * MIB)) for _ in range(16)]
            assert await client.text("box", "good", "echo", text="still here") == "still here"
            return memory(client.process.pid), calls

        full, calls = await flood()
        fuller, refused = await flood()
        for told in await all_of(refused):
            assert "it does not read what was sent to it; nothing was sent" in told
        assert fuller < full + 3 * LIMIT
        os.kill(pid, signal.SIGCONT)
        await all_of(calls)


async def test_a_client_that_reads_nothing_holds_the_servers_up_and_no_memory(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        before = memory(client.process.pid)
        with client.deaf():
            calls = [client.begin_use("box", "it", "big", n=4 * MIB) for _ in range(30)]
            assert client.process.stdin
            await client.process.stdin.drain()
            await settled_memory(client.process.pid)
            assert memory(client.process.pid) < before + 8 * MIB + 3 * LIMIT
        answers: Awaitable[list[str]] = all_of(calls)
        assert [len(text) for text in await answers] == [4 * MIB] * 30


async def settled_memory(pid: int) -> None:
    """Wait until a process takes no more memory: it was the same in many looks in a row."""
    same, last = 0, 0
    async with asyncio.timeout(10):
        while same < 30:
            now = memory(pid)
            same, last = (same + 1 if now == last else 0), now
            await asyncio.sleep(0.005)


async def test_a_client_that_reads_nothing_from_the_start_is_waited_for_and_then_answered(
    tmp_path: Path,
) -> None:
    config = toolboxes(box={"it": fake()})
    config["toolboxes"]["box"]["description"] = "x" * MIB  # so that each greeting is a long one
    async with started(config, tmp_path) as client:
        with client.deaf():
            client.tell("notifications/anything")
            greetings = [client.begin("initialize", {"protocolVersion": "2025-11-25"}) for _ in range(30)]
            await settled_memory(client.process.pid)
            assert not any(greeting.done() for greeting in greetings)
        async with asyncio.timeout(PATIENCE):
            assert all("result" in answer for answer in await asyncio.gather(*greetings))
    assert b"Traceback" not in client.stderr


async def test_a_client_that_goes_without_having_read_does_not_keep_the_workbench(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": fake()}), tmp_path) as client:
        await client.open("box")
        stdin = client.process.stdin
        assert stdin
        with client.deaf():
            client.begin_use("box", "it", "big", n=9 * MIB)

            def nothing_is_read() -> bool:
                stdin.write(b"\n" * MIB)
                return stdin.transport.get_write_buffer_size() > 4 * MIB

            await until(nothing_is_read)
            workbench = Held(client.process.pid)
            stdin.transport.abort()
            async with asyncio.timeout(6):
                await workbench.leaves()
