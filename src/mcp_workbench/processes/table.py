"""What /proc tells: who is there, who belongs to a spawn; and signals that reach only those who are meant.

Linux only, for `trees`. A process is never known by its number alone, since numbers are reused: it
is the number together with the moment of its start.
"""

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

MARKER: Final = "MCP_WORKBENCH_SPAWN"
"""In the environment of every child and all that descends from it: `<run>.<n>`, after `<outer run>.<n>/`."""

GUARD: Final = "guard"
"""What a guard carries instead. A workbench outside leaves it to its work: it ends by itself."""

_PREFIX: Final = f"{MARKER}=".encode()
# Gone, or another user's. Nothing else: without a free descriptor, say, everything would look gone.
_UNREADABLE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)
_READ_SIZE: Final = 1 << 16
_POLL: Final = 0.02


class Process(NamedTuple):
    """One line of the process table."""

    pid: int
    started: int
    parent: int
    session: int
    marker: str = ""


class _Status(NamedTuple):
    dead: bool
    parent: int
    session: int
    started: int


def available() -> bool:
    return os.path.exists("/proc/self/stat")


def members_of(
    table: Iterable[Process], token: str, root: int, root_started: int, known: Iterable[Process] = ()
) -> list[Process]:
    """Those in `table` that belong to the spawn `token`, whose first process was `root`.

    They are in its session, carry its marker, were known before, or descend from such a one. A session
    keeps its number only while it has members: where another process has the number of `root` by now, the
    session of that number is a stranger's.
    """
    candidates = {process.pid: process for process in table if process.marker != GUARD}
    leader = candidates.get(root)
    session = root if leader is None or leader.started == root_started else None
    remembered = {(process.pid, process.started) for process in known}
    children = defaultdict(list)
    for process in candidates.values():
        children[process.parent].append(process)
    pending = [
        process
        for process in candidates.values()
        if process.session == session
        or token in process.marker.split("/")
        or (process.pid, process.started) in remembered
    ]
    found: dict[int, Process] = {}
    while pending:
        process = pending.pop()
        if process.pid not in found:
            found[process.pid] = process
            pending += children[process.pid]
    return list(found.values())


class Census:
    """The table, read once for all who ask in the same moment: a hundred closings cost a few readings."""

    def __init__(self) -> None:
        self._next: asyncio.Future[list[Process]] | None = None

    async def fresh(self) -> list[Process]:
        """The table as it was after this call."""
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            loop.call_soon(self._take, self._next)
        return await asyncio.shield(self._next)

    def _take(self, asked: asyncio.Future[list[Process]]) -> None:
        self._next = None
        try:
            asked.set_result(list(read_table()))
        except OSError as error:
            asked.set_exception(error)


def read_table() -> Iterator[Process]:
    """Every living process that is no older than we are, without ourselves.

    Nothing older can have come from us. Leaving it out spares reading the environment of most of the machine,
    and keeps our ancestors out of reach.
    """
    own = os.getpid()
    own_start = started(own)
    for name in os.listdir("/proc"):
        if name.isdigit() and (pid := int(name)) != own:
            status = _status(pid)
            if status and not status.dead and status.started >= own_start:
                yield Process(pid, status.started, status.parent, status.session, _marker(pid))


def started(pid: int) -> int:
    """When the process started, in ticks since boot; 0 if it is gone."""
    status = _status(pid)
    return status.started if status else 0


def send(process: Process, *signals: int) -> None:
    """Signal this process, and no other that may have got its number.

    Raises an `OSError` where that can't be looked up.
    """
    handle = _hold(process)
    try:
        for number in signals if lives(process) else ():
            if handle is None:
                os.kill(process.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        pass  # gone by now, or changed to another user
    finally:
        if handle is not None:
            os.close(handle)


async def departure(process: Process) -> None:
    """Wait until the process is gone."""
    if (handle := _hold(process)) is not None:
        try:
            await _readable(handle)
        finally:
            os.close(handle)
    while lives(process):  # noqa: ASYNC110 - only where the kernel gives no handle
        await asyncio.sleep(_POLL)


def reap(process: Process) -> None:
    """Collect a dead orphan that was left to us, as it is where we are the first process of a container."""
    try:
        status = _status(process.pid)
    except OSError:
        return  # no free descriptor to look with
    if status and status.dead and status.started == process.started and status.parent == os.getpid():
        os.waitpid(process.pid, os.WNOHANG)


def lives(process: Process) -> bool:
    status = _status(process.pid)
    return status is not None and not status.dead and status.started == process.started


def _hold(process: Process) -> int | None:
    """A descriptor that can only mean this process; None if it is gone or no such thing can be had."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    try:
        if lives(process):
            return handle
    except OSError:
        pass  # this was the last free descriptor
    os.close(handle)
    return None


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, ready.cancel)
    try:
        await asyncio.wait({ready})
    finally:
        loop.remove_reader(descriptor)


def _status(pid: int) -> _Status | None:
    try:
        text = _read(f"/proc/{pid}/stat")
    except _UNREADABLE:
        return None
    # The second field is the name in brackets, which itself may hold brackets and spaces.
    state, parent, _, session, *more = text[text.rindex(b")") + 2 :].split()
    # Where only the main thread has ended the state is a zombie's as well, but threads are left.
    dead = state in (b"Z", b"X") and int(more[13]) <= 1
    return _Status(dead, int(parent), int(session), int(more[15]))


def _marker(pid: int) -> str:
    try:
        environ = _read(f"/proc/{pid}/environ")
    except _UNREADABLE:
        return ""
    at = environ.find(_PREFIX)
    if at < 0:
        return ""
    return environ[at + len(_PREFIX) :].partition(b"\0")[0].decode(errors="replace")


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        text = part = os.read(descriptor, _READ_SIZE)
        while len(part) == _READ_SIZE:
            part = os.read(descriptor, _READ_SIZE)
            text += part
        return text
    finally:
        os.close(descriptor)
