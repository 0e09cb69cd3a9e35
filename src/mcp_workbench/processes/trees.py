"""Everything that came from one spawn, to be asked and to be ended as a whole. Only `processes` comes here.

On Linux the process table tells who belongs, whatever it did to get away. Elsewhere the process group
(POSIX) or a job object (Windows) has to do.
"""

import asyncio
import os
import signal
import sys
from typing import Any, Final, Protocol

from .table import Census, Process, available, departure, members_of, reap, send, started

_CREATE_SUSPENDED: Final = 0x0000_0004
_CREATE_NO_WINDOW: Final = 0x0800_0000

DETACHED: Final[dict[str, Any]] = (
    # Suspended until it is in its job: whatever it starts is in it then, too.
    {"creationflags": _CREATE_SUSPENDED | _CREATE_NO_WINDOW}
    if sys.platform == "win32"
    else {"start_new_session": True}
)
"""How a process must be spawned to have a tree."""

_POLL: Final = 0.02


class Tree(Protocol):
    """All processes of one spawn."""

    started: int

    async def left(self) -> list[int]:
        """The ids of those that live, noted also for later: who is seen once stays known.

        Raises an `OSError` where that can't be seen. All else does what it can then.
        """

    def sessions(self) -> list[tuple[int, int]]:
        """The further sessions that were seen in it, each by the number and the start of its leader."""

    async def gone(self) -> None:
        """Wait until nothing is left."""

    async def terminate(self) -> None:
        """Ask all to end."""

    async def kill(self) -> None:
        """End all."""

    def release(self) -> None:
        """Let go of what the system keeps for the tree. Nothing can be asked after this."""


def tree_of(pid: int, exited: "asyncio.Future[int]", token: str, census: Census) -> Tree:
    """The tree of a process that was just spawned, in a session of its own where there are sessions.

    `exited` is done as soon as the process is reaped.
    """
    if sys.platform == "win32":
        from .windows_job import JobTree

        return JobTree(pid)
    if available():
        return ProcTree(pid, exited, token, census)
    return GroupTree(pid)


class ProcTree:
    """A tree by the process table."""

    def __init__(self, pid: int, exited: "asyncio.Future[int]", token: str, census: Census) -> None:
        self.started = started(pid)
        self._root = pid
        self._exited = exited
        self._token = token
        self._census = census
        self._known: set[Process] = set()

    async def left(self) -> list[int]:
        return [process.pid for process in await self._living()]

    def sessions(self) -> list[tuple[int, int]]:
        leaders = [process for process in self._known if process.pid == process.session != self._root]
        return [(leader.pid, leader.started) for leader in leaders]

    async def gone(self) -> None:
        while True:
            try:
                if not (living := await self._living()):
                    return
                for process in living:
                    await departure(process)
            except OSError:  # no free descriptor to look with; that may pass
                await asyncio.sleep(_POLL)

    async def terminate(self) -> None:
        # A stopped process hears what it is asked only when it goes on.
        await self._send(signal.SIGTERM, signal.SIGCONT)

    async def kill(self) -> None:
        await self._send(signal.SIGKILL)

    def release(self) -> None:
        for process in self._known:
            if process.pid != self._root:  # the loop's to reap
                reap(process)

    async def _send(self, *signals: int) -> None:
        try:
            for process in await self._living():
                send(process, *signals)
        except OSError:  # no free descriptor to look with
            self._send_to_group(*signals)

    def _send_to_group(self, *signals: int) -> None:
        """Unseen: only until the first process is reaped is the number of its group certain to be its own."""
        try:
            for number in signals if not self._exited.done() else ():
                os.killpg(self._root, number)
        except (ProcessLookupError, PermissionError):
            pass

    async def _living(self) -> list[Process]:
        table = await self._census.fresh()
        living = members_of(table, self._token, self._root, self.started, self._known)
        self._known.update(living)
        return living


class GroupTree:
    """A tree by the process group, where no table can be read. What changed its group is not found."""

    started = 0

    def __init__(self, pid: int) -> None:
        self._group = pid
        self._empty = False

    async def left(self) -> list[int]:
        return [self._group] if self._signal(0) else []

    def sessions(self) -> list[tuple[int, int]]:
        return []

    async def gone(self) -> None:
        while self._signal(0):  # noqa: ASYNC110 - nothing tells of the end of a group
            await asyncio.sleep(_POLL)

    async def terminate(self) -> None:
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def release(self) -> None:
        self._empty = True

    def _signal(self, number: int) -> bool:
        """Whether there was somebody to signal. Once a group was empty its number may become a stranger's."""
        if self._empty:
            return False
        try:
            os.killpg(self._group, number)
        except ProcessLookupError:
            self._empty = True
        except PermissionError:
            pass  # macOS says so of a group in which all have ended and are not reaped yet
        return not self._empty
