"""The command: its options, `check`, and the files and pipes that it may be given."""

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mcp_workbench
from tests.test_contract_configuration import HELLO
from tests.workbench import COMMAND, Json, fake, serving, started, toolboxes

ROOT = Path(__file__).parents[1]
EXAMPLE = {
    "toolMode": "proxy",
    "toolboxes": {
        "dev": {
            "description": "Development environment tools",
            "mcpServers": {
                "filesystem": {
                    "command": "npx",
                    "args": ["-y", "@modelcontextprotocol/server-filesystem", "${PROJECT}/data"],
                    "env": {"LOG_LEVEL": "${LOG_LEVEL:-info}"},
                    "toolFilters": ["read_*", "!read_secret"],
                    "transport": "stdio",
                }
            },
        }
    },
}


def run(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    if "stdout" not in options:
        options["stdout"] = subprocess.PIPE
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, stderr=subprocess.PIPE, timeout=30, check=False, **options
    )


def configured(folder: Path, config: Any) -> Path:
    file = folder / "workbench-config.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    return file


def examples_in_the_documentation() -> list[Any]:
    texts = [path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]]
    blocks = [block for text in texts for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    examples = [EXAMPLE]
    for block in blocks:
        try:
            example = json.loads(block)
        except ValueError:
            continue  # a part of a file
        if "toolboxes" in example:
            examples.append(example)
    return examples


def test_version_prints_the_packages_version(tmp_path: Path) -> None:
    done = run(tmp_path, "--version")
    assert (done.returncode, done.stdout.decode()) == (0, f"mcp-workbench {mcp_workbench.__version__}\n")


def test_help_has_an_example_for_each_command(tmp_path: Path) -> None:
    text = run(tmp_path, "--help").stdout.decode()
    commands = re.findall(r"^    (\w+) ", text, re.MULTILINE)
    assert {"serve", "check"} <= set(commands)
    for command in commands:
        assert f"  mcp-workbench {command} " in text
        assert (
            f"mcp-workbench {command}" in run(tmp_path, command, "--help").stdout.decode().split("example")[1]
        )


@pytest.mark.parametrize("arguments", [("nonsense",), ("--nonsense",), ("check", "--config")])
def test_a_wrong_command_line_is_exit_2_on_stderr(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr


def test_check_of_a_sound_file_is_exit_0_and_starts_nothing(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    configured(tmp_path, toolboxes(dev={"a": fake(starts=str(starts))}))
    done = run(tmp_path, "check")
    assert (done.returncode, done.stderr) == (0, b"")
    assert not starts.exists()


def test_check_prints_all_problems_and_warnings_with_their_places(tmp_path: Path) -> None:
    servers: dict[str, Json] = {"a": {"command": 7}, "b": {"args": []}, "c": fake() | {"surprise": 1}}
    file = configured(tmp_path, toolboxes(dev=servers)).rename(tmp_path / "other.json")
    done = run(tmp_path, "check", "--config", str(file))
    told = (done.stdout + done.stderr).decode()
    assert done.returncode == 2
    assert "error: toolboxes.dev.mcpServers.a.command: " in told
    assert "error: toolboxes.dev.mcpServers.b" in told
    assert "warning: toolboxes.dev.mcpServers.c.surprise: " in told


def test_check_warns_of_variables_that_are_not_set_here(tmp_path: Path) -> None:
    entry = fake() | {"env": {"A": "${NOT_SET_ANYWHERE}", "B": "${NOT_SET_EITHER:-default}"}}
    configured(tmp_path, toolboxes(dev={"a": entry}))
    done = run(tmp_path, "check")
    assert (done.returncode, done.stderr.count(b"warning")) == (0, 1)
    assert b"toolboxes.dev.mcpServers.a.env.A: NOT_SET_ANYWHERE is not set here" in done.stderr
    assert b"no problems, 1 warnings" in done.stdout


def test_check_warns_of_files_and_folders_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there.env").touch()
    there = fake() | {"cwd": "there", "envFile": "there.env"}
    gone = fake() | {"cwd": "gone", "envFile": "gone.env"}
    configured(tmp_path, toolboxes(dev={"a": there, "b": gone, "c": fake() | {"cwd": "${HOME}/gone"}}))
    told = run(tmp_path, "check").stderr.decode()
    assert "toolboxes.dev.mcpServers.b.cwd: 'gone' is not there" in told
    assert "toolboxes.dev.mcpServers.b.envFile: 'gone.env' is not there" in told
    assert told.count("warning") == 2


def test_check_looks_at_the_toolboxes_that_are_named(tmp_path: Path) -> None:
    configured(tmp_path, toolboxes(dev={"a": fake()}))
    assert run(tmp_path, "--toolbox", "dev", "check").returncode == 0
    done = run(tmp_path, "check", "--toolbox", "deb")
    assert (done.returncode, b"did you mean 'dev'?" in done.stderr) == (2, True)


def test_a_warning_alone_is_exit_0(tmp_path: Path) -> None:
    configured(tmp_path, toolboxes(dev={"a": fake()}) | {"surprise": 1})
    done = run(tmp_path, "check")
    assert done.returncode == 0
    assert b"warning: surprise: " in done.stdout + done.stderr


def test_a_configuration_that_everybody_can_write_is_warned_of(tmp_path: Path) -> None:
    configured(tmp_path, {"toolboxes": {}}).chmod(0o666)
    done = run(tmp_path, "check")
    assert done.returncode == 0
    assert b"chmod o-w" in done.stderr


def test_the_schema_accepts_the_examples_of_the_documentation(tmp_path: Path) -> None:
    jsonschema: Any = pytest.importorskip("jsonschema")
    schema = json.loads(run(tmp_path, "check", "--schema").stdout)
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    for example in examples_in_the_documentation():
        assert not [error.message for error in validator.iter_errors(example)], example


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"toolboxes": []},
        {"toolboxes": {"dev": {"mcpServers": {}}}},
        {"toolboxes": {"a__b": {"mcpServers": {"a": {"command": "x"}}}}},
        {"toolboxes": {"dev": {"mcpServers": {"a": {"command": 7}}}}},
        {"toolboxes": {}, "toolMode": "other"},
    ],
)
def test_the_schema_and_check_refuse_the_same(config: Any, tmp_path: Path) -> None:
    jsonschema: Any = pytest.importorskip("jsonschema")
    schema = json.loads(run(tmp_path, "check", "--schema").stdout)
    assert not jsonschema.Draft202012Validator(schema).is_valid(config)
    configured(tmp_path, config)
    assert run(tmp_path, "check").returncode == 2


def test_check_accepts_the_examples_of_the_documentation(tmp_path: Path) -> None:
    for example in examples_in_the_documentation():
        configured(tmp_path, example)
        assert run(tmp_path, "check").returncode == 0, example


# Files and pipes --------------------------------------------------------------------------------


@pytest.mark.parametrize("stdout", ["pipe", "file"])
@pytest.mark.parametrize("stdin", ["pipe", "file"])
def test_stdin_and_stdout_may_be_files(stdin: str, stdout: str, tmp_path: Path) -> None:
    configured(tmp_path, toolboxes(dev={"a": fake(tools=["echo"])}))
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_bytes(HELLO)
    options: dict[str, Any] = {"input": HELLO}
    with asked.open("rb") as source, answered.open("wb") as target:
        if stdin == "file":
            options = {"stdin": source}
        if stdout == "file":
            options["stdout"] = target
        done = run(tmp_path, **options)
    lines = (done.stdout or answered.read_bytes()).splitlines()
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    assert json.loads(json.loads(lines[1])["result"]["content"][0]["text"])["servers_connected"] == 1


@pytest.mark.parametrize("begun", [b"", b"\n", HELLO[:20], HELLO.splitlines()[0]])
def test_a_client_that_ends_early_is_a_clean_end(begun: bytes, tmp_path: Path) -> None:
    configured(tmp_path, toolboxes(dev={"a": fake()}))
    done = run(tmp_path, input=begun) if begun else run(tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")


def pipe() -> tuple[int, int]:
    return os.pipe()


def socket_pair() -> tuple[int, int]:
    ours, its = socket.socketpair()
    return ours.detach(), its.detach()


@pytest.mark.parametrize("way", [pipe, socket_pair])
@pytest.mark.parametrize("greeted", [False, True])
def test_a_client_that_closes_stdout_ends_the_workbench(
    greeted: bool, way: Callable[[], tuple[int, int]], tmp_path: Path
) -> None:
    configured(tmp_path, toolboxes(dev={"a": fake()}))
    reading, writing = way()
    process = subprocess.Popen(
        COMMAND, cwd=tmp_path, stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    with process, open(reading, "rb") as stdout:
        assert process.stdin
        assert process.stderr
        hello, opening = HELLO.splitlines(keepends=True)
        if greeted:
            process.stdin.write(hello)
            process.stdin.flush()
            stdout.readline()
        stdout.close()
        process.stdin.write(opening if greeted else HELLO)
        process.stdin.flush()
        assert process.wait(20) == 0  # with stdin still open
        assert b"Traceback" not in process.stderr.read()


def files_in(pid: int) -> str:
    """The files that a process has loaded."""
    return Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
async def test_a_session_over_pipes_does_not_load_openssl(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"files": fake()}), tmp_path) as client:
        assert await client.text("box", "files", "echo", text="hello") == "hello"
        loaded = files_in(client.process.pid)
    assert "uvloop" in loaded
    assert "libssl" not in loaded
    assert "libcrypto" not in loaded


def test_a_last_line_without_its_end_is_answered(tmp_path: Path) -> None:
    configured(tmp_path, toolboxes(dev={"a": fake(tools=["echo"])}))
    done = run(tmp_path, input=HELLO.rstrip(b"\n"))
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


@pytest.mark.parametrize("request_id", [b"null", b"true", b"{}"])
def test_a_greeting_with_an_id_that_is_none_is_refused_like_any_request(
    request_id: bytes, tmp_path: Path
) -> None:
    configured(tmp_path, {"toolboxes": {}})
    hello, _ = HELLO.splitlines()
    done = run(tmp_path, input=hello.replace(b'"id":1', b'"id":' + request_id) + b"\n")
    [answer] = map(json.loads, done.stdout.splitlines())
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize("closed", ["<&-", "2>&-", ">&-", ">/dev/full"])
def test_a_closed_or_full_stream_is_no_disaster(closed: str, tmp_path: Path) -> None:
    configured(tmp_path, toolboxes(dev={"a": fake(tools=["echo"])}))
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND]
    done = subprocess.run(command, cwd=tmp_path, input=HELLO, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    if closed == "2>&-":
        assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


def test_what_nobody_reads_is_printed_without_a_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as closed:
        done = run(tmp_path, "check", "--schema", stdout=closed)
    assert (done.returncode, done.stderr) == (1, b"")


# Sockets as stdin and stdout ----------------------------------------------------------------------

PATIENCE = 20.0


def ping(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number


class Talk:
    """A client whose stdin and stdout of the workbench are sockets."""

    def __init__(self, ours: tuple[socket.socket, socket.socket], process: "subprocess.Popen[bytes]") -> None:
        self.stdin, self.stdout = ours
        self.process = process
        for end in ours:
            end.settimeout(PATIENCE)
        self._lines = self.stdout.makefile("rb")

    def ask(self, *requests: bytes) -> list[Any]:
        """The ids of the answers."""
        self.stdin.sendall(b"".join(requests))
        return [json.loads(self._lines.readline() or b"{}").get("id") for _ in requests]

    def left(self) -> tuple[bytes, int]:
        """What was still said, and the exit code."""
        said = self._lines.read()
        self.process.wait(PATIENCE)
        return said, self.process.returncode


@contextmanager
def talking_over_sockets(folder: Path, *, one_for_both: bool) -> Iterator[Talk]:
    configured(folder, {"toolboxes": {}})
    ours, its = socket.socketpair()
    our_other, its_other = (ours, its) if one_for_both else socket.socketpair()
    process = subprocess.Popen(
        COMMAND,
        cwd=folder,
        stdin=its.fileno(),
        stdout=its_other.fileno(),
        stderr=subprocess.PIPE,
    )
    its.close()
    its_other.close()
    with process, ours, our_other:
        try:
            yield Talk((ours, our_other), process)
            assert process.stderr
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_a_client_that_has_shut_the_directions_it_does_not_use_is_served(tmp_path: Path) -> None:
    with talking_over_sockets(tmp_path, one_for_both=False) as talk:
        talk.stdin.shutdown(socket.SHUT_RD)
        talk.stdout.shutdown(socket.SHUT_WR)
        assert talk.ask(HELLO.splitlines(keepends=True)[0]) == [1]
        for number in range(2, 10):
            assert talk.ask(ping(number)) == [number]
        talk.stdin.close()
        assert talk.left() == (b"", 0)


def test_a_client_that_is_gone_without_having_read_is_noticed_though_it_had_shut_a_direction(
    tmp_path: Path,
) -> None:
    with talking_over_sockets(tmp_path, one_for_both=False) as talk:
        talk.stdout.shutdown(socket.SHUT_WR)
        assert talk.ask(HELLO.splitlines(keepends=True)[0], ping(2)) == [1, 2]
        talk.stdin.setblocking(False)
        try:
            while True:  # until so much waits for us that nothing more is read
                talk.stdin.send(b"".join(map(ping, range(1000))))
        except BlockingIOError:
            pass
        talk._lines.close()
        talk.stdout.close()
        assert talk.process.wait(PATIENCE) == 0  # with stdin still open


def test_one_socket_may_be_stdin_and_stdout(tmp_path: Path) -> None:
    with talking_over_sockets(tmp_path, one_for_both=True) as talk:
        assert talk.ask(HELLO.splitlines(keepends=True)[0], ping(2)) == [1, 2]
        for number in range(3, 100):
            assert talk.ask(ping(number)) == [number]
        talk.stdin.shutdown(socket.SHUT_WR)
        assert talk.left() == (b"", 0)


def test_what_comes_over_the_one_socket_while_the_loop_is_loaded_is_answered_in_its_order(
    tmp_path: Path,
) -> None:
    numbers = range(2, 2500)  # more than is read for the greeting
    with talking_over_sockets(tmp_path, one_for_both=True) as talk:
        hello = HELLO.splitlines(keepends=True)[0]
        assert talk.ask(hello, *map(ping, numbers)) == [1, *numbers]
        talk.stdin.shutdown(socket.SHUT_WR)
        assert talk.left() == (b"", 0)


# A stderr that nobody reads -----------------------------------------------------------------------


@contextmanager
def full(way: Callable[[], tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The end to read and the end to write of what takes nothing more, until it is read."""
    reading, writing = way()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 1024)
    except BlockingIOError:
        os.set_blocking(writing, True)
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def drained(reading: int) -> bytes:
    os.set_blocking(reading, False)
    found = b""
    try:
        while chunk := os.read(reading, 65536):
            found += chunk
    except BlockingIOError:
        pass
    return found


NOWHERE: Json = {"command": "/nowhere/to/be/found"}


@pytest.mark.parametrize("end", ["stdin", "SIGTERM"])
@pytest.mark.parametrize("way", [pipe, socket_pair])
async def test_a_client_that_does_not_read_stderr_is_served(
    way: Callable[[], tuple[int, int]], end: str, tmp_path: Path
) -> None:
    config = toolboxes(dev={"a": NOWHERE}) | {"surprise": 1}
    with full(way) as (reading, writing):
        async with started(config, tmp_path, stderr=writing) as client:
            await client.initialize()
            for _ in range(2):
                answer = await client.result("open_toolbox", {"toolbox_name": "dev"})
                assert answer["isError"]
            assert os.get_blocking(writing)  # it is not ours alone

            assert drained(reading).strip(b"x") == b""
            await client.result("open_toolbox", {"toolbox_name": "dev"})
            lost, told = drained(reading).splitlines()
            assert lost == b"mcp-workbench: 3 lines were lost, for nobody read them"
            assert b"Failed to connect to server 'a' in toolbox 'dev'" in told

            if end == "SIGTERM":
                client.process.send_signal(signal.SIGTERM)
                assert await client.gone() == 0
            else:
                assert await client.end() == 0


async def test_more_warnings_than_a_pipe_holds_do_not_keep_the_first_answer(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake()}) | {f"surprise {number}": 1 for number in range(3000)}
    reading, writing = os.pipe()
    async with started(config, tmp_path, stderr=writing) as client:
        os.close(writing)
        await client.initialize()
        assert await client.open("dev")
        assert await client.end() == 0
    assert drained(reading).startswith(b'warning: ["surprise 0"]: ')
    os.close(reading)
