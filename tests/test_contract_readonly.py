"""`"readOnlyTools": true`: a second form of `use_tool` that calls only what is known to change nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_server import RESULTS
from tests.test_contract_dynamic import count, is_not_found, listed, said
from tests.workbench import Client, Json, fake, serving, toolboxes, use

MODES = pytest.mark.parametrize("mode", ["proxy", "dynamic"])
READING: Json = {"readOnlyHint": True}
TRUSTED: Json = {"trustAnnotations": True}
# What the protocol takes for granted of a tool that says nothing else.
GRANTED = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
CAUTIOUS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


def hinting(annotations: Json | None, *tools: str, **script: Any) -> Json:
    """A server that says this of its tools."""
    said_of_it = {} if annotations is None else {"annotations": annotations}
    listed = [{"name": tool, "inputSchema": {"type": "object"}, **said_of_it} for tool in tools or ("echo",)]
    return fake(tools=listed, **script)


def readonly(**servers_by_toolbox: Any) -> Json:
    return toolboxes(**servers_by_toolbox) | {"readOnlyTools": True}


async def refusal(client: Client, tool: str = "echo", name: str = "use_readonly_tool") -> str:
    """The text with which a call of a tool of `dev/a` is refused."""
    result = await client.result(name, use("dev", "a", tool))
    assert result["isError"] is True
    assert list(result) == ["content", "isError"]
    return str(result["content"][0]["text"])


# What is offered --------------------------------------------------------------------------------


@MODES
async def test_use_readonly_tool_is_offered_and_annotated_as_read_only(mode: str, tmp_path: Path) -> None:
    async with serving(readonly(dev={"a": fake()}) | {"toolMode": mode}, tmp_path) as client:
        tools = await listed(client)
    assert set(tools) == {"open_toolbox", "use_tool", "use_readonly_tool", "close_toolbox"}
    assert tools["use_readonly_tool"]["annotations"]["readOnlyHint"] is True
    assert not tools["use_readonly_tool"]["annotations"].get("destructiveHint")
    assert tools["use_readonly_tool"]["inputSchema"] == tools["use_tool"]["inputSchema"]


@pytest.mark.parametrize("read_only", [True, False])
@MODES
async def test_use_tool_itself_has_the_most_cautious_annotations(
    mode: str, read_only: bool, tmp_path: Path
) -> None:
    config = toolboxes(dev={"a": hinting(READING) | TRUSTED}) | {"toolMode": mode, "readOnlyTools": read_only}
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        assert GRANTED | (await listed(client))["use_tool"]["annotations"] == CAUTIOUS


@pytest.mark.parametrize("key", [{}, {"readOnlyTools": False}], ids=json.dumps)
async def test_without_the_key_it_is_neither_listed_nor_found(key: Json, tmp_path: Path) -> None:
    record = tmp_path / "record"
    config = toolboxes(dev={"a": hinting(READING, record=str(record)) | TRUSTED}) | key
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        assert "use_readonly_tool" not in await listed(client)
        answer = await client.ask(
            "tools/call", {"name": "use_readonly_tool", "arguments": use("dev", "a", "echo")}
        )
    assert answer["error"]["code"] == -32602
    assert "'use_readonly_tool' not found" in answer["error"]["message"]
    assert count(record, b'"tools/call"') == 0


async def test_the_meta_tool_prefix_is_put_before_its_name(tmp_path: Path) -> None:
    config = readonly(dev={"a": hinting(READING) | TRUSTED}) | {"metaToolPrefix": "workbench_"}
    async with serving(config, tmp_path) as client:
        tools = await listed(client)
        assert await is_not_found(client, "use_readonly_tool")
        result = await client.result("workbench_use_readonly_tool", use("dev", "a", "echo", text="hi"))
    assert result["content"][0]["text"] == "hi"
    assert "workbench_use_tool" in tools["workbench_use_readonly_tool"]["description"]
    assert GRANTED | tools["workbench_use_tool"]["annotations"] == CAUTIOUS


async def test_a_refusal_names_use_tool_with_its_prefix(tmp_path: Path) -> None:
    config = readonly(dev={"a": hinting(None)}) | {"metaToolPrefix": "workbench_"}
    async with serving(config, tmp_path) as client:
        refused = await refusal(client, name="workbench_use_readonly_tool")
    assert "workbench_use_tool" in refused  # there is no other


# What is called ---------------------------------------------------------------------------------


@MODES
async def test_a_tool_that_a_trusted_server_says_to_be_read_only_is_called(mode: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    trusted = hinting(READING, "unknown_fields", record=str(record)) | TRUSTED
    async with serving(readonly(dev={"a": trusted}) | {"toolMode": mode}, tmp_path) as client:
        params = {"name": "use_readonly_tool", "arguments": use("dev", "a", "unknown_fields", n=1)}
        line = await client.line(client.begin("tools/call", params, "mine"))
    assert line == b'{"jsonrpc":"2.0","id":"mine","result":%b}\n' % RESULTS["unknown_fields"]
    sent = next(line for line in record.read_text().splitlines() if '"tools/call"' in line)
    assert json.loads(sent)["params"] == {"name": "unknown_fields", "arguments": {"n": 1}}


async def test_the_errors_of_what_it_calls_are_the_servers_own(tmp_path: Path) -> None:
    async with serving(
        readonly(dev={"a": hinting(READING, "error", "is_error") | TRUSTED}), tmp_path
    ) as client:
        params = {"name": "use_readonly_tool", "arguments": use("dev", "a", "error", message="no such city")}
        answer = await client.ask("tools/call", params)
        told = await client.result("use_readonly_tool", use("dev", "a", "is_error", text="it did not work"))
    assert answer["error"] == {"code": -32602, "message": "no such city"}
    assert told == {"content": [{"type": "text", "text": "it did not work"}], "isError": True}


async def test_progress_and_meta_pass_as_they_do_with_use_tool(tmp_path: Path) -> None:
    record = tmp_path / "record"
    trusted = hinting(READING, "progress", record=str(record)) | TRUSTED
    async with serving(readonly(dev={"a": trusted}), tmp_path) as client:
        meta = {"progressToken": "mine", "vendor/trace": "abc"}
        await client.result("use_readonly_tool", use("dev", "a", "progress", n=1), _meta=meta)
    told = [json.loads(line)["params"] for line in client.lines if b"notifications/progress" in line]
    assert [params["progressToken"] for params in told] == ["mine"]
    assert count(record, b'"vendor/trace":"abc"') == 1


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry", [{}, {"trustAnnotations": False}], ids=["no word of trust", "trustAnnotations false"]
)
async def test_a_server_whose_entry_is_not_trusted_is_not_believed(entry: Json, tmp_path: Path) -> None:
    record = tmp_path / "record"
    untrusted = hinting(READING, record=str(record)) | entry
    config = readonly(dev={"a": untrusted, "b": hinting(READING) | TRUSTED})
    async with serving(config, tmp_path) as client:
        refused = await refusal(client)
        result = await client.result("use_readonly_tool", use("dev", "b", "echo", text="hi"))
    assert result["content"][0]["text"] == "hi"
    assert all(name in refused for name in ("'echo'", "'a'", "'dev'", "use_tool"))
    assert count(record, b'"tools/call"') == 0


@pytest.mark.parametrize(
    "fields",
    [
        '"title":"nothing is said"',
        '"annotations":{}',
        '"annotations":{"readOnlyHint":false}',
        '"annotations":{"readOnlyHint":null}',
        '"annotations":{"readOnlyHint":"true"}',
        '"annotations":{"readOnlyHint":1}',
        '"annotations":{"readOnlyHint":[true]}',
        '"annotations":{"readOnlyHint":{"value":true}}',
        '"annotations":{"readonlyhint":true,"read_only_hint":true}',
        '"annotations":{"destructiveHint":false,"idempotentHint":true}',
        '"annotations":{"readOnlyHint":true,"readOnlyHint":false}',
        '"annotations":{"title":{"readOnlyHint":true}}',
        '"annotations":[{"readOnlyHint":true}]',
        '"annotations":"readOnlyHint"',
        '"annotations":null',
        '"readOnlyHint":true',
        '"_meta":{"annotations":{"readOnlyHint":true}}',
        '"description":"\\"annotations\\":{\\"readOnlyHint\\":true}"',
    ],
)
async def test_a_tool_that_its_server_does_not_say_to_be_read_only_is_refused(
    fields: str, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    listing = '{"tools":[{"name":"echo","inputSchema":{"type":"object"},' + fields + "}]}"
    server = fake(on={"tools/list": {"result": listing}}, record=str(record)) | TRUSTED
    async with serving(readonly(dev={"a": server}), tmp_path) as client:
        refused = await refusal(client)
        assert count(record, b'"tools/call"') == 0
        assert await client.text("dev", "a", "echo", text="hi") == "hi"  # use_tool calls it
    assert "read-only" in refused


async def test_each_tool_counts_by_itself(tmp_path: Path) -> None:
    tools = [
        {"name": "pid", "annotations": READING, "inputSchema": {"type": "object"}},
        {"name": "die", "annotations": {"readOnlyHint": False}, "inputSchema": {"type": "object"}},
    ]
    async with serving(readonly(dev={"a": fake(tools=tools) | TRUSTED}), tmp_path) as client:
        pid = await client.text("dev", "a", "pid")
        await refusal(client, "die")
        result = await client.result("use_readonly_tool", use("dev", "a", "pid"))
    assert result["content"][0]["text"] == pid


async def test_a_tool_that_is_not_read_only_any_more_is_refused(tmp_path: Path) -> None:
    def listing(annotations: Json) -> list[Any]:
        schema = {"type": "object"}
        return ["change", {"name": "echo", "inputSchema": schema, "annotations": annotations}]

    changing = fake(tools=listing(READING), tools_after=listing({"readOnlyHint": False}))
    async with serving(readonly(dev={"a": changing | TRUSTED}) | {"toolMode": "dynamic"}, tmp_path) as client:
        await client.open("dev")
        assert not (await client.result("use_readonly_tool", use("dev", "a", "echo"))).get("isError")
        await said(client, "dev__a_change")
        while (await listed(client))["dev__a_echo"]["annotations"] == READING:
            await client.notification()
        await refusal(client)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (use("xyz", "a", "echo"), "Toolbox 'xyz' not found"),
        (use("dev", "xyz", "echo"), "Server 'xyz' not found in toolbox 'dev'"),
        (use("dev", "a", "xyz"), "Tool 'xyz' not found in server 'a' (toolbox 'dev')"),
        (use("dev", "a", "secret"), "Tool 'secret' not found in server 'a' (toolbox 'dev')"),
        (use("dev", "", "echo"), "Invalid tool identifier: server cannot be empty"),
        ({**use("dev", "a", "echo"), "extra": 1}, "Invalid parameters: Unrecognized key: 'extra'"),
        (
            {**use("dev", "a", "echo"), "arguments": 7},
            "Invalid parameters: arguments: expected object, received number",
        ),
    ],
)
async def test_mistakes_are_told_as_by_use_tool(arguments: Json, error: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    server = hinting(READING, "echo", "secret", record=str(record)) | TRUSTED | {"toolFilters": ["!secret"]}
    async with serving(readonly(dev={"a": server}), tmp_path) as client:
        told = await client.result("use_readonly_tool", arguments)
        assert told == {"content": [{"type": "text", "text": error}], "isError": True}
        assert told == await client.result("use_tool", arguments)
    assert count(record, b'"tools/call"') == 0


async def test_with_open_on_use_false_it_opens_nothing_either(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = readonly(dev={"a": hinting(READING, starts=str(starts)) | TRUSTED}) | {"openOnUse": False}
    async with serving(config, tmp_path) as client:
        assert "'dev' is not open" in await refusal(client)
        assert not starts.exists()
        await client.open("dev")
        assert not (await client.result("use_readonly_tool", use("dev", "a", "echo"))).get("isError")


# Natively ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [{}, TRUSTED], ids=["not trusted", "trusted"])
async def test_natively_a_tool_keeps_the_annotations_of_its_server(entry: Json, tmp_path: Path) -> None:
    annotations = {"title": "Reads", "readOnlyHint": True, "openWorldHint": False, "futureHint": [1]}
    config = readonly(dev={"a": hinting(annotations) | entry}) | {"toolMode": "dynamic"}
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        assert (await listed(client))["dev__a_echo"]["annotations"] == annotations
