"""What a client reads when it connects: the handshake, the instructions, the tools, the revisions."""

import json
from pathlib import Path
from typing import Any

import pytest

import mcp_workbench
from tests.workbench import Client, Json, fake, serving, started, toolboxes

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NOTHING_CONFIGURED = """\
No toolboxes configured.

To configure toolboxes, add them to your workbench-config.json file.
See documentation for configuration format."""


async def hello(config: Json, folder: Path, revision: str = "2025-11-25") -> Json:
    """The result of `initialize`."""
    async with started(config, folder) as client:
        return await client.initialize(revision)


async def instructions(config: Json, folder: Path) -> str:
    return str((await hello(config, folder))["instructions"])


async def listed(client: Client) -> dict[str, Json]:
    tools = (await client.ask("tools/list"))["result"]["tools"]
    assert len({tool["name"] for tool in tools}) == len(tools)
    return {tool["name"]: tool for tool in tools}


# instructions -----------------------------------------------------------------------------------


async def test_the_instructions_list_the_toolboxes_to_the_letter(tmp_path: Path) -> None:
    three = {name: fake() for name in ("a", "b", "c")}
    config = toolboxes(dev=three, prod={"a": fake(), "b": fake()})
    config["toolboxes"]["dev"]["description"] = "Development environment tools"
    assert await instructions(config, tmp_path) == (
        "Available Toolboxes:\n"
        "\n"
        "dev (3 servers)\n"
        "  Description: Development environment tools\n"
        "\n"
        "prod (2 servers)\n"
        "  Description: No description provided\n"
        "\n"
        "To access tools from a toolbox, use open_toolbox with the toolbox name."
    )


async def test_the_number_of_servers_is_not_inflected(tmp_path: Path) -> None:
    assert "\ndev (1 servers)\n" in await instructions(toolboxes(dev={"one": fake()}), tmp_path)


async def test_toolboxes_are_listed_in_the_order_of_the_configuration(tmp_path: Path) -> None:
    text = await instructions(toolboxes(zoo={"a": fake()}, ant={"a": fake()}, mid={"a": fake()}), tmp_path)
    assert [line.split()[0] for line in text.splitlines() if "servers)" in line] == ["zoo", "ant", "mid"]


async def test_descriptions_are_never_cut(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake()})
    long = config["toolboxes"]["dev"]["description"] = "A long story. " * 2000 + "The end – 終わり."
    assert f"  Description: {long}\n" in await instructions(config, tmp_path)


async def test_without_any_toolbox_the_instructions_say_how_to_add_one(tmp_path: Path) -> None:
    assert await instructions({"toolboxes": {}}, tmp_path) == NOTHING_CONFIGURED


async def test_the_instructions_are_built_from_the_configuration_alone(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = toolboxes(dev={"a": fake(starts=str(starts)), "b": {"command": "no-such-command"}})
    async with serving(config, tmp_path) as client:
        await listed(client)
    assert not starts.exists()


async def test_disabled_servers_are_not_counted(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(), "b": fake() | {"disabled": True}, "c": fake() | {"enabled": False}})
    assert "dev (1 servers)" in await instructions(config, tmp_path)


async def test_the_server_info_names_the_workbench_and_its_version(tmp_path: Path) -> None:
    info = (await hello({"toolboxes": {}}, tmp_path))["serverInfo"]
    assert (info["name"], info["version"]) == ("mcp-workbench", mcp_workbench.__version__)


# tools/list -------------------------------------------------------------------------------------


async def test_the_three_meta_tools_are_listed(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        tools = await listed(client)
    assert list(tools) == ["open_toolbox", "use_tool", "close_toolbox"]
    assert all(tool["inputSchema"]["type"] == "object" and tool["description"] for tool in tools.values())
    use = tools["use_tool"]["inputSchema"]["properties"]
    assert list(use["tool"]["properties"]) == ["toolbox", "server", "tool"]
    assert "arguments" in use


async def test_opening_toolboxes_leaves_the_list_of_tools_as_it_was(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        before = await listed(client)
        await client.open("dev")
        assert await listed(client) == before


@pytest.mark.parametrize("prefix", ["", "workbench_"])
async def test_there_is_no_workbench_list_toolboxes(prefix: str, tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake()}) | {"metaToolPrefix": prefix}
    async with serving(config, tmp_path) as client:
        assert "workbench_list_toolboxes" not in await listed(client)
        answer = await client.ask("tools/call", {"name": "workbench_list_toolboxes", "arguments": {}})
    assert answer["error"]["code"] == -32602
    assert "not found" in answer["error"]["message"]


async def test_an_unknown_native_tool_is_an_error_that_says_not_found(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        await client.open("dev")
        for name in ("echo", "dev__a_echo", "Open_Toolbox", ""):
            answer = await client.ask("tools/call", {"name": name, "arguments": {}})
            assert answer["error"]["code"] == -32602
            assert "not found" in answer["error"]["message"]


async def test_the_meta_tool_prefix_is_put_before_the_names(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=["echo"])}) | {"metaToolPrefix": "workbench_"}
    async with started(config, tmp_path) as client:
        told = (await client.initialize())["instructions"]
        assert list(await listed(client)) == [
            "workbench_open_toolbox",
            "workbench_use_tool",
            "workbench_close_toolbox",
        ]
        opened = await client.result("workbench_open_toolbox", {"toolbox_name": "dev"})
        answer = await client.ask("tools/call", {"name": "open_toolbox", "arguments": {}})
    assert json.loads(opened["content"][0]["text"])["servers_connected"] == 1
    assert "not found" in answer["error"]["message"]
    assert told.splitlines()[-1] == (
        "To access tools from a toolbox, use workbench_open_toolbox with the toolbox name."
    )


async def test_open_toolbox_names_the_toolboxes_in_its_description_and_its_enum(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake()}, prod={"a": fake()})
    async with serving(config, tmp_path) as client:
        tools = await listed(client)
    opening = tools["open_toolbox"]
    assert "dev" in opening["description"]
    assert "prod" in opening["description"]
    assert opening["inputSchema"]["properties"]["toolbox_name"]["enum"] == ["dev", "prod"]


@pytest.mark.parametrize(("toolboxes_", "length"), [(40, 100), (3, 5000), (2000, 10), (1, 100_000)])
async def test_the_description_of_open_toolbox_stays_within_2_KB(
    toolboxes_: int, length: int, tmp_path: Path
) -> None:
    config = toolboxes(**{f"toolbox-{index}": {"a": fake()} for index in range(toolboxes_)})
    for toolbox in config["toolboxes"].values():
        toolbox["description"] = "é" * length
    async with serving(config, tmp_path) as client:
        opening = (await listed(client))["open_toolbox"]
    assert len(opening["description"].encode()) <= 2048
    assert len(opening["inputSchema"]["properties"]["toolbox_name"]["enum"]) == toolboxes_


async def test_without_toolboxes_open_toolbox_has_no_enum(tmp_path: Path) -> None:
    async with serving({"toolboxes": {}}, tmp_path) as client:
        opening = (await listed(client))["open_toolbox"]
        assert "enum" not in opening["inputSchema"]["properties"]["toolbox_name"]
        result = await client.result("open_toolbox", {"toolbox_name": "dev"})
    assert result == {"content": [{"type": "text", "text": "Toolbox 'dev' not found"}], "isError": True}


# Revisions and frames ---------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_legacy_revision_is_spoken(revision: str, tmp_path: Path) -> None:
    async with started(toolboxes(dev={"a": fake()}), tmp_path) as client:
        assert (await client.initialize(revision))["protocolVersion"] == revision
        assert await client.text("dev", "a", "echo", text="hi") == "hi"


@pytest.mark.parametrize("revision", ["2023-01-01", "2099-12-31", "2026-07-28", "", "latest"])
async def test_an_unknown_revision_is_answered_with_the_latest_known(revision: str, tmp_path: Path) -> None:
    assert (await hello({"toolboxes": {}}, tmp_path, revision))["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_of_every_legacy_revision_is_spoken_to(revision: str, tmp_path: Path) -> None:
    old = fake(initialize={"protocolVersion": revision})
    async with serving(toolboxes(dev={"old": old}), tmp_path) as client:
        assert await client.text("dev", "old", "echo", text="hi") == "hi"


async def test_server_discover_is_method_not_found_so_that_clients_fall_back(tmp_path: Path) -> None:
    async with started(toolboxes(dev={"a": fake()}), tmp_path) as client:
        answer = await client.ask("server/discover", {"_meta": {"protocolVersion": "2026-07-28"}})
        assert answer["error"]["code"] == -32601
        assert (await client.initialize())["serverInfo"]["name"] == "mcp-workbench"


async def test_a_ping_is_answered_before_and_after_the_handshake(tmp_path: Path) -> None:
    async with started({"toolboxes": {}}, tmp_path) as client:
        assert (await client.ask("ping"))["result"] == {}
        await client.initialize()
        assert (await client.ask("ping"))["result"] == {}


async def test_a_batch_is_answered_once_as_one_batch(tmp_path: Path) -> None:
    async with started(toolboxes(dev={"a": fake()}), tmp_path) as client:
        await client.initialize("2025-03-26")
        batch: list[Any] = [
            {"jsonrpc": "2.0", "id": "one", "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "two", "method": "tools/list"},
            {"jsonrpc": "2.0", "id": "three", "method": "no/such/method"},
        ]
        client.send(batch)
        answers: Any = await client.notification()
        await client.ask("ping")
    assert {answer["id"] for answer in answers} == {"one", "two", "three"}
    assert len(answers) == 3
    assert client.notifications.empty()


@pytest.mark.parametrize("batch", ["[]", "[1, null]", "[[]]", '[{"jsonrpc":"2.0","method":"x"}]', "[{"])
async def test_a_strange_batch_is_answered_at_most_once_and_survived(batch: str, tmp_path: Path) -> None:
    async with started({"toolboxes": {}}, tmp_path) as client:
        await client.initialize("2025-03-26")
        client.write(batch.encode() + b"\n")
        assert (await client.ask("ping"))["result"] == {}
        await client.end()
    assert client.notifications.qsize() <= 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"a":NaN}}', -32700),
        (b'{"jsonrpc":"2.0","id":5,"method":7}', -32600),
        (b"\xff\xfe", -32700),
        (b"5", -32600),
    ],
)
async def test_a_malformed_frame_is_answered_with_an_error_and_survived(
    line: bytes, code: int, tmp_path: Path
) -> None:
    async with serving({"toolboxes": {}}, tmp_path) as client:
        client.write(line + b"\n\n  \n")
        told = await client.notification()
        assert told["error"]["code"] == code
        assert (await client.ask("ping"))["result"] == {}
    assert client.notifications.empty()


async def test_stdout_carries_mcp_and_nothing_else(tmp_path: Path) -> None:
    noisy = fake(noise=["Hello!", "{}", '{"jsonrpc":"2.0"}'], on={"start": {"stderr": "starting…\n"}})
    config = toolboxes(dev={"noisy": noisy, "gone": {"command": "no-such-command"}}) | {"surprise": 1}
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        await client.text("dev", "noisy", "echo", text="hi")
        await client.close("dev")
    messages = [json.loads(line) for line in client.lines]
    assert len(messages) == 4
    assert all(message["jsonrpc"] == "2.0" and "result" in message for message in messages)
    assert b"surprise" in client.stderr
