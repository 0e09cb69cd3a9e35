"""`workbench.lock`: what was approved is served, and nothing else of a server is told or called."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pinning import CANARY, Project, a_tool, opened
from tests.workbench import Client, Json, serving

BAD = f"Bad. {CANARY}"
ASK = "ask the user to read `mcp-workbench diff`, then to run `mcp-workbench approve`"
TEXT: Json = {"type": "string"}


def with_property(**schema: Any) -> Json:
    return {"inputSchema": {"type": "object", "properties": {"text": {"type": "string", **schema}}}}


# Each field of a definition in which text could hide, after a change.
CHANGES: dict[str, Json] = {
    "description": {"description": BAD},
    "title": {"title": BAD},
    "property": {"inputSchema": {"type": "object", "properties": {CANARY: TEXT}}},
    "words": with_property(description=BAD),
    "enum": with_property(enum=[BAD]),
    "default": with_property(default=BAD),
    "comment": {"inputSchema": {"type": "object", "$comment": BAD}},
    "output": {"outputSchema": {"type": "object", "description": BAD}},
    "annotations": {"annotations": {"title": BAD}},
    "hint": {"annotations": {"readOnlyHint": False, "x": CANARY}},
    "meta": {"_meta": {"x": BAD}},
    "icons": {"icons": [{"src": f"data:,{CANARY}"}]},
    "unknown": {"xNotYetInvented": BAD},
}
READS = {"annotations": {"readOnlyHint": True}}


def everything(project: Project) -> Project:
    """All ways in which tools are told and called."""
    project.config |= {"readOnlyTools": True, "search": True}
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def serve(project: Project, *arguments: str, **options: Any) -> Any:
    return serving(project.config, project.folder, arguments=arguments, **options)


def call(toolbox: str, server: str, tool: str, **arguments: Any) -> Json:
    return {"tool": {"toolbox": toolbox, "server": server, "tool": tool}, "arguments": arguments}


def told(client: Client) -> str:
    return b"".join(client.lines).decode()


async def listed(client: Client) -> list[str]:
    tools = (await client.ask("tools/list"))["result"]["tools"]
    return [tool["name"] for tool in tools]


async def all_openings(client: Client) -> list[str]:
    forms: list[Json] = [{}, {"detail": "full"}, {"detail": "signatures"}, {"detail": "names"}]
    return [await opened(client, **how) for how in (*forms, {"max_tokens": 20}, {"max_tokens": 9999})]


# Without a lock, and with one that approves -----------------------------------------------------


async def test_without_a_lock_nothing_is_in_the_way(project: Project) -> None:
    project.server(tools=[a_tool()])
    async with serve(project) as client:
        assert "greet" in await opened(client)
    project.offers(tools=[a_tool(description="Another."), a_tool("new")], initialize={"instructions": "Hi"})
    async with serve(project) as client:
        opening = await client.open("dev")
        assert [tool["name"] for tool in opening["tools"]] == ["greet", "new"]
        assert opening["server_instructions"] == {"a": "Hi"}
        assert "_errors" not in opening
        assert await client.text("dev", "a", "new", text="hi") == "hi"
    assert not project.lock.exists()


async def test_what_is_as_it_was_approved_is_served_whole(project: Project) -> None:
    project.server(tools=[a_tool(**CHANGES[name]) | {"name": name} for name in CHANGES])
    project.offers(tools=[a_tool("greet", **READS)], initialize={"instructions": "Be kind."})
    async with serve(project) as client:
        without = await opened(client)
    project.approve()
    async with serve(project) as client:
        assert await opened(client) == without
        assert await client.text("dev", "a", "greet", text="hi") == "hi"


async def test_neither_order_of_keys_nor_white_space_nor_escapes_raise_an_alarm(project: Project) -> None:
    page = (
        '{"tools":[{"name":"greet","description":"Grüße",'
        '"inputSchema":{"type":"object","maxProperties":10}}]}'
    )
    other = (
        '{"tools": [ { "inputSchema": {"maxProperties":1e1, "type":"object"},'
        ' "description":"Gr\\u00fc\\u00dfe", "name" :"greet"}]}'
    )
    project.server(on={"tools/list": {"result": page}})
    project.done("lock")
    project.offers(on={"tools/list": {"result": other}})
    async with serve(project) as client:
        assert "_errors" not in await client.open("dev")
    assert project.done("diff") == "All is as it was approved.\n"


async def test_the_order_of_the_tools_and_their_pages_make_no_difference(project: Project) -> None:
    tools = [a_tool(f"t{number}") for number in range(5)]
    project.server(tools=tools)
    project.approve()
    project.offers(tools=tools[::-1], page_size=2)
    async with serve(project) as client:
        opening = await client.open("dev")
    assert "_errors" not in opening
    assert [tool["name"] for tool in opening["tools"]] == ["t4", "t3", "t2", "t1", "t0"]


# What changed, everywhere -----------------------------------------------------------------------


@pytest.mark.parametrize("way", ["proxy", "dynamic", "fixed", "from the catalogue"])
async def test_a_changed_field_withholds_its_tool_alone_wherever_tools_are_told_or_called(
    project: Project, way: str
) -> None:
    everything(project).server(tools=[*(a_tool(name, **READS) for name in CHANGES), a_tool("fine", **READS)])
    project.config["toolMode"] = "dynamic" if way == "dynamic" else "proxy"
    project.config["openFromCatalogue"] = way == "from the catalogue"
    project.entry()["trustAnnotations"] = True
    project.done("lock")
    changed = [a_tool(name, **{**READS, **change}) for name, change in CHANGES.items()]
    project.offers(tools=[*changed, a_tool("fine", **READS), a_tool(f"new_{CANARY}", description=BAD)])
    if way == "from the catalogue":
        project.done("warm")  # so that it is known, and would be told from there
    async with serve(project, *(["--toolbox", "dev"] if way == "fixed" else [])) as client:
        await client.result("search_tools", {"query": "fine"})
        for opening in await all_openings(client):
            assert "fine" in opening
            assert "14 tools (changed: " in opening
            assert ASK in opening
        names = await listed(client)
        native = {"dynamic": "dev__a_", "fixed": "a_"}.get(way)
        if native is not None:
            assert [name for name in names if name.endswith("fine")] == [f"{native}fine"]
            assert not [name for name in names if name.removeprefix(native) in CHANGES]
        found = await client.result("search_tools", {"query": "fine", "limit": 50})
        assert "fine" in found["content"][0]["text"]
        assert "1 of 1 tools" in found["content"][0]["text"]
        for name in CHANGES:
            described = await client.result(
                "describe_tools", {"tools": [{"toolbox": "dev", "server": "a", "tool": name}]}
            )
            assert described["isError"]
            for user in ("use_tool", "use_readonly_tool"):
                refused = await client.result(user, call("dev", "a", name))
                assert refused["isError"]
                assert f"Tool '{name}' in server 'a' (toolbox 'dev') is withheld: it has changed" in str(
                    refused["content"][0]["text"]
                )
            if native is not None:
                answer = await client.ask("tools/call", {"name": f"{native}{name}", "arguments": {}})
                assert "not found" in answer["error"]["message"]
        for user in ("use_tool", "use_readonly_tool"):
            fine = await client.result(user, call("dev", "a", "fine", text="hi"))
            assert fine["content"][0]["text"] == "hi"
        if native is not None:
            answer = await client.ask("tools/call", {"name": f"{native}fine", "arguments": {"text": "hi"}})
            assert answer["result"]["content"][0]["text"] == "hi"
        assert CANARY not in told(client)
    assert set(project.calls()) == {"fine"}


async def test_the_siblings_of_a_changed_tool_serve_and_what_is_withheld_is_told(project: Project) -> None:
    project.server(tools=[a_tool("one"), a_tool("two")])
    project.server("dev/b", tools=[a_tool("one")])
    project.approve()
    project.offers(tools=[a_tool("one", description=BAD), a_tool("two"), a_tool("three")])
    async with serve(project) as client:
        opening = await client.open("dev")
        assert opening["servers_connected"] == 2
        assert [(it["source_server"], it["name"]) for it in opening["tools"]] == [("a", "two"), ("b", "one")]
        told = f"withheld until approved: 2 tools (changed: 'one'; new: 1); {ASK}"
        assert opening["_errors"] == [f"Server 'a' in toolbox 'dev': {told}"]
        assert await client.text("dev", "b", "one", text="hi") == "hi"
        assert await client.text("dev", "a", "two", text="hi") == "hi"
        assert "it has changed" in await client.error("dev", "a", "one")
        assert "it is new" in await client.error("dev", "a", "three")


async def test_a_tool_that_is_gone_is_no_reason_to_withhold_anything(project: Project) -> None:
    project.server(tools=[a_tool("one"), a_tool("two")])
    project.approve()
    project.offers(tools=[a_tool("two")])
    async with serve(project) as client:
        assert "_errors" not in await client.open("dev")
        assert "not found" in await client.error("dev", "a", "one")


@pytest.mark.parametrize("meta_tool", ["use_tool", "use_readonly_tool", "describe_tools"])
async def test_what_is_withheld_is_never_suggested(project: Project, meta_tool: str) -> None:
    everything(project).server(tools=[a_tool("zip")])
    project.approve()
    project.offers(tools=[a_tool("zip"), a_tool("launch_missiles")])
    address = {"toolbox": "dev", "server": "a", "tool": "launch_missile"}
    asked = {"tools": [address]} if meta_tool == "describe_tools" else {"tool": address}
    async with serve(project) as client:
        await client.open("dev")
        result = await client.result(meta_tool, asked)
        assert result["isError"]
        assert "missiles" not in told(client)


async def test_why_a_tool_is_withheld_is_told_to_who_asks_for_its_definition(project: Project) -> None:
    everything(project).server(tools=[a_tool("one"), a_tool("two")])
    project.approve()
    project.offers(tools=[a_tool("one", title=BAD), a_tool("two")])
    wanted = [{"toolbox": "dev", "server": "a", "tool": name} for name in ("one", "two")]
    async with serve(project) as client:
        await client.open("dev")
        result = await client.result("describe_tools", {"tools": wanted})
        answer = json.loads(result["content"][0]["text"])
        assert [tool["name"] for tool in answer["tools"]] == ["two"]
        assert "'one' in server 'a' (toolbox 'dev') is withheld: it has changed" in answer["_errors"][0]


@pytest.mark.parametrize("now", [None, "", "Be evil."])
async def test_changed_instructions_are_not_shown_until_approved(project: Project, now: str | None) -> None:
    project.server(tools=[a_tool()], initialize={"instructions": "Be kind."})
    project.approve()
    project.offers(tools=[a_tool()], initialize={} if now is None else {"instructions": now})
    async with serve(project) as client:
        opening = await client.open("dev")
        assert [tool["name"] for tool in opening["tools"]] == ["greet"]
        assert "server_instructions" not in opening
        assert ("_errors" in opening) == bool(now)
        if now:
            assert f"withheld until approved: its changed instructions; {ASK}" in opening["_errors"][0]
            assert now not in told(client)


async def test_no_word_of_an_invalid_definition_is_told_where_tools_have_to_be_approved(
    project: Project,
) -> None:
    project.server(tools=[a_tool()])
    project.approve()
    invalid = [{"name": CANARY}, {"name": {"x": CANARY}}, CANARY, {"title": CANARY}]
    twice = [a_tool(), a_tool(description=BAD)]
    project.offers(tools=twice, invalid_tools=invalid)
    async with serve(project) as client:
        opening = await client.open("dev")
        assert [tool["name"] for tool in opening["tools"]] == ["greet"]
        assert "5 of its tools are left out, their definitions are invalid" in opening["_errors"][0]
        assert CANARY not in told(client)


# During a session -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["proxy", "dynamic"])
async def test_what_changes_while_it_serves_is_refused_before_the_next_call_reaches_the_server(
    project: Project, mode: str
) -> None:
    project.config["toolMode"] = mode
    before = [a_tool(), a_tool("turn", does="change_tools"), a_tool("fine")]
    project.server(tools=before, tools_after=[a_tool(description=BAD), *before[1:], a_tool("new")])
    project.approve()
    async with serve(project) as client:
        await client.open("dev")
        for _ in range(20):
            assert await client.text("dev", "a", "greet", text="hi") == "hi"
        await client.text("dev", "a", "turn")
        first = client.begin_use("dev", "a", "greet")
        second = client.begin_use("dev", "a", "new")
        native = client.begin("tools/call", {"name": "dev__a_greet", "arguments": {}})
        assert "it has changed" in (await first)["result"]["content"][0]["text"]
        assert "it is new" in (await second)["result"]["content"][0]["text"]
        if mode == "dynamic":
            assert "it has changed" in (await native)["result"]["content"][0]["text"]
        assert await client.text("dev", "a", "fine", text="hi") == "hi"
        assert ASK in await opened(client)
        assert CANARY not in told(client)
    assert project.calls()[20:] == ["turn", "fine"]


async def test_a_tool_that_changes_back_is_served_again(project: Project) -> None:
    tools = [a_tool(), a_tool("turn", does="change_tools")]
    project.server(tools=tools)
    project.approve()
    project.offers(tools=[a_tool(description=BAD), *tools[1:]], tools_after=tools)
    async with serve(project) as client:
        assert "1 tool (changed: 'greet')" in await opened(client)
        await client.text("dev", "a", "turn")
        assert await client.text("dev", "a", "greet", text="hi") == "hi"


@pytest.mark.parametrize("fails", [{"error": {"code": -32603, "message": "no"}}, {"result": '{"tools":7}'}])
async def test_a_server_that_says_that_it_changed_and_does_not_list_is_not_called(
    project: Project, fails: Json
) -> None:
    """What it serves now may be anything."""
    project.server(tools=[a_tool(), "list_changed"], on_later={"tools/list": fails})
    project.approve()
    async with serve(project) as client:
        await client.open("dev")
        await client.text("dev", "a", "list_changed")
        assert "could not list them; nothing was sent" in await client.error("dev", "a", "greet")
        assert "could not list them; nothing was sent" in await client.error("dev", "a", "greet")
    assert project.calls() == ["list_changed"]


async def test_what_changed_across_a_restart_is_withheld(project: Project) -> None:
    project.server(tools=[a_tool(), "die"])
    project.approve()
    async with serve(project) as client:
        await client.open("dev")
        assert await client.text("dev", "a", "greet", text="hi") == "hi"
        project.offers(tools=[a_tool(description=BAD), "die"], initialize={"instructions": BAD})
        await client.error("dev", "a", "die")
        assert "it has changed" in await client.error("dev", "a", "greet")
        assert CANARY not in told(client)
    assert project.calls() == ["greet", "die"]


async def test_what_changed_across_pages_is_withheld(project: Project) -> None:
    tools = [a_tool(f"t{number}") for number in range(7)]
    project.server(tools=tools, page_size=3)
    project.approve()
    tools[6]["description"] = tools[3]["description"] = BAD
    project.offers(tools=tools, page_size=2)
    async with serve(project) as client:
        opening = await client.open("dev")
        assert [tool["name"] for tool in opening["tools"]] == ["t0", "t1", "t2", "t4", "t5"]
        assert CANARY not in told(client)


async def test_a_tool_under_another_name_is_new(project: Project) -> None:
    project.server(tools=[a_tool("one", description="x"), a_tool("two", description="y")])
    project.approve()
    project.offers(tools=[a_tool("two", description="x"), a_tool("one", description="y"), a_tool("three")])
    async with serve(project) as client:
        opening = await client.result("open_toolbox", {"toolbox_name": "dev"})
        assert "3 tools (changed: 'two', 'one'; new: 1)" in opening["content"][0]["text"]
        for name in ("one", "two", "three"):
            assert "is withheld" in await client.error("dev", "a", name)
    assert project.calls() == []


# Entries ----------------------------------------------------------------------------------------


async def test_a_server_whose_entry_changed_is_not_started(project: Project) -> None:
    marker = project.folder / "marker"
    (project.folder / "env").touch()
    changes: Json = {
        "command": {"command": "touch", "args": [str(marker)]},
        "args": {"args": ["-c", f"open({str(marker)!r}, 'w')"]},
        "cwd": {"cwd": str(project.folder)},
        "env": {"env": {"NEW": "x"}},
        "envTakenAway": {"env": {"PATH": None}},
        "envFile": {"envFile": "env"},
    }
    for name in (*changes, "fine"):
        project.server(f"dev/{name}", tools=[a_tool(name)])
    everything(project).approve()
    for name, change in changes.items():
        entry = project.entry(f"dev/{name}")
        entry |= change
    async with serve(project) as client:
        opening = await client.open("dev")
        assert [tool["name"] for tool in opening["tools"]] == ["fine"]
        assert len(opening["_errors"]) == len(changes)
        why = "it is withheld, since what its entry runs or reaches has changed since it was approved"
        for name, error in zip(changes, opening["_errors"], strict=True):
            assert error.startswith(f"Failed to connect to server '{name}' in toolbox 'dev': {why}; {ASK}")
            assert why in await client.error("dev", name, name)
        found = await client.result("search_tools", {"query": "fine"})
        assert "1 of 1 tools" in found["content"][0]["text"]
        assert await client.text("dev", "fine", "fine", text="hi") == "hi"
        await opened(client)
    assert not marker.exists()
    assert [project.starts(f"dev/{name}") for name in changes] == [0] * len(changes)


async def test_an_address_that_changed_is_withheld(project: Project) -> None:
    project.config["toolboxes"]["dev"] = {"mcpServers": {"web": {"url": "https://a.invalid/mcp"}}}
    project.run("lock")
    hash_ = "sha256:" + "0" * 64
    pins = {"version": 1, "toolboxes": {"dev": {"web": {"entry": hash_, "tools": {}}}}}
    project.lock.write_text(json.dumps(pins))
    async with serve(project) as client:
        result = await client.result("open_toolbox", {"toolbox_name": "dev"})
        assert "it is withheld, since what its entry runs or reaches has changed" in str(result)


async def test_values_of_variables_limits_filters_and_trust_may_change(project: Project) -> None:
    project.server(entry={"env": {"A": "1"}}, tools=[a_tool(), a_tool("other")])
    project.approve()
    entry = project.entry()
    entry |= {"env": {"A": "2"}, "timeout": 30_000, "toolFilters": ["g*"], "trustAnnotations": True}
    async with serve(project) as client:
        opening = await client.open("dev")
        assert [tool["name"] for tool in opening["tools"]] == ["greet"]
        assert "_errors" not in opening


async def test_a_server_that_is_new_in_the_configuration_or_under_another_name_is_not_started(
    project: Project,
) -> None:
    project.server(tools=[a_tool()])
    project.approve()
    before = project.starts()
    project.server("dev/b", tools=[a_tool()])
    project.server("other/a", tools=[a_tool()])
    servers = project.config["toolboxes"]["dev"]["mcpServers"]
    servers["renamed"] = servers.pop("a")
    async with serve(project) as client:
        for toolbox in ("dev", "other"):
            result = await client.result("open_toolbox", {"toolbox_name": toolbox})
            assert result["isError"]
            assert f"it is withheld, since it is not in workbench.lock yet; {ASK}" in str(result)
    assert (project.starts(), project.starts("dev/b"), project.starts("other/a")) == (before, 0, 0)


# Approving while a session runs -----------------------------------------------------------------


async def test_what_is_approved_is_served_by_a_session_that_runs(
    project: Project,
) -> None:
    everything(project).server(tools=[a_tool()])
    project.server("dev/b", tools=[a_tool()])
    project.approve()
    project.entry("dev/b")["args"].append("more")
    project.offers(tools=[a_tool(description="Better."), a_tool("new")], initialize={"instructions": "Hi"})
    async with serve(project) as client:
        assert "withheld" in await opened(client)
        project.done("approve")
        assert await client.text("dev", "a", "greet", text="hi") == "hi"  # at once
        opening = await client.open("dev")
        assert [tool["name"] for tool in opening["tools"]] == ["greet", "new", "greet"]
        assert opening["server_instructions"] == {"a": "Hi"}
        assert "_errors" not in opening
        assert await client.text("dev", "a", "greet", text="hi") == "hi"
        assert await client.text("dev", "b", "greet", text="hi") == "hi"
        found = await client.result("search_tools", {"query": "greet"})
        assert "of 3 tools" in found["content"][0]["text"]


async def test_instructions_that_alone_were_withheld_are_shown_once_they_are_approved(
    project: Project,
) -> None:
    project.server(tools=[a_tool()])
    project.approve()
    project.offers(tools=[a_tool()], initialize={"instructions": "Hi"})
    async with serve(project) as client:
        assert "server_instructions" not in await client.open("dev")
        project.done("approve")
        assert (await client.open("dev"))["server_instructions"] == {"a": "Hi"}


async def test_what_is_approved_no_more_is_withheld_at_the_next_opening(project: Project) -> None:
    project.server(tools=[a_tool(), a_tool("fine")])
    project.approve()
    async with serve(project) as client:
        await client.open("dev")
        lock = project.locked()
        del lock["toolboxes"]["dev"]["a"]["tools"]["greet"]
        project.lock.write_text(json.dumps(lock))
        assert [tool["name"] for tool in (await client.open("dev"))["tools"]] == ["fine"]
        assert "is withheld" in await client.error("dev", "a", "greet")


async def test_a_dynamic_client_is_told_of_tools_that_were_approved(project: Project) -> None:
    project.config["toolMode"] = "dynamic"
    project.server(tools=[a_tool()])
    project.approve()
    project.offers(tools=[a_tool(), a_tool("new")])
    async with serve(project) as client:
        await opened(client)
        assert "dev__a_new" not in await listed(client)
        client.heard()
        project.done("approve", "dev/a/new")
        await opened(client)
        assert (await client.notification())["method"] == "notifications/tools/list_changed"
        assert "dev__a_new" in await listed(client)


# A lock that cannot be used ---------------------------------------------------------------------

BROKEN = {
    "empty": "",
    "no JSON": "{",
    "conflict": '{"version": 1,\n<<<<<<< ours\n"toolboxes": {}}',
    "newer": '{"version": 2, "toolboxes": {}}',
    "another shape": '{"version": 1, "toolboxes": {"dev": {"a": {"entry": 7}}}}',
    "a list": "[]",
    "unknown key": '{"version": 1, "toolboxes": {}, "trustAll": true}',
    "no UTF-8": "\udcff",
}
PLACES = {
    "conflict": "line 2",
    "newer": "version",
    "another shape": "toolboxes.dev.a.entry",
    "unknown key": "trustAll",
}


@pytest.mark.parametrize("how", [*BROKEN, "a folder", "a loop"])
def test_a_lock_that_cannot_be_understood_is_exit_2_with_its_place_and_nothing_starts(
    project: Project, how: str
) -> None:
    project.server(tools=[a_tool()])
    if how == "a folder":
        project.lock.mkdir()
    elif how == "a loop":
        project.lock.symlink_to(project.lock)
    else:
        project.lock.write_text(BROKEN[how], errors="surrogateescape")
    all_commands = ("serve", "lock", "diff", "approve", "doctor", "warm", "tokens")
    for command in all_commands if how == "conflict" else ("serve", "lock"):
        project.config["pin"] = command == "serve"  # which does not begin anew what is there
        done = project.run(command)
        assert (done.returncode, done.stdout) == (2, ""), (command, done)
        assert done.stderr.startswith(f"error: {project.lock}: {PLACES.get(how, '')}")
        assert done.stderr.count("\n") == 1
    assert project.starts() == 0
    if how in BROKEN:
        assert project.lock.read_text(errors="surrogateescape") == BROKEN[how]


@pytest.mark.parametrize("how", ["empty", "conflict", "newer", "removed"])
async def test_a_lock_that_breaks_or_goes_while_a_session_runs_approves_what_it_did(
    project: Project, how: str
) -> None:
    project.server(tools=[a_tool(), "die"])
    project.server("other/a", tools=[a_tool()])
    project.approve()
    project.server("other/b", tools=[a_tool()])
    async with serve(project) as client:
        await client.open("dev")
        if how == "removed":
            project.lock.unlink()
        else:
            project.lock.write_text(BROKEN[how], errors="surrogateescape")
        await opened(client)
        assert await client.text("dev", "a", "greet", text="hi") == "hi"
        opening = await client.open("other")
        assert opening["servers_connected"] == 1
        assert "not in workbench.lock yet" in opening["_errors"][0]
        project.offers(tools=[a_tool(description=BAD), "die"])
        await client.error("dev", "a", "die")
        assert "it has changed" in await client.error("dev", "a", "greet")
        assert CANARY not in told(client)
        await client.end()
        told_once = client.stderr.count(b"What was approved before holds")
    assert told_once == (0 if how == "removed" else 1)


async def test_a_lock_that_is_mended_while_a_session_runs_counts_again(project: Project) -> None:
    project.server(tools=[a_tool(), a_tool("fine")])
    project.approve()
    lock = project.locked()
    async with serve(project) as client:
        await client.open("dev")
        project.lock.write_text("<<<<<<< ours")
        await client.open("dev")
        del lock["toolboxes"]["dev"]["a"]["tools"]["greet"]
        project.lock.write_text(json.dumps(lock))
        assert [tool["name"] for tool in (await client.open("dev"))["tools"]] == ["fine"]


async def test_a_lock_that_is_a_link_to_nothing_approves_nothing(project: Project) -> None:
    project.server(tools=[a_tool()])
    project.lock.symlink_to(project.folder / "nowhere")
    async with serve(project) as client:
        assert "not in workbench.lock yet" in await opened(client)
    assert project.starts() == 0


# "pin": true ------------------------------------------------------------------------------------


async def test_pin_begins_a_lock_at_the_first_sight_of_a_server(project: Project) -> None:
    project.config["pin"] = True
    project.server(tools=[a_tool()], initialize={"instructions": "Hi"})
    project.server("dev/b", tools=[a_tool()])
    project.server("dev/broken", on={"start": {"exit": 1}})
    project.server("other/c", tools=[a_tool()])
    async with serve(project) as client:
        assert not project.lock.exists()
        opening = await client.open("dev")
        assert opening["servers_connected"] == 2
        assert opening["server_instructions"] == {"a": "Hi"}
        assert {name: [*servers] for name, servers in project.locked()["toolboxes"].items()} == {
            "dev": ["a", "b"]
        }
    project.config["toolboxes"].pop("other")
    project.config["toolboxes"]["dev"]["mcpServers"].pop("broken")
    written = project.lock.read_bytes()
    assert "dev/a: 1 tool" in project.done("lock")
    assert project.lock.read_bytes() == written


@pytest.mark.parametrize("when", ["in the session", "in the next", "after a restart"])
async def test_pin_withholds_what_changes_later(project: Project, when: str) -> None:
    project.config["pin"] = True
    tools = [a_tool(), a_tool("turn", does="change_tools"), "die"]
    bad = [a_tool(description=BAD), *tools[1:], a_tool("new")]
    project.server(tools=tools, tools_after=bad)
    async with serve(project) as client:
        await client.open("dev")
        if when == "in the session":
            await client.text("dev", "a", "turn")
        project.offers(tools=bad)
        if when == "after a restart":
            await client.error("dev", "a", "die")
        if when != "in the next":
            assert "it has changed" in await client.error("dev", "a", "greet")
            assert "2 tools (changed: 'greet'; new: 1)" in await opened(client)
            assert CANARY not in told(client)
    async with serve(project) as client:
        assert "2 tools (changed: 'greet'; new: 1)" in await opened(client)
        assert "it is new" in await client.error("dev", "a", "new")
        assert CANARY not in told(client)


async def test_pin_asks_again_for_a_changed_entry_and_takes_a_new_server_at_first_sight(
    project: Project,
) -> None:
    project.config["pin"] = True
    project.server(tools=[a_tool()])
    async with serve(project) as client:
        await client.open("dev")
    before = project.starts()
    project.entry()["args"].append("more")
    project.server("dev/b", tools=[a_tool()])
    async with serve(project) as client:
        opening = await client.open("dev")
        assert [tool["source_server"] for tool in opening["tools"]] == ["b"]
        assert "has changed since it was approved" in opening["_errors"][0]
    assert project.starts() == before
    assert [*project.locked()["toolboxes"]["dev"]] == ["a", "b"]


async def test_a_lock_that_cannot_be_written_is_warned_of_and_holds_for_the_session(project: Project) -> None:
    project.config["pin"] = True
    tools = [a_tool(), a_tool("turn", does="change_tools")]
    project.server(tools=tools, tools_after=[a_tool(description=BAD), tools[1]])
    nowhere = project.folder / "gone" / "nowhere"
    project.lock.symlink_to(nowhere)  # root may write everywhere else
    async with serve(project) as client:
        assert (await client.open("dev"))["servers_connected"] == 1
        assert await client.text("dev", "a", "greet", text="hi") == "hi"
        await client.text("dev", "a", "turn")
        assert "it has changed" in await client.error("dev", "a", "greet")
        await client.end()
        assert b"server 'a' in toolbox 'dev' is pinned for as long as this runs" in client.stderr
        assert f"{project.lock}: cannot be written".encode() in client.stderr
        assert client.stderr.count(b"\n") == 1
    assert project.lock.is_symlink()


async def test_a_conflict_that_somebody_has_to_mend_is_not_written_over(project: Project) -> None:
    project.config["pin"] = True
    project.server(tools=[a_tool()])
    tools = [a_tool(), a_tool("turn", does="change_tools")]
    project.server("other/b", tools=tools, tools_after=[a_tool(description=BAD), tools[1]])
    async with serve(project) as client:
        await client.open("dev")
        conflict = "<<<<<<< ours\n" + project.lock.read_text()
        project.lock.write_text(conflict)
        await client.open("other")
        assert project.lock.read_text() == conflict
        await client.text("other", "b", "turn")
        assert "it has changed" in await client.error("other", "b", "greet")


async def test_two_workbenches_that_begin_a_lock_at_once_lose_nothing(project: Project) -> None:
    project.config["pin"] = True
    names = [f"s{number}" for number in range(8)]
    for name in names:
        project.server(f"{name}/a", tools=[a_tool(name)])
    first, second = names[::2], names[1::2]
    async with serve(project) as one, serve(project) as other:
        for pair in zip(first, second, strict=True):
            openings = [
                client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": name}})
                for client, name in zip((one, other), pair, strict=True)
            ]
            for opening in openings:
                assert not (await opening)["result"].get("isError")
    assert [*project.locked()["toolboxes"]] == names
    assert not [*project.folder.glob("workbench.lock.*")]


async def test_who_sees_a_server_second_is_shown_what_the_first_one_saw(project: Project) -> None:
    project.config["pin"] = True
    project.server(tools=[a_tool()])
    async with serve(project) as one, serve(project) as other:
        await one.open("dev")
        project.offers(tools=[a_tool(description=BAD)])
        assert "1 tool (changed: 'greet')" in await opened(other)
        assert CANARY not in told(other)
