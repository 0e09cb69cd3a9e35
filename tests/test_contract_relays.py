"""What a call cannot do without: cancellation and progress, both under the server's own names for them."""

import asyncio
import json
from pathlib import Path

from tests.workbench import PATIENCE, Client, Json, fake, serving, toolboxes, use


def received(record: Path, method: str) -> list[Json]:
    """The parameters and id of each message of this method that a server received."""
    messages = [json.loads(line) for line in record.read_text().splitlines()]
    return [message for message in messages if message.get("method") == method]


def progress_of(client: Client) -> list[Json]:
    messages = [json.loads(line) for line in client.lines]
    return [message["params"] for message in messages if message.get("method") == "notifications/progress"]


# Cancellation -----------------------------------------------------------------------------------


async def test_a_cancellation_reaches_the_server_once_with_the_servers_own_id(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        await client.text("dev", "a", "echo")
        params = {
            "name": "use_tool",
            "arguments": {"tool": {"toolbox": "dev", "server": "a", "tool": "slow"}},
        }
        client.begin("tools/call", params, "mine")
        await client.text("dev", "a", "echo")  # so the server has the call
        client.tell("notifications/cancelled", {"requestId": "mine", "reason": "enough"})
        client.tell("notifications/cancelled", {"requestId": "mine"})
        await client.text("dev", "a", "echo")
    (slow,) = [call for call in received(record, "tools/call") if call["params"]["name"] == "slow"]
    (cancelled,) = received(record, "notifications/cancelled")
    assert cancelled["params"]["requestId"] == slow["id"]
    assert slow["id"] != "mine"


async def test_a_cancelled_call_is_not_answered_even_if_the_server_answers_it(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake(answer_cancelled=True)}), tmp_path) as client:
        params = {
            "name": "use_tool",
            "arguments": {"tool": {"toolbox": "dev", "server": "a", "tool": "slow"}},
        }
        client.begin("tools/call", params, "mine")
        await client.text("dev", "a", "echo")
        client.tell("notifications/cancelled", {"requestId": "mine"})
        assert await client.text("dev", "a", "release") == "0"  # it is not held by the server any more
    assert b"too late" not in b"".join(client.lines)
    assert "mine" not in [json.loads(line).get("id") for line in client.lines]


async def test_other_calls_do_not_notice_a_cancellation(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        slow = {"tool": {"toolbox": "dev", "server": "a", "tool": "slow"}}
        client.begin("tools/call", {"name": "use_tool", "arguments": slow}, "mine")
        other = client.begin("tools/call", {"name": "use_tool", "arguments": slow}, "other")
        await client.text("dev", "a", "echo")
        client.tell("notifications/cancelled", {"requestId": "mine"})
        assert await client.text("dev", "a", "release") == "1"
        async with asyncio.timeout(PATIENCE):
            assert (await other)["result"]["content"][0]["text"] == "released"


async def test_a_call_that_is_cancelled_at_once_has_at_most_one_answer_and_no_result(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        await client.open("dev")
        params = {"name": "use_tool", "arguments": use("dev", "a", "echo")}
        call = {"jsonrpc": "2.0", "id": "mine", "method": "tools/call", "params": params}
        cancel = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "mine"},
        }
        # In one write: were they two, the answer might come between them.
        client.write(b"".join(json.dumps(message).encode() + b"\n" for message in (call, cancel)))
        await client.text("dev", "a", "echo")
    answers = [json.loads(line) for line in client.lines if b'"mine"' in line]
    assert len(answers) <= 1
    assert not any("result" in answer for answer in answers)


async def test_cancelling_what_is_unknown_or_done_changes_nothing(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        done = client.begin_use("dev", "a", "echo")
        async with asyncio.timeout(PATIENCE):
            await done
        for request_id in (done.request_id, "unknown", 12345, None):  # type: ignore[attr-defined]
            client.tell("notifications/cancelled", {"requestId": request_id})
        client.tell("notifications/cancelled")
        assert await client.text("dev", "a", "echo", text="hi") == "hi"
    assert received(record, "notifications/cancelled") == []


async def test_a_call_that_timed_out_is_cancelled_at_the_server(tmp_path: Path) -> None:
    record = tmp_path / "record"
    hasty = fake(record=str(record)) | {"tool_timeout_sec": 0.3}
    async with serving(toolboxes(dev={"a": hasty}), tmp_path) as client:
        await client.error("dev", "a", "hang")
    (call,) = received(record, "tools/call")
    (cancelled,) = received(record, "notifications/cancelled")
    assert cancelled["params"]["requestId"] == call["id"]


# Progress ---------------------------------------------------------------------------------------


async def test_progress_is_relayed_under_the_clients_token(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        for token in ("mine", 7):
            calling = client.begin_use("dev", "a", "progress", meta={"progressToken": token}, n=2)
            async with asyncio.timeout(PATIENCE):
                await calling
    expected = [{"progressToken": token, "progress": n, "total": 2} for token in ("mine", 7) for n in (1, 2)]
    assert progress_of(client) == expected
    tokens = [call["params"]["_meta"]["progressToken"] for call in received(record, "tools/call")]
    assert len(set(tokens)) == 2
    assert not set(tokens) & {"mine", 7}


async def test_progress_comes_before_the_answer_and_none_after_it(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        calling = client.begin_use("dev", "a", "progress", meta={"progressToken": "t"}, n=5, after=2)
        line = await client.line(calling)
        await client.text("dev", "a", "echo")
    at = client.lines.index(line)
    assert [json.loads(told)["params"]["progress"] for told in client.lines[1:4]] == [1, 2, 3]
    assert not any(b"notifications/progress" in told for told in client.lines[at:])


async def test_equal_tokens_of_two_calls_are_not_crossed(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        await client.open("dev")
        # Crossed, the second would not rise.
        calls = [
            client.begin_use("dev", "a", "progress", meta={"progressToken": "same"}, values=values)
            for values in ([50], [1, 2])
        ]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*calls)
    assert [(params["progressToken"], params["progress"]) for params in progress_of(client)] == [
        ("same", 50),
        ("same", 1),
        ("same", 2),
    ]
    first, second = received(record, "tools/call")
    assert first["params"]["_meta"]["progressToken"] != second["params"]["_meta"]["progressToken"]


async def test_progress_that_does_not_rise_is_dropped(tmp_path: Path) -> None:
    values = [1, 3, 3, 2, 3.5, -1, 4]
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        calling = client.begin_use("dev", "a", "progress", meta={"progressToken": "t"}, values=values)
        async with asyncio.timeout(PATIENCE):
            await calling
    assert [params["progress"] for params in progress_of(client)] == [1, 3, 3.5, 4]


async def test_without_a_token_no_progress_is_asked_for(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        await client.text("dev", "a", "progress")
    (call,) = received(record, "tools/call")
    assert "_meta" not in call["params"]
    assert progress_of(client) == []


async def test_servers_are_told_of_nothing_that_is_not_relayed(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        refused = json.loads(await client.text("dev", "a", "ask", method="sampling/createMessage"))
        pinged = json.loads(await client.text("dev", "a", "ask", method="ping"))
    assert refused["error"]["code"] == -32601
    assert pinged["result"] == {}
    assert received(record, "initialize")[0]["params"]["capabilities"] == {}
