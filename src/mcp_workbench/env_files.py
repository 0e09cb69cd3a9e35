"""The text of env files. Threads read them: one may be a pipe that nobody writes to, or on a disk that hangs.

Only `transports` comes here, and only where a server has one.
"""

import asyncio
import threading
from typing import Final

LARGEST: Final = 1024 * 1024


class EnvFiles:
    def __init__(self) -> None:
        self._being_read: dict[str, asyncio.Future[str]] = {}

    async def read(self, path: str) -> str:
        """All of it. Raises an `OSError`, or a `ValueError` where it is no text or too large.

        Who asks for one that is being read shares that reading, also where everybody else has given up on it:
        of two readers of one pipe, one would be given what the other waits for.
        """
        if path not in self._being_read:
            reading = self._being_read[path] = asyncio.get_running_loop().create_future()
            reading.add_done_callback(lambda _: self._being_read.pop(path))
            # Nobody waits for the end of a daemon's thread, not even the interpreter.
            threading.Thread(target=_read_in_thread, args=(path, reading), daemon=True).start()
        return await asyncio.shield(self._being_read[path])


def _read_in_thread(path: str, reading: "asyncio.Future[str]") -> None:
    text, error = "", None
    try:
        text = _read(path)
    except Exception as failure:
        error = failure
    try:
        reading.get_loop().call_soon_threadsafe(_settle, reading, text, error)
    except RuntimeError:
        pass  # the loop is closed: nobody waits any more


def _read(path: str) -> str:
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST >> 20} MiB")
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def _settle(reading: "asyncio.Future[str]", text: str, error: Exception | None) -> None:
    if error:
        reading.set_exception(error)
        reading.exception()  # there may be nobody left to take it
    else:
        reading.set_result(text)
