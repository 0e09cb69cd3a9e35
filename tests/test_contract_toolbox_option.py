"""`--toolbox NAME`: toolboxes that are open from the start, for clients that list their tools once."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.test_contract_dynamic import (
    BROKEN,
    META_TOOLS,
    begin_open,
    count,
    is_not_found,
    listed,
    native,
    said,
    telling,
    told,
    told_at_last,
)
from tests.workbench import COMMAND, PATIENCE, fake, serving, started, tagged, toolboxes, until

ONE = ("--toolbox", "dev")
TWO = ("--toolbox", "dev", "--toolbox", "other")


def refused(folder: Path, *arguments: str, **servers_by_toolbox: Any) -> str:
    """The stderr of a workbench that does not start with these arguments."""
    (folder / "workbench-config.json").write_text(json.dumps(toolboxes(**servers_by_toolbox)))
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=folder, input=b"", capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr
    return done.stderr.decode()


# The first list ---------------------------------------------------------------------------------


async def test_the_very_first_list_has_the_tools_even_if_the_server_is_slow(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = fake(tools=["read_file"], on={"start": {"wait": str(gate)}})
    config = toolboxes(dev={"filesystem": slow, "a": telling(tools=["change"])})
    async with serving(config, tmp_path, arguments=ONE) as client:
        listing = client.begin("tools/list")
        assert (await client.ask("ping"))["result"] == {}  # nothing else waits
        assert await client.text("dev", "a", "change", kinds=[]) == "done"
        assert not listing.done()
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            tools = (await listing)["result"]["tools"]
        assert [tool["name"] for tool in tools] == [*META_TOOLS, "filesystem_read_file", "a_change"]
        assert await said(client, "filesystem_read_file", text="hi") == "hi"
        assert await told_at_last(client) == 0  # who lists once misses nothing


async def test_the_toolboxes_are_opened_at_start_and_not_only_for_a_list(tmp_path: Path) -> None:
    starts = [tmp_path / name for name in ("dev", "other", "third")]
    config = toolboxes(**{path.name: {"a": fake(starts=str(path))} for path in starts})
    async with serving(config, tmp_path, arguments=TWO) as client:
        await until(lambda: count(starts[0]) and count(starts[1]))
        await native(client)
        await client.open("dev")
        assert [count(path) for path in starts] == [1, 1, 0]


async def test_prompts_and_resources_stand_in_their_first_lists_too(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = fake(prompts=["p"], resources=["test://r"], on={"start": {"wait": str(gate)}})
    async with serving(toolboxes(dev={"a": slow}), tmp_path, arguments=ONE) as client:
        listings = [client.begin(method) for method in ("prompts/list", "resources/list")]
        await client.ask("ping")
        assert not any(listing.done() for listing in listings)
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            prompts, resources = [(await listing)["result"] for listing in listings]
    assert len(prompts["prompts"]) == len(resources["resources"]) == 1


async def test_a_first_list_that_is_given_up_does_not_cost_the_next_one_its_tools(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = fake(tools=["echo"], on={"start": {"wait": str(gate)}})
    async with serving(toolboxes(dev={"a": slow}), tmp_path, arguments=ONE) as client:
        client.begin("tools/list", request_id="given up")
        await client.ask("ping")
        client.tell("notifications/cancelled", {"requestId": "given up"})
        listing = client.begin("tools/list")
        await client.ask("ping")
        assert not listing.done()
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            tools = (await listing)["result"]["tools"]
    assert [tool["name"] for tool in tools][3:] == ["a_echo"]


async def test_a_client_that_greets_nobody_has_the_tools_in_its_first_list(tmp_path: Path) -> None:
    async with started(toolboxes(dev={"a": fake(tools=["echo"])}), tmp_path, arguments=ONE) as client:
        assert await native(client) == ["a_echo"]


async def test_what_a_client_opened_before_it_greets_stays_open(tmp_path: Path) -> None:
    async with started(toolboxes(dev={"a": fake(tools=["pid"])}), tmp_path, arguments=ONE) as client:
        pid = await client.text("dev", "a", "pid")
        await client.initialize()
        assert await native(client) == ["a_pid"]
        assert await said(client, "a_pid") == pid


async def test_the_first_list_is_not_answered_without_the_tools_of_a_toolbox_that_is_opened_meanwhile(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    slow = fake(tools=["echo"], on={"start": {"wait": str(gate)}})
    config = toolboxes(dev={"a": slow}) | {"toolMode": "dynamic"}
    async with serving(config, tmp_path, arguments=ONE) as client:
        listing, opening = client.begin("tools/list"), begin_open(client, "dev")
        await client.ask("ping")
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            tools = (await listing)["result"]["tools"]
            opened = json.loads((await opening)["result"]["content"][0]["text"])
    assert [tool["name"] for tool in tools][3:] == opened["tools"] == ["a_echo"]


# Names ------------------------------------------------------------------------------------------


async def test_the_names_of_one_toolbox_have_no_toolbox_in_front(tmp_path: Path) -> None:
    schema = {"type": "object"}
    described = {
        "name": "read_file",
        "does": "echo",
        "description": "Reads",
        "title": "R",
        "inputSchema": schema,
    }
    config = toolboxes(dev={"filesystem": fake(tools=[described])}, other={"a": fake()})
    async with serving(config, tmp_path, arguments=ONE) as client:
        tools = await listed(client)
        assert await said(client, "filesystem_read_file", text="hi") == "hi"
        assert await is_not_found(client, "dev__filesystem_read_file")
    assert list(tools) == [*META_TOOLS, "filesystem_read_file"]
    assert tools["filesystem_read_file"] == {
        "name": "filesystem_read_file",
        "description": "[dev/filesystem] Reads",
        "title": "R",
        "inputSchema": schema,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        TWO,
        ("serve", *TWO),
        (*TWO, "serve"),
        ("--toolbox=dev", "--toolbox=other"),
        ("serve", "--toolbox", "dev", "--config", "workbench-config.json", "--toolbox", "other"),
    ],
    ids=" ".join,
)
async def test_the_names_of_two_toolboxes_have_it_and_the_option_may_stand_anywhere(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    config = toolboxes(dev={"a": tagged("dev", "a", "t")}, other={"a": tagged("other", "a", "t")})
    async with serving(config, tmp_path, arguments=arguments) as client:
        answered = {name: await said(client, name) for name in await native(client)}
    assert answered == {"dev__a_t": "dev|a|t", "other__a_t": "other|a|t"}


async def test_toolboxes_named_before_and_behind_serve_are_all_there(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])}, other={"a": fake(tools=["echo"])})
    arguments = ("--toolbox", "dev", "serve", "--toolbox", "other")
    async with serving(config, tmp_path, arguments=arguments) as client:
        assert sorted(await native(client)) == ["dev__a_echo", "other__a_echo"]


async def test_the_first_list_is_in_the_order_of_the_command_line_whichever_is_ready_first(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    slow = fake(tools=["echo"], on={"start": {"wait": str(gate)}})
    config = toolboxes(other={"a": fake(tools=["echo"])}, dev={"a": slow})
    async with serving(config, tmp_path, arguments=TWO) as client:
        await client.open("other")  # so it is open long before the first
        listing = client.begin("tools/list")
        await client.ask("ping")
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            names = [tool["name"] for tool in (await listing)["result"]["tools"]][3:]
    assert names == ["dev__a_echo", "other__a_echo"]


@pytest.mark.parametrize("arguments", [("serve", *ONE), (*ONE, "serve")], ids=" ".join)
async def test_one_toolbox_may_be_named_before_or_behind_serve(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    async with serving(toolboxes(dev={"a": fake(tools=["echo"])}), tmp_path, arguments=arguments) as client:
        assert await native(client) == ["a_echo"]


async def test_a_toolbox_that_is_named_twice_is_opened_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = toolboxes(dev={"a": fake(tools=["echo"], starts=str(starts))})
    async with serving(config, tmp_path, arguments=(*ONE, *ONE)) as client:
        (name,) = await native(client)
        assert await said(client, name, text="hi") == "hi"
    assert count(starts) == 1


async def test_a_tool_whose_short_name_is_a_meta_tools_does_not_stand_in_its_way(tmp_path: Path) -> None:
    servers = {"open": tagged("dev", "open", "toolbox"), "use": tagged("dev", "use", "tool", "tool_")}
    async with serving(toolboxes(dev=servers), tmp_path, arguments=ONE) as client:
        names = await native(client)
        assert [await said(client, name) for name in names] == [
            "dev|open|toolbox",
            "dev|use|tool",
            "dev|use|tool_",
        ]
        assert (await client.open("dev"))["tools"] == names
        assert await client.text("dev", "use", "tool") == "dev|use|tool"


async def test_a_short_name_that_could_be_one_of_another_toolbox_leads_to_its_own(tmp_path: Path) -> None:
    config = toolboxes(dev={"x": tagged("dev", "x", "_a_t")}, x={"a": tagged("x", "a", "t")})
    async with serving(config | {"toolMode": "dynamic"}, tmp_path, arguments=ONE) as client:
        await client.open("x")
        names = await native(client)
        assert {await said(client, name) for name in names} == {"dev|x|_a_t", "x|a|t"}


def test_an_unknown_name_is_exit_2_with_the_nearest_one(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    servers: Any = {"production": {"a": fake(starts=str(starts))}, "dev": {"a": fake(starts=str(starts))}}
    problem = refused(tmp_path, *ONE, "--toolbox", "prodution", "--toolbox", "xyz", **servers)
    assert "'prodution'" in problem
    assert "did you mean 'production'?" in problem
    assert "'xyz'" in problem  # all problems at once
    assert "'dev'" not in problem
    assert not starts.exists()


@pytest.mark.parametrize(
    "arguments", [("serve", "--toolbox", "div"), ("--toolbox", "div", "serve")], ids=" ".join
)
def test_an_unknown_name_beside_serve_is_exit_2_too(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert "did you mean 'dev'?" in refused(tmp_path, *arguments, dev={"a": fake()})


def test_the_option_without_a_name_is_exit_2(tmp_path: Path) -> None:
    assert "--toolbox" in refused(tmp_path, "--toolbox", dev={"a": fake()})


# Beside the fixed toolboxes ---------------------------------------------------------------------


async def test_other_toolboxes_still_open_by_open_toolbox_and_are_not_native(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": telling()}, other={"a": fake(tools=["pid"])})
    async with serving(config, tmp_path, arguments=ONE) as client:
        before = await listed(client)
        opened = await client.open("other")
        assert await listed(client) == before
        assert await client.text("other", "a", "pid")
        for name in ("other__a_pid", "pid"):
            assert await is_not_found(client, name)
        await client.close("other")
        assert await told_at_last(client) == 0
    (tool,) = opened["tools"]
    assert (tool["name"], tool["source_server"]) == ("pid", "a")
    assert tool["inputSchema"] == {"type": "object"}
    assert "tools_registered" not in opened


async def test_in_dynamic_mode_other_toolboxes_are_native_under_their_whole_names(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])}, other={"a": fake(tools=["echo"])})
    async with serving(config | {"toolMode": "dynamic"}, tmp_path, arguments=ONE) as client:
        assert await native(client) == ["a_echo"]
        assert (await client.open("other"))["tools"] == ["other__a_echo"]
        assert await native(client) == ["a_echo", "other__a_echo"]
        assert await told(client) == 1


async def test_open_toolbox_of_a_fixed_toolbox_answers_at_once_with_its_names(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": telling()}), tmp_path, arguments=ONE) as client:
        names = await native(client)
        answer = await client.open("dev")
        assert await told_at_last(client) == 0
    assert (answer["tools_registered"], answer["tools"]) == (len(names), names)


async def test_a_fixed_toolbox_can_be_opened_before_anything_is_listed(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = toolboxes(dev={"a": fake(tools=["echo"], starts=str(starts))})
    async with serving(config, tmp_path, arguments=ONE) as client:
        assert (await client.open("dev"))["tools"] == ["a_echo"]
        assert await said(client, "a_echo", text="hi") == "hi"
        assert await native(client) == ["a_echo"]
    assert count(starts) == 1


async def test_a_fixed_toolbox_can_be_closed_and_opened_again(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": telling(tools=["echo", "pid", "change"])})
    async with serving(config, tmp_path, arguments=ONE) as client:
        before = await listed(client)
        pid = await said(client, "a_pid")
        assert (await client.close("dev"))["tools_unregistered"] == 3
        assert await told(client) == 1
        assert await native(client) == []
        assert await is_not_found(client, "a_pid")
        assert (await client.open("dev"))["tools"] == list(before)[3:]
        assert await listed(client) == before
        assert await said(client, "a_pid") != pid
        assert await told_at_last(client) == 2


async def test_a_fixed_toolbox_that_is_closed_before_the_first_list_is_not_in_it(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(on={"initialize": {"hang": True}})})
    async with serving(config, tmp_path, arguments=ONE) as client:
        listing = client.begin("tools/list")
        await client.close("dev")
        async with asyncio.timeout(PATIENCE):
            assert [tool["name"] for tool in (await listing)["result"]["tools"]] == META_TOOLS


async def test_the_meta_tools_keep_their_prefix_beside_the_tools_of_a_fixed_toolbox(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])}) | {"metaToolPrefix": "workbench_"}
    async with serving(config, tmp_path, arguments=ONE) as client:
        assert list(await listed(client)) == [*(f"workbench_{name}" for name in META_TOOLS), "a_echo"]


# What fails -------------------------------------------------------------------------------------


async def test_a_server_that_fails_is_no_reason_not_to_list_the_others(tmp_path: Path) -> None:
    silent = fake(on={"initialize": {"hang": True}}) | {"startup_timeout_sec": 0.5}
    config = toolboxes(dev={**BROKEN, "silent": silent, "a": fake(tools=["echo"])}, other=BROKEN)
    async with serving(config, tmp_path, arguments=TWO) as client:
        assert await native(client) == ["dev__a_echo"]
        assert await said(client, "dev__a_echo", text="hi") == "hi"


async def test_a_toolbox_without_anything_to_start_keeps_nobody_waiting(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake() | {"disabled": True}}, other=BROKEN)
    async with serving(config, tmp_path, arguments=TWO) as client:
        assert await native(client) == []


async def test_a_first_list_that_still_waits_at_the_end_is_answered(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(on={"initialize": {"hang": True}})})
    async with serving(config, tmp_path, arguments=ONE) as client:
        listing = client.begin("tools/list")
        assert await client.end() == 0
        assert listing.done()
        assert [tool["name"] for tool in listing.result()["result"]["tools"]] == META_TOOLS


async def test_a_server_that_had_failed_is_registered_by_open_toolbox(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    mended = fake(tools=["pid"], unless={str(gate): {"on": {"start": {"exit": 1}}}})
    config = toolboxes(dev={"a": telling(tools=["change"]), "mended": mended})
    async with serving(config, tmp_path, arguments=ONE) as client:
        assert await native(client) == ["a_change"]
        gate.touch()
        assert (await client.open("dev"))["tools"] == ["a_change", "mended_pid"]
        assert await said(client, "mended_pid")
        assert await told_at_last(client) == 1


async def test_a_fixed_server_that_restarts_keeps_its_tools(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": telling(), "b": fake()}), tmp_path, arguments=ONE) as client:
        before, pid = await listed(client), await said(client, "b_pid")
        await client.result("b_die", {})
        assert await said(client, "b_pid") != pid
        assert await listed(client) == before
        assert await told_at_last(client) == 0


async def test_a_fixed_server_that_has_other_tools_is_told_of_once(tmp_path: Path) -> None:
    changing = telling(tools=["echo", "change"], tools_after=["pid", "change"])
    async with serving(toolboxes(dev={"a": changing}), tmp_path, arguments=ONE) as client:
        assert await native(client) == ["a_echo", "a_change"]
        await said(client, "a_change", kinds=["tools"])
        while "a_pid" not in (names := await native(client)):
            await client.notification()
        assert set(names) == {"a_pid", "a_change"}
        assert await told_at_last(client) == 1
