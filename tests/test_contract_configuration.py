"""The configuration file: where it is found, what is refused, and what a server is started with."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.workbench import COMMAND, Json, fake, serving, toolboxes

HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"open_toolbox",'
    b'"arguments":{"toolbox_name":"dev"}}}\n'
)


def run(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """A whole session with a client that greets it and opens `dev`."""
    environment = {key: value for key, value in os.environ.items() if key != "WORKBENCH_CONFIG"}
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment | env,
        input=HELLO,
        capture_output=True,
        timeout=30,
        check=False,
    )


def instructions(done: subprocess.CompletedProcess[bytes]) -> str:
    return str(json.loads(done.stdout.splitlines()[0])["result"]["instructions"])


def refused(config: Any, folder: Path) -> str:
    """The stderr of a workbench that does not start with this configuration."""
    file = folder / "workbench-config.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    done = run(folder)
    assert done.returncode == 2
    assert done.stdout == b""
    return done.stderr.decode()


def one(folder: Path, **entry: Any) -> Json:
    return toolboxes(dev={"a": fake() | entry})


# Where it is ------------------------------------------------------------------------------------


def test_the_file_is_the_one_of_config_else_of_the_variable_else_the_one_in_the_folder(
    tmp_path: Path,
) -> None:
    for name in ("option.json", "variable.json", "workbench-config.json"):
        (tmp_path / name).write_text(json.dumps(toolboxes(**{name.split(".")[0]: {"a": fake()}})))
    variable = str(tmp_path / "variable.json")
    assert "\nworkbench-config (" in instructions(run(tmp_path))
    assert "\nvariable (" in instructions(run(tmp_path, WORKBENCH_CONFIG=variable))
    assert "\noption (" in instructions(run(tmp_path, "--config", "option.json", WORKBENCH_CONFIG=variable))
    assert "\noption (" in instructions(run(tmp_path, "serve", "--config", "option.json"))
    assert "\noption (" in instructions(run(tmp_path, "--config", "option.json", "serve"))


@pytest.mark.parametrize("arguments", [(), ("--config", "no/such/file.json")])
def test_a_missing_file_is_exit_2_and_named(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert (arguments or ("workbench-config.json",))[-1].encode() in done.stderr


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", '{"toolboxes": {},}', "[]", "null", '{"toolboxes": []}', "{}"])
def test_bad_json_and_wrong_shapes_are_exit_2(text: str, tmp_path: Path) -> None:
    assert refused(text, tmp_path).startswith("error: ")


def test_all_problems_are_told_at_once_with_their_places_and_nothing_starts(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    filesystem = {"command": "npx", "args": ["-y", 7], "timeout": "soon"}
    config = toolboxes(dev={"good": fake(starts=str(starts)), "filesystem": filesystem}, empty={})
    told = refused(config | {"openOnUse": "yes"}, tmp_path)
    problems = [line for line in told.splitlines() if line.startswith("error: ")]
    places = (
        "toolboxes.dev.mcpServers.filesystem.args[1]",
        "toolboxes.dev.mcpServers.filesystem.timeout",
        "toolboxes.empty.mcpServers",
        "openOnUse",
    )
    assert all(any(f"error: {place}: " in line for line in problems) for place in places)
    assert len(problems) == len(places)
    assert all(" — " in line for line in problems)  # what to do
    assert not starts.exists()


def test_an_empty_toolboxes_is_valid(tmp_path: Path) -> None:
    (tmp_path / "workbench-config.json").write_text('{"toolboxes": {}}')
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_toolbox_without_servers_is_refused(tmp_path: Path) -> None:
    assert "toolboxes.dev.mcpServers" in refused({"toolboxes": {"dev": {"mcpServers": {}}}}, tmp_path)


@pytest.mark.parametrize("name", ["", "a__b", "__"])
def test_names_that_are_empty_or_have_two_underscores_are_refused(name: str, tmp_path: Path) -> None:
    told = refused(
        {"toolboxes": {name: {"mcpServers": {"a": fake()}}, **one(tmp_path)["toolboxes"]}}, tmp_path
    )
    assert "error: toolboxes" in told
    told = refused(toolboxes(dev={name: fake()}), tmp_path)
    assert "error: toolboxes.dev.mcpServers" in told


@pytest.mark.parametrize("key", ["surprise", "openOnuse"])
async def test_what_is_not_understood_is_a_warning_that_names_it(key: str, tmp_path: Path) -> None:
    config = one(tmp_path, **{f"{key}OfServer": 1}) | {key: True}
    config["toolboxes"]["dev"][f"{key}OfToolbox"] = 1
    async with serving(config, tmp_path) as client:
        assert (await client.open("dev"))["servers_connected"] == 1
    told = client.stderr.decode()
    assert f"warning: {key}: " in told
    assert f"warning: toolboxes.dev.{key}OfToolbox: " in told
    assert f"warning: toolboxes.dev.mcpServers.a.{key}OfServer: " in told


# Variables --------------------------------------------------------------------------------------


async def test_variables_are_expanded_in_command_args_env_and_cwd(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    plain = fake(script_args=("${ONE}-${env:ONE}", "${NONE:-$HOME {x}", "${EMPTY:-x}", "$ONE"))
    entry = plain | {
        "command": "${PYTHON}",
        "env": {"LOG_LEVEL": "${LOG_LEVEL:-info}", "BOTH": "a ${ONE} b"},
        "cwd": "${HERE}/folder",
    }
    env = {"PYTHON": plain["command"], "ONE": "1", "EMPTY": "", "HERE": str(tmp_path)}
    async with serving(toolboxes(dev={"a": entry}), tmp_path, env=env) as client:
        arguments = json.loads(await client.text("dev", "a", "args"))
        environment = json.loads(await client.text("dev", "a", "env"))
        cwd = json.loads(await client.text("dev", "a", "cwd"))
    assert arguments == ["1-1", "$HOME {x", "", "$ONE"]
    assert (environment["LOG_LEVEL"], environment["BOTH"]) == ("info", "a 1 b")
    assert cwd == str(tmp_path / "folder")


async def test_an_unset_variable_fails_its_server_alone_when_it_is_opened(tmp_path: Path) -> None:
    db = fake() | {"env": {"PASSWORD": "${NOT_SET_1}"}, "args": ["-x", "${NOT_SET_2}"]}
    remote = {"url": "https://localhost/${NOT_SET_3}", "headers": {"Authorization": "${NOT_SET_4}"}}
    async with serving(toolboxes(dev={"db": db, "good": fake(), "remote": remote}), tmp_path) as client:
        answer = await client.open("dev")
    assert answer["servers_connected"] == 1
    for_db, for_remote = answer["_errors"]
    assert for_db.startswith("Failed to connect to server 'db' in toolbox 'dev': missing_env: ")
    place = "toolboxes.dev.mcpServers"
    for variable, where, told in [
        ("NOT_SET_1", f"{place}.db.env.PASSWORD", for_db),
        ("NOT_SET_2", f"{place}.db.args[1]", for_db),
        ("NOT_SET_3", f"{place}.remote.url", for_remote),
        ("NOT_SET_4", f"{place}.remote.headers.Authorization", for_remote),
    ]:
        assert f"export {variable}=…" in told
        assert where in told


async def test_what_a_server_is_started_with_is_read_at_each_start(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("KEY=first\n")
    async with serving(one(tmp_path, envFile=".env"), tmp_path) as client:
        assert json.loads(await client.text("dev", "a", "env"))["KEY"] == "first"
        file.write_text("export KEY='second'\n")
        await client.close("dev")
        assert json.loads(await client.text("dev", "a", "env"))["KEY"] == "second"


async def test_a_child_has_the_short_environment_and_what_its_entry_names(tmp_path: Path) -> None:
    env = {"SECRET_OF_PARENT": "s3cret", "NAMED": "value"}
    async with serving(one(tmp_path, env={"GIVEN": "${NAMED}"}), tmp_path, env=env) as client:
        environment = json.loads(await client.text("dev", "a", "env"))
    assert environment["GIVEN"] == "value"
    assert environment["PATH"] == os.environ["PATH"]
    assert not {"SECRET_OF_PARENT", "NAMED"} & environment.keys()


# Filters and copied entries ---------------------------------------------------------------------


async def test_tool_filters_show_what_they_name(tmp_path: Path) -> None:
    tools = ["read_file", "read_secret", "write_file", "Read_Me"]
    cases: list[tuple[Json, list[str]]] = [
        ({}, tools),
        ({"toolFilters": ["*"]}, tools),
        ({"toolFilters": []}, []),
        ({"toolFilters": ["read_file", "nothing"]}, ["read_file"]),
        ({"toolFilters": ["read_*"]}, ["read_file", "read_secret"]),
        ({"toolFilters": ["read_*", "!read_secret"]}, ["read_file"]),
        ({"toolFilters": ["!read_secret", "read_*"]}, ["read_file"]),
        ({"toolFilters": ["!read_secret", "read_secret"]}, []),
        ({"toolFilters": ["!read_*"]}, ["write_file", "Read_Me"]),
        ({"includeTools": ["read_file"]}, ["read_file"]),
        ({"enabled_tools": ["read_file"]}, ["read_file"]),
        ({"excludeTools": ["read_file"]}, tools[1:]),
        ({"disabledTools": ["read_file"]}, tools[1:]),
        ({"disabled_tools": ["read_file"]}, tools[1:]),
    ]
    servers = {f"s{index}": fake(tools=tools) | entry for index, (entry, _) in enumerate(cases)}
    async with serving(toolboxes(dev=servers), tmp_path) as client:
        listed = (await client.open("dev"))["tools"]
        for server, (entry, shown) in zip(servers, cases, strict=True):
            assert [tool["name"] for tool in listed if tool["source_server"] == server] == shown, entry
        hidden = await client.error("dev", "s5", "read_secret")
        assert hidden.startswith("Tool 'read_secret' not found in server 's5' (toolbox 'dev')")
        assert await client.text("dev", "s5", "read_file", text="hi") == "hi"


async def test_an_entry_copied_from_another_client_works(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("FROM_FILE=yes\n")
    entry = {
        "type": "stdio",
        "transport": "stdio",
        "env": {"A": "${env:A}"},
        "envFile": ".env",
        "cwd": ".",
        "timeout": 30_000,
        "startup_timeout_sec": 10,
        "tool_timeout_sec": 60,
        "disabled": False,
        "enabled": True,
    }
    async with serving(one(tmp_path, **entry), tmp_path, env={"A": "1"}) as client:
        environment = json.loads(await client.text("dev", "a", "env"))
    assert (environment["A"], environment["FROM_FILE"]) == ("1", "yes")
    assert client.stderr == b""


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp", "sse"])
@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
def test_an_entry_of_a_remote_server_is_accepted(kind: str, key: str, tmp_path: Path) -> None:
    entry = {"type": kind, key: "https://localhost/mcp", "headers": {"A": "b"}, "http_headers": {"A": "b"}}
    (tmp_path / "workbench-config.json").write_text(json.dumps(toolboxes(dev={"remote": entry})))
    assert run(tmp_path, "check").returncode == 0
