"""Schemas that a client cannot read: written for it where tools are listed natively, and nowhere else."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.test_contract_dynamic import listed, native, said
from tests.workbench import Client, Json, fake, serving, started, toolboxes

# What the server writes to the byte, in an order and with numbers that no one else would choose.
ROOT_UNION = (
    '{"anyOf":[{"required":["id"],"properties":{"id":{"type":"integer"}}},'
    '{"required":["name"],"properties":{"name":{"type":"string"}}}],"type":"object","x":1.50}'
)
WITH_REFS = (
    '{"$defs":{"Where":{"type":"object","properties":{"x":{"type":"number"}}}},"x":1.50,'
    '"type":"object","properties":{"at":{"$ref":"#/$defs/Where"}}}'
)
PLAIN = '{"type":"object","properties":{"at":{"anyOf":[{"type":"string"},{"type":"null"}]}},"x":1.50}'
SCHEMAS = {"union": ROOT_UNION, "refs": WITH_REFS, "plain": PLAIN}
LISTING = ",".join(
    f'{{"name":"{name}","inputSchema":{schema},"outputSchema":{WITH_REFS},"y":2.50}}'
    for name, schema in SCHEMAS.items()
)

ROOT = "union"
REFS = "refs"
# The names under which clients introduce themselves, and what of the above they cannot read.
CLIENTS = {
    "claude-code": {ROOT},
    "claude-ai": {ROOT},
    "codex-mcp-client": {ROOT, REFS},
    "gemini-cli-mcp-client": {ROOT, REFS},
    "opencode": {ROOT, REFS},
    "Visual Studio Code": {REFS},
    "Zed": {REFS},
    "test": set[str](),
    "": set[str](),
}
EACH_CLIENT = pytest.mark.parametrize(("name", "unread"), CLIENTS.items(), ids=[*CLIENTS])


def server(**script: Any) -> Json:
    tools = [{"name": name, "does": "echo"} for name in SCHEMAS]
    return fake(tools=tools, on={"tools/list": {"result": f'{{"tools":[{LISTING}]}}'}}, **script)


def dynamic() -> Json:
    return toolboxes(dev={"a": server()}) | {"toolMode": "dynamic"}


async def greet(client: Client, name: str) -> None:
    await client.initialize(clientInfo={"name": name, "version": "1"})


async def line_of(client: Client) -> str:
    """The native list, to the byte."""
    return (await client.line(client.begin("tools/list"))).decode()


def assert_is_read(tools: dict[str, Json], unread: set[str]) -> None:
    """Each tool is there in a form that a client can read which cannot read these."""
    for name, schema in SCHEMAS.items():
        shown = next(tool for native_name, tool in tools.items() if native_name.endswith(name))
        assert shown["outputSchema"] == json.loads(WITH_REFS)  # no model reads it
        if name not in unread:
            assert shown["inputSchema"] == json.loads(schema)
            continue
        assert shown["inputSchema"]["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(shown["inputSchema"])
        assert "$ref" not in json.dumps(shown["inputSchema"])
        assert set(shown["inputSchema"]["properties"]) == ({"id", "name"} if name == ROOT else {"at"})


# Natively ---------------------------------------------------------------------------------------


@EACH_CLIENT
async def test_a_client_can_read_what_is_listed_natively(name: str, unread: set[str], tmp_path: Path) -> None:
    async with started(dynamic(), tmp_path) as client:
        await greet(client, name)
        await client.open("dev")
        assert_is_read(await listed(client), unread)
        line = await line_of(client)
        for each, schema in SCHEMAS.items():
            assert (f'"inputSchema":{schema}' in line) is (each not in unread)
        assert line.count('"y":2.50') == len(SCHEMAS)
        # What is called is the server's tool, whatever its schema was shown as.
        for each, arguments in (("union", {"id": 5}), ("union", {"name": "n"}), ("refs", {"at": {"x": 1.5}})):
            result = await client.result(f"dev__a_{each}", arguments)
            assert json.loads(result["content"][0]["text"]) == arguments


@pytest.mark.parametrize("name", ["claude-code", "codex-mcp-client", "test"])
async def test_so_it_can_with_toolbox_in_its_very_first_list(name: str, tmp_path: Path) -> None:
    async with started(toolboxes(dev={"a": server()}), tmp_path, arguments=("--toolbox", "dev")) as client:
        await greet(client, name)
        assert_is_read(await listed(client), CLIENTS[name])
        assert json.loads(await said(client, "a_union", id=5)) == {"id": 5}


async def test_who_does_not_greet_reads_what_the_server_wrote(tmp_path: Path) -> None:
    async with started(dynamic(), tmp_path) as client:
        await client.open("dev")
        assert_is_read(await listed(client), set())


async def test_what_was_opened_before_the_greeting_is_listed_after_it(tmp_path: Path) -> None:
    async with started(dynamic(), tmp_path) as client:
        await client.open("dev")
        await greet(client, "claude-code")
        assert_is_read(await listed(client), CLIENTS["claude-code"])


async def test_who_greets_again_reads_by_its_new_name_and_has_all_its_tools(tmp_path: Path) -> None:
    async with started(dynamic(), tmp_path) as client:
        await greet(client, "test")
        await client.open("dev")
        before = await native(client)
        await greet(client, "claude-code")
        assert await native(client) == before
        assert_is_read(await listed(client), CLIENTS["claude-code"])


async def test_what_a_server_lists_later_is_written_for_the_client_too(tmp_path: Path) -> None:
    after = [{"name": "later", "inputSchema": json.loads(ROOT_UNION)}]
    config = toolboxes(dev={"a": fake(tools=["change"], tools_after=after)}) | {"toolMode": "dynamic"}
    async with started(config, tmp_path) as client:
        await greet(client, "claude-code")
        await client.open("dev")
        client.heard()
        await client.text("dev", "a", "change")
        assert (await client.notification())["method"] == "notifications/tools/list_changed"
        assert "anyOf" not in (await listed(client))["dev__a_later"]["inputSchema"]


# Elsewhere --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["claude-code", "codex-mcp-client"])
async def test_what_is_text_to_a_client_stays_the_servers_own(name: str, tmp_path: Path) -> None:
    async with started(toolboxes(dev={"a": server()}) | {"detail": "names"}, tmp_path) as client:
        await greet(client, name)
        address = [{"toolbox": "dev", "server": "a", "tool": each} for each in SCHEMAS]
        asked = {"toolbox_name": "dev", "detail": "full"}
        for tool, arguments in (("open_toolbox", asked), ("describe_tools", {"tools": address})):
            result = await client.result(tool, arguments)
            for schema in SCHEMAS.values():
                assert f'"inputSchema":{schema}' in result["content"][0]["text"]
        assert json.loads(await client.text("dev", "a", "union", id=5)) == {"id": 5}


@EACH_CLIENT
async def test_our_own_tools_can_be_read_by_all(name: str, unread: set[str], tmp_path: Path) -> None:
    config = dynamic() | {"search": True, "readOnlyTools": True}
    async with started(config, tmp_path) as client:
        await greet(client, name)
        for tool in (await listed(client)).values():
            assert not {"anyOf", "oneOf", "allOf", "$ref", "enum"} & set(tool["inputSchema"])
            assert "$ref" not in json.dumps(tool)


async def test_arguments_are_mended_by_the_servers_own_schema(tmp_path: Path) -> None:
    async with serving(dynamic(), tmp_path) as client:
        await greet(client, "codex-mcp-client")
        await client.open("dev")
        told = await said(client, "dev__a_refs", at='{"x": "1.5"}')
    assert json.loads(told) == {"at": {"x": 1.5}}
