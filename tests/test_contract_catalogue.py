"""What is known before it is opened: the `Tools:` line, `--catalogue`, `warm`, `openFromCatalogue`."""

import asyncio
import json
import os
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import console, events, lifecycle
from mcp_workbench.catalogue import Catalogue, database
from mcp_workbench.cli import main
from mcp_workbench.config import parse
from mcp_workbench.knowledge import Knowledge
from mcp_workbench.offers import TOOLS, Listing
from mcp_workbench.pins.canonical import definition_hash
from tests.fake_server import FakeServer
from tests.fake_tools import dumped
from tests.test_contract_dynamic import TOOLS_CHANGED, heard, listed, native
from tests.workbench import (
    COMMAND,
    Client,
    Json,
    alive,
    fake,
    serving,
    started,
    toolboxes,
    until,
)

FROM_CATALOGUE: Json = {"openFromCatalogue": True}


async def instructions(config: Json, folder: Path, *arguments: str, **options: Any) -> str:
    async with started(config, folder, arguments=arguments, **options) as client:
        return str((await client.initialize())["instructions"])


def numbers(told: str) -> dict[str, int | None]:
    """How many tools each toolbox of the listing has; None if that is not known."""
    found: dict[str, int | None] = {}
    for entry in told.split("\n\n")[1:-1]:
        first, _description, *tools = entry.splitlines()
        found[first.split()[0]] = int(tools[0].removeprefix("  Tools: ")) if tools else None
    return found


def run(folder: Path, config: Json, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    (folder / "workbench-config.json").write_text(json.dumps(config))
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def warm(folder: Path, config: Json, *arguments: str) -> None:
    """Have all servers of a configuration seen."""
    done = run(folder, config, "warm", *arguments)
    assert (done.returncode, done.stderr) == (0, "")


def remember(config: Json) -> None:
    """Have the catalogue know all servers of a configuration, fake ones, without starting them."""
    configuration = parse(json.dumps(config).encode())
    known = Knowledge(configuration, console.catalogue(None))
    for origin, server in configuration.servers().items():
        server_itself, listing = FakeServer(json.loads(server.args[3])), Listing(TOOLS)
        listing.take(dumped({"tools": server_itself.listed}))
        said = server_itself.script.get("initialize", {}).get("instructions")
        known.learn(origin, listing.offers, dumped(said), "2025-11-25")
    known.close()
    assert known.is_kept()


def absent(gate: Path, **script: Any) -> Json:
    """A server that does this while the file is not there; until then it is a server with `echo`."""
    return fake(tools=["echo"], unless={str(gate): script})


def begin_open(client: Client, toolbox: str = "dev", **more: Any) -> "asyncio.Future[Json]":
    asked = {"name": "open_toolbox", "arguments": {"toolbox_name": toolbox, **more}}
    return client.begin("tools/call", asked)


def names(answer: Json) -> list[str]:
    return [tool["name"] for tool in answer["tools"]]


# The `Tools:` line ------------------------------------------------------------------------------


async def test_the_number_of_tools_is_told_from_the_second_start_on(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo", "pid"]), "b": fake(tools=["env"])}, prod={"a": fake()})
    config["toolboxes"]["dev"]["description"] = "Development"
    async with started(config, tmp_path) as client:
        assert "Tools:" not in (await client.initialize())["instructions"]
        await client.open("dev")
    assert await instructions(config, tmp_path) == (
        "Available Toolboxes:\n"
        "\n"
        "dev (2 servers)\n"
        "  Description: Development\n"
        "  Tools: 3\n"
        "\n"
        "prod (1 servers)\n"
        "  Description: No description provided\n"
        "\n"
        "To access tools from a toolbox, use open_toolbox with the toolbox name."
    )


async def test_the_number_is_that_after_filters_and_none_is_a_number_too(tmp_path: Path) -> None:
    three: Json = {"tools": ["echo", "env", "pid"]}
    config = toolboxes(
        some={"a": fake(**three) | {"toolFilters": ["e*"]}, "b": fake(**three) | {"excludeTools": ["env"]}},
        none={"a": fake(**three) | {"toolFilters": []}},
        empty={"a": fake(tools=[])},
        invalid={"a": fake(tools=["echo"], invalid_tools=[{"name": "broken"}])},
        off={"a": fake(**three), "b": fake(**three) | {"disabled": True}},
    )
    remember(config)
    expected = {"some": 4, "none": 0, "empty": 0, "invalid": 1, "off": 3}
    assert numbers(await instructions(config, tmp_path)) == expected
    # Filters are no part of what was seen.
    del config["toolboxes"]["none"]["mcpServers"]["a"]["toolFilters"]
    assert numbers(await instructions(config, tmp_path))["none"] == 3


async def test_the_number_is_that_of_the_tools_that_are_not_withheld(tmp_path: Path) -> None:
    same = tmp_path / "same"
    same.touch()
    config = toolboxes(dev={"a": absent(same, tools=["echo", "pid"])})
    assert run(tmp_path, config, "lock").returncode == 0
    same.unlink()
    warm(tmp_path, config)
    assert numbers(await instructions(config, tmp_path)) == {"dev": 1}
    assert run(tmp_path, config, "approve").returncode == 0
    assert numbers(await instructions(config, tmp_path)) == {"dev": 2}


async def test_a_toolbox_with_a_server_that_was_never_seen_has_no_number(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"]), "b": fake(on={"start": {"exit": 1}})})
    assert run(tmp_path, config, "warm").returncode == 1
    assert numbers(await instructions(config, tmp_path)) == {"dev": None}


async def test_another_entry_is_another_server(tmp_path: Path) -> None:
    others: list[Json] = [{"args": []}, {"command": "other"}, {"cwd": "."}, {"env": {"A": "1"}}, {}]
    entry = fake(tools=["echo"])
    config = toolboxes(**{f"box{number}": {"a": entry} for number in range(len(others))})
    remember(config)
    for toolbox, other in zip(config["toolboxes"].values(), others, strict=True):
        toolbox["mcpServers"]["a"] = entry | other
    assert [*numbers(await instructions(config, tmp_path)).values()] == [None, None, None, None, 1]


async def test_the_same_server_with_other_limits_filters_and_values_of_variables_is_known(
    tmp_path: Path,
) -> None:
    entry = fake(tools=["echo"]) | {"env": {"TOKEN": "one"}}
    remember(toolboxes(dev={"a": entry}))
    other = entry | {"env": {"TOKEN": "two"}, "timeout": 5000, "toolFilters": ["*"], "type": "stdio"}
    assert numbers(await instructions(toolboxes(dev={"a": other}), tmp_path)) == {"dev": 1}


async def test_what_a_server_lists_anew_counts(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["change_tools"], tools_after=["echo", "pid", "env"])})
    async with serving(config, tmp_path) as client:
        await client.text("dev", "a", "change_tools")
        await client.text("dev", "a", "pid")  # which it has since it was listed anew
    assert numbers(await instructions(config, tmp_path)) == {"dev": 3}


async def test_the_number_is_told_without_a_process(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = toolboxes(dev={"a": fake(tools=["echo"], starts=str(starts))})
    warm(tmp_path, config)
    assert len(starts.read_text().splitlines()) == 1
    assert numbers(await instructions(config, tmp_path)) == {"dev": 1}
    assert len(starts.read_text().splitlines()) == 1


# The file ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [("--catalogue", "seen.db"), ("serve", "--catalogue", "seen.db")], ids=" ".join
)
async def test_the_file_can_be_named_before_and_after_the_command(
    arguments: Sequence[str], tmp_path: Path
) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])})
    async with serving(config, tmp_path, arguments=tuple(arguments)) as client:
        await client.open("dev")
    assert (tmp_path / "seen.db").exists()
    assert numbers(await instructions(config, tmp_path, *arguments)) == {"dev": 1}


async def test_the_file_behind_the_command_counts(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])})
    done = run(tmp_path, config, "--catalogue", "before.db", "warm", "--catalogue", "behind.db")
    assert done.returncode == 0
    assert (tmp_path / "behind.db").exists()
    assert not (tmp_path / "before.db").exists()
    assert numbers(await instructions(config, tmp_path)) == {"dev": None}


async def test_in_memory_nothing_is_kept(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])})
    async with serving(config, tmp_path, arguments=("--catalogue", ":memory:")) as client:
        await client.open("dev")
    assert os.listdir(tmp_path) == ["workbench-config.json"]
    assert numbers(await instructions(config, tmp_path)) == {"dev": None}


def damaged(file: Path) -> None:
    file.write_bytes(b"this is no database at all" * 100)


def foreign(file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE theirs (id INTEGER)")
    database.close()


def a_folder(file: Path) -> None:
    file.mkdir()


def in_a_file(file: Path) -> None:
    """Its folder cannot be made."""
    file.parent.rmdir()
    file.parent.write_text("not a folder")


@pytest.mark.parametrize("spoil", [damaged, foreign, a_folder, in_a_file])
async def test_a_file_that_cannot_be_used_is_no_reason_not_to_start(spoil: Any, tmp_path: Path) -> None:
    file = tmp_path / "cache" / "seen.db"
    file.parent.mkdir()
    spoil(file)
    content = file.read_bytes() if file.is_file() else b""
    config = toolboxes(dev={"a": fake(tools=["echo"])}) | {"search": True}
    async with started(config, tmp_path, arguments=("--catalogue", str(file))) as client:
        assert numbers((await client.initialize())["instructions"]) == {"dev": None}
        assert names(await client.open("dev")) == ["echo"]
        assert await client.text("dev", "a", "echo", text="hi") == "hi"
        found = await client.result("search_tools", {"query": "echo"})
        assert "echo()" in found["content"][0]["text"]
    assert client.stderr.count(b"The catalogue") == 1
    if spoil is damaged:
        assert numbers(await instructions(config, tmp_path, "--catalogue", str(file))) == {"dev": 1}
    elif spoil is foreign:
        assert file.read_bytes() == content


async def test_a_file_that_another_program_has_locked_is_no_reason_not_to_start(tmp_path: Path) -> None:
    file = tmp_path / "seen.db"
    config = toolboxes(dev={"a": fake(tools=["echo"])})
    warm(tmp_path, config, "--catalogue", str(file))
    holding = sqlite3.connect(file, isolation_level=None)
    holding.execute("BEGIN EXCLUSIVE")  # which keeps others from writing, in this journal's mode
    try:
        async with started(config, tmp_path, arguments=("--catalogue", str(file))) as client:
            assert numbers((await client.initialize())["instructions"]) == {"dev": 1}
            assert names(await client.open("dev")) == ["echo"]
    finally:
        holding.close()


async def test_a_cache_that_cannot_be_written_is_no_reason_not_to_start(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])})
    async with started(config, tmp_path, env={"XDG_CACHE_HOME": "/proc/nowhere"}) as client:
        assert numbers((await client.initialize())["instructions"]) == {"dev": None}
        assert names(await client.open("dev")) == ["echo"]


async def test_two_workbenches_write_at_once_without_loss(tmp_path: Path) -> None:
    boxes = {f"box{number}": {"a": fake(tools=["echo", "pid"])} for number in range(6)}
    config = toolboxes(**boxes)
    (tmp_path / "other").mkdir()
    async with serving(config, tmp_path) as one, serving(config, tmp_path / "other") as other:
        first, last = [*boxes][:3], [*boxes][3:]
        await asyncio.gather(*map(one.open, first), *map(other.open, last))
    assert numbers(await instructions(config, tmp_path)) == dict.fromkeys(boxes, 2)


async def test_no_values_of_variables_are_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cr3t-value")
    (tmp_path / ".env").write_text("FILE_TOKEN=hunter2-from-file\n")
    entry = fake(tools=["echo"], script_args=("--token=${TOKEN}",))
    entry |= {"env": {"A": "plain-secret", "B": "${TOKEN}"}, "envFile": ".env"}
    warm(tmp_path, toolboxes(dev={"a": entry}), "--catalogue", "seen.db")
    files = [tmp_path / name for name in os.listdir(tmp_path) if name.startswith("seen.db")]
    kept = b"".join(file.read_bytes() for file in files)
    assert b"echo" in kept
    assert not [it for it in (b"s3cr3t-value", b"hunter2", b"plain-secret", b"--token") if it in kept]
    assert (tmp_path / "seen.db").stat().st_mode & 0o077 == 0


# warm -------------------------------------------------------------------------------------------


async def test_warm_sees_all_servers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    seen: Json = {"tools": ["echo", "pid"], "starts": str(starts)}
    config = toolboxes(dev={"a": fake(**seen), "b": fake(**seen)}, prod={"a": fake(**seen)})
    config["toolboxes"]["prod"]["mcpServers"]["a"]["toolFilters"] = ["echo"]
    done = run(tmp_path, config, "warm")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "dev/a: 2 tools\ndev/b: 2 tools\nprod/a: 1 tool\n"
    processes = [int(line) for line in starts.read_text().splitlines()]
    assert len(processes) == 3
    assert not any(map(alive, processes))
    assert numbers(await instructions(config, tmp_path)) == {"dev": 4, "prod": 1}


async def test_warm_tells_what_it_could_not_see_and_sees_the_rest(tmp_path: Path) -> None:
    broken = fake(on={"start": {"stderr": "no \x1b[31mdatabase\n", "exit": 3}})
    config = toolboxes(dev={"gone": {"command": "no-such-command"}, "db": broken, "a": fake(tools=["echo"])})
    config["toolboxes"]["good"] = {"mcpServers": {"a": fake(tools=["echo"])}}
    done = run(tmp_path, config, "warm")
    gone, db, a, good = (line for line in done.stdout.splitlines() if line.startswith(("dev/", "good/")))
    assert done.returncode == 1
    assert gone.startswith("dev/gone: FAILED: command 'no-such-command' not found")
    assert db.startswith("dev/db: FAILED: exited with code 3")
    assert "no \\u001b[31mdatabase\n" in done.stdout
    assert [a, good] == ["dev/a: 1 tool", "good/a: 1 tool"]
    assert numbers(await instructions(config, tmp_path)) == {"dev": None, "good": 1}


async def test_warm_starts_only_the_toolboxes_that_are_named(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = toolboxes(dev={"a": fake(tools=["echo"])}, prod={"a": fake(starts=str(starts))})
    done = run(tmp_path, config, "warm", "--toolbox", "dev")
    assert (done.returncode, done.stdout) == (0, "dev/a: 1 tool\n")
    assert not starts.exists()
    unknown = run(tmp_path, config, "warm", "--toolbox", "deb")
    assert unknown.returncode == 2
    assert "did you mean 'dev'?" in unknown.stderr


def test_warm_says_so_where_what_it_saw_is_not_remembered(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])})
    for nowhere in (":memory:", "/proc/nowhere"):
        done = run(tmp_path, config, "warm", "--catalogue", nowhere)
        assert done.returncode == 1
        assert done.stdout == f"dev/a: 1 tool\n{nowhere}: not all of this could be written there\n"


def test_warm_says_so_where_another_program_keeps_the_file_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(events, "log_to_stderr", lambda level: None)
    monkeypatch.setattr(database, "_PATIENCE", 0.0)
    file, config = tmp_path / "seen.db", tmp_path / "tools.json"
    config.write_text(json.dumps(toolboxes(dev={"a": fake(tools=["echo"])})))
    Catalogue.open(str(file), definition_hash).close()
    holding = sqlite3.connect(file, isolation_level=None)
    holding.execute("BEGIN IMMEDIATE")
    try:
        assert main(["warm", "--config", str(config), "--catalogue", str(file)]) == 1
    finally:
        holding.close()
    assert capsys.readouterr().out == f"dev/a: 1 tool\n{file}: not all of this could be written there\n"
    assert main(["warm", "--config", str(config), "--catalogue", str(file)]) == 0


def test_warm_waits_as_long_as_a_server_may_take_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(events, "log_to_stderr", lambda level: None)  # which would go on after this test
    monkeypatch.setattr(lifecycle, "OPENING_ANSWERS_WITHIN", 0.0)  # which clients are to be answered within
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(toolboxes(dev={"a": fake(tools=["echo"])})))
    assert main(["warm", "--config", str(file)]) == 0
    assert capsys.readouterr().out == "dev/a: 1 tool\n"


def test_warm_of_nothing_is_exit_0(tmp_path: Path) -> None:
    done = run(tmp_path, {"toolboxes": {}}, "warm")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_warm_starts_no_server_whose_entry_is_not_approved(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = toolboxes(dev={"a": fake(tools=["echo"])})
    assert run(tmp_path, config, "lock").returncode == 0
    config["toolboxes"]["dev"]["mcpServers"]["b"] = fake(starts=str(starts))
    done = run(tmp_path, config, "warm")
    a, b = done.stdout.splitlines()
    assert (done.returncode, a) == (1, "dev/a: 1 tool")
    assert b.startswith("dev/b: ")
    assert "mcp-workbench approve" in b
    assert not starts.exists()


# openFromCatalogue ------------------------------------------------------------------------------


async def test_an_opening_answers_from_the_catalogue_while_its_servers_start(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    hanging = fake(
        tools=["echo", "pid"],
        initialize={"instructions": "Mind the gap"},
        on={"initialize": {"wait": str(gate)}},
    )
    config = toolboxes(dev={"a": hanging | {"toolFilters": ["echo"]}}) | FROM_CATALOGUE
    remember(config)
    gate.unlink()
    async with serving(config, tmp_path) as client:
        answer = await client.open("dev")
        assert names(answer) == ["echo"]
        assert (answer["servers_connected"], "_errors" in answer) == (0, False)
        assert answer["server_instructions"] == {"a": "Mind the gap"}
        call = client.begin_use("dev", "a", "echo", text="hi")
        await client.ask("ping")
        assert not call.done()
        gate.touch()
        assert (await call)["result"]["content"][0]["text"] == "hi"
        again = await client.open("dev")
    assert again == answer | {"servers_connected": 1}


async def test_who_was_never_seen_is_waited_for(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    seen = fake(tools=["echo"], on={"initialize": {"wait": str(gate)}})
    config = toolboxes(dev={"a": seen}) | FROM_CATALOGUE
    remember(config)
    gate.unlink()
    config["toolboxes"]["dev"]["mcpServers"]["b"] = fake(tools=["pid"])
    async with serving(config, tmp_path) as client:
        answer = await client.open("dev")
    assert (names(answer), answer["servers_connected"]) == (["echo", "pid"], 1)


async def test_without_the_key_an_opening_waits_for_its_servers(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    config = toolboxes(dev={"a": fake(tools=["echo"], on={"initialize": {"wait": str(gate)}})})
    remember(config)
    gate.unlink()
    async with serving(config, tmp_path) as client:
        opening = begin_open(client)
        await client.ask("ping")
        assert not opening.done()
        gate.touch()
        assert json.loads((await opening)["result"]["content"][0]["text"])["servers_connected"] == 1


async def test_a_tool_that_the_server_no_longer_has_is_told_in_the_calls_error(tmp_path: Path) -> None:
    same = tmp_path / "same"
    same.touch()
    config = toolboxes(dev={"a": absent(same, tools=["echoes"])}) | FROM_CATALOGUE
    remember(config)
    same.unlink()
    async with serving(config, tmp_path) as client:
        assert names(await client.open("dev")) == ["echo"]
        told = await client.error("dev", "a", "echo")
        assert told == "Tool 'echo' not found in server 'a' (toolbox 'dev'). Did you mean 'echoes'?"
        assert await client.text("dev", "a", "echoes", text="hi") == "hi"
        assert names(await client.open("dev")) == ["echoes"]


async def test_a_tool_that_is_new_can_be_called(tmp_path: Path) -> None:
    same = tmp_path / "same"
    same.touch()
    config = toolboxes(dev={"a": absent(same, tools=["pid", "echo"])}) | FROM_CATALOGUE
    remember(config)
    same.unlink()
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        assert (await client.text("dev", "a", "pid")).isdigit()


async def test_a_server_that_cannot_be_started_any_more_is_told_by_the_call_and_the_next_opening(
    tmp_path: Path,
) -> None:
    same = tmp_path / "same"
    same.touch()
    broken = {"on": {"start": {"stderr": "no database\n", "exit": 3}}}
    config = toolboxes(dev={"a": absent(same, **broken), "b": fake(tools=["pid"])}) | FROM_CATALOGUE
    remember(config)
    same.unlink()
    async with serving(config, tmp_path) as client:
        assert names(await client.open("dev")) == ["echo", "pid"]
        told = await client.error("dev", "a", "echo")
        assert told.startswith("Failed to connect to server 'a' in toolbox 'dev': exited with code 3")
        answer = await client.open("dev")
        assert names(answer) == ["pid"]
        assert answer["_errors"][0].startswith("Failed to connect to server 'a' in toolbox 'dev': ")
        same.touch()
        assert names(await client.open("dev")) == ["echo", "pid"]
        assert await client.text("dev", "a", "echo", text="hi") == "hi"


async def test_in_dynamic_mode_one_notification_tells_what_differs(tmp_path: Path) -> None:
    same, gate = tmp_path / "same", tmp_path / "gate"
    same.touch()
    other = {"tools": ["echo", "pid"], "on": {"initialize": {"wait": str(gate)}}}
    config = toolboxes(dev={"a": absent(same, **other)}) | FROM_CATALOGUE | {"toolMode": "dynamic"}
    remember(config)
    same.unlink()
    async with serving(config, tmp_path) as client:
        answer = await client.open("dev")
        assert (answer["tools"], answer["servers_connected"]) == (["dev__a_echo"], 0)
        assert heard(client) == [TOOLS_CHANGED]
        assert await native(client) == ["dev__a_echo"]
        call = client.begin("tools/call", {"name": "dev__a_echo", "arguments": {"text": "hi"}})
        await client.ask("ping")
        assert not call.done()
        gate.touch()
        assert (await call)["result"]["content"][0]["text"] == "hi"
        await until(lambda: heard(client).count(TOOLS_CHANGED) == 2)
        assert await native(client) == ["dev__a_echo", "dev__a_pid"]
        await client.close("dev")
        assert [*await listed(client)][3:] == []
    assert heard(client).count(TOOLS_CHANGED) == 3


async def test_the_first_list_of_a_fixed_toolbox_comes_from_the_catalogue_too(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    slow = fake(tools=["echo"], on={"initialize": {"wait": str(gate)}})
    config = toolboxes(dev={"a": slow}) | FROM_CATALOGUE
    remember(config)
    gate.unlink()
    async with serving(config, tmp_path, arguments=("--toolbox", "dev")) as client:
        assert await native(client) == ["a_echo"]
        call = client.begin("tools/call", {"name": "a_echo", "arguments": {"text": "hi"}})
        gate.touch()
        assert (await call)["result"]["content"][0]["text"] == "hi"


async def test_in_dynamic_mode_nothing_is_told_where_nothing_differs(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])}) | FROM_CATALOGUE | {"toolMode": "dynamic"}
    remember(config)
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        await client.text("dev", "a", "echo")
        assert await native(client) == ["dev__a_echo"]
    assert heard(client) == [TOOLS_CHANGED]


async def test_a_toolbox_that_was_closed_while_it_started_forgets(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    slow = fake(tools=["echo", "pid"], on={"initialize": {"wait": str(gate)}})
    config = toolboxes(dev={"a": slow}) | FROM_CATALOGUE | {"toolMode": "dynamic"}
    remember(config)
    gate.unlink()
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        call = client.begin_use("dev", "a", "echo")
        closed = {"toolbox": "dev", "servers_disconnected": 0, "tools_unregistered": 2}
        assert await client.close("dev") == closed
        assert "was closed" in (await call)["result"]["content"][0]["text"]
        assert await native(client) == []
        assert (await client.open("dev"))["tools"] == ["dev__a_echo", "dev__a_pid"]
        gate.touch()
        assert await client.text("dev", "a", "echo", text="hi") == "hi"
