"""Refused arguments: who was told of the tools in short gets the schema beside the server's own words."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.test_contract_calling import UNTOUCHED
from tests.workbench import Client, Json, fake, serving, toolboxes, use

SCHEMA: Json = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
    "required": ["path"],
}
SHORT = ("signatures", "names")
IN_SHORT = pytest.mark.parametrize("detail", SHORT)

SAID = "Input validation error: 'path' is a required property"
REFUSED: Json = {
    "content": [{"type": "text", "text": SAID}, {"type": "image", "data": "AA=="}],
    "isError": True,
}
DATA = '{"field":["path"],"n":1.50}'


def beside(tool: str, schema: Json = SCHEMA) -> str:
    return f"Input schema of {tool}: {json.dumps(schema, separators=(',', ':'))}"


def defined(tool: str, does: str, schema: Json = SCHEMA, **fixed: Any) -> Json:
    """A tool that always gets these arguments, whatever it is called with."""
    told = {"description": "Does it", "annotations": {"readOnlyHint": True}}
    return {"name": tool, "does": does, "with": fixed, "inputSchema": schema, **told}


REFUSING = (
    defined("result", "result", json=json.dumps(REFUSED)),
    defined("error", "error", code=-32602, message="Bad path", data=json.loads(DATA)),
    defined("vague", "is_error", text="An error occurred"),
)


def configured(*tools: Json | str, **more: Any) -> Json:
    config = toolboxes(dev={"a": fake(tools=[*tools], tools_after=[]) | {"trustAnnotations": True}})
    return config | {"readOnlyTools": True, "search": True, **more}


async def opened(client: Client, **arguments: Any) -> str:
    result = await client.result("open_toolbox", {"toolbox_name": "dev", **arguments})
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


async def refused(client: Client, tool: str = "result", **arguments: Any) -> list[str]:
    """The texts of a result that is an error."""
    result = await client.use("dev", "a", tool, **arguments)
    assert result["isError"] is True
    return [block["text"] for block in result["content"] if "text" in block]


# When -------------------------------------------------------------------------------------------


@IN_SHORT
@pytest.mark.parametrize("by", ["use_tool", "use_readonly_tool"])
async def test_a_result_that_refuses_arguments_has_the_schema_behind_all_that_the_server_says(
    detail: str, by: str, tmp_path: Path
) -> None:
    async with serving(configured(*REFUSING), tmp_path) as client:
        assert "inputSchema" not in await opened(client, detail=detail)
        result = await client.result(by, use("dev", "a", "result"))
    assert result == REFUSED | {"content": [*REFUSED["content"], {"type": "text", "text": beside("result")}]}


@IN_SHORT
@pytest.mark.parametrize("by", ["use_tool", "use_readonly_tool"])
async def test_an_error_that_refuses_arguments_keeps_its_code_and_data(
    detail: str, by: str, tmp_path: Path
) -> None:
    async with serving(configured(*REFUSING), tmp_path) as client:
        await opened(client, detail=detail)
        params = {"name": by, "arguments": use("dev", "a", "error", path="x")}
        line = await client.line(client.begin("tools/call", params, "mine"))
    message = json.dumps(f"Bad path\n{beside('error')}").encode()
    error = b'{"code":-32602,"message":%b,"data":{"field":["path"],"n":1.5}}' % message
    assert line == b'{"jsonrpc":"2.0","id":"mine","error":%b}\n' % error


async def test_a_failure_without_words_is_a_refusal_where_the_arguments_break_the_schema(
    tmp_path: Path,
) -> None:
    async with serving(configured(*REFUSING), tmp_path) as client:
        await opened(client, detail="names")
        assert await refused(client, "vague") == ["An error occurred", beside("vague")]
        assert await refused(client, "vague", path=["x"]) == ["An error occurred", beside("vague")]
        assert await refused(client, "vague", path="x") == ["An error occurred"]
        # What was mended did not break it.
        assert await refused(client, "vague", path="x", depth="5") == ["An error occurred"]


async def test_what_a_search_told_of_has_its_schema_beside_a_refusal(tmp_path: Path) -> None:
    async with serving(configured(*REFUSING), tmp_path) as client:
        await client.use("dev", "a", "result")  # now it is known
        assert await refused(client) == [SAID]
        await client.result("search_tools", {"query": "result"})
        assert await refused(client) == [SAID, beside("result")]


async def test_natively_too(tmp_path: Path) -> None:
    async with serving(configured(*REFUSING, toolMode="dynamic"), tmp_path) as client:
        await opened(client)
        plain = await client.result("dev__a_result", {})
        assert plain == REFUSED
        await client.result("search_tools", {"query": "result"})
        result = await client.result("dev__a_result", {})
        assert result["content"] == [*REFUSED["content"], {"type": "text", "text": beside("result")}]
        answer = await client.ask("tools/call", {"name": "dev__a_error", "arguments": {}})
    assert answer["error"]["message"] == f"Bad path\n{beside('error')}"


async def test_what_stands_in_the_clients_own_list_from_the_start_was_told_in_full(tmp_path: Path) -> None:
    config = configured(*REFUSING, detail="names")
    async with serving(config, tmp_path, arguments=("--toolbox", "dev")) as client:
        assert await client.result("a_result", {}) == REFUSED
        await client.result("search_tools", {"query": "result"})
        assert len((await client.result("a_result", {}))["content"]) == 3


@IN_SHORT
async def test_where_short_is_usual_it_needs_no_opening(detail: str, tmp_path: Path) -> None:
    # An agent may call what it remembers from a conversation before the workbench was started.
    async with serving(configured(*REFUSING, detail=detail), tmp_path) as client:
        assert await refused(client) == [SAID, beside("result")]


async def test_after_a_full_opening_the_answer_is_the_servers_own_whatever_is_searched(
    tmp_path: Path,
) -> None:
    async with serving(configured(*REFUSING, detail="names"), tmp_path) as client:
        assert "inputSchema" in await opened(client, detail="full")
        assert await refused(client) == [SAID]
        await client.result("search_tools", {"query": "result"})
        assert await refused(client) == [SAID]
        await opened(client, detail="names")
        assert await refused(client) == [SAID, beside("result")]
        await opened(client, detail="full")
        assert await refused(client) == [SAID]


@pytest.mark.parametrize(("max_tokens", "is_full"), [(10_000, True), (60, False)])
async def test_what_counts_is_the_form_in_which_the_toolbox_was_told(
    max_tokens: int, is_full: bool, tmp_path: Path
) -> None:
    async with serving(configured(*REFUSING), tmp_path) as client:
        assert ("inputSchema" in await opened(client, max_tokens=max_tokens)) is is_full
        assert await refused(client) == [SAID] + [beside("result")] * (not is_full)


async def test_toolboxes_are_told_apart(tmp_path: Path) -> None:
    entry = fake(tools=[*REFUSING])
    async with serving(toolboxes(dev={"a": entry}, other={"a": entry}), tmp_path) as client:
        await opened(client, detail="names")
        assert (await client.use("other", "a", "result")) == REFUSED
        assert len(await refused(client)) == 2


# What stands there ------------------------------------------------------------------------------


async def test_the_schema_is_the_servers_own_to_the_byte_and_stands_there_once(tmp_path: Path) -> None:
    # But for the space between its parts, which openings leave out, too.
    schema = '{"type":"object","x":1.50,"big":12345678901234567890,"u":"\\u0041","required":["path"]}'
    listing = f'{{"tools":[{{"name":"is_error","inputSchema":{schema}}}]}}'
    config = toolboxes(dev={"a": fake(tools=["is_error"], on={"tools/list": {"result": listing}})})
    async with serving(config, tmp_path) as client:
        await opened(client, detail="signatures")
        for _ in range(2):
            line = await client.line(client.begin_use("dev", "a", "is_error", text=SAID))
            assert line.count(b"Input schema of is_error") == 1
            answer = json.loads(line)
            assert answer["result"]["content"][1]["text"] == f"Input schema of is_error: {schema}"


async def test_the_schema_is_the_one_that_is_in_force(tmp_path: Path) -> None:
    other = {"type": "object", "required": ["file"]}
    after = [defined("result", "result", other, json=json.dumps(REFUSED))]
    script = fake(tools=[*REFUSING, "change"], tools_after=[*after, "echo"])
    async with serving(toolboxes(dev={"a": script}), tmp_path) as client:
        await opened(client, detail="signatures")
        await client.text("dev", "a", "change")
        await client.text("dev", "a", "echo")  # it is listed anew by now
        assert await refused(client) == [SAID, beside("result", other)]


# All else ---------------------------------------------------------------------------------------


async def test_all_other_results_are_given_back_untouched(tmp_path: Path) -> None:
    tools = [defined(f"t{n}", "result", json=result) for n, result in enumerate(UNTOUCHED)]
    async with serving(configured(*tools), tmp_path) as client:
        await opened(client, detail="names")
        for n, result in enumerate(UNTOUCHED):
            calling = client.begin_use("dev", "a", f"t{n}", path="x")
            expected = b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (n + 3, result.encode())
            assert await client.line(calling) == expected


FAILURES = [
    (-32603, "disk full"),
    (-32000, "login required"),
    (-32602, "Unknown tool: t"),
    (-32602, "Tool t disabled"),
    (-32602, "Output validation error: Tool t has an output schema but no structured content"),
    (-32601, "Method not found"),
]


async def test_all_other_failures_are_given_back_untouched(tmp_path: Path) -> None:
    open_schema = {"type": "object"}
    tools = [defined(tool, tool, open_schema) for tool in ("error", "is_error")]
    async with serving(configured(*tools), tmp_path) as client:
        await opened(client, detail="signatures")
        for code, said in FAILURES:
            answer = await client.begin_use("dev", "a", "error", code=code, message=said)
            assert answer["error"] == {"code": code, "message": said}
            assert await refused(client, "is_error", text=said) == [said]


async def test_errors_of_the_workbench_have_no_schema(tmp_path: Path) -> None:
    async with serving(configured(*REFUSING, "die"), tmp_path) as client:
        await opened(client, detail="names")
        assert "not found" in await client.error("dev", "a", "none")
        wrong = await client.result("use_tool", {"tool": {"toolbox": "dev", "server": "a"}})
        assert [block["text"] for block in wrong["content"]] == ["Invalid parameters: tool.tool: required"]
        assert "may have been carried out" in (await refused(client, "die"))[0]


async def test_progress_and_cancelling_are_as_they_are_without(tmp_path: Path) -> None:
    tools = ["progress", "slow", "release", "echo"]
    record = tmp_path / "record"
    config = toolboxes(dev={"a": fake(tools=tools, record=str(record))}) | {"detail": "names"}
    async with serving(config, tmp_path) as client:
        meta = {"progressToken": "mine"}
        answer = await client.begin_use("dev", "a", "progress", meta=meta, n=2, after=1)
        assert answer["result"]["content"][0]["text"] == "done"
        told = [json.loads(line)["params"] for line in client.lines if b"notifications/progress" in line]
        assert [params["progress"] for params in told] == [1]
        slow = client.begin_use("dev", "a", "slow")
        await client.text("dev", "a", "echo")
        client.tell("notifications/cancelled", {"requestId": slow.request_id})  # type: ignore[attr-defined]
        assert await client.text("dev", "a", "release") == "0"
        assert not slow.done()
    assert record.read_bytes().count(b'"notifications/cancelled"') == 1
