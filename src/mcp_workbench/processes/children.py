"""One child: its pipes, its exit, its end; and the spawner of all of them."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from subprocess import Popen
from typing import Final

from ..events import log
from .commands import find, not_started, refuse_nul
from .guard import Guard
from .starting import discard, exit_of, start
from .table import MARKER, Census
from .trees import Tree, tree_of

KEPT_STDERR: Final = 64 * 1024
GRACE: Final = 2.0
"""Seconds that a tree has to leave after its stdin is closed, and once more after SIGTERM."""

_FIRST_LOOK: Final = 0.1
_RAREST_LOOK: Final = 60.0
_KILL_ROUNDS: Final = 10
_KILL_PAUSE: Final = 0.2
_LAST_WORDS: Final = 0.1


class Tail:
    """The end of a stream, however much there was of it."""

    def __init__(self, size: int = KEPT_STDERR) -> None:
        self.total = 0
        self.last_at: float | None = None
        self._size = size
        self._kept = bytearray()

    def feed(self, data: bytes, now: float) -> None:
        self.total += len(data)
        self.last_at = now
        self._kept += data[-self._size :]
        del self._kept[: -self._size]

    def text(self) -> str:
        """What is kept, without the line whose beginning is lost: half a secret would pass every masking."""
        kept = bytes(self._kept)
        if self.total > len(kept):
            kept = kept.replace(b"\r", b"\n").partition(b"\n")[2]
        return kept.decode(errors="replace")


class Child:
    """One spawned process, its pipes, and the tree that grew from it.

    `exited` is done when the spawned process itself has exited, even if something that it started holds the
    pipes; `stdin_closed` when it takes nothing more, be it by our doing; `pipes_ended` when stdout and stderr
    have nothing more to say.
    """

    def __init__(
        self,
        pid: int,
        exited: "asyncio.Future[int]",
        pipes: "_Pipes",
        tree: Tree,
        on_ended: Callable[["Child"], None],
    ) -> None:
        self.pid = pid
        self.stdin = pipes.stdin
        self.stderr = pipes.tail
        self.exited = exited
        self.stdin_closed = pipes.stdin_closed
        self.pipes_ended = pipes.ended
        self.failed_to_end = False
        self._pipes = pipes
        self._tree = tree
        self._on_ended = on_ended
        self._ending: asyncio.Task[list[int]] | None = None

    def __repr__(self) -> str:
        state = "running" if self.returncode is None else f"exited {self.returncode}"
        return f"<Child {self.pid} {state}{', ending' if self.is_ending else ''}>"

    @property
    def is_ending(self) -> bool:
        return self._ending is not None

    @property
    def returncode(self) -> int | None:
        """Minus the number of the signal, if it was one."""
        return self.exited.result() if self.exited.done() else None

    @property
    def sessions(self) -> list[tuple[int, int]]:
        """Its session and those that were seen in its tree, each by the number and start of its leader."""
        return [(self.pid, self._tree.started), *self._tree.sessions()]

    async def look(self) -> None:
        """See who belongs to its tree. Who is seen stays known."""
        await self._tree.left()

    def pause_reading(self) -> None:
        """Take nothing more from stdout for now; the child will block when the pipe is full."""
        if not self._pipes.stdout.is_closing():
            self._pipes.stdout.pause_reading()

    def resume_reading(self) -> None:
        if not self._pipes.stdout.is_closing():
            self._pipes.stdout.resume_reading()

    async def end(self, grace: float = GRACE) -> list[int]:
        """Close stdin, ask, insist: returns when nothing of the tree is left.

        Any number of callers share one ending, which goes on if they are cancelled. The answer names the
        processes that did not go even so, within `2 * grace + 2` seconds: another user's, or stuck in the
        kernel. Raises an `OSError` where it could not be seen whether all are gone; who asks again, or the
        `Spawner` after a while, has it tried again.
        """
        return await asyncio.shield(self.begin_end(grace))

    def begin_end(self, grace: float = GRACE) -> "asyncio.Task[list[int]]":
        """`end()`, without waiting for it."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(grace), name=f"end {self.pid}")
        return self._ending

    async def _end(self, grace: float) -> list[int]:
        try:
            await self._look_before_the_end()
            self.stdin.close()
            left = [] if await self._made_to_leave(grace) else await self._tree.left()
            await asyncio.wait({self.pipes_ended}, timeout=_LAST_WORDS)
        except BaseException:
            self._ending = None
            self.failed_to_end = True
            raise
        finally:
            self._pipes.close()
        if left:
            log.warning("process %d: %s did not end even when killed", self.pid, left)
        self._tree.release()
        self._on_ended(self)
        return left

    async def _look_before_the_end(self) -> None:
        """Who clears its environment and loses its parent from now on is known already.

        Where there is no free descriptor to look with, we give up those that we hold of the child.
        """
        for give_up in (self.stdin.close, self._pipes.close):
            try:
                await self.look()
            except OSError:
                give_up()
            else:
                return

    async def _made_to_leave(self, grace: float) -> bool:
        if await self._gone_within(grace):
            return True
        await self._tree.terminate()
        if await self._gone_within(grace):
            return True
        for _ in range(_KILL_ROUNDS):  # anew each time, for what was forked in between
            await self._tree.kill()
            if await self._gone_within(_KILL_PAUSE):
                return True
        return False

    async def _gone_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait({self.exited})
                await self._tree.gone()
        except TimeoutError:
            return False
        return True


class _Pipes:
    """Our ends of a child's three pipes."""

    def __init__(self, on_stdout: Callable[[bytes], None]) -> None:
        self.tail = Tail()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stdin_closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_stdout = on_stdout
        self._reading = 2

    async def connect(self, process: "Popen[bytes]") -> None:
        loop = asyncio.get_running_loop()
        self.stdin, _ = await loop.connect_write_pipe(lambda: _Writer(self._stdin_ended), process.stdin)
        self.stdout, _ = await loop.connect_read_pipe(
            lambda: _Reader(self._on_stdout, self._stdout_ended), process.stdout
        )
        self._stderr, _ = await loop.connect_read_pipe(
            lambda: _Reader(lambda data: self.tail.feed(data, loop.time()), self._one_ended), process.stderr
        )

    def close(self) -> None:
        if self.stdin.get_write_buffer_size():  # what nobody took would hold the pipe open
            self.stdin.abort()
        self.stdout.close()
        self._stderr.close()

    def _stdin_ended(self) -> None:
        if not self.stdin_closed.done():
            self.stdin_closed.set_result(None)

    def _stdout_ended(self) -> None:
        self._on_stdout(b"")
        self._one_ended()

    def _one_ended(self) -> None:
        self._reading -= 1
        if not self._reading and not self.ended.done():
            self.ended.set_result(None)


class _Writer(asyncio.BaseProtocol):
    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


class _Reader(asyncio.Protocol):
    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_end()


class Spawner:
    """All children of one workbench, and the guard that ends them should the workbench be killed."""

    def __init__(self) -> None:
        self.run = os.urandom(16).hex()
        self.children: set[Child] = set()
        self.guard = Guard(self.run)
        self._starting: set[asyncio.Task[Child]] = set()
        self._outer = os.environ.get(MARKER)
        self._count = 0
        self._census = Census()
        self._lookout: asyncio.Task[None] | None = None

    async def spawn(
        self,
        command: str,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        on_stdout: Callable[[bytes], None],
    ) -> Child:
        """Start a child with exactly this environment, and our marker. Never through a shell.

        `on_stdout` gets what the child writes, as it comes, then `b""` when there will be no more. It may be
        called before this returns. Raises a `SpawnError`.
        """
        refuse_nul(command, [command, *args, *env, *env.values(), cwd or ""])
        argv = [find(command, env, cwd), *args]
        starting = asyncio.create_task(self._start(argv, env, cwd, on_stdout), name=f"spawn {command}")
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_end_unowned)
            raise
        except OSError as error:
            raise not_started(command, error) from error

    async def close(self) -> None:
        """End all children that are left, also those being started. The guard sees to what fails here."""
        if self._lookout:
            self._lookout.cancel()
        if self._starting:
            await asyncio.wait(self._starting)
        await asyncio.gather(*(child.end() for child in self.children), return_exceptions=True)
        await self.guard.dismiss()

    async def _start(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, on_stdout: Callable[[bytes], None]
    ) -> Child:
        await self.guard.ready()
        self._count += 1
        token = f"{self.run}.{self._count}"
        marker = f"{self._outer}/{token}" if self._outer else token
        process = start(argv, {**env, MARKER: marker}, cwd)
        exited = exit_of(process)
        try:
            tree = tree_of(process.pid, exited, token, self._census)
        except OSError:
            discard(process)
            await exited
            raise
        self.guard.watch(process.pid, tree.started)  # before anything else can happen
        pipes = _Pipes(on_stdout)
        await pipes.connect(process)
        child = Child(process.pid, exited, pipes, tree, self._ended)
        self.children.add(child)
        if self._lookout:
            self._lookout.cancel()
        self._lookout = asyncio.create_task(self._look_out(), name="lookout")
        return child

    async def _look_out(self) -> None:
        """Look soon after a start, then ever more rarely; and try again to end who could not be ended."""
        pause = _FIRST_LOOK
        while self.children:
            await asyncio.sleep(pause)
            for child in self.children:
                if child.failed_to_end and not child.is_ending:
                    child.begin_end(grace=0).add_done_callback(_take_note)
            try:
                await self.look()
            except OSError as error:  # no free descriptor, say: the next look may see more
                log.warning("the process table cannot be read: %s", error)
            pause = min(2 * pause, _RAREST_LOOK)

    async def look(self) -> None:
        """See who has come since. One that cleared its environment, has a session of its own and then loses
        its parent is known to be ours only where it was seen before.
        """
        await asyncio.gather(*(child.look() for child in self.children))
        for child in self.children:
            for session in child.sessions:
                self.guard.watch(*session)

    def _ended(self, child: Child) -> None:
        self.children.discard(child)
        for session in child.sessions:
            self.guard.forget(*session)


def _take_note(ending: "asyncio.Task[list[int]]") -> None:
    """Its failure was told when it failed first."""
    if not ending.cancelled():
        ending.exception()


def _end_unowned(starting: "asyncio.Task[Child]") -> None:
    """Whoever asked for the child was cancelled. Nobody spoke to it yet, so it needs no time to leave."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().begin_end(grace=0)
