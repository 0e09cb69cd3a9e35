"""`close_toolbox`, the end of the workbench itself, and what each leaves behind: nothing."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.workbench import PATIENCE, Json, alive, fake, serving, toolboxes, until

STUBBORN: Json = {"ignore_eof": True, "ignore_sigterm": True}


# close_toolbox ----------------------------------------------------------------------------------


async def test_closing_answers_what_it_took_away(tmp_path: Path) -> None:
    servers = {"a": fake(tools=["echo", "pid"]), "b": fake(tools=["echo"]), "gone": {"command": "no-such"}}
    async with serving(toolboxes(dev=servers), tmp_path) as client:
        await client.open("dev")
        answer = await client.close("dev")
    assert answer == {"toolbox": "dev", "servers_disconnected": 2, "tools_unregistered": 3}


async def test_closing_a_toolbox_that_is_not_open_answers_zeros(tmp_path: Path) -> None:
    zeros = {"toolbox": "dev", "servers_disconnected": 0, "tools_unregistered": 0}
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        assert await client.close("dev") == zeros
        await client.open("dev")
        await client.close("dev")
        assert await client.close("dev") == zeros


async def test_closing_ends_its_servers_and_leaves_every_other_toolbox_as_it_was(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}, other={"a": fake()}), tmp_path) as client:
        closed = int(await client.text("dev", "a", "pid"))
        kept = int(await client.text("other", "a", "pid"))
        calling = client.begin_use("other", "a", "slow")
        await client.close("dev")
        await until(lambda: not alive(closed))
        assert alive(kept)
        assert await client.text("other", "a", "pid") == str(kept)
        assert await client.text("other", "a", "release") == "1"
        assert "result" in await calling


async def test_a_closed_toolbox_can_be_opened_again(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        first = await client.open("dev")
        before = await client.text("dev", "a", "pid")
        await client.close("dev")
        assert await client.open("dev") == first
        assert await client.text("dev", "a", "pid") != before


async def test_a_call_in_flight_is_answered_when_its_toolbox_closes(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        calling = client.begin_use("dev", "a", "hang")
        await client.text("dev", "a", "echo")
        await client.close("dev")
        async with asyncio.timeout(PATIENCE):
            result = (await calling)["result"]
    assert result["isError"] is True
    assert "may have been carried out" in result["content"][0]["text"]


async def test_closing_during_an_opening_answers_both(tmp_path: Path) -> None:
    hanging = fake(on={"initialize": {"hang": True}})
    async with serving(toolboxes(dev={"a": hanging}), tmp_path) as client:
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}})
        assert (await client.close("dev"))["servers_disconnected"] == 0
        async with asyncio.timeout(PATIENCE):
            assert (await opening)["result"]["isError"] is True


async def test_closing_does_not_wait_for_a_stubborn_process_which_is_ended_behind_it(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake(**STUBBORN)}), tmp_path) as client:
        stubborn = int(await client.text("dev", "a", "pid"))
        async with asyncio.timeout(2):
            await client.close("dev")
        async with asyncio.timeout(5):
            await until(lambda: not alive(stubborn))


async def test_what_a_wrapper_started_is_ended_when_the_wrapper_exits(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        worker = int(await client.text("dev", "a", "spawn_child", ignore_eof=True, quiet=True))
        await client.error("dev", "a", "die", code=0)
        await until(lambda: not alive(worker))


# The end of the workbench -----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "SIGINT", "SIGHUP"])
async def test_the_end_comes_within_6_s_with_calls_answered_and_no_child_left(
    how: str, tmp_path: Path
) -> None:
    async with serving(toolboxes(dev={"a": fake(), "b": fake()}), tmp_path) as client:
        pids = [int(await client.text("dev", name, "pid")) for name in ("a", "b")]
        stays = how == "SIGTERM"  # which takes two seconds more
        pids.append(int(await client.text("dev", "a", "spawn_child", ignore_eof=stays, setsid=True)))
        calls = [client.begin_use("dev", "a", "hang"), client.begin_use("dev", "b", "hang")]
        await client.text("dev", "b", "echo")
        async with asyncio.timeout(6):
            if how == "end of stdin":
                assert await client.end() == 0
            else:
                client.process.send_signal(getattr(signal, how))
                assert await client.gone() == 0
        answers = [call.result() for call in calls]
        assert not any(alive(pid) for pid in pids)
    assert all("error" in answer or answer["result"]["isError"] for answer in answers)
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in client.lines)


async def test_a_stubborn_server_does_not_keep_the_workbench_from_ending_within_6_s(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake(**STUBBORN)}), tmp_path) as client:
        stubborn = int(await client.text("dev", "a", "pid"))
        async with asyncio.timeout(6):
            assert await client.end() == 0
        assert not alive(stubborn)


async def test_a_call_that_ends_soon_after_the_end_of_stdin_is_answered_by_its_server(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        calling = client.begin_use("dev", "a", "slow", until=str(gate))
        await client.text("dev", "a", "echo")
        assert client.process.stdin
        client.process.stdin.close()
        gate.touch()
        assert await client.gone() == 0
        assert calling.result()["result"] == {"content": [{"type": "text", "text": "done"}]}


# Isolation --------------------------------------------------------------------------------------


async def test_toolboxes_share_no_process_even_with_the_same_entry(tmp_path: Path) -> None:
    same = fake()
    async with serving(toolboxes(one={"a": same, "b": same}, two={"a": same}), tmp_path) as client:
        pids = {await client.text(*at, "pid") for at in (("one", "a"), ("one", "b"), ("two", "a"))}
        assert len(pids) == 3
        untouched = await client.text("two", "a", "pid")
        await client.error("one", "a", "die")
        assert await client.text("two", "a", "pid") == untouched


async def test_a_name_that_a_server_lists_twice_is_one_tool(tmp_path: Path) -> None:
    twice = [{"name": "echo", "description": text, "inputSchema": {"type": "object"}} for text in "ab"]
    async with serving(toolboxes(dev={"a": fake(tools=twice)}), tmp_path) as client:
        answer = await client.open("dev")
    assert [(tool["name"], tool["description"]) for tool in answer["tools"]] == [("echo", "a")]
    assert "echo" in answer["_errors"][0]
