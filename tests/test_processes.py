"""Real child processes that ignore, hide, daemonise and flood, on both event loops.

Nothing is slept for: a test waits for a line that a child wrote, or for the end of a process.
"""

import asyncio
import errno
import functools
import inspect
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mcp_workbench.processes import Child, Spawner, children, guard, table, trees
from mcp_workbench.processes.children import Tail
from mcp_workbench.processes.commands import BadWorkingDirectory, CommandNotFound, CommandNotRunnable
from mcp_workbench.processes.table import MARKER, Census, Process, members_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these children need /proc")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
ENV = {"PATH": os.pathsep.join((os.environ["PATH"], os.defpath))}

# Says its id once it is deaf to SIGTERM; it never reads, so it is deaf to the end of stdin, too.
STUBBORN = 'trap "" TERM; echo $$; exec sleep 1000'

# How a wrapper may start its worker, which is `$1`.
SHAPES = {
    "itself": 'eval "$1"',
    "behind a shell": 'sh -c "$1" & wait',
    "behind two shells": 'sh -c \'sh -c "$1"; :\' sh "$1"; :',
    "in a session of its own": 'setsid sh -c "$1" & wait',
    "daemonised": '(setsid sh -c "$1" &); cat',
    "without its environment": 'env -i sh -c "$1" & wait',
    "without its environment, in a session of its own": 'setsid env -i sh -c "$1"; :',
    "after its wrapper died": 'sh -c "$1" & exit 3',
    "after its wrapper died, without its environment": 'env -i sh -c "$1" & exit 3',
    "after its wrapper died, in a session of its own": 'setsid sh -c "$1" & exit 3',
}

# The wrapper goes at the end of its stdin; only who looked before knows the worker then.
HIDDEN = 'setsid env -i sh -c "$1" & read line'

# A workbench to be killed: starts its arguments' scripts, says who is there, and waits for its end.
WORKBENCH = """
import asyncio, json, os, sys
import uvloop
from mcp_workbench.processes import Spawner
sys.path.insert(0, sys.argv[1])
from test_processes import ENV, STUBBORN, Said, restarted

async def main(kill_guard, scripts, look=False):
    spawner, workers = Spawner(), []
    for script in scripts:
        said = Said()
        await spawner.spawn("sh", ["-c", script, "sh", STUBBORN], env=ENV, on_stdout=said)
        workers.append(int(await said.line()))
    if look:
        await spawner.look()
    if kill_guard:
        await restarted(spawner.guard)
    print(json.dumps([*workers, spawner.guard.pid]), flush=True)
    await asyncio.Event().wait()

uvloop.run(main(*json.loads(sys.argv[2])))
"""


def on_both_loops(test: Callable[..., Awaitable[None]]) -> Any:
    @pytest.mark.parametrize("loop_name", LOOPS)
    @functools.wraps(test)
    def run(loop_name: str, **given: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(30):
                await test(**given)

        with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
            runner.run(bounded())

    signature = inspect.signature(test)
    name = inspect.Parameter("loop_name", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), name])
    del run.__wrapped__
    return run


class Said:
    """What a child wrote to stdout, line by line."""

    def __init__(self) -> None:
        self._stream = asyncio.StreamReader()

    def __call__(self, data: bytes) -> None:
        if data:
            self._stream.feed_data(data)
        else:
            self._stream.feed_eof()

    async def line(self) -> str:
        return (await self._stream.readline()).decode().removesuffix("\n")

    async def rest(self) -> str:
        return (await self._stream.read()).decode()


@asynccontextmanager
async def spawner() -> AsyncIterator[Spawner]:
    it = Spawner()
    try:
        yield it
    finally:
        await asyncio.gather(*(child.end(0.01) for child in it.children))
        await it.close()


async def shell(by: Spawner, script: str, *args: str) -> tuple[Child, Said]:
    said = Said()
    return await by.spawn("sh", ["-c", script, "sh", *args], env=ENV, on_stdout=said), said


class Watched:
    """A process held by a descriptor, so that its end is seen whoever reaps it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def __del__(self) -> None:
        os.close(self._handle)

    @property
    def gone(self) -> bool:
        return bool(select.select([self._handle], [], [], 0)[0])

    async def leaves(self, within: float) -> bool:
        loop = asyncio.get_running_loop()
        left = asyncio.Event()
        loop.add_reader(self._handle, left.set)
        try:
            async with asyncio.timeout(within):
                await left.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._handle)
        return True


def of_run(run: str) -> list[Process]:
    return [process for process in table.read_table() if run in process.marker]


def own_descriptors() -> list[Path]:
    return sorted(Path("/proc/self/fd").iterdir())


def own_children() -> set[str]:
    return set(" ".join(at.read_text() for at in Path("/proc/self/task").glob("*/children")).split())


async def restarted(watch: guard.Guard) -> None:
    """Kill the guard, and wait until there is a new one."""
    old = watch.pid
    assert old is not None
    os.kill(old, signal.SIGKILL)
    while watch.pid in (None, old):  # noqa: ASYNC110
        await asyncio.sleep(0)


@contextmanager
def workbench(
    *scripts: str, kill_guard: bool = False, look: bool = False, path: str | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[Watched]]]:
    """A workbench in a process of its own, what it started, and its guard."""
    doing = json.dumps([kill_guard, scripts, look])
    command = [sys.executable, "-c", WORKBENCH, str(Path(__file__).parent), doing]
    env = os.environ if path is None else {**os.environ, "PATH": path}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout
            yield process, [Watched(pid) for pid in json.loads(process.stdout.readline())]
        finally:
            process.kill()


# Ending


@on_both_loops
async def test_a_child_that_ends_with_its_stdin_ends_at_once_and_by_itself() -> None:
    async with spawner() as by:
        said = Said()
        child = await by.spawn("cat", [], env=ENV, on_stdout=said)
        child.stdin.write(b"hello\n")
        assert await said.line() == "hello"
        before = asyncio.get_running_loop().time()
        assert await child.end() == []
        assert asyncio.get_running_loop().time() - before < 0.5
        assert child.returncode == 0
        assert by.children == set()


@pytest.mark.parametrize("shape", SHAPES)
@on_both_loops
async def test_a_stubborn_worker_is_ended_however_it_was_started(shape: str) -> None:
    async with spawner() as by:
        child, said = await shell(by, SHAPES[shape], STUBBORN)
        worker = Watched(int(await said.line()))
        assert await child.end(grace=0.05) == []
        assert worker.gone
        assert of_run(by.run) == []


@on_both_loops
async def test_a_worker_that_was_seen_before_it_hid_is_ended() -> None:
    async with spawner() as by:
        child, said = await shell(by, HIDDEN, STUBBORN)
        worker = Watched(int(await said.line()))
        await by.look()
        child.stdin.close()
        await child.exited
        assert await child.end(grace=0.05) == []
        assert worker.gone


@on_both_loops
async def test_a_worker_whose_wrapper_exits_does_not_hide_that_exit() -> None:
    async with spawner() as by:
        child, said = await shell(by, SHAPES["after its wrapper died"], STUBBORN)
        worker = Watched(int(await said.line()))
        assert await child.exited == 3
        assert not child.pipes_ended.done()
        await child.end(grace=0.05)
        assert worker.gone
        assert child.pipes_ended.done()


@on_both_loops
async def test_a_stopped_child_can_still_obey() -> None:
    async with spawner() as by:
        child, said = await shell(by, "trap 'exit 7' TERM; echo ready; while :; do sleep 1000 & wait; done")
        await said.line()
        os.kill(child.pid, signal.SIGSTOP)
        child.stdin.write(b"x" * 2_000_000)  # more than it would take
        await child.end(grace=0.5)
        assert child.returncode == 7


@on_both_loops
async def test_all_who_end_a_child_share_one_ending_that_outlives_them() -> None:
    async with spawner() as by:
        child, said = await shell(by, STUBBORN)
        await said.line()
        cancelled = asyncio.create_task(child.end(grace=0.05))
        other = asyncio.create_task(child.end(grace=0.05))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await other == []
        assert child.returncode == -signal.SIGKILL
        assert await child.end() == []


@on_both_loops
async def test_a_child_whose_owner_is_cancelled_during_the_spawn_is_ended() -> None:
    async with spawner() as by:
        starting = asyncio.create_task(shell(by, SHAPES["in a session of its own"], STUBBORN))
        while not by.guard.pid:  # noqa: ASYNC110
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        run = by.run
    assert of_run(run) == []


@on_both_loops
async def test_children_are_ended_by_their_group_where_no_descriptor_is_free_to_look_with() -> None:
    async with spawner() as by:
        polite = await by.spawn("cat", [], env=ENV, on_stdout=Said())
        deaf, said = await shell(by, 'trap "" TERM; sh -c "$1" & wait', STUBBORN)
        worker, wrapper = Watched(int(await said.line())), Watched(deaf.pid)
        with no_free_descriptor():
            endings = polite.end(grace=1), deaf.end(grace=0.05)
            failures = await asyncio.gather(*endings, return_exceptions=True)
        assert [getattr(failure, "errno", failure) for failure in failures] == [errno.EMFILE] * 2
        assert polite.returncode == 0
        assert await wrapper.leaves(within=5)
        assert await worker.leaves(within=5)
        assert by.children == {polite, deaf}  # nobody could see whether that was all
        assert await polite.end() == await deaf.end() == []
        assert by.children == set()


@on_both_loops
async def test_who_cannot_be_ended_for_want_of_descriptors_is_tried_again_in_a_while() -> None:
    async with spawner() as by:
        child, said = await shell(by, SHAPES["in a session of its own"], STUBBORN)
        worker = Watched(int(await said.line()))
        with no_free_descriptor(), pytest.raises(OSError, match="Too many open files"):
            await child.end(grace=0.01)
        assert not worker.gone
        assert await worker.leaves(within=5)


@on_both_loops
async def test_what_ending_children_hold_is_enough_to_see_who_is_left_of_them() -> None:
    async with spawner() as by:
        started = [await shell(by, SHAPES["in a session of its own"], STUBBORN) for _ in range(3)]
        workers = [Watched(int(await said.line())) for _, said in started]
        with all_descriptors_used():
            left = await asyncio.gather(*(child.end(grace=0.05) for child, _ in started))
        assert left == [[], [], []]
        assert all(worker.gone for worker in workers)
        assert of_run(by.run) == []


@on_both_loops
async def test_a_number_that_may_be_a_strangers_by_now_is_not_signalled_unseen() -> None:
    async with spawner() as by:
        child, said = await shell(by, SHAPES["after its wrapper died"], STUBBORN)
        worker = Watched(int(await said.line()))
        await child.exited
        with no_free_descriptor(), pytest.raises(OSError, match="Too many open files"):
            await child.end(grace=0.01)
        assert not worker.gone
        assert await child.end(grace=0.01) == []
        assert worker.gone


@on_both_loops
async def test_a_child_is_not_started_with_the_last_descriptors() -> None:
    async with spawner() as by:
        await (await shell(by, "cat"))[0].end()
        before = own_descriptors()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess, "Popen", None)  # some of them lose descriptors where they fail
            for spare in range(8):
                with (
                    all_descriptors_used(but=spare),
                    pytest.raises(CommandNotRunnable, match="Too many open"),
                ):
                    await shell(by, "cat")
        assert set(own_descriptors()) <= set(before)  # what was still being closed may be gone now
        with all_descriptors_used(but=8):
            child, _ = await shell(by, "cat")
            assert await child.end() == []


@on_both_loops
async def test_the_guard_that_could_not_be_started_is_started_with_the_next_child() -> None:
    async with spawner() as by:
        with all_descriptors_used(), pytest.raises(CommandNotRunnable, match="Too many open files"):
            await shell(by, "cat")
        assert by.guard.pid is None
        await shell(by, "cat")
        assert by.guard.pid is not None


@contextmanager
def no_free_descriptor() -> Iterator[None]:
    """What is open stays so; nothing more can be opened, whatever is closed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(children, "_KILL_PAUSE", 0.01)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def all_descriptors_used(but: int = 0) -> Iterator[None]:
    """As long as none of those that are open is closed only so many more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(at.name) for at in own_descriptors()) + 10, hard))
    try:
        while True:
            try:
                opened.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for _ in range(but):
            os.close(opened.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in opened:
            os.close(descriptor)


@on_both_loops
async def test_the_last_words_of_a_child_are_kept() -> None:
    async with spawner() as by:
        child, _ = await shell(by, "cat; echo 'cannot open the database' >&2")
        await child.end()
        assert child.stderr.text() == "cannot open the database\n"


@on_both_loops
async def test_a_hundred_children_leave_nothing_behind() -> None:
    async with spawner() as by:
        await (await shell(by, "cat"))[0].end()
        descriptors, children = own_descriptors(), own_children()
        for _ in range(100):
            child, _ = await shell(by, "cat & cat; wait")
            await child.end()
        assert own_descriptors() == descriptors
        assert own_children() == children


@on_both_loops
async def test_a_hundred_children_end_together() -> None:
    async with spawner() as by:
        children = [(await shell(by, "cat"))[0] for _ in range(100)]
        before = asyncio.get_running_loop().time()
        await asyncio.gather(*(child.end() for child in children))
        assert asyncio.get_running_loop().time() - before < 2
        assert of_run(by.run) == []


def test_where_orphans_are_left_to_us_no_zombie_stays() -> None:
    assert in_a_process(LEFT_WITH_ORPHANS) == "0\n"


LEFT_WITH_ORPHANS = """
import ctypes
from test_processes import *

PR_SET_CHILD_SUBREAPER = 36

async def main():
    async with spawner() as by:
        child, said = await shell(by, SHAPES["after its wrapper died, in a session of its own"], STUBBORN)
        await said.line()
        await child.end(grace=0.05)
        print(len(own_children() - {str(by.guard.pid)}))

ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
asyncio.run(main())
"""


# The workbench is killed


def test_a_killed_workbench_leaves_nothing_behind() -> None:
    with workbench(*SHAPES.values()) as (process, started):
        process.kill()
        assert survivors(started) == []


def test_nor_does_one_whose_guard_was_killed_before() -> None:
    with workbench(*SHAPES.values(), kill_guard=True) as (process, started):
        process.kill()
        assert survivors(started) == []


def test_nor_one_that_was_seen_before_it_hid() -> None:
    with workbench(HIDDEN, look=True) as (process, started):
        process.kill()
        assert survivors(started, ["the hidden one"]) == []


def test_nor_where_the_client_gave_a_path_without_the_tools_of_the_guard() -> None:
    with workbench(SHAPES["daemonised"], path="/nonexistent") as (process, started):
        process.kill()
        assert survivors(started, ["the worker"]) == []


def survivors(started: list[Watched], names: Collection[str] = tuple(SHAPES)) -> list[str]:
    async def stay() -> list[str]:
        left = await asyncio.gather(*(process.leaves(within=5) for process in started))
        return [name for name, gone in zip([*names, "the guard"], left, strict=True) if not gone]

    return asyncio.run(stay())


@on_both_loops
async def test_a_workbench_in_a_workbench_is_ended_with_all_that_it_started() -> None:
    async with spawner() as by:
        said = Said()
        inner = json.dumps([False, list(SHAPES.values())])
        environment = {**ENV, "PYTHONPATH": os.pathsep.join(sys.path)}
        child = await by.spawn(
            sys.executable,
            ["-c", WORKBENCH, str(Path(__file__).parent), inner],
            env=environment,
            on_stdout=said,
        )
        *workers, its_guard = [Watched(pid) for pid in json.loads(await said.line())]
        await child.end(grace=0.05)
        assert of_run(by.run) == []
        assert all(await asyncio.gather(*(worker.leaves(within=5) for worker in workers)))
        assert await its_guard.leaves(within=5)


@on_both_loops
async def test_a_guard_that_dies_is_replaced_while_there_are_children() -> None:
    async with spawner() as by:
        await shell(by, "cat")
        await restarted(by.guard)
        assert by.guard.pid is not None


@on_both_loops
async def test_the_guard_leaves_with_the_workbench() -> None:
    async with spawner() as by:
        await shell(by, "cat")
        assert by.guard.pid is not None
        watched = Watched(by.guard.pid)
    assert watched.gone


SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"], ["mksh"]]


@pytest.mark.parametrize("posix", SHELLS, ids=" ".join)
def test_the_guard_is_understood_by(posix: list[str]) -> None:
    if not shutil.which(posix[0]):
        pytest.skip("not installed")
    with stubborn_session() as worker, watching_guard(posix) as tell:
        started = table.started(worker.pid)
        tell(f"+ 4194999 1\n+ {worker.pid} {started}\n+ 4194998 1\n- 4194999 1\n")
    assert worker.gone


def test_the_guard_ends_groups_where_it_cannot_read_the_table(tmp_path: Path) -> None:
    (tmp_path / "sleep").symlink_to(shutil.which("sleep") or "")
    with stubborn_session() as worker, watching_guard(["/bin/sh"], path=str(tmp_path)) as tell:
        tell(f"+ {worker.pid} 1\n+ 4194999 1\n")
    assert worker.gone


@pytest.mark.parametrize(
    "line", ["+ {pid} {wrong}", "+ {pid} {right}\n- {pid} {right}", "+ {pid} {right}\n."]
)
def test_the_guard_leaves_alone_who_is_not_of_the_run_any_more(line: str) -> None:
    with stubborn_session() as worker:
        right = table.started(worker.pid)
        with watching_guard(["/bin/sh"]) as tell:
            tell(line.format(pid=worker.pid, right=right, wrong=right - 1) + "\n")
        assert not worker.gone


@contextmanager
def stubborn_session() -> Iterator[Watched]:
    command = ["sh", "-c", STUBBORN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as worker:
        assert worker.stdout
        worker.stdout.readline()
        try:
            yield Watched(worker.pid)
        finally:
            worker.kill()


@contextmanager
def watching_guard(posix: list[str], path: str = ENV["PATH"]) -> Iterator[Callable[[str], int]]:
    """A guard with nothing around it. Left behind, its stdin has ended and it has done what it does then."""
    command = [*posix, str(Path(guard.__file__).with_name("guard.sh")), os.urandom(16).hex()]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PATH": path}
    ) as process:
        assert process.stdin
        yield process.stdin.write
        assert process.communicate(timeout=10)[1] == ""
        assert process.returncode == 0


# Only those who are meant


ROOT, TOKEN = 100, "a.1"

FAMILY = {
    "the first process": Process(ROOT, 7, 1, ROOT, TOKEN),
    "in the session, without its environment": Process(101, 8, 1, ROOT),
    "in a session of its own": Process(102, 8, 1, 102, TOKEN),
    "through a workbench inside": Process(103, 8, 1, 103, "a.1/b.7"),
    "of a workbench outside, too": Process(104, 8, 1, 104, "z.3/a.1"),
    "a child that hides": Process(105, 8, 102, 105),
    "and its child": Process(106, 8, 105, 106),
    "known from before": Process(107, 8, 1, 107),
}
STRANGERS = {
    "another spawn": Process(201, 8, 1, 201, "a.12"),
    "another run": Process(202, 8, 1, 202, "aa.1"),
    "the workbench outside": Process(203, 6, 1, 203, "z.3"),
    "the guard of a workbench inside": Process(204, 8, ROOT, 204, "guard"),
    "what that guard runs": Process(205, 8, 204, 204, "guard"),
    "has a number known from before": Process(108, 9, 1, 108),
    "the parent of the first process": Process(1, 1, 0, 1),
}
KNOWN = {FAMILY["known from before"], Process(108, 8, 1, 108)}


def test_a_tree_is_told_from_its_surroundings() -> None:
    table = [*STRANGERS.values(), *reversed(FAMILY.values())]
    assert set(members_of(table, TOKEN, ROOT, 7, KNOWN)) == set(FAMILY.values())


def test_a_session_stays_when_its_leader_has_gone() -> None:
    member = FAMILY["in the session, without its environment"]
    assert members_of([member], TOKEN, ROOT, 7) == [member]


def test_a_session_whose_number_was_reused_is_a_strangers() -> None:
    leader, member = Process(ROOT, 9, 1, ROOT), Process(101, 9, ROOT, ROOT)
    assert members_of([leader, member], TOKEN, ROOT, 7) == []
    assert members_of([leader, member], TOKEN, ROOT, 0) == []  # it was gone before we could look


@on_both_loops
async def test_a_stale_number_is_not_signalled() -> None:
    async with spawner() as by:
        script = "trap 'echo hit' TERM; trap 'echo meant' USR1; echo on; while :; do sleep 1000 & wait; done"
        child, said = await shell(by, script)
        assert await said.line() == "on"
        [(_, started)] = child.sessions
        for number, moment in ((signal.SIGTERM, started - 1), (signal.SIGUSR1, started)):
            table.send(Process(child.pid, moment, os.getpid(), child.pid), number)
        assert await said.line() == "meant"


def test_without_handles_for_processes_the_start_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError("not implemented")

    with stubborn_session() as worker:
        monkeypatch.setattr(os, "pidfd_open", refuse)
        started = table.started(worker.pid)
        table.send(Process(worker.pid, started - 1, 0, 0), signal.SIGKILL)
        assert not worker.gone
        table.send(meant := Process(worker.pid, started, 0, 0), signal.SIGKILL)
        asyncio.run(asyncio.wait_for(table.departure(meant), 5))
        assert worker.gone


@on_both_loops
async def test_without_handles_for_processes_children_end_as_well() -> None:
    def refuse(pid: int) -> int:
        raise OSError("not implemented")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pidfd_open", refuse)
        async with spawner() as by:
            child, said = await shell(by, SHAPES["after its wrapper died"], STUBBORN)
            await said.line()
            assert await child.exited == 3
            assert await child.end(grace=0.05) == []
            assert of_run(by.run) == []


@on_both_loops
async def test_without_a_process_table_the_group_is_ended() -> None:
    with stubborn_session() as worker:
        tree: trees.Tree = trees.GroupTree(worker.pid)
        await tree.terminate()
        assert await tree.left() == [worker.pid]
        await tree.kill()
        assert await worker.leaves(within=5)
        os.waitpid(worker.pid, os.WNOHANG)  # noqa: ASYNC222
        await tree.gone()
        assert await tree.left() == []


@on_both_loops
async def test_all_who_ask_in_one_moment_share_one_reading_of_the_table() -> None:
    census = Census()
    one, other = await asyncio.gather(census.fresh(), census.fresh())
    assert one is other
    assert await census.fresh() is not one


# Starting


@on_both_loops
async def test_arguments_reach_the_child_as_they_are() -> None:
    odd = ["; touch /tmp/never", "$(id)", "a\nb", "*", "", "'\"", "| cat", "-n", "ä\udcff"]
    async with spawner() as by:
        said = Said()
        await by.spawn(
            sys.executable, ["-c", "import sys; print(ascii(sys.argv[1:]))", *odd], env=ENV, on_stdout=said
        )
        assert await said.rest() == ascii(odd) + "\n"


@on_both_loops
async def test_a_child_gets_the_environment_it_was_given_and_the_marker() -> None:
    async with spawner() as by:
        said = Said()
        await by.spawn("env", [], env={**ENV, "A": "1", MARKER: "forged"}, on_stdout=said)
        assert set((await said.rest()).split()) == {f"PATH={ENV['PATH']}", "A=1", f"{MARKER}={by.run}.1"}


@on_both_loops
async def test_the_marker_of_a_workbench_outside_is_kept() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARKER, "outer.3")
        async with spawner() as by:
            _, said = await shell(by, f"echo ${MARKER}")
            assert await said.line() == f"outer.3/{by.run}.1"


@pytest.mark.parametrize(
    ("command", "cwd", "error", "message"),
    [
        ("no-such-server", None, CommandNotFound, "command 'no-such-server' not found (searched: {path})"),
        ("./no-such", "{tmp}", CommandNotFound, "command './no-such' not found (searched: {tmp}/no-such)"),
        ("./plain", "{tmp}", CommandNotRunnable, "command './plain' cannot be run: it is not executable"),
        ("{tmp}", None, CommandNotRunnable, "command '{tmp}' cannot be run: it is a directory"),
        ("./torn", "{tmp}", CommandNotRunnable, "the interpreter that its first line names is missing"),
        ("sh", "{tmp}/none", BadWorkingDirectory, "directory '{tmp}/none' cannot be used: no such directory"),
        ("sh", "{tmp}/plain", BadWorkingDirectory, "directory '{tmp}/plain' cannot be used: not a directory"),
        ("sh\0", None, CommandNotRunnable, "a NUL character"),
    ],
)
@on_both_loops
async def test_a_child_that_cannot_be_started_says_why(
    command: str, cwd: str | None, error: type[Exception], message: str, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("")
    (tmp_path / "torn").write_text("#!/no/such/interpreter\n")
    (tmp_path / "torn").chmod(0o755)
    place = str(tmp_path)
    async with spawner() as by:
        with pytest.raises(error) as raised:
            await by.spawn(
                command.format(tmp=place),
                [],
                env=ENV,
                cwd=cwd and cwd.format(tmp=place),
                on_stdout=Said(),
            )
    assert message.format(tmp=place, path=ENV["PATH"]) in str(raised.value)


@on_both_loops
async def test_a_command_is_looked_up_with_the_path_and_directory_of_the_child(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\npwd\n")
    tool.chmod(0o755)
    async with spawner() as by:
        for command, path in (("tool", str(tool.parent)), ("tool", "bin"), ("bin/tool", "")):
            said = Said()
            await by.spawn(command, [], env={"PATH": path}, cwd=str(tmp_path), on_stdout=said)
            assert await said.line() == str(tmp_path)


@pytest.mark.parametrize("loop_name", LOOPS)
def test_a_child_sees_no_descriptors_but_its_own_three(loop_name: str) -> None:
    with Path("/dev/null").open() as secret:
        said = in_a_process(SEALED, loop_name, pass_fds=[secret.fileno()])
    assert said.split() == ["0", "1", "2"]


SEALED = """
from test_processes import *

SHOW = '''
import os
for number in range(256):
    try:
        os.fstat(number)
    except OSError:
        continue
    print(number)
'''

async def main():
    async with spawner() as by:
        said = Said()
        await by.spawn(sys.executable, ["-c", SHOW], env=ENV, on_stdout=said)
        print(await said.rest())

with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
    runner.run(main())
"""


def test_children_have_the_limit_of_descriptors_that_we_had_before_we_raised_ours() -> None:
    assert in_a_process(LIMITED).split() == ["4096", "200", "200"]


LIMITED = """
from test_processes import *
from mcp_workbench.processes import raise_limit

async def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert hard == resource.RLIM_INFINITY or hard >= 4096
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    raise_limit()
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    async with spawner() as by:
        child, said = await shell(by, "read line; ulimit -Sn; sh -c 'ulimit -Sn'")
        child.stdin.write(b"\\n")
        print(await said.rest())

asyncio.run(main())
"""


def in_a_process(script: str, *args: str, pass_fds: Collection[int] = ()) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        cwd=Path(__file__).parent,
        pass_fds=pass_fds,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stderr == ""
    return done.stdout


# What they say


@on_both_loops
async def test_a_child_that_closes_its_stdin_and_lives_on_is_told_from_one_that_does_not() -> None:
    async with spawner() as by:
        deaf, said = await shell(by, "exec <&-; echo closed; exec sleep 1000")
        other, _ = await shell(by, "cat")
        assert await said.line() == "closed"
        await deaf.stdin_closed
        assert not deaf.exited.done()
        assert not other.stdin_closed.done()
        await other.end()
        assert other.stdin_closed.done()


@on_both_loops
async def test_a_flood_on_stderr_is_drained_and_its_end_kept() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with spawner() as by:
        script = "yes flood | head -c 100000002 >&2; echo end >&2; echo answer; cat"
        child, said = await shell(by, script)
        assert await said.line() == "answer"
        await child.end()
        assert child.stderr.total == 100_000_006
        assert child.stderr.last_at is not None
        *flood, end = child.stderr.text().splitlines()
        assert set(flood) == {"flood"}
        assert end == "end"
        assert 65_000 < len(child.stderr.text()) <= 65_536
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16_000


@on_both_loops
async def test_who_does_not_read_holds_the_child_up() -> None:
    async with spawner() as by:
        said: list[bytes] = []
        child = await by.spawn("cat", [], env=ENV, on_stdout=said.append)
        child.pause_reading()
        child.stdin.write(b"x" * 4_000_000)
        assert child.stdin.get_write_buffer_size() > 0
        child.resume_reading()
        child.stdin.write_eof()
        await child.pipes_ended
        assert sum(map(len, said)) == 4_000_000
        assert said[-1] == b""
        child.pause_reading()  # too late, and no harm


def test_the_line_whose_beginning_is_lost_is_not_shown() -> None:
    tail = Tail(16)
    tail.feed(b"a secret\nfirst\n", 1.0)
    assert tail.text() == "a secret\nfirst\n"
    tail.feed(b"10 %\r20 %\rdone", 2.0)
    assert tail.text() == "10 %\n20 %\ndone"
    assert (tail.total, tail.last_at) == (29, 2.0)
    tail.feed(b"x" * 100, 3.0)
    assert tail.text() == ""
