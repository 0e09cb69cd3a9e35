"""`use_tool`: routing, what is handed on and given back untouched, and the errors that a model reads."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_server import RESULTS
from tests.workbench import PATIENCE, Client, fake, serving, tagged, toolboxes, use


def sent_calls(record: Path) -> list[bytes]:
    """The calls that a server received, as they came."""
    if not record.exists():
        return []
    return [line for line in record.read_bytes().splitlines() if b'"tools/call"' in line]


async def told(client: Client, arguments: Any) -> str:
    """The error that `use_tool` answers with."""
    result = await client.result("use_tool", arguments)
    assert result["isError"] is True
    assert list(result) == ["content", "isError"]
    return str(result["content"][0]["text"])


async def call_by_hand(client: Client, arguments: bytes) -> bytes:
    """Call `dev/a/echo` with arguments that are written as they are; the answer's line."""
    answer = client.expect("by hand")
    address = b'{"toolbox":"dev","server":"a","tool":"echo"}'
    params = b'{"name":"use_tool","arguments":{"tool":' + address + b',"arguments":' + arguments + b"}}"
    client.write(b'{"jsonrpc":"2.0","id":"by hand","method":"tools/call","params":' + params + b"}\n")
    return await client.line(answer)


# Routing ----------------------------------------------------------------------------------------


async def test_a_call_reaches_the_toolbox_server_and_tool_that_it_names(tmp_path: Path) -> None:
    names = ("read", "b_c", "use_tool", "open_toolbox", "a.b/c", "b-c d")
    servers = {
        toolbox: {name: tagged(toolbox, name, *names) for name in ("b", "b_c")} for toolbox in ("x", "x_b")
    }
    async with serving(toolboxes(**servers), tmp_path) as client:
        for toolbox in servers:
            tools = (await client.open(toolbox))["tools"]
            assert len(tools) == 12
            for tool in tools:
                address = (tool["toolbox_name"], tool["source_server"], tool["name"])
                assert await client.text(*address) == "|".join(address)


async def test_a_toolbox_that_is_not_open_is_opened_by_a_call(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        assert await client.text("dev", "a", "echo", text="hi") == "hi"
        assert (await client.close("dev"))["servers_disconnected"] == 1
        assert await client.text("dev", "a", "echo", text="again") == "again"


async def test_with_open_on_use_false_a_call_to_a_closed_toolbox_is_an_error(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = toolboxes(dev={"a": fake(starts=str(starts))}) | {"openOnUse": False}
    async with serving(config, tmp_path) as client:
        error = await client.error("dev", "a", "echo")
        assert not starts.exists()
        await client.open("dev")
        assert await client.text("dev", "a", "echo", text="hi") == "hi"
    assert "'dev' is not open" in error
    assert "open_toolbox" in error


async def test_a_call_waits_only_for_its_own_server(tmp_path: Path) -> None:
    hanging = fake(on={"initialize": {"hang": True}}) | {"startup_timeout_sec": 15}
    async with serving(toolboxes(dev={"slow": hanging, "a": fake()}), tmp_path) as client:
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}})
        assert await client.text("dev", "a", "echo", text="hi") == "hi"
        assert not opening.done()
        await client.close("dev")
        async with asyncio.timeout(PATIENCE):
            await opening


# Untouched --------------------------------------------------------------------------------------


UNTOUCHED = [
    RESULTS["unknown_fields"].decode(),
    '{"content":[],"structuredContent":{"n":12345678901234567890,"f":1.50,"e":1E+2},"isError":false}',
    '{ "content" : [ {"type":"text", "text":"\\u0041\\/é"} ] , "_meta":{"a":1,"a":2} }',
    '{"content":[{"type":"text","text":"it did not work"}],"isError":true}',
    '{"content":[{"type":"image","data":"AAAA","mimeType":"image/png","annotations":{"priority":0.10}}]}',
    '{"toolResult":null}',
    '{"content":[{"type":"text","text":"lone \\ud800 surrogate"}]}',
]


@pytest.mark.parametrize("result", UNTOUCHED)
async def test_a_result_is_given_back_untouched(result: str, tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake(tools=["result"])}), tmp_path) as client:
        line = await client.line(client.begin_use("dev", "a", "result", json=result))
    assert line == b'{"jsonrpc":"2.0","id":2,"result":%b}\n' % result.encode()


async def test_a_large_result_is_given_back_untouched(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        assert await client.text("dev", "a", "big", n=5_000_000) == "x" * 5_000_000


async def test_the_servers_own_errors_are_given_back_untouched(tmp_path: Path) -> None:
    data = {"field": ["name"], "n": 1}
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        answer = await client.begin_use("dev", "a", "error", code=-32602, message="no such city", data=data)
        told = await client.use("dev", "a", "is_error", text="it did not work")
    assert answer["error"] == {"code": -32602, "message": "no such city", "data": data}
    assert told == {"content": [{"type": "text", "text": "it did not work"}], "isError": True}


@pytest.mark.parametrize(
    "arguments",
    [
        '{"n":12345678901234567890,"f":1.50,"e":1E+2,"u":"\\u0041\\/é","d":1,"d":2}',
        '{ "a" : [ null , { } ] }',
        '{"use_tool":{"tool":{"toolbox":"x"}},"_meta":{"progressToken":1}}',
        '{"lone":"\\ud800"}',
        "{}",
    ],
)
async def test_arguments_are_handed_on_as_they_came(arguments: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        await call_by_hand(client, arguments.encode())
    (sent,) = sent_calls(record)
    assert b'"params":{"name":"echo","arguments":' + arguments.encode() + b"}" in sent


@pytest.mark.parametrize("text", ['{"a": 1.50, "b": "\\u0041"}', " {} ", '{"a":"\\ud83d\\ude00 é"}'])
async def test_arguments_may_be_the_text_of_an_object(text: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        await call_by_hand(client, json.dumps(text).encode())
    (sent,) = sent_calls(record)
    assert b'"arguments":' + text.encode() in sent


async def test_without_arguments_a_tool_is_called_with_none(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        result = await client.result("use_tool", {"tool": use("dev", "a", "echo")["tool"]})
    assert result["content"][0]["text"] == "{}"


@pytest.mark.parametrize(
    "arguments", [b"[1]", b"7", b"null", b"true", b'"[1]"', b'"not JSON"', b'""', b'"7"']
)
async def test_arguments_that_are_no_object_are_refused_and_nothing_is_sent(
    arguments: bytes, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        await client.open("dev")
        result = json.loads(await call_by_hand(client, arguments))["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith("Invalid parameters: arguments: ")
    assert sent_calls(record) == []


async def test_what_the_client_puts_into_meta_reaches_the_server(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        await client.begin_use("dev", "a", "echo", meta={"vendor/trace": "abc"})
    (sent,) = sent_calls(record)
    assert json.loads(sent)["params"]["_meta"] == {"vendor/trace": "abc"}


# Errors that a model can mend -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "error"),
    [
        (("xyz", "filesystem", "read_file"), "Toolbox 'xyz' not found"),
        (("dev", "database", "read_file"), "Server 'database' not found in toolbox 'dev'"),
        (
            ("dev", "filesystem", "delete_all"),
            "Tool 'delete_all' not found in server 'filesystem' (toolbox 'dev')",
        ),
        (("prodution", "db", "echo"), "Toolbox 'prodution' not found. Did you mean 'production'?"),
        (
            ("dev", "filesytem", "read_file"),
            "Server 'filesytem' not found in toolbox 'dev'. Did you mean 'filesystem'?",
        ),
        (
            ("dev", "filesystem", "readFile"),
            "Tool 'readFile' not found in server 'filesystem' (toolbox 'dev'). Did you mean 'read_file'?",
        ),
        (("", "filesystem", "read_file"), "Invalid tool identifier: toolbox cannot be empty"),
        (("dev", "", "read_file"), "Invalid tool identifier: server cannot be empty"),
        (("dev", "filesystem", ""), "Invalid tool identifier: tool cannot be empty"),
    ],
)
async def test_a_name_that_leads_nowhere_is_told_to_the_letter(
    address: tuple[str, str, str], error: str, tmp_path: Path
) -> None:
    config = toolboxes(dev={"filesystem": fake(tools=["read_file"])}, production={"db": fake()})
    async with serving(config, tmp_path) as client:
        assert await told(client, use(*address)) == error


TOOL = {"toolbox": "dev", "server": "a", "tool": "echo"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"tool": TOOL, "extra": 1}, "Unrecognized key: 'extra'"),
        ({"tool": {**TOOL, "extra": 1}}, "Unrecognized key: 'extra'"),
        ({}, "tool: "),
        ({"tool": "dev/a/echo"}, "tool: "),
        ({"tool": {"toolbox": "dev", "tool": "echo"}}, "tool.server: "),
        ({"tool": {**TOOL, "server": 5}}, "tool.server: "),
        ({"tool": {**TOOL, "tool": None}}, "tool.tool: "),
        ({"tool": {**TOOL, "toolbox": ["dev"]}}, "tool.toolbox: "),
        ([], ""),
    ],
)
async def test_missing_mistyped_and_unknown_keys_are_refused(
    arguments: Any, complaint: str, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        assert (await told(client, arguments)).startswith(f"Invalid parameters: {complaint}")
    assert sent_calls(record) == []


async def test_a_server_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    hanging = fake(on={"initialize": {"hang": True}}) | {"timeout": 300}
    async with serving(toolboxes(dev={"db": hanging}), tmp_path) as client:
        error = await client.error("dev", "db", "echo")
    assert error.startswith("Failed to connect to server 'db' in toolbox 'dev': connection timeout")


async def test_one_dead_server_takes_nothing_else_down(tmp_path: Path) -> None:
    servers = {"dead": {"command": "no-such-command"}, "exits": fake(on={"start": {"exit": 1}}), "a": fake()}
    async with serving(toolboxes(dev=servers, other={"a": fake()}), tmp_path) as client:
        await client.open("dev")
        await client.error("dev", "a", "die")
        assert await client.text("other", "a", "echo", text="hi") == "hi"
        assert await client.text("dev", "a", "echo", text="hi") == "hi"


# Nothing lost -----------------------------------------------------------------------------------


async def test_after_a_crash_in_mid_call_the_call_may_have_been_carried_out_and_is_never_repeated(
    tmp_path: Path,
) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": fake(record=str(record))}), tmp_path) as client:
        error = await client.error("dev", "a", "die", stderr="out of memory\n")
        assert await client.text("dev", "a", "echo", text="hi") == "hi"  # by a new process
    assert "'a' in toolbox 'dev'" in error
    assert "may have been carried out" in error
    assert "out of memory" in error
    assert [json.loads(call)["params"]["name"] for call in sent_calls(record)] == ["die", "echo"]


async def test_a_call_waits_for_a_restart_that_is_near(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with serving(toolboxes(dev={"a": fake(starts=str(starts))}), tmp_path) as client:
        await client.error("dev", "a", "crash_signal")
        assert await client.text("dev", "a", "echo", text="hi") == "hi"
    assert len(starts.read_text().splitlines()) == 2


async def test_a_call_to_a_server_that_is_restarted_much_later_says_when(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake()}) | {"restart": {"crashes": 1, "within": 180}}
    async with serving(config, tmp_path) as client:
        await client.error("dev", "a", "die")
        error = await client.error("dev", "a", "echo")
    assert error.startswith("Failed to connect to server 'a' in toolbox 'dev': ")
    assert "tried again in 60 s" in error or "tried again in 59 s" in error


async def test_every_request_gets_exactly_one_answer(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}, other={"a": fake()}), tmp_path) as client:
        await client.open("other")
        answers = [
            client.begin_use("dev", "a", "echo", text="1"),
            client.begin_use("nowhere", "a", "echo"),
            client.begin_use("dev", "a", "error"),
            client.begin_use("dev", "a", "slow", key="held"),
            client.begin_use("other", "a", "slow"),
            client.begin("tools/call", {"name": "close_toolbox", "arguments": {"toolbox_name": "other"}}),
            client.begin("tools/call", {"name": "no_such_tool"}),
            client.begin("tools/call", {"name": 7}),
            client.begin("tools/call"),
            client.begin("no/such/method"),
            client.begin("ping"),
            client.begin_use("dev", "a", "nan"),
            client.begin_use("dev", "a", "invalid_utf8"),
            client.begin_use("dev", "a", "big", n=200_000),
        ]
        await client.text("dev", "a", "echo")
        await client.text("dev", "a", "release", key="held")
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*answers)
    ids = [json.loads(line)["id"] for line in client.lines]
    assert len(ids) == len(set(ids)) == 1 + 1 + len(answers) + 2
    assert client.notifications.empty()


async def test_ids_of_every_kind_come_back_as_they_were(tmp_path: Path) -> None:
    kinds = ['"a"', '"1"', "1", "0", "-7", "9007199254740993", '"\\u0041"', "1.5", '""']
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        for kind in kinds:
            client.write(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}\n' % kind.encode())
        await client.end()
    expected = {b'{"jsonrpc":"2.0","id":%b,"result":{}}\n' % kind.encode() for kind in kinds}
    assert expected <= set(client.lines)


# Timeouts ---------------------------------------------------------------------------------------


async def test_timeout_bounds_a_call_too(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake() | {"timeout": 2000}}), tmp_path) as client:
        error = await client.error("dev", "a", "hang")
    assert "did not answer within 2 s" in error
    assert "may have been carried out" in error


async def test_tool_timeout_sec_bounds_calls_alone(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = fake(on={"initialize": {"wait": str(gate)}}) | {"tool_timeout_sec": 0.2}
    hasty = fake() | {"tool_timeout_sec": 0.3}
    async with serving(toolboxes(dev={"slow": slow}, other={"hasty": hasty}), tmp_path) as client:
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}})
        error = await client.error("other", "hasty", "hang")  # by now connecting took longer than a call may
        assert not opening.done()
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            answer = json.loads((await opening)["result"]["content"][0]["text"])
    assert "did not answer within 0.3 s" in error
    assert answer["servers_connected"] == 1


async def test_startup_timeout_sec_bounds_connecting_alone(tmp_path: Path) -> None:
    hanging = fake(on={"initialize": {"hang": True}}) | {"startup_timeout_sec": 2.1}
    quick = fake() | {"startup_timeout_sec": 2}
    async with serving(toolboxes(dev={"a": quick}, other={"db": hanging}), tmp_path) as client:
        calling = client.begin_use("dev", "a", "slow")
        error = await client.error("other", "db", "echo")  # by now the call took longer than connecting may
        assert not calling.done()
        assert await client.text("dev", "a", "release") == "1"
        assert (await calling)["result"]["content"][0]["text"] == "released"
    assert "connection timeout after 2.1 s" in error
