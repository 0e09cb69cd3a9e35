"""`open_toolbox`: its answer, its errors, and what it is asked with."""

import json
import os
from pathlib import Path

import pytest

from tests.workbench import Client, Json, fake, serving, toolboxes

EXITS: Json = {"on": {"start": {"stderr": "no database\n", "exit": 3}}}


async def opening_text(client: Client, toolbox: str = "dev") -> str:
    result = await client.result("open_toolbox", {"toolbox_name": toolbox})
    return str(result["content"][0]["text"])


async def opening_error(client: Client, toolbox: str = "dev") -> str:
    result = await client.result("open_toolbox", {"toolbox_name": toolbox})
    assert result["isError"] is True
    assert list(result) == ["content", "isError"]
    return str(result["content"][0]["text"])


# The answer -------------------------------------------------------------------------------------


async def test_an_opening_answers_with_the_tools_of_all_servers(tmp_path: Path) -> None:
    described = {"name": "read_file", "description": "Reads.", "inputSchema": {"type": "object"}}
    config = toolboxes(dev={"filesystem": fake(tools=[described]), "db": fake(tools=["echo"])})
    config["toolboxes"]["dev"]["description"] = "Development"
    async with serving(config, tmp_path) as client:
        answer = await client.open("dev")
    names = {"toolbox_name": "dev", "source_server": "filesystem"}
    assert answer == {
        "toolbox": "dev",
        "description": "Development",
        "servers_connected": 2,
        "tools": [
            {**described, **names},
            {"name": "echo", "toolbox_name": "dev", "source_server": "db", "inputSchema": {"type": "object"}},
        ],
    }


async def test_the_answer_is_one_compact_json_text_in_the_order_of_the_contract(tmp_path: Path) -> None:
    tool = '{ "inputSchema" : {\n "type" : "object" } , "description": "Reads.",  "name": "read" }'
    files = fake(on={"tools/list": {"result": '{"tools": [' + tool.replace("\n", " ") + "]}"}})
    async with serving(toolboxes(dev={"files": files, "db": fake(**EXITS)}), tmp_path) as client:
        result = await client.result("open_toolbox", {"toolbox_name": "dev"})
    assert list(result) == ["content"]
    assert len(result["content"]) == 1
    text = result["content"][0]["text"]
    answer = json.loads(text)
    assert text == json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
    assert list(answer) == ["toolbox", "description", "servers_connected", "tools", "_errors"]
    assert list(answer["tools"][0])[:3] == ["name", "toolbox_name", "source_server"]


async def test_a_missing_description_is_no_description_provided(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        assert (await client.open("dev"))["description"] == "No description provided"


async def test_tools_come_in_the_order_of_the_configuration_then_the_servers_own(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = fake(tools=["zebra", "ape"], on={"tools/list": {"wait": str(gate)}})
    last = fake(tools=["mole", "bee"])
    async with serving(toolboxes(dev={"z": first, "a": last}), tmp_path) as client:
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}})
        await client.text("dev", "a", "mole")  # so "a" has long been listed when "z" is
        gate.touch()
        tools = json.loads((await opening)["result"]["content"][0]["text"])["tools"]
    assert [tool["name"] for tool in tools] == ["zebra", "ape", "mole", "bee"]


async def test_all_pages_of_the_tools_are_listed(tmp_path: Path) -> None:
    paged = fake(tools=[], many_tools=7, page_size=2, cursors="empty")
    async with serving(toolboxes(dev={"a": paged}), tmp_path) as client:
        tools = (await client.open("dev"))["tools"]
        assert await client.text("dev", "a", "tool_6", text="hi") == "hi"
    assert [tool["name"] for tool in tools] == [f"tool_{index}" for index in range(7)]


async def test_every_field_that_a_server_gave_to_a_tool_is_kept(tmp_path: Path) -> None:
    fields = (
        '"title":"Öffnen \\u0041","inputSchema":{"type":"object","x-n":12345678901234567890,"x-f":1.50},'
        '"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[{"src":"data:,"}],'
        '"execution":{"taskSupport":"optional"},"futureField":[null,{"deep":[]}],"_meta":{"v/k":1e400}'
    )
    listing = '{"tools":[{"name":"t",' + fields + "}]}"
    async with serving(
        toolboxes(dev={"a": fake(on={"tools/list": {"result": listing}})}), tmp_path
    ) as client:
        text = await opening_text(client)
    assert text == (
        '{"toolbox":"dev","description":"No description provided","servers_connected":1,'
        '"tools":[{"name":"t","toolbox_name":"dev","source_server":"a",' + fields + "}]}"
    )


async def test_control_and_bidi_characters_pass_untouched_in_answers(tmp_path: Path) -> None:
    wild = "\x1b[31m\u202e\u2066\x07"
    tool = {"name": "t", "description": wild, "inputSchema": {"type": "object"}, "with": {"text": wild}}
    async with serving(toolboxes(dev={"a": fake(tools=[tool])}), tmp_path) as client:
        assert (await client.open("dev"))["tools"][0]["description"] == wild
        assert await client.text("dev", "a", "t") == wild


async def test_control_and_bidi_characters_are_escaped_on_our_own_stderr(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        told = await client.error("dev", "a", "die", stderr="\x1b[31mred\u202e\n")
        await client.text("dev", "a", "echo")
    assert "\x1b[31mred\u202e" in told
    assert "\\u001b[31mred\\u202e" in client.stderr.decode()
    assert b"\x1b" not in client.stderr


async def test_no_structured_content_is_added(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        assert list(await client.result("open_toolbox", {"toolbox_name": "dev"})) == ["content"]
        assert list(await client.result("close_toolbox", {"toolbox_name": "dev"})) == ["content"]


# What fails -------------------------------------------------------------------------------------


async def test_there_are_no_errors_in_the_answer_if_none_happened(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        assert "_errors" not in await client.open("dev")


async def test_what_works_is_opened_and_each_failure_is_told(tmp_path: Path) -> None:
    servers = {"gone": {"command": "no-such-command"}, "good": fake(tools=["echo"]), "db": fake(**EXITS)}
    async with serving(toolboxes(dev=servers), tmp_path) as client:
        answer = await client.open("dev")
    assert answer["servers_connected"] == 1
    assert [tool["source_server"] for tool in answer["tools"]] == ["good"]
    gone, db = answer["_errors"]
    assert gone.startswith("Failed to connect to server 'gone' in toolbox 'dev': ")
    assert db.startswith("Failed to connect to server 'db' in toolbox 'dev': ")


async def test_when_all_servers_failed_the_result_is_an_error_with_their_lines(tmp_path: Path) -> None:
    nowhere = {"command": "no-such-command"}
    async with serving(toolboxes(dev={"a": nowhere, "b": nowhere}), tmp_path) as client:
        told = (await opening_error(client)).splitlines()
    assert len(told) == 2
    assert told[0].startswith("Failed to connect to server 'a' in toolbox 'dev': ")
    assert told[1].startswith("Failed to connect to server 'b' in toolbox 'dev': ")


async def test_an_exit_is_told_with_its_code_and_the_last_of_its_stderr(tmp_path: Path) -> None:
    stderr = "".join(f"line {index}\n" for index in range(1000))
    wordy = fake(on={"start": {"stderr": stderr, "exit": 3}})
    async with serving(toolboxes(dev={"db": wordy}), tmp_path) as client:
        told = await opening_error(client)
    assert told.startswith("Failed to connect to server 'db' in toolbox 'dev': exited with code 3")
    assert told.endswith("\nline 999")
    assert "line 500\n" not in told


async def test_a_missing_command_is_told_with_the_path_that_was_searched(tmp_path: Path) -> None:
    searched = f"/nowhere:{os.environ['PATH']}"
    async with serving(
        toolboxes(dev={"db": {"command": "no-such-command"}}), tmp_path, env={"PATH": searched}
    ) as client:
        told = await opening_error(client)
    assert "'no-such-command' not found" in told
    assert searched in told


async def test_the_path_that_an_entry_sets_is_the_one_searched_and_named(tmp_path: Path) -> None:
    entry = {"command": "no-such-command", "env": {"PATH": "/only/here"}}
    async with serving(toolboxes(dev={"db": entry}), tmp_path) as client:
        told = await opening_error(client)
    assert "/only/here" in told
    assert os.environ["PATH"] not in told


async def test_a_handshake_that_does_not_end_is_a_connection_timeout(tmp_path: Path) -> None:
    hanging = fake(on={"initialize": {"hang": True}}) | {"timeout": 300}
    async with serving(toolboxes(dev={"db": hanging}), tmp_path) as client:
        told = await opening_error(client)
    assert told.startswith("Failed to connect to server 'db' in toolbox 'dev': connection timeout")


async def test_a_refused_handshake_is_told_with_the_servers_reason(tmp_path: Path) -> None:
    refusing = fake(on={"initialize": {"error": {"code": -32000, "message": "licence expired"}}})
    async with serving(toolboxes(dev={"db": refusing}), tmp_path) as client:
        assert "licence expired" in await opening_error(client)
    assert b"Failed to connect to server 'db' in toolbox 'dev': " in client.stderr


async def test_the_values_of_variables_are_masked_in_the_stderr_that_is_shown(tmp_path: Path) -> None:
    script: Json = {
        "on": {"start": {"stderr": "cannot log in with ${TOKEN} of ${FILE_TOKEN:-x}\n", "exit": 1}}
    }
    (tmp_path / ".env").write_text("FILE_TOKEN=hunter2-from-file\n")
    entry = fake(**script) | {"env": {"TOKEN": "${TOKEN}"}, "envFile": ".env"}
    async with serving(
        toolboxes(dev={"db": entry}), tmp_path, env={"TOKEN": "s3cr3t-value", "FILE_TOKEN": "another-one"}
    ) as client:
        told = await opening_error(client)
    assert "cannot log in with *** of ***" in told
    assert "s3cr3t-value" not in told
    assert b"s3cr3t-value" not in b"".join(client.lines) + client.stderr


async def test_an_invalid_tool_is_left_out_and_named_and_its_server_counts_as_connected(
    tmp_path: Path,
) -> None:
    invalid = [{"name": "broken", "inputSchema": "no"}, {"inputSchema": {"type": "object"}}, 7]
    async with serving(
        toolboxes(dev={"db": fake(tools=["echo"], invalid_tools=invalid)}), tmp_path
    ) as client:
        answer = await client.open("dev")
        told = await client.error("dev", "db", "broken")
    assert answer["servers_connected"] == 1
    assert [tool["name"] for tool in answer["tools"]] == ["echo"]
    assert len(answer["_errors"]) == 3
    assert "broken" in answer["_errors"][0]
    assert "'db' in toolbox 'dev'" in answer["_errors"][0]
    assert told.startswith("Tool 'broken' not found in server 'db' (toolbox 'dev')")


async def test_a_toolbox_whose_only_tool_is_invalid_is_open_all_the_same(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"db": fake(tools=[], invalid_tools=[{}])}), tmp_path) as client:
        answer = await client.open("dev")
    assert (answer["servers_connected"], answer["tools"], len(answer["_errors"])) == (1, [], 1)


async def test_a_server_without_tools_is_connected(tmp_path: Path) -> None:
    without = fake(initialize={"capabilities": {"resources": {}}})
    async with serving(toolboxes(dev={"db": without}), tmp_path) as client:
        answer = await client.open("dev")
    assert (answer["servers_connected"], answer["tools"]) == (1, [])


async def test_disabled_servers_are_not_started(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    off = fake(starts=str(starts)) | {"disabled": True}
    async with serving(toolboxes(dev={"on": fake(), "off": off}), tmp_path) as client:
        assert (await client.open("dev"))["servers_connected"] == 1
        assert await client.error("dev", "off", "echo") == "Server 'off' not found in toolbox 'dev'"
    assert not starts.exists()


# Names and parameters ---------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["open_toolbox", "close_toolbox"])
async def test_an_unknown_toolbox_is_not_found(tool: str, tmp_path: Path) -> None:
    async with serving(toolboxes(production={"a": fake()}), tmp_path) as client:
        far = await client.result(tool, {"toolbox_name": "xyz"})
        near = await client.result(tool, {"toolbox_name": "prodution"})
    assert far == {"content": [{"type": "text", "text": "Toolbox 'xyz' not found"}], "isError": True}
    assert near["content"][0]["text"] == "Toolbox 'prodution' not found. Did you mean 'production'?"


@pytest.mark.parametrize("tool", ["open_toolbox", "close_toolbox"])
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"toolbox_name": "dev", "extra": 1}, "Invalid parameters: Unrecognized key: 'extra'"),
        ({}, "Invalid parameters: toolbox_name: "),
        ({"toolbox_name": 7}, "Invalid parameters: toolbox_name: "),
        ({"toolbox_name": None}, "Invalid parameters: toolbox_name: "),
        (["dev"], "Invalid parameters: "),
    ],
)
async def test_missing_mistyped_and_unknown_fields_are_refused(
    tool: str, arguments: Json, complaint: str, tmp_path: Path
) -> None:
    async with serving(toolboxes(dev={"a": fake()}), tmp_path) as client:
        result = await client.result(tool, arguments)
    assert result["isError"] is True
    assert result["content"][0]["text"].startswith(complaint)
