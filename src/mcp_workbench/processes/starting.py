"""Starting one process, and learning that it has exited. Only `children` and `guard` come here.

Not by the loop's own `subprocess_exec`. uvloop's forks, which takes three times as long while the loop
stands still; it leaves copies of the pipes open in the child, and these are sockets, which cannot be opened
as `/dev/stdout`. `Popen` does none of this, and all loops behave the same.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from .descriptors import give_limit_back, refuse_without_room
from .trees import DETACHED

PIPE: Final = subprocess.PIPE
DEVNULL: Final = subprocess.DEVNULL


def start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, *, output: int = PIPE
) -> "subprocess.Popen[bytes]":
    """Start it, with stdin a pipe and both outputs going to `output`."""
    if sys.platform == "win32":
        from asyncio.windows_utils import Popen  # its pipes can be waited for by the loop
    else:
        from subprocess import Popen
    refuse_without_room()
    process = Popen(argv, env=env, cwd=cwd, stdin=PIPE, stdout=output, stderr=output, bufsize=0, **DETACHED)
    give_limit_back(process.pid)
    return process


def discard(process: "subprocess.Popen[bytes]") -> None:
    """End one that was just started and can't be taken care of."""
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def exit_of(process: "subprocess.Popen[bytes]") -> "asyncio.Future[int]":
    """Done when the process itself has exited, whoever else holds its pipes. It is reaped then."""
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[int] = loop.create_future()
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        threading.Thread(target=_wait_in_thread, args=(process, loop, exited), daemon=True).start()
        return exited

    def collect() -> None:
        loop.remove_reader(handle)
        os.close(handle)
        _settle(exited, process.wait())

    loop.add_reader(handle, collect)
    return exited


def _wait_in_thread(
    process: "subprocess.Popen[bytes]", loop: asyncio.AbstractEventLoop, exited: "asyncio.Future[int]"
) -> None:
    returncode = process.wait()
    try:
        loop.call_soon_threadsafe(_settle, exited, returncode)
    except RuntimeError:
        pass  # the loop is closed: nobody waits any more


def _settle(exited: "asyncio.Future[int]", returncode: int) -> None:
    if not exited.done():
        exited.set_result(returncode)
