"""The guard: a tiny shell that outlives the workbench when this is killed, and ends what it leaves behind.

Only the `Spawner` talks to it. On Windows there is none, since the job objects die with their owner.

It carries no run's marker, not even that of a workbench outside of ours: that one, when it ends us, would
kill our guard with us, before this has seen to the processes that it alone was told of. Left alone it ends
what it knows, and itself, in bounded time. And what carries markers is found by the workbench outside as
well.
"""

import asyncio
import os
from typing import IO, Final

from ..events import log
from .starting import DEVNULL, exit_of, start
from .table import GUARD, MARKER

_SCRIPT: Final = os.path.join(os.path.dirname(__file__), "guard.sh")
_LIVES: Final = 5
_LEAVE: Final = 1.0


class Guard:
    """Is told of every live session, by its number and the start of its leader.

    It is started before the first child; if it dies, at once again, and told anew.
    """

    def __init__(self, run: str) -> None:
        self.pid: int | None = None
        self._run = run
        self._told: set[tuple[int, int]] = set()
        self._line: IO[bytes] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        self._needed = os.name == "posix"

    async def ready(self) -> None:
        """To be waited for before a child is started: there's none without a guard."""
        if self._needed and (self._keeper is None or self._keeper.done()):
            self._up.clear()
            self._keeper = asyncio.create_task(self._keep(), name="guard")
        if self._keeper:
            await self._up.wait()

    def watch(self, pid: int, started: int) -> None:
        if (pid, started) not in self._told:
            self._told.add((pid, started))
            self._tell(f"+ {pid} {started}")

    def forget(self, pid: int, started: int) -> None:
        self._told.discard((pid, started))
        self._tell(f"- {pid} {started}")

    async def dismiss(self) -> None:
        """No more children will come. It leaves at once, or sees to those that would not end."""
        self._needed = False
        if self._keeper:
            await self._up.wait()
            if not self._told:
                self._tell(".")
            line, self._line = self._line, None
            if line:
                line.close()
            await asyncio.wait({self._keeper}, timeout=_LEAVE)

    async def _keep(self) -> None:
        try:
            # What dies at once, or can't be started, is not started for ever, but with the next child.
            for _ in range(_LIVES):
                await self._live()
                if not self._needed:
                    return
            log.warning("the guard died %d times; children would outlive a killed workbench", _LIVES)
        except OSError as error:
            log.warning("no guard (%s): children would outlive a killed workbench", error)
        finally:
            self._up.set()

    async def _live(self) -> None:
        process = start(
            ["/bin/sh", _SCRIPT, self._run],
            # Its tools are where they always are, whatever short PATH the client gave us.
            {"PATH": os.pathsep.join(filter(None, (os.defpath, os.environ.get("PATH")))), MARKER: GUARD},
            "/",
            output=DEVNULL,
        )
        assert process.stdin
        os.set_blocking(process.stdin.fileno(), False)  # a guard that is stopped must not stop us
        self._line = process.stdin
        for pid, started in self._told:
            self._tell(f"+ {pid} {started}")
        self.pid = process.pid
        self._up.set()
        await exit_of(process)
        process.stdin.close()
        self.pid = self._line = None

    def _tell(self, line: str) -> None:
        """At once, not by way of the loop: we may be killed before it comes round."""
        if self._line:
            try:
                self._line.write(line.encode() + b"\n")
            except OSError:
                pass  # it died, and the next one will be told everything
