"""`toolMode: "dynamic"`: tools under native names, what calling them gives, and what the client is told."""

import asyncio
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fake_server import RESULTS
from tests.test_contract_calling import UNTOUCHED
from tests.test_contract_pages import dynamic, entries
from tests.workbench import PATIENCE, Client, Json, fake, serving, started, tagged, toolboxes, until, use

META_TOOLS = ["open_toolbox", "use_tool", "close_toolbox"]
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
BROKEN: Json = {"gone": {"command": "no-such-command"}, "exits": fake(on={"start": {"exit": 1}})}


def telling(**script: Any) -> Json:
    """A server that `told_of_tools` can ask to tell of something else."""
    return fake(prompts=[], prompts_after=["last"], **script)


def heard(client: Client) -> list[str]:
    """The methods of all notifications that the client has read."""
    messages = [json.loads(line) for line in client.lines if b'"method"' in line]
    return [message["method"] for message in messages if "id" not in message]


async def told(client: Client) -> int:
    """How often the client has been told of other tools until now."""
    await client.ask("ping")
    return heard(client).count(TOOLS_CHANGED)


async def told_at_last(client: Client, toolbox: str = "dev", server: str = "a") -> int:
    """The same with whatever is still to be told of what has happened until now.

    That comes not later than the word that a server has other prompts, which it is asked to have.
    """
    before = heard(client).count(PROMPTS_CHANGED)
    await client.text(toolbox, server, "change", kinds=["prompts"])
    await until(lambda: heard(client).count(PROMPTS_CHANGED) > before)
    return await told(client)


async def listed(client: Client) -> dict[str, Json]:
    """All that `tools/list` shows, by name."""
    tools = await entries(client, "tools/list")
    assert len({tool["name"] for tool in tools}) == len(tools)
    return {tool["name"]: tool for tool in tools}


async def native(client: Client) -> list[str]:
    """The names of the tools besides the meta-tools, which stand first."""
    names = list(await listed(client))
    assert names[:3] == META_TOOLS
    return names[3:]


async def said(client: Client, name: str, **arguments: Any) -> str:
    """The text of a native call that succeeds."""
    result = await client.result(name, arguments)
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


async def is_not_found(client: Client, name: str) -> bool:
    """Whether a native call is refused as one of an unknown tool."""
    answer = await client.ask("tools/call", {"name": name, "arguments": {}})
    if "result" in answer:
        return False
    return answer["error"]["code"] == -32602 and f"'{name}' not found" in answer["error"]["message"]


def begin_open(client: Client, toolbox: str) -> "asyncio.Future[Json]":
    return client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": toolbox}})


def count(file: Path, what: bytes = b"\n") -> int:
    return file.read_bytes().count(what) if file.exists() else 0


# Names and definitions --------------------------------------------------------------------------


async def test_an_opening_registers_each_tool_by_toolbox_server_and_tool(tmp_path: Path) -> None:
    def described(*tools: str) -> Json:
        schema = {"type": "object"}
        return fake(
            tools=[{"name": it, "description": f"What {it} does", "inputSchema": schema} for it in tools]
        )

    config = dynamic(
        dev={"filesystem": described("read_file", "write-file"), "db": described("read_file")},
        prod={"db": described("read_file")},
    )
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        await client.open("prod")
        tools = await listed(client)
    assert {name: tool["description"] for name, tool in tools.items() if name not in META_TOOLS} == {
        "dev__filesystem_read_file": "[dev/filesystem] What read_file does",
        "dev__filesystem_write-file": "[dev/filesystem] What write-file does",
        "dev__db_read_file": "[dev/db] What read_file does",
        "prod__db_read_file": "[prod/db] What read_file does",
    }


FIELDS = (
    '"title":"Öffnen \\u0041","inputSchema":{"type":"object","n":12345678901234567890,"f":1.50,"x":1,"x":2},'
    '"outputSchema":{"type":"object","$ref":"#/a\\/b"},"annotations":{"readOnlyHint":true,"futureHint":[]},'
    '"icons":[{"src":"data:,"}],"execution":{"taskSupport":"optional"},"futureField":[null,{"deep":[]}],'
    '"toolbox_name":"mine","_meta":{"v/k":1e400}'
)


@pytest.mark.parametrize(
    ("theirs", "shown"),
    [
        (
            '{"name":"t","description":"Reads \\u0041 \\"é\\"",' + FIELDS + "}",
            '{"name":"dev__a_t","description":"[dev/a] Reads \\u0041 \\"é\\"",' + FIELDS + "}",
        ),
        (
            "{" + FIELDS + ',"description":"","name":"t"}',
            "{" + FIELDS + ',"description":"[dev/a]","name":"dev__a_t"}',
        ),
        ('{"name":"t",' + FIELDS + "}", '{"name":"dev__a_t",' + FIELDS + ',"description":"[dev/a]"}'),
        (
            '{"name":"t","description":"Reads","lone":"\\ud800",' + FIELDS + "}",
            '{"name":"dev__a_t","description":"[dev/a] Reads","lone":"\\ud800",' + FIELDS + "}",
        ),
        (
            '{"name":"t","description":"Lone \\udfff",' + FIELDS + "}",
            '{"name":"dev__a_t","description":"[dev/a] Lone \\udfff",' + FIELDS + "}",
        ),
    ],
    ids=["common", "name last", "no description", "lone surrogate", "lone surrogate in the description"],
)
async def test_every_other_field_of_a_tool_is_as_the_server_gave_it(
    theirs: str, shown: str, tmp_path: Path
) -> None:
    listing = '{"tools":[' + theirs + "]}"
    async with serving(dynamic(dev={"a": fake(on={"tools/list": {"result": listing}})}), tmp_path) as client:
        await client.open("dev")
        line = await client.line(client.begin("tools/list"))
    assert line.endswith(b"," + shown.encode() + b"]}}\n")


async def test_names_stay_within_what_every_client_takes(tmp_path: Path) -> None:
    own = [
        "a.b",
        "a/b",
        "a b",
        "a_b",
        "ä",
        "工具",
        "x" * 64,
        "x" * 65,
        "y" * 128,
        "😀",
        "-",
        "A",
        "a",
        "a" + " " * 70,
    ]
    config = dynamic(**{"my box.": {"srv é": tagged("my box.", "srv é", *own)}})
    async with serving(config, tmp_path) as client:
        names = (await client.open("my box."))["tools"]
        assert await native(client) == names
        answered = [await said(client, name) for name in names]
    assert answered == [f"my box.|srv é|{tool}" for tool in own]
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in names)


@pytest.mark.parametrize(
    "addresses",
    [
        [("dev", "b_c", "d"), ("dev", "b", "c_d")],
        [("x", "_y", "t"), ("x_", "y", "t")],
        [("dev", "a", "r.e"), ("dev", "a", "r_e"), ("dev", "a", "r/e")],
        [("dev.1", "a", "t"), ("dev_1", "a", "t"), ("dev-1", "a", "t")],
        [("dev", "a", "x" * 80 + "1"), ("dev", "a", "x" * 80 + "2")],
        [("dev", "a", "b_c_d"), ("dev", "a_b", "c_d"), ("dev", "a_b_c", "d")],
    ],
    ids=["servers", "toolboxes", "illegal tools", "illegal toolboxes", "too long", "three"],
)
async def test_names_that_would_be_equal_all_stay_callable(
    addresses: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    tools: dict[tuple[str, str], list[str]] = {}
    for toolbox, server, tool in addresses:
        tools.setdefault((toolbox, server), []).append(tool)
    servers: dict[str, dict[str, Json]] = {}
    for (toolbox, server), its in tools.items():
        servers.setdefault(toolbox, {})[server] = tagged(toolbox, server, *its)
    async with serving(dynamic(**servers), tmp_path) as client:
        for toolbox in servers:
            await client.open(toolbox)
        names = await native(client)
        answered = {await said(client, name) for name in names}
    assert len(names) == len(addresses)
    assert answered == {"|".join(address) for address in addresses}


async def test_the_same_configuration_gives_the_same_names_whatever_is_open_or_up(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    servers = {
        ("dev", "b_c"): ("d", "read.me", "z" * 100),
        ("dev", "b"): ("c_d", "plain"),
        ("x", "_y"): ("t",),
        ("x_", "y"): ("t", "other"),
    }
    down = {str(gate): {"on": {"start": {"exit": 1}}}}
    config: Json = {}
    for (toolbox, server), tools in servers.items():
        entry = tagged(toolbox, server, *tools)
        if server == "b":  # with which another could be confused
            script = json.loads(entry["args"].pop())
            entry["args"].append(json.dumps({**script, "unless": down}))
        config.setdefault(toolbox, {})[server] = entry

    async def names(*order: str) -> dict[str, str]:
        """What is called by each native name, in a workbench that is started for this."""
        async with serving(dynamic(**config), tmp_path) as client:
            for toolbox in order:
                await client.open(toolbox)
            return {await said(client, name): name for name in await native(client)}

    without_b = await names("dev")
    gate.touch()
    everything = await names("dev", "x", "x_")
    assert len(everything) == 8
    assert await names("x_", "x", "dev") == everything
    assert await names("x") == {"x|_y|t": everything["x|_y|t"]}
    assert without_b.items() < everything.items()
    assert len(without_b) == 3


@pytest.mark.parametrize("prefix", ["", "dev__a_"])
async def test_a_tool_that_is_named_like_a_meta_tool_does_not_stand_in_its_way(
    prefix: str, tmp_path: Path
) -> None:
    tools = [*META_TOOLS, "use_readonly_tool"]
    config = dynamic(dev={"a": tagged("dev", "a", *tools)}) | {"metaToolPrefix": prefix}
    async with serving(config, tmp_path) as client:
        opening = await client.result(prefix + "open_toolbox", {"toolbox_name": "dev"})
        names = json.loads(opening["content"][0]["text"])["tools"]
        assert list(await listed(client)) == [*(prefix + tool for tool in META_TOOLS), *names]
        assert [await said(client, name) for name in names] == [f"dev|a|{tool}" for tool in tools]
        used = await client.result(prefix + "use_tool", use("dev", "a", "open_toolbox"))
        assert used["content"][0]["text"] == "dev|a|open_toolbox"
        closing = await client.result(prefix + "close_toolbox", {"toolbox_name": "dev"})
    assert json.loads(closing["content"][0]["text"])["tools_unregistered"] == len(tools)


async def test_the_meta_tool_prefix_is_for_the_meta_tools_alone(tmp_path: Path) -> None:
    config = dynamic(dev={"a": fake(tools=["echo"])}) | {"metaToolPrefix": "workbench_"}
    async with serving(config, tmp_path) as client:
        await client.result("workbench_open_toolbox", {"toolbox_name": "dev"})
        names = list(await listed(client))
        assert await said(client, "dev__a_echo", text="hi") == "hi"
        assert await is_not_found(client, "open_toolbox")
    assert names == [*(f"workbench_{name}" for name in META_TOOLS), "dev__a_echo"]


# Opening and closing ----------------------------------------------------------------------------


async def test_an_opening_answers_with_the_names_instead_of_the_schemas(tmp_path: Path) -> None:
    servers = {
        "z": fake(tools=["echo", "pid"], initialize={"instructions": "Be brief."}),
        "a": fake(tools=["pid"]),
    }
    async with serving(dynamic(dev=servers), tmp_path) as client:
        answer = await client.open("dev")
        assert await client.open("dev") == answer
        assert await native(client) == answer["tools"]
    assert answer == {
        "toolbox": "dev",
        "description": "No description provided",
        "servers_connected": 2,
        "tools_registered": 3,
        "tools": ["dev__z_echo", "dev__z_pid", "dev__a_pid"],
        "server_instructions": {"z": "Be brief."},
    }
    assert list(answer)[3:5] == ["tools_registered", "tools"]


async def test_a_toolbox_without_tools_registers_none_and_tells_nothing(tmp_path: Path) -> None:
    config = dynamic(dev={"a": fake(tools=[])}, other={"a": telling()})
    async with serving(config, tmp_path) as client:
        await client.open("other")
        answer = await client.open("dev")
        await client.close("dev")
        assert await told_at_last(client, "other") == 1  # its own opening
    assert (answer["tools_registered"], answer["tools"]) == (0, [])


async def test_closing_unregisters_exactly_the_tools_of_the_toolbox(tmp_path: Path) -> None:
    same = {"a": fake(tools=["echo", "pid"])}
    config = dynamic(dev=same, other=same, dev2=same)
    async with serving(config, tmp_path) as client:
        for toolbox in ("dev", "other", "dev2"):
            await client.open(toolbox)
        before = await listed(client)
        kept = [await said(client, f"{toolbox}__a_pid") for toolbox in ("other", "dev2")]
        closed = await client.close("dev")
        after = await listed(client)
        assert await is_not_found(client, "dev__a_echo")
        assert [await said(client, f"{toolbox}__a_pid") for toolbox in ("other", "dev2")] == kept
    assert closed == {"toolbox": "dev", "servers_disconnected": 1, "tools_unregistered": 2}
    assert after == {name: tool for name, tool in before.items() if not name.startswith("dev__")}
    assert len(before) - len(after) == 2


async def test_a_toolbox_that_is_opened_again_has_the_tools_that_it_had(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": fake(tools=["echo", "pid"])}), tmp_path) as client:
        first, shown = await client.open("dev"), await listed(client)
        before = await said(client, "dev__a_pid")
        await client.close("dev")
        assert await native(client) == []
        assert await client.open("dev") == first
        assert await listed(client) == shown
        assert await said(client, "dev__a_pid") != before


@pytest.mark.parametrize(
    "others", [{}, {"b": fake(), "c": fake(), "d": fake()}, BROKEN], ids=["one", "several", "broken"]
)
async def test_an_opening_and_a_closing_are_each_told_once(others: Json, tmp_path: Path) -> None:
    config = dynamic(dev={**others, "a": fake()}, other={"a": telling()})
    async with serving(config, tmp_path) as client:
        await client.open("other")
        for times in (2, 4):
            await client.open("dev")
            assert await told(client) == times
            assert await client.close("dev")
            assert await told(client) == times + 1
        assert await told_at_last(client, "other") == 5


async def test_a_toolbox_with_a_slow_server_is_told_of_once_and_when_it_is_open(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = fake(tools=["pid"], on={"start": {"wait": str(gate)}})
    async with serving(dynamic(dev={"slow": slow, "a": telling()}), tmp_path) as client:
        opening = begin_open(client, "dev")
        await client.text("dev", "a", "echo")  # so this one has long been ready
        assert await told(client) == 0
        assert await native(client) == []
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            answer = json.loads((await opening)["result"]["content"][0]["text"])
        assert answer["tools"][0] == "dev__slow_pid"
        assert await native(client) == answer["tools"]
        assert await told_at_last(client) == 1


async def test_two_openings_at_the_same_time_are_told_once_and_answered_alike(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": telling(), "b": fake()}), tmp_path) as client:
        async with asyncio.timeout(PATIENCE):
            one, two = await asyncio.gather(begin_open(client, "dev"), begin_open(client, "dev"))
        assert one["result"] == two["result"]
        assert await told_at_last(client) == 1


async def test_opening_what_is_open_and_closing_what_is_not_is_not_told(tmp_path: Path) -> None:
    config = dynamic(dev={"a": telling()}, other={"a": fake()})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        await client.open("dev")
        await client.close("other")
        assert await told_at_last(client) == 1


async def test_opening_again_registers_what_had_failed(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    mended = fake(tools=["echo"], unless={str(gate): {"on": {"start": {"exit": 1}}}})
    async with serving(dynamic(dev={"mended": mended, "a": telling(tools=["change"])}), tmp_path) as client:
        first = await client.open("dev")
        gate.touch()
        second = await client.open("dev")
        assert await said(client, "dev__mended_echo", text="hi") == "hi"
        assert await told_at_last(client) == 2
        assert set(await native(client)) == set(second["tools"])
    assert (first["tools"], first["tools_registered"]) == (["dev__a_change"], 1)
    assert "'mended'" in first["_errors"][0]
    assert second["tools_registered"] == 2
    assert set(second["tools"]) == {"dev__mended_echo", "dev__a_change"}
    assert "_errors" not in second


async def test_a_toolbox_of_which_all_servers_fail_registers_nothing(tmp_path: Path) -> None:
    config = dynamic(dev=BROKEN, other={"a": telling()})
    async with serving(config, tmp_path) as client:
        await client.open("other")
        before = await listed(client)
        result = await client.result("open_toolbox", {"toolbox_name": "dev"})
        assert await listed(client) == before
        assert await told_at_last(client, "other") == 1
    assert result["isError"] is True
    assert len(result["content"][0]["text"].splitlines()) >= 2


async def test_a_toolbox_that_is_closed_while_it_opens_leaves_nothing_listed(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = fake(on={"start": {"wait": str(gate)}})
    config = dynamic(dev={"slow": slow, "a": fake()}, other={"a": telling()})
    async with serving(config, tmp_path) as client:
        await client.open("other")
        before = await listed(client)
        opening = begin_open(client, "dev")
        await client.text("dev", "a", "echo")
        await client.close("dev")
        async with asyncio.timeout(PATIENCE):
            assert (await opening)["result"]["isError"] is True
        assert await listed(client) == before
        assert await told_at_last(client, "other") == 1
        gate.touch()


async def test_a_call_of_use_tool_that_opens_a_toolbox_registers_its_tools_and_is_told_once(
    tmp_path: Path,
) -> None:
    async with serving(dynamic(dev={"a": telling(), "b": fake(tools=["pid"])}), tmp_path) as client:
        assert await client.text("dev", "a", "echo", text="hi") == "hi"
        while not await told(client):
            await client.notification()
        names = await native(client)
        assert await said(client, "dev__b_pid") == await client.text("dev", "b", "pid")
        assert await told_at_last(client) == 1
        assert (await client.open("dev"))["tools"] == names
        assert await told(client) == 1


async def test_with_open_on_use_false_a_refused_call_registers_nothing(tmp_path: Path) -> None:
    config = dynamic(dev={"a": fake()}, other={"a": telling()}) | {"openOnUse": False}
    async with serving(config, tmp_path) as client:
        await client.open("other")
        before = await listed(client)
        assert "is not open" in await client.error("dev", "a", "echo")
        assert await is_not_found(client, "dev__a_echo")
        assert await listed(client) == before
        assert await told_at_last(client, "other") == 1


# Native calls -----------------------------------------------------------------------------------


@pytest.mark.parametrize("result", UNTOUCHED)
async def test_a_native_call_gives_the_servers_result_byte_for_byte(result: str, tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": fake()}), tmp_path) as client:
        await client.open("dev")
        params = {"name": "dev__a_result", "arguments": {"json": result}}
        line = await client.line(client.begin("tools/call", params, "mine"))
    assert line == b'{"jsonrpc":"2.0","id":"mine","result":%b}\n' % result.encode()


async def test_a_native_call_gives_the_servers_error_verbatim(tmp_path: Path) -> None:
    error = {
        "code": -32099,
        "message": "no such city é",
        "data": {"field": ["name"], "n": 1.5},
        "x-more": None,
    }
    refusing = fake(on={"tools/call": {"error": error}})
    async with serving(dynamic(dev={"a": refusing}), tmp_path) as client:
        await client.open("dev")
        params = {"name": "dev__a_echo", "arguments": {}}
        line = await client.line(client.begin("tools/call", params, "mine"))
    told = json.dumps(error, separators=(",", ":")).encode()
    assert line == b'{"jsonrpc":"2.0","id":"mine","error":%b}\n' % told


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"n":12345678901234567890,"f":1.50,"u":"\\u0041\\/\xc3\xa9","d":1,"d":2}',
        b'{ "a" : [ null , { } ] }',
        b'{"tool":{"toolbox":"x"},"arguments":{}}',
        b'{"lone":"\\ud800"}',
    ],
)
async def test_the_arguments_of_a_native_call_are_handed_on_as_they_came(
    arguments: bytes, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    async with serving(dynamic(dev={"a": fake(record=str(record))}), tmp_path) as client:
        await client.open("dev")
        answer = client.expect("by hand")
        params = b'{"name":"dev__a_echo","arguments":' + arguments + b',"_meta":{"vendor/trace":"abc"}}'
        client.write(b'{"jsonrpc":"2.0","id":"by hand","method":"tools/call","params":' + params + b"}\n")
        await client.line(answer)
    sent = record.read_bytes().splitlines()[-2]  # before the end of its stdin
    assert b'"params":{"name":"echo","arguments":' + arguments + b',"_meta":{"vendor/trace":"abc"}}' in sent


async def test_a_native_call_without_arguments_calls_the_tool_with_none(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": fake()}), tmp_path) as client:
        await client.open("dev")
        answer = await client.ask("tools/call", {"name": "dev__a_echo"})
    assert answer["result"]["content"][0]["text"] == "{}"


async def test_progress_and_cancellation_of_native_calls_reach_whom_they_should(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": fake()}), tmp_path) as client:
        await client.open("dev")
        await client.result("dev__a_progress", {"values": [1, 2]}, _meta={"progressToken": "mine"})
        client.begin("tools/call", {"name": "dev__a_slow", "arguments": {}}, "cancelled")
        await said(client, "dev__a_echo")
        client.tell("notifications/cancelled", {"requestId": "cancelled"})
        assert await said(client, "dev__a_release") == "0"  # it is not held by the server any more
    told = [json.loads(line)["params"] for line in client.lines if b"notifications/progress" in line]
    assert [(params["progressToken"], params["progress"]) for params in told] == [("mine", 1), ("mine", 2)]
    assert "cancelled" not in [json.loads(line).get("id") for line in client.lines]


async def test_a_native_name_leads_to_the_toolbox_server_and_tool_that_it_names(tmp_path: Path) -> None:
    servers = {
        toolbox: {
            server: tagged(toolbox, server, "read", "b_c", "use_tool", "a.b/c") for server in ("b", "b_c")
        }
        for toolbox in ("x", "x_b")
    }
    async with serving(dynamic(**servers), tmp_path) as client:
        for toolbox, its in servers.items():
            names = (await client.open(toolbox))["tools"]
            addresses = itertools.product((toolbox,), its, ("read", "b_c", "use_tool", "a.b/c"))
            assert [await said(client, name) for name in names] == [
                "|".join(address) for address in addresses
            ]


async def test_use_tool_works_beside_native_names(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": fake()}, other={"a": fake()}), tmp_path) as client:
        await client.open("dev")
        assert await client.text("dev", "a", "pid") == await said(client, "dev__a_pid")
        raw = RESULTS["unknown_fields"]
        line = await client.line(client.begin_use("dev", "a", "unknown_fields"))
        assert raw in line
        assert "Did you mean 'echo'?" in await client.error("dev", "a", "ehco")
        assert await client.error("dev", "a", "dev__a_echo")  # it takes the server's own names


async def test_an_unknown_native_tool_is_an_error_that_says_not_found(tmp_path: Path) -> None:
    record = tmp_path / "record"
    config = dynamic(dev={"a": fake(tools=["echo"], record=str(record))}, closed={"a": fake(tools=["echo"])})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        strange = (
            "closed__a_echo",
            "echo",
            "a_echo",
            "dev__a_",
            "dev__a_nothing",
            "DEV__a_echo",
            "dev/a/echo",
            "",
        )
        for name in strange:
            assert await is_not_found(client, name), name
        assert await said(client, "dev__a_echo", text="hi") == "hi"
    assert count(record, b'"tools/call"') == 1


async def test_a_filtered_tool_is_neither_listed_nor_callable_natively(tmp_path: Path) -> None:
    record = tmp_path / "record"
    tools = ["read_a", "read_secret", "write_a"]
    filtered = fake(tools=tools, record=str(record)) | {"toolFilters": ["read_*", "!read_secret"]}
    async with serving(dynamic(dev={"a": filtered}), tmp_path) as client:
        assert (await client.open("dev"))["tools"] == ["dev__a_read_a"]
        assert await native(client) == ["dev__a_read_a"]
        assert await is_not_found(client, "dev__a_read_secret")
        assert await is_not_found(client, "dev__a_write_a")
        assert (await client.close("dev"))["tools_unregistered"] == 1
    assert count(record, b'"tools/call"') == 0


async def test_a_tool_with_an_invalid_definition_is_not_registered_and_named(tmp_path: Path) -> None:
    invalid = [{"name": "bad"}, {"name": "bad_too", "inputSchema": {"type": "array"}}]
    async with serving(dynamic(dev={"a": fake(tools=["echo"], invalid_tools=invalid)}), tmp_path) as client:
        answer = await client.open("dev")
        assert await native(client) == ["dev__a_echo"]
        assert await is_not_found(client, "dev__a_bad")
    assert answer["tools_registered"] == 1
    assert len(answer["_errors"]) == 2


async def test_toolboxes_with_the_same_entry_have_tools_and_processes_of_their_own(tmp_path: Path) -> None:
    same = fake(tools=["pid", "die"])
    async with serving(dynamic(one={"a": same, "b": same}, two={"a": same}), tmp_path) as client:
        await client.open("one")
        await client.open("two")
        names = [name for name in await native(client) if name.endswith("pid")]
        pids = {name: await said(client, name) for name in names}
        assert len(set(pids.values())) == 3
        await client.result("one__a_die", {})
        assert {name: await said(client, name) for name in names[1:]} == dict(list(pids.items())[1:])


# A server that is restarted ---------------------------------------------------------------------


async def test_a_server_that_restarts_keeps_its_tools_and_the_next_call_works(tmp_path: Path) -> None:
    async with serving(dynamic(dev={"a": telling(), "b": fake()}), tmp_path) as client:
        await client.open("dev")
        before, pid = await listed(client), await said(client, "dev__b_pid")
        died = await client.result("dev__b_die", {})
        assert await listed(client) == before
        assert await said(client, "dev__b_pid") != pid
        assert await listed(client) == before
        assert await told_at_last(client) == 1
    assert died["isError"] is True
    assert "may have been carried out" in died["content"][0]["text"]


async def test_a_server_that_is_down_for_long_keeps_its_tools_and_a_call_says_when(tmp_path: Path) -> None:
    config = dynamic(dev={"a": telling(), "b": fake()}) | {"restart": {"crashes": 1, "within": 180}}
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        before = await listed(client)
        await client.result("dev__b_die", {})
        result = await client.result("dev__b_echo", {})
        assert await listed(client) == before
        assert await told_at_last(client) == 1
        closed = await client.close("dev")
        assert await native(client) == []
    assert result["isError"] is True
    assert "tried again in" in result["content"][0]["text"]
    assert closed["tools_unregistered"] == len(before) - len(META_TOOLS)


async def test_a_server_that_comes_back_with_other_tools_is_told_of_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    lives = [{"tools": ["echo", "die"]}, {"tools": ["pid", "die"]}]
    config = dynamic(dev={"b": fake(starts=str(starts), by_start=lives), "a": telling(tools=["change"])})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        await client.result("dev__b_die", {})
        while "dev__b_pid" not in (names := await native(client)):
            await client.notification()
        assert await said(client, "dev__b_pid")
        assert await is_not_found(client, "dev__b_echo")
        assert await told_at_last(client) == 2
    assert set(names) == {"dev__b_pid", "dev__b_die", "dev__a_change"}


# A server that has other tools ------------------------------------------------------------------


async def test_a_change_of_a_servers_tools_changes_the_list_and_is_told_once(tmp_path: Path) -> None:
    changing = telling(tools=["echo", "pid", "change"], tools_after=["change", "pid", "cwd"])
    async with serving(dynamic(dev={"a": changing}), tmp_path) as client:
        await client.open("dev")
        await said(client, "dev__a_change", kinds=["tools"])
        while "dev__a_cwd" not in (names := await native(client)):
            await client.notification()
        assert set(names) == {"dev__a_pid", "dev__a_cwd", "dev__a_change"}
        assert await told(client) == 2
        assert await said(client, "dev__a_cwd")
        assert await is_not_found(client, "dev__a_echo")
        assert (await client.open("dev"))["tools_registered"] == 3
        assert await told_at_last(client) == 2
        assert (await client.close("dev"))["tools_unregistered"] == 3


async def test_a_definition_that_changes_is_told_and_listed_anew(tmp_path: Path) -> None:
    def described(text: str) -> list[Any]:
        return ["change", {"name": "echo", "description": text, "inputSchema": {"type": "object"}}]

    changing = telling(tools=described("old"), tools_after=described("new"))
    async with serving(dynamic(dev={"a": changing}), tmp_path) as client:
        await client.open("dev")
        await said(client, "dev__a_change", kinds=["tools"])
        while (await listed(client))["dev__a_echo"]["description"] != "[dev/a] new":
            await client.notification()
        assert await told_at_last(client) == 2


@pytest.mark.parametrize(
    "after", [["echo", "change"], ["echo", "change", "secret"]], ids=["nothing", "a filtered tool"]
)
async def test_a_change_that_the_client_does_not_see_is_not_told(after: list[str], tmp_path: Path) -> None:
    record = tmp_path / "record"
    changing = telling(tools=["echo", "change"], tools_after=after, record=str(record))
    async with serving(dynamic(dev={"a": changing | {"toolFilters": ["!secret"]}}), tmp_path) as client:
        await client.open("dev")
        before = await listed(client)
        await said(client, "dev__a_change", kinds=["tools"])
        await until(lambda: count(record, b'"tools/list"') == 2)
        assert await told_at_last(client) == 1
        assert await listed(client) == before


async def test_ten_thousand_changes_of_nothing_make_two_listings_at_most_and_are_not_told(
    tmp_path: Path,
) -> None:
    record, gate = tmp_path / "record", tmp_path / "gate"
    gate.touch()
    flooding = telling(record=str(record), on={"tools/list": {"wait": str(gate)}})
    async with serving(dynamic(dev={"a": flooding}), tmp_path) as client:
        await client.open("dev")
        gate.unlink()  # so that the first of the listings lasts as long as the flood
        await said(client, "dev__a_list_changed", n=10_000)
        await until(lambda: count(record, b'"tools/list"') == 2)
        await said(client, "dev__a_list_changed")
        assert count(record, b'"tools/list"') == 2
        gate.touch()
        await until(lambda: count(record, b'"tools/list"') == 3)
        assert await told_at_last(client) == 1
        assert count(record, b'"tools/list"') == 3


async def test_ten_thousand_words_of_one_change_are_told_once(tmp_path: Path) -> None:
    record, gate = tmp_path / "record", tmp_path / "gate"
    gate.touch()
    flooding = telling(
        tools=["list_changed", "change"],
        tools_after=["list_changed", "change", "pid"],
        record=str(record),
        on={"tools/list": {"wait": str(gate)}},
    )
    async with serving(dynamic(dev={"a": flooding}), tmp_path) as client:
        await client.open("dev")
        gate.unlink()
        await said(client, "dev__a_change", kinds=["tools"])
        await said(client, "dev__a_list_changed", n=10_000)
        gate.touch()
        while "dev__a_pid" not in await native(client):
            await client.notification()
        await until(lambda: count(record, b'"tools/list"') == 3)
        assert await told_at_last(client) == 2


async def test_what_a_server_says_of_its_tools_while_it_is_opened_is_not_told(tmp_path: Path) -> None:
    note = json.dumps({"jsonrpc": "2.0", "method": TOOLS_CHANGED})
    hasty = telling(on={"tools/list": {"stdout": f"{note}\n{note}\n"}})
    async with serving(dynamic(dev={"a": hasty}), tmp_path) as client:
        await client.open("dev")
        assert await told_at_last(client) == 1


# What is declared, and the other mode -----------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "arguments", "declared"),
    [
        ("dynamic", (), True),
        ("dynamic", ("--toolbox", "dev"), True),
        ("proxy", ("--toolbox", "dev"), True),
        ("proxy", (), False),
        (None, (), False),
    ],
)
async def test_list_changed_of_tools_is_declared_where_it_is_kept(
    mode: str | None, arguments: tuple[str, ...], declared: bool, tmp_path: Path
) -> None:
    config = toolboxes(dev={"a": fake()}) | ({"toolMode": mode} if mode else {})
    async with started(config, tmp_path, arguments=arguments) as client:
        capabilities = (await client.initialize())["capabilities"]
    assert capabilities["tools"].get("listChanged", False) is declared


async def test_in_proxy_mode_the_list_never_changes_nor_is_told_of(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    changing = telling(tools=["echo", "change"], tools_after=["pid", "change"])
    restarted = fake(starts=str(starts), by_start=[{"tools": ["echo", "die"]}, {"tools": ["pid"]}])
    config = toolboxes(dev={"a": changing, "b": restarted}, other={"a": fake()})
    async with serving(config, tmp_path) as client:
        line = await client.line(client.begin("tools/list", request_id="list"))
        await client.open("dev")
        await client.open("other")
        await client.close("other")
        await client.error("dev", "b", "die")
        await client.text("dev", "b", "pid")
        await client.text("dev", "a", "change", kinds=["tools"])
        assert await told_at_last(client) == 0
        assert await client.text("dev", "a", "pid")  # so the change is known by now
        assert await is_not_found(client, "dev__a_pid")
        client.lines.clear()
        assert await client.line(client.begin("tools/list", request_id="list")) == line
