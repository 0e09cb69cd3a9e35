"""`search_tools` and `describe_tools`: when they are there, what they find, with no process running."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_contract_catalogue import absent, remember, run, warm
from tests.test_contract_dynamic import is_not_found, listed
from tests.workbench import Client, Json, fake, serving, started, toolboxes

THERE: Json = {"search": True}
SEARCHING = {"search_tools", "describe_tools"}

MORE = " Try other words, in English, or open a toolbox."


def described(name: str, description: str, **properties: Any) -> Json:
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description, "does": "echo", "inputSchema": schema}


READ = described("read_file", "Read a file. All of it.", path={"type": "string"}, head={"type": "integer"})
MAIL = described("send_mail", "Send an e-mail to somebody. Now.", to={"type": "string"})
MERGE = described("mergeBranch", "Merge one branch into another.", branch={"type": "string"})


def office(**more: Any) -> Json:
    config = toolboxes(
        dev={"files": fake(tools=[READ]), "git": fake(tools=[MERGE])}, office={"post": fake(tools=[MAIL])}
    )
    return config | THERE | more


async def search(client: Client, query: str, **more: Any) -> str:
    """The text of a search that succeeds."""
    result = await client.result("search_tools", {"query": query, **more})
    assert not result.get("isError"), result
    assert list(result) == ["content"]
    return str(result["content"][0]["text"])


async def refused(client: Client, tool: str, arguments: Any) -> str:
    """The text with which a meta-tool refuses."""
    result = await client.result(tool, arguments)
    assert result["isError"] is True, result
    return str(result["content"][0]["text"])


async def describe(client: Client, *tools: tuple[str, str, str], name: str = "describe_tools") -> Json:
    asked = [dict(zip(("toolbox", "server", "tool"), tool, strict=True)) for tool in tools]
    result = await client.result(name, {"tools": asked})
    assert not result.get("isError"), result
    parsed: Json = json.loads(result["content"][0]["text"])
    return parsed


A_NAME = r'"(?:[^"\\]|\\.)*"|[^\s"(),]+'


def found_in(text: str) -> list[tuple[str, str, str]]:
    """The addresses in the answer of a search, as an agent reads them."""
    _, *lines = text.splitlines()
    found, toolbox, server = [], "", ""
    for line in lines:
        if line.startswith("toolbox "):
            toolbox = as_read(line.removeprefix("toolbox "))
        elif line.startswith("server "):
            server = as_read(line.removeprefix("server "))
        else:
            signed = re.match(rf"({A_NAME})\(", line)
            named = [signed[1]] if signed else re.findall(A_NAME, line)
            found += [(toolbox, server, as_read(name)) for name in named]
    return found


def as_read(name: str) -> str:
    return str(json.loads(name)) if name.startswith('"') else name


# Whether it is there ----------------------------------------------------------------------------


@pytest.mark.parametrize(("tools", "is_there"), [(40, False), (41, True)])
async def test_auto_is_from_41_known_tools_on(tools: int, is_there: bool, tmp_path: Path) -> None:
    one, other = fake(tools=["echo"], many_tools=tools - 2), fake(tools=["pid", "env"])
    config = toolboxes(dev={"a": one}, prod={"b": other | {"toolFilters": ["pid"]}})
    async with serving(config, tmp_path) as client:
        assert not SEARCHING & {*await listed(client)}
        assert await is_not_found(client, "search_tools")
        await client.open("dev")
        await client.open("prod")
    async with serving(config, tmp_path) as client:
        assert ({*await listed(client)} >= SEARCHING) is is_there
        assert await is_not_found(client, "search_tools") is not is_there


async def test_auto_counts_the_known_tools_of_toolboxes_that_are_not_known_as_a_whole(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(tools=[], many_tools=41), "gone": {"command": "no-such-command"}})
    run(tmp_path, config, "warm")
    async with serving(config, tmp_path) as client:
        assert {*await listed(client)} >= SEARCHING


async def test_true_and_false_decide(tmp_path: Path) -> None:
    many = toolboxes(dev={"a": fake(tools=[], many_tools=50)})
    remember(many)
    async with serving(many | {"search": False}, tmp_path) as client:
        assert not SEARCHING & {*await listed(client)}
        assert await is_not_found(client, "search_tools")
    async with serving({"toolboxes": {}, "search": True}, tmp_path) as client:
        assert {*await listed(client)} >= SEARCHING
        assert await search(client, "anything") == "0 of 0 tools." + MORE


@pytest.mark.parametrize("mode", ["proxy", "dynamic"])
async def test_they_are_listed_as_harmless_with_their_prefix(mode: str, tmp_path: Path) -> None:
    config = office(metaToolPrefix="wb_", toolMode=mode)
    async with serving(config, tmp_path) as client:
        tools = await listed(client)
        hits = await client.result("wb_search_tools", {"query": "read file"})
        await client.result("wb_open_toolbox", {"toolbox_name": "dev"})
        whole = await describe(client, ("dev", "files", "read_file"), name="wb_describe_tools")
    assert list(tools) == [
        f"wb_{own}" for own in ("open_toolbox", "use_tool", "search_tools", "describe_tools", "close_toolbox")
    ]
    assert all(tools[f"wb_{own}"]["annotations"] == {"readOnlyHint": True} for own in SEARCHING)
    assert tools["wb_search_tools"]["inputSchema"]["required"] == ["query"]
    assert "wb_use_tool" in json.dumps(tools["wb_describe_tools"])
    assert hits["content"][0]["text"] == "0 of 0 tools (servers never started: 3)." + MORE
    assert whole["tools"][0]["name"] == "read_file"


# What it finds ----------------------------------------------------------------------------------


async def test_a_search_tells_the_best_three_as_signatures_and_five_more_as_names(tmp_path: Path) -> None:
    ten = [described(f"file_{n}", f"Copy the file {n}. Really.", n={"type": "integer"}) for n in range(10)]
    config = toolboxes(dev={"a": fake(tools=ten), "b": fake(tools=[MERGE])}) | THERE
    remember(config)
    async with serving(config, tmp_path) as client:
        text = await search(client, "copy a file")
        two = await search(client, "copy a file", limit=2)
        most = await search(client, "copy a file", limit=1000)
    first, *lines = text.splitlines()
    assert first == "8 of 11 tools. Call with use_tool, toolbox, server, tool; describe_tools tells more."
    assert lines[:3] == ["toolbox dev", "server a", "file_0(n?: integer) — Copy the file 0"]
    assert [line.startswith("file_") for line in lines] == [False, False, True, True, True, True]
    assert lines[5] == "file_3, file_4, file_5, file_6, file_7"
    assert two.splitlines()[0] == "2 of 11 tools. Call with use_tool, toolbox, server, tool."
    assert found_in(two) == [("dev", "a", "file_0"), ("dev", "a", "file_1")]
    assert len(found_in(most)) >= 10


async def test_tools_of_all_toolboxes_are_found_with_no_process_running(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = office()
    for toolbox in config["toolboxes"].values():
        for entry in toolbox["mcpServers"].values():
            script = json.loads(entry["args"][3]) | {"starts": str(starts)}
            entry["args"][3] = json.dumps(script)
    remember(config)
    async with serving(config, tmp_path) as client:
        assert found_in(await search(client, "write an e-mail"))[0] == ("office", "post", "send_mail")
        assert found_in(await search(client, "merge branches"))[0] == ("dev", "git", "mergeBranch")
        assert found_in(await search(client, "merge branches", toolbox="office")) == []
        assert found_in(await search(client, "send mail", toolbox="office")) == [
            ("office", "post", "send_mail")
        ]
        whole = await describe(client, ("dev", "files", "read_file"))
        assert not starts.exists()
        # The three names lead to a call as they stand.
        for address in found_in(await search(client, "file mail branch")):
            assert await client.text(*address, text="hi") == "hi"
    assert whole["tools"] == [
        {"name": "read_file", "toolbox_name": "dev", "source_server": "files"}
        | {key: READ[key] for key in ("description", "inputSchema")}
    ]


async def test_the_total_is_that_of_the_toolbox_and_what_was_never_seen_is_said(tmp_path: Path) -> None:
    async with serving(office(), tmp_path) as client:
        assert await search(client, "file") == "0 of 0 tools (servers never started: 3)." + MORE
        await client.open("dev")
        assert (await search(client, "file", limit=1)).startswith("1 of 2 tools (servers never started: 1). ")
        assert (await search(client, "file", toolbox="dev", limit=1)).startswith("1 of 2 tools. ")
        assert (
            await search(client, "mail", toolbox="office")
            == "0 of 0 tools (servers never started: 1)." + MORE
        )
        await client.open("office")
        assert (await search(client, "mail", limit=1)).startswith("1 of 3 tools. ")
        await client.close("office")
        assert found_in(await search(client, "send mail"))[0] == ("office", "post", "send_mail")


NO_SEARCHES: list[tuple[Any, str]] = [
    ({}, "Invalid parameters: query: required"),
    ({"query": 7}, "Invalid parameters: query: expected string, received number"),
    ({"query": "a", "more": 1}, "Invalid parameters: Unrecognized key: 'more'"),
    ({"query": "a", "toolbox": 1}, "Invalid parameters: toolbox: expected string, received number"),
    (
        {"query": "a", "limit": 0},
        "Invalid parameters: limit: expected a whole number of at least 1, received number",
    ),
    (
        {"query": "a", "limit": "5"},
        "Invalid parameters: limit: expected a whole number of at least 1, received string",
    ),
    ({"query": "a", "limit": 1.5}, "Invalid parameters: limit: expected a whole number of at least 1"),
    ({"query": "a", "limit": True}, "Invalid parameters: limit: expected a whole number of at least 1"),
    ({"query": "a", "toolbox": "offize"}, "Toolbox 'offize' not found. Did you mean 'office'?"),
    ({"query": "a", "toolbox": ""}, "Toolbox '' not found"),
    (["query"], "Invalid parameters: expected object, received array"),
    (
        {"limit": -1, "x": 1},
        "Invalid parameters: Unrecognized key: 'x'; query: required; limit: expected",
    ),
]


async def test_what_is_wrong_with_a_search_is_said(tmp_path: Path) -> None:
    async with serving(office(), tmp_path) as client:
        for arguments, told in NO_SEARCHES:
            assert (await refused(client, "search_tools", arguments)).startswith(told)


async def test_an_empty_query_lists_a_toolbox_with_no_process_running(tmp_path: Path) -> None:
    config = office()
    remember(config)
    async with serving(config, tmp_path) as client:
        told = await search(client, "", toolbox="dev")
        assert told.startswith("2 of 2 tools. ")
        assert "read_file(" in told
        assert "mergeBranch(" in told
        assert "send_mail" not in told
        assert (await search(client, " \n")).startswith("3 of 3 tools. ")
        assert (await search(client, "", limit=1)).startswith("1 of 3 tools. ")


async def test_a_search_without_words_finds_nothing_and_a_huge_one_is_survived(tmp_path: Path) -> None:
    config = office()
    remember(config)
    async with serving(config, tmp_path) as client:
        for query in ("?!…", "\u0000\ud83d\ude00"):
            assert await search(client, query) == "0 of 3 tools." + MORE
        assert "read_file(" in await search(client, "read file " * 100_000)
        assert "read_file(" in await search(client, "READ-FILE", toolbox=None, limit=None)
        for many in (10**15, 10**30, 3.0):
            assert "read_file(" in await search(client, "read file", limit=many)


async def test_filtered_and_invalid_tools_are_never_found_or_described(tmp_path: Path) -> None:
    entry = fake(tools=[READ, MAIL], invalid_tools=[{"name": "broken_file"}]) | {"toolFilters": ["!read_*"]}
    config = toolboxes(dev={"a": entry}) | THERE
    remember(config)
    async with serving(config, tmp_path) as client:
        for _ in range(2):
            assert "read_file" not in await search(client, "read a broken file")
            assert (await search(client, "send mail")).startswith("1 of 1 tools.")
            asked = {"tools": [{"toolbox": "dev", "server": "a", "tool": "read_file"}]}
            told = await refused(client, "describe_tools", asked)
            assert told.startswith("Tool 'read_file' not found in server 'a' (toolbox 'dev')")
            await client.open("dev")


async def test_withheld_tools_are_never_found_or_described(tmp_path: Path) -> None:
    same = tmp_path / "same"
    same.touch()
    config = toolboxes(dev={"a": absent(same, tools=["echo", READ])}) | THERE
    assert run(tmp_path, config, "lock").returncode == 0
    same.unlink()
    warm(tmp_path, config)
    async with serving(config, tmp_path) as client:
        for _ in range(2):
            assert (await search(client, "read file echo")).startswith("1 of 1 tools.")
            asked = {"tools": [{"toolbox": "dev", "server": "a", "tool": "read_file"}]}
            assert "read_file" in await refused(client, "describe_tools", asked)
            await client.open("dev")
        await client.close("dev")
        assert run(tmp_path, config, "approve").returncode == 0
        assert (await search(client, "read file")).startswith("1 of 2 tools.")


async def test_what_a_running_server_lists_anew_is_searched_and_described(tmp_path: Path) -> None:
    changing = fake(tools=["change_tools", READ], tools_after=[MAIL, "pid"])
    async with serving(toolboxes(dev={"a": changing}) | THERE, tmp_path) as client:
        await client.open("dev")
        assert "read_file(" in await search(client, "read file")
        await client.text("dev", "a", "change_tools")
        await client.text("dev", "a", "pid")  # which it has since it was listed anew
        assert "read_file" not in await search(client, "read file")
        assert "send_mail(" in await search(client, "send mail")
        assert (await describe(client, ("dev", "a", "send_mail")))["tools"][0]["name"] == "send_mail"
        await client.close("dev")
        assert "send_mail(" in await search(client, "send mail")


async def test_what_another_workbench_has_seen_meanwhile_is_found(tmp_path: Path) -> None:
    config = office()
    async with serving(config, tmp_path) as client:
        assert await search(client, "mail") == "0 of 0 tools (servers never started: 3)." + MORE
        remember(config)
        assert (await search(client, "send mail", limit=1)).startswith("1 of 3 tools. ")


async def test_several_searches_at_once_are_all_answered(tmp_path: Path) -> None:
    config = office()
    remember(config)
    async with serving(config, tmp_path) as client:
        queries = ["read file", "send mail", "merge branch"] * 5
        texts = await asyncio.gather(*(search(client, query) for query in queries))
        assert [found_in(text)[0][2] for text in texts] == ["read_file", "send_mail", "mergeBranch"] * 5


async def test_a_search_that_is_cancelled_holds_up_no_other(tmp_path: Path) -> None:
    config = office()
    remember(config)
    async with serving(config, tmp_path) as client:
        for _ in range(5):
            asked = {"name": "search_tools", "arguments": {"query": "read file"}}
            request = client.begin("tools/call", asked)
            number = request.request_id  # type: ignore[attr-defined]
            client.tell("notifications/cancelled", {"requestId": number})
            assert "read_file(" in await search(client, "read file")


ODD = ['a "quoted", one', "comma, inside", "brack(et)", "новый инструмент", "x\u202ey", "tab\there", "—"]


async def test_names_with_odd_characters_stand_so_that_they_lead_to_a_call(tmp_path: Path) -> None:
    odd = [described(name, "Do the odd thing.") for name in ODD]
    config = toolboxes(**{"my box": {"the, server": fake(tools=odd)}}) | THERE
    async with serving(config, tmp_path) as client:
        await client.open("my box")
        text = await search(client, "odd thing")
        found = found_in(text)
        assert "\u202e" not in text
        assert {address[2] for address in found} == {*ODD}
        for address in found:
            assert await client.text(*address, text="hi") == "hi"
        whole = await describe(client, *found)
    assert {tool["name"] for tool in whole["tools"]} == {*ODD}


# describe_tools ---------------------------------------------------------------------------------


async def test_several_tools_are_described_in_the_order_of_asking_each_once(tmp_path: Path) -> None:
    config = office()
    remember(config)
    mail, read = ("office", "post", "send_mail"), ("dev", "files", "read_file")
    async with serving(config, tmp_path) as client:
        whole = await describe(client, mail, read, mail)
        partly = await describe(client, ("office", "pots", "send_mail"), read, ("dev", "files", "read_fil"))
        asked = {"toolbox": "offize", "server": "post", "tool": "send_mail"}
        none = await refused(client, "describe_tools", {"tools": [asked, asked]})
        assert await describe(client) == {"tools": []}
    assert [tool["name"] for tool in whole["tools"]] == ["send_mail", "read_file"]
    assert "_errors" not in whole
    assert [tool["name"] for tool in partly["tools"]] == ["read_file"]
    assert partly["_errors"] == [
        "Server 'pots' not found in toolbox 'office'. Did you mean 'post'?",
        "Tool 'read_fil' not found in server 'files' (toolbox 'dev'). Did you mean 'read_file'?",
    ]
    assert none == "Toolbox 'offize' not found. Did you mean 'office'?"


async def test_a_tool_of_a_server_that_was_never_seen_cannot_be_described(tmp_path: Path) -> None:
    async with serving(office(), tmp_path) as client:
        asked = {"tools": [{"toolbox": "office", "server": "post", "tool": "send_mail"}]}
        told = await refused(client, "describe_tools", asked)
    assert told == "Server 'post' in toolbox 'office' was never seen; open the toolbox first"


async def test_a_description_has_every_field_that_the_server_gave_to_the_byte(tmp_path: Path) -> None:
    fields = (
        '"title":"Öffnen \\u0041","inputSchema":{"type":"object","x-n":12345678901234567890,"x-f":1.50},'
        '"annotations":{"readOnlyHint":true},"futureField":[null,{"deep":[]}],"_meta":{"v/k":1e400}'
    )
    entry = fake(on={"tools/list": {"result": '{"tools":[{"name":"t",' + fields + "}]}"}})
    config = toolboxes(dev={"a": entry}) | THERE
    warm(tmp_path, config)
    expected = '{"tools":[{"name":"t","toolbox_name":"dev","source_server":"a",' + fields + "}]}"
    asked = {"tools": [{"toolbox": "dev", "server": "a", "tool": "t"}]}
    async with serving(config, tmp_path) as client:
        for _ in range(2):
            result = await client.result("describe_tools", asked)
            assert result["content"][0]["text"] == expected
            await client.open("dev")


async def test_a_description_has_the_uri_of_a_page_as_the_opening_has_it(tmp_path: Path) -> None:
    paged = described("show", "Show it.") | {"_meta": {"ui": {"resourceUri": "ui://page"}}}
    config = toolboxes(dev={name: fake(tools=[paged], resources=["ui://page"]) for name in ("a", "b")})
    async with serving(config | THERE, tmp_path) as client:
        opened = (await client.open("dev"))["tools"]
        whole = (await describe(client, ("dev", "a", "show"), ("dev", "b", "show")))["tools"]
        pages = [tool["_meta"]["ui"]["resourceUri"] for tool in opened]
    assert len({*pages}) == 2
    assert whole == opened


NO_DESCRIPTIONS: list[tuple[Any, str]] = [
    ({}, "Invalid parameters: tools: required"),
    ({"tools": "a"}, "Invalid parameters: tools: expected array, received string"),
    ({"tools": [], "x": 1}, "Invalid parameters: Unrecognized key: 'x'"),
    ({"tools": ["read_file"]}, "Invalid parameters: tools[0]: expected object, received string"),
    (
        {"tools": [{"toolbox": "dev", "server": "a", "tool": "t", "x": 1}, {"toolbox": 1}]},
        "Invalid parameters: Unrecognized key: 'x' in tools[0]; tools[1].server: required; ",
    ),
    (
        {"tools": [{"toolbox": "dev", "server": "", "tool": "t"}]},
        "Invalid tool identifier: server cannot be empty",
    ),
]


async def test_what_is_wrong_with_a_request_for_descriptions_is_said(tmp_path: Path) -> None:
    async with serving(office(), tmp_path) as client:
        for arguments, told in NO_DESCRIPTIONS:
            assert (await refused(client, "describe_tools", arguments)).startswith(told)


async def test_the_name_of_a_servers_tool_does_not_depend_on_whether_there_is_a_search(
    tmp_path: Path,
) -> None:
    config = toolboxes(
        dev={"search": fake(tools=["tools"], many_tools=40), "describe": fake(tools=["tools"])}
    )
    shown = []
    for _ in range(2):
        async with started(config, tmp_path, arguments=("--toolbox", "dev")) as client:
            await client.initialize()
            tools = await listed(client)
            shown.append([name for name, tool in tools.items() if tool["description"].startswith("[dev/")])
            assert len(shown[-1]) == 42
    assert tools.keys() >= SEARCHING
    assert shown[0] == shown[1]
