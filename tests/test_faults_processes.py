"""The command and its processes, when somebody kills, hides, copies itself or reuses numbers.

Nothing is slept for: a process is held by a descriptor, and its end is waited for.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .workbench import (
    COMMAND,
    Client,
    Held,
    Json,
    descendants,
    fake,
    serving,
    started,
    talking_to,
    toolboxes,
    until,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these look into /proc")

GONE_WITHIN = 5.0
DEAF: Json = {"ignore_eof": True, "ignore_sigterm": True}
# Runs its arguments as a worker that has its pipes, and waits for it.
WRAPPED = 'exec 3<&0; "$@" <&3 3<&- & wait'


def wrapped(entry: Json, script: str = WRAPPED) -> Json:
    """The same server, started by a shell."""
    return {"command": "sh", "args": ["-c", script, "sh", entry["command"], *entry["args"]]}


def own_entry(file: Path) -> Json:
    """An entry that starts a workbench with this configuration."""
    return {"command": COMMAND[0], "args": [*COMMAND[1:], "--config", str(file)]}


def written(file: Path, config: Json) -> Path:
    file.write_text(json.dumps(config))
    return file


async def pid_of(client: Client, toolbox: str, server: str) -> int:
    return int(await client.text(toolbox, server, "pid"))


async def all_leave(processes: list[Held]) -> None:
    async with asyncio.timeout(GONE_WITHIN):
        await asyncio.gather(*(process.leaves() for process in processes))


# Killed workbenches


async def test_a_killed_workbench_leaves_no_process_even_of_those_that_ignore_everything(
    tmp_path: Path,
) -> None:
    servers = {"polite": fake(), "deaf": fake(**DEAF), "wrapped": wrapped(fake(**DEAF))}
    async with serving(toolboxes(one=servers, two=servers), tmp_path) as client:
        for toolbox in ("one", "two"):
            await client.open(toolbox)
            for server in servers:
                for options in ({}, DEAF, {**DEAF, "setsid": True, "quiet": True}):
                    await client.text(toolbox, server, "spawn_child", **options)
        left = [Held(pid) for pid in descendants(client.process.pid)]
        assert len(left) == 2 * (3 + 1 + 3 * 3) + 1  # servers, a shell, what they started, and the guard
        client.process.kill()
        await all_leave(left)


async def test_a_workbench_that_is_killed_during_an_opening_leaves_no_process(tmp_path: Path) -> None:
    record = tmp_path / "received"
    mute = fake(record=str(record), on={"initialize": {"hang": True}}, **DEAF)
    async with serving(toolboxes(box={"mute": mute, "wrapped": wrapped(mute)}), tmp_path) as client:
        client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "box"}})
        await until(lambda: record.exists() and len(record.read_bytes().splitlines()) == 2)
        left = [Held(pid) for pid in descendants(client.process.pid)]
        assert len(left) == 2 + 1 + 1
        client.process.kill()
        await all_leave(left)


async def test_a_terminated_workbench_leaves_no_process(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"polite": fake(), "deaf": fake(**DEAF)}), tmp_path) as client:
        await client.open("box")
        await client.text("box", "polite", "spawn_child", setsid=True, quiet=True, **DEAF)
        left = [Held(pid) for pid in descendants(client.process.pid)]
        client.process.terminate()
        async with asyncio.timeout(6):
            assert await client.gone() == 0
        assert all(process.gone for process in left)


# Opening and closing again and again


async def test_opening_and_closing_a_hundred_times_leaves_nothing_behind(tmp_path: Path) -> None:
    box = {
        "good": fake(),
        "missing": {"command": "no-such-command"},
        "brief": fake(on={"start": {"exit": 1}}),
    }
    async with serving(toolboxes(box=box), tmp_path) as client:
        pid = client.process.pid

        async def cycle() -> None:
            assert (await client.open("box"))["servers_connected"] == 1
            await client.close("box")

        await cycle()
        await until(lambda: len(descendants(pid)) == 1)  # the guard
        before = descriptors_of(pid)
        for _ in range(100):
            await cycle()
        await until(lambda: len(descendants(pid)) == 1)
        await until(lambda: descriptors_of(pid) <= before)


async def test_the_next_opening_serves_only_when_the_old_process_is_gone(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"files": fake(ignore_eof=True)}), tmp_path) as client:
        await client.open("box")
        old = Held(await pid_of(client, "box", "files"))
        child = Held(int(await client.text("box", "files", "spawn_child", setsid=True, ignore_eof=True)))
        await client.close("box")
        assert not old.gone  # it is ended behind the answer
        assert await pid_of(client, "box", "files") != old.pid
        assert old.gone
        assert child.gone
        client.process.kill()  # the guard is quicker with the deaf


async def test_ten_clients_with_a_thousand_calls_have_one_process_for_each_entry(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    config = toolboxes(one={"a": fake(starts=str(starts))}, two={"a": fake(starts=str(starts))})

    async def client_of_its_own(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        async with serving(config, folder) as client:
            texts = [f"{number}-{call}" for call in range(1000)]
            boxes = ["one", "two"] * 500
            calls = (client.text(box, "a", "echo", text=text) for box, text in zip(boxes, texts, strict=True))
            assert await asyncio.gather(*calls) == texts
            states = list(descendants(client.process.pid).values())
            assert len(states) == 3  # two servers and the guard
            assert "Z" not in states

    async with asyncio.TaskGroup() as clients:
        for number in range(10):
            clients.create_task(client_of_its_own(number))
    assert len(starts.read_text().splitlines()) == 10 * 2


# Too few descriptors


async def test_a_workbench_that_ran_out_of_descriptors_closes_and_opens_as_before(tmp_path: Path) -> None:
    servers = {str(number): fake() for number in range(12)}
    limited = ("sh", "-c", 'ulimit -n 48; exec "$@"', "sh", *COMMAND)
    written(tmp_path / "workbench-config.json", toolboxes(many=servers, one={"a": fake()}))
    async with talking_to(*limited, folder=tmp_path) as client:
        await client.initialize()
        for _ in range(2):
            opened = await client.open("many")
            connected = opened["servers_connected"]
            assert 5 <= connected < 12
            assert len(opened["_errors"]) == 12 - connected
            assert all("Too many open files" in error for error in opened["_errors"])
            left = [Held(pid) for pid in descendants(client.process.pid)]
            assert (await client.close("many"))["servers_disconnected"] == connected
            await all_leave([it for it in left if not is_guard(it.pid)])
            await until(lambda: descriptors_of(client.process.pid) < 24)
            assert await pid_of(client, "one", "a")
            await client.close("one")
            await until(lambda: len(descendants(client.process.pid)) == 1)
            await until(lambda: descriptors_of(client.process.pid) < 24)
    assert b"Traceback" not in client.stderr


def descriptors_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def is_guard(pid: int) -> bool:
    try:
        return b"guard.sh" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


async def test_a_workbench_with_a_low_soft_limit_opens_more_servers_than_that(tmp_path: Path) -> None:
    servers = {str(number): fake() for number in range(12)}
    limited = ("sh", "-c", 'ulimit -Sn 32; exec "$@"', "sh", *COMMAND)
    written(tmp_path / "workbench-config.json", toolboxes(many=servers))
    async with talking_to(*limited, folder=tmp_path) as client:
        await client.initialize()
        assert (await client.open("many"))["servers_connected"] == 12


# A stdin that is closed


async def test_a_server_that_closes_its_stdin_is_gone_at_once(tmp_path: Path) -> None:
    deaf = fake(starts=str(tmp_path / "starts"), by_start=[{"on": {"tools/call": HEARS_NO_MORE}}], **DEAF)
    async with serving(toolboxes(box={"deaf": deaf}), tmp_path) as client:
        await client.open("box")
        error = await client.error("box", "deaf", "echo")
        assert error == "Server 'deaf' in toolbox 'box' closed its stdin; the call may have been carried out"
        assert await client.text("box", "deaf", "echo", text="again") == "again"
        client.process.kill()  # the guard is quicker with the deaf


async def test_a_server_that_closes_its_stdin_instead_of_shaking_hands_is_explained(tmp_path: Path) -> None:
    mute = fake(on={"start": {**HEARS_NO_MORE, "stderr": "no license\n"}})
    async with serving(toolboxes(box={"mute": mute, "good": fake()}), tmp_path) as client:
        opened = await client.open("box")
        assert opened["servers_connected"] == 1
        [error] = opened["_errors"]
        assert error.endswith(": closed its stdin\nThe last of its stderr:\nno license")


HEARS_NO_MORE: Json = {"close_stdin": True, "hang": True}


# Wrappers


@pytest.mark.parametrize(
    ("script", "sign"),
    [
        pytest.param({}, signal.SIGTERM, id="polite"),
        pytest.param({}, signal.SIGKILL, id="polite, and killed"),
        pytest.param(DEAF, signal.SIGKILL, id="deaf"),
    ],
)
async def test_a_worker_whose_wrapper_dies_first_is_gone_too(
    tmp_path: Path, script: Json, sign: signal.Signals
) -> None:
    async with serving(toolboxes(box={"files": wrapped(fake(**script))}), tmp_path) as client:
        await client.open("box")
        worker = Held(await pid_of(client, "box", "files"))
        wrapper = Held(parent_of(worker.pid))
        waiting = client.begin_use("box", "files", "hang")
        await client.text("box", "files", "echo")  # the call before has arrived, too
        os.kill(wrapper.pid, sign)
        await all_leave([wrapper, worker])
        async with asyncio.timeout(GONE_WITHIN):
            answer = await waiting
        assert "may have been carried out" in answer["result"]["content"][0]["text"]
        assert await pid_of(client, "box", "files") != worker.pid
        client.process.kill()  # the guard is quicker with the deaf


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


# A workbench listed in itself


@pytest.mark.parametrize(
    "between",
    [
        pytest.param([], id="directly"),
        pytest.param(["sh", "-c", '"$@"; :', "sh"], id="behind a shell"),
        pytest.param(["env", "-i"], id="without its environment"),
    ],
)
async def test_a_workbench_listed_in_itself_is_refused_at_once(tmp_path: Path, between: list[str]) -> None:
    command, *args = [*between, *COMMAND, "--config", str(tmp_path / "workbench-config.json")]
    starts = tmp_path / "starts"
    box = {"itself": {"command": command, "args": args}, "good": fake(starts=str(starts))}
    async with serving(toolboxes(box=box), tmp_path) as client:
        opened = await client.open("box")
        assert opened["servers_connected"] == 1
        [error] = opened["_errors"]
        assert "'itself'" in error
        assert "listed in itself" in error
        assert len(starts.read_text().splitlines()) == 1
        await until(lambda: len(descendants(client.process.pid)) == 2)  # the good one and the guard


@pytest.mark.parametrize(
    "between",
    [
        pytest.param([], id="by the environment"),
        pytest.param(["env", "-i"], id="by the greeting"),
    ],
)
async def test_a_ring_of_two_workbenches_is_refused_at_once(tmp_path: Path, between: list[str]) -> None:
    def entry(file: Path) -> Json:
        command, *args = [*between, *COMMAND, "--config", str(file)]
        return {"command": command, "args": args}

    other = written(
        tmp_path / "other.json", toolboxes(far={"first": entry(tmp_path / "workbench-config.json")})
    )
    async with serving(toolboxes(near={"other": entry(other)}), tmp_path) as client:
        assert (await client.open("near"))["servers_connected"] == 1
        error = await client.error("near", "other", "open_toolbox", toolbox_name="far")
        assert "listed in itself" in error
        # The other workbench, and a guard for each of the two.
        await until(lambda: len(descendants(client.process.pid)) == 3)


async def test_a_workbench_far_down_a_chain_of_others_does_not_start(tmp_path: Path) -> None:
    chain = {"MCP_WORKBENCH_CHAIN": ",".join(f"1-{number}" for number in range(8))}
    async with started(toolboxes(box={"a": fake()}), tmp_path, env=chain) as client:
        assert await client.gone() == 2
        assert b"more than 8 workbenches" in client.stderr


async def test_a_workbench_behind_another_serves(tmp_path: Path) -> None:
    inner = written(tmp_path / "inner.json", toolboxes(far={"files": fake()}))
    async with serving(toolboxes(near={"inner": own_entry(inner)}), tmp_path) as client:
        await client.open("near")
        address = {"toolbox": "far", "server": "files", "tool": "echo"}
        arguments = {"tool": address, "arguments": {"text": "through two"}}
        call = {"tool": {"toolbox": "near", "server": "inner", "tool": "use_tool"}, "arguments": arguments}
        result = await client.result("use_tool", call)
        assert result == {"content": [{"type": "text", "text": "through two"}]}


# Numbers that are used again

# The first process of a namespace of its own may say which number comes next.
REUSE = """
import asyncio, os, signal, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.workbench import Held, descendants, fake, serving, toolboxes

LAST = Path("/proc/sys/kernel/ns_last_pid")

def stranger(pid):
    "Somebody else with this number; whoever else starts something meanwhile may be given it first."
    for _ in range(1000):
        LAST.write_text(str(pid - 1))
        there = subprocess.Popen(["sleep", "100"], start_new_session=True)
        if there.pid == pid:
            return there
        there.kill()
        there.wait()
    raise AssertionError(f"{pid} is never free: {Path(f'/proc/{pid}/cmdline').read_bytes()}")

async def main():
    LAST.write_text("2000")
    folder, never = Path(sys.argv[1]), {"crashes": 1, "within": 1000}
    async with serving({**toolboxes(box={"files": fake()}), "restart": never}, folder) as client:
        await client.open("box")
        worker = int(await client.text("box", "files", "spawn_child", setsid=True, quiet=True))
        server = int(await client.text("box", "files", "pid"))
        held = [Held(server), Held(worker)]
        os.kill(server, signal.SIGKILL)
        for process in held:
            await process.leaves()
        os.waitpid(worker, 0)  # orphans come to us here
        while Path(f"/proc/{server}").exists():
            await asyncio.sleep(0)
        strangers = [stranger(server), stranger(worker)]
        await client.close("box")
        await client.open("box")
        await client.close("box")
        await client.end()
        assert [it.poll() for it in strangers] == [None, None], "ended by the closing"
    async with serving({**toolboxes(box={"files": fake()}), "restart": never}, folder) as client:
        LAST.write_text("3000")
        await client.open("box")
        server = int(await client.text("box", "files", "pid"))
        guards = [Held(pid) for pid in descendants(client.process.pid) if pid != server]
        os.kill(server, signal.SIGKILL)
        while Path(f"/proc/{server}").exists():
            await asyncio.sleep(0)
        strangers.append(stranger(server))
        client.process.kill()
        for guard in guards:
            await guard.leaves()
        assert [it.poll() for it in strangers] == [None] * 3, "ended by the guard"
    print("nobody was hurt")

asyncio.run(main())
"""
NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")


def may_choose_numbers() -> bool:
    if not shutil.which("unshare"):
        return False
    tried: subprocess.CompletedProcess[Any] = subprocess.run(
        [*NAMESPACE, "sh", "-c", "echo 900 > /proc/sys/kernel/ns_last_pid"], capture_output=True, check=False
    )
    return tried.returncode == 0


def test_who_got_the_number_of_a_dead_child_is_not_ended(tmp_path: Path) -> None:
    if not may_choose_numbers():
        pytest.skip("needs a process namespace of its own, which is not allowed here")
    script = [sys.executable, "-c", REUSE, str(tmp_path), str(Path(__file__).parent.parent)]
    done = subprocess.run([*NAMESPACE, *script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "nobody was hurt\n", done.stderr
