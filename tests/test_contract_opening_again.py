"""`open_toolbox` in parallel, shared, given up and repeated."""

import asyncio
import sys
from pathlib import Path

from tests.workbench import PATIENCE, Client, Json, fake, serving, toolboxes, until

EXITS: Json = {"on": {"start": {"stderr": "no database\n", "exit": 3}}}


async def opening_text(client: Client, toolbox: str = "dev") -> str:
    result = await client.result("open_toolbox", {"toolbox_name": toolbox})
    return str(result["content"][0]["text"])


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


async def test_all_servers_are_started_at_once(tmp_path: Path) -> None:
    marks = [tmp_path / name for name in ("a", "b", "c")]
    # Each shakes hands only when the next one has been started.
    servers = {
        mark.name: fake(starts=str(mark), on={"initialize": {"wait": str(other)}})
        for mark, other in zip(marks, marks[1:] + marks[:1], strict=True)
    }
    async with serving(toolboxes(dev=servers), tmp_path) as client:
        assert (await client.open("dev"))["servers_connected"] == 3


async def test_two_callers_share_one_opening(tmp_path: Path) -> None:
    gate, starts = tmp_path / "gate", tmp_path / "starts"
    slow = fake(starts=str(starts), on={"initialize": {"wait": str(gate)}})
    async with serving(toolboxes(dev={"a": slow}), tmp_path) as client:
        opening = {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}}
        callers = [client.begin("tools/call", opening), client.begin("tools/call", opening)]
        using = client.begin_use("dev", "a", "echo", text="hi")
        await client.ask("ping")
        assert not any(caller.done() for caller in [*callers, using])
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            first, second = [(await caller)["result"] for caller in callers]
            assert (await using)["result"]["content"][0]["text"] == "hi"
    assert first == second
    assert len(lines(starts)) == 1


async def test_a_caller_who_gives_up_stops_waiting_and_the_opening_goes_on(tmp_path: Path) -> None:
    gate, starts = tmp_path / "gate", tmp_path / "starts"
    slow = fake(starts=str(starts), on={"initialize": {"wait": str(gate)}})
    async with serving(toolboxes(dev={"a": slow}), tmp_path) as client:
        opening = {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}}
        patient = client.begin("tools/call", opening)
        impatient = client.begin("tools/call", opening, "impatient")
        await until(starts.exists)
        client.tell("notifications/cancelled", {"requestId": "impatient"})
        await client.ask("ping")
        assert not patient.done()
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            assert "result" in await patient
        assert await client.text("dev", "a", "echo", text="hi") == "hi"
        if impatient.done():
            assert "result" not in impatient.result()
    assert len(lines(starts)) == 1


async def test_the_opening_goes_on_when_its_only_caller_gives_up(tmp_path: Path) -> None:
    gate, starts = tmp_path / "gate", tmp_path / "starts"
    slow = fake(starts=str(starts), on={"initialize": {"wait": str(gate)}})
    async with serving(toolboxes(dev={"a": slow}), tmp_path) as client:
        opening = {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}}
        client.begin("tools/call", opening, "impatient")
        await until(starts.exists)
        client.tell("notifications/cancelled", {"requestId": "impatient"})
        await client.ask("ping")
        gate.touch()
        assert (await client.open("dev"))["servers_connected"] == 1
    assert len(lines(starts)) == 1


async def test_opening_again_gives_the_same_answer_and_asks_no_server(tmp_path: Path) -> None:
    record, starts = tmp_path / "record", tmp_path / "starts"
    async with serving(
        toolboxes(dev={"a": fake(record=str(record), starts=str(starts))}), tmp_path
    ) as client:
        first = await opening_text(client)
        await client.text("dev", "a", "echo")
        asked = lines(record)
        second = await opening_text(client)
        assert lines(record) == asked
    assert first == second
    assert len(lines(starts)) == 1


async def test_opening_again_tries_only_what_failed(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    servers = {"good": fake(starts=str(good)), "bad": fake(starts=str(bad), by_start=[EXITS, EXITS])}
    async with serving(toolboxes(dev=servers), tmp_path) as client:
        first = await client.open("dev")
        assert (first["servers_connected"], len(first["_errors"])) == (1, 1)
        assert await client.open("dev") == first
        third = await client.open("dev")
    assert third["servers_connected"] == 2
    assert "_errors" not in third
    assert (len(lines(good)), len(lines(bad))) == (1, 3)


async def test_a_server_that_never_served_is_not_restarted_but_reported(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    servers = {"good": fake(), "bad": fake(starts=str(starts), **EXITS)}
    async with serving(toolboxes(dev=servers), tmp_path) as client:
        await client.open("dev")
        told = await client.error("dev", "bad", "echo")
    assert told.startswith("Failed to connect to server 'bad' in toolbox 'dev': exited with code 3")
    assert len(lines(starts)) == 1


async def test_opening_asks_at_once_for_a_server_that_would_wait_for_its_restart(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = toolboxes(dev={"db": fake(starts=str(starts))}) | {"restart": {"crashes": 1, "within": 180}}
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        await client.error("dev", "db", "die")
        told = await client.error("dev", "db", "echo")
        assert (await client.open("dev"))["servers_connected"] == 1
        assert await client.text("dev", "db", "echo", text="hi") == "hi"
    assert told.startswith("Failed to connect to server 'db' in toolbox 'dev': ")
    assert "tried again in" in told
    assert len(lines(starts)) == 2


async def test_the_same_entry_works_beside_other_commands(tmp_path: Path) -> None:
    """A wrapper between the workbench and its server makes no difference."""
    script = fake()["args"]
    wrapped = {"command": "sh", "args": ["-c", 'exec "$@"', "sh", sys.executable, *script]}
    async with serving(toolboxes(dev={"a": wrapped}), tmp_path) as client:
        assert (await client.open("dev"))["servers_connected"] == 1
