"""The files in which results are kept: in a folder of their own, for nobody else, for as long as we run."""

import os
import sys
from collections.abc import Mapping
from typing import Final

from ..errors import NotFound

MOST_BYTES: Final = 64 * 1024 * 1024  # the runtime directory is often in memory
MOST_RESULTS: Final = 200

_PREFIX: Final = "mcp-workbench-results-"
_LOCK: Final = "lock"


def runtime_folder(environment: Mapping[str, str]) -> str:
    """Where files belong that nobody needs once we are gone."""
    for variable in ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP"):
        folder = environment.get(variable, "")
        if os.path.isabs(folder) and os.path.isdir(folder):
            return folder
    return "C:\\Windows\\Temp" if os.name == "nt" else "/tmp"


class KeptResults:
    """Results by their handles, in a new folder within `parent`, made when the first is kept.

    The oldest are dropped for new ones. A handle is only ever looked up, never made a path of.
    """

    def __init__(self, parent: str, most_bytes: int = MOST_BYTES, most_results: int = MOST_RESULTS) -> None:
        self._parent = parent
        self._most_bytes = most_bytes
        self._most_results = most_results
        self._folder = ""
        self._lock = -1
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    def keep(self, data: bytes) -> str:
        """Keep a text; its handle. Raises OSError where that is not possible."""
        if len(data) > self._most_bytes:
            raise OSError(f"a result of {len(data)} bytes is more than is kept")
        if not self._folder:
            _remove_orphans(self._parent)
            self._folder, self._lock = _new_folder(self._parent)
        while self._sizes and (
            len(self._sizes) >= self._most_results or self._bytes + len(data) > self._most_bytes
        ):
            self._drop(next(iter(self._sizes)))
        handle = os.urandom(16).hex()
        path = os.path.join(self._folder, handle)
        try:
            _write(path, data)
        except OSError:
            _remove(path)
            raise
        self._sizes[handle] = len(data)
        self._bytes += len(data)
        return handle

    def __contains__(self, handle: str) -> bool:
        return handle in self._sizes

    def path(self, handle: str) -> str:
        """The file of a result; raises NotFound for what is no handle, or no longer."""
        if handle not in self._sizes:
            raise NotFound(f"Result '{handle[:80]}' not found: it is not kept any more, or never was")
        return os.path.join(self._folder, handle)

    def read(self, handle: str) -> bytes:
        path = self.path(handle)
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            raise NotFound(f"Result '{handle}' cannot be read any more: {error.strerror}") from None

    def _drop(self, handle: str) -> None:
        self._bytes -= self._sizes.pop(handle)
        _remove(os.path.join(self._folder, handle))

    def close(self) -> None:
        """Remove all that is kept."""
        self._sizes.clear()
        self._bytes = 0
        if self._folder:
            _remove_folder(self._folder)
            self._folder = ""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _write(path: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _remove_folder(folder: str) -> None:
    try:
        for name in os.listdir(folder):
            _remove(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:
        pass


if sys.platform == "win32":

    def _new_folder(parent: str) -> tuple[str, int]:
        folder = os.path.join(parent, _PREFIX + os.urandom(8).hex())
        os.mkdir(folder)
        return folder, -1

    def _remove_orphans(parent: str) -> None:
        """Nothing: what a workbench left behind that was killed cannot be told from what others use."""

else:

    def _new_folder(parent: str) -> tuple[str, int]:
        """A folder that is ours, and the lock that says so for as long as we live."""
        import fcntl

        mark = os.urandom(8).hex()
        # Under its own name only with the lock: no one else may take it for left behind.
        unfinished, folder = (os.path.join(parent, prefix + mark) for prefix in (f".{_PREFIX}", _PREFIX))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.mkdir(unfinished, 0o700)
        try:
            lock = os.open(os.path.join(unfinished, _LOCK), flags, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(unfinished, folder)
        except OSError:
            _remove_folder(unfinished)
            raise
        return folder, lock

    def _remove_orphans(parent: str) -> None:
        """Remove the folders of workbenches that were killed: their locks are free."""
        import fcntl

        try:
            found = [entry for entry in os.scandir(parent) if entry.name.startswith(_PREFIX)]
        except OSError:
            return
        for entry in found:
            try:
                if not entry.is_dir(follow_symlinks=False) or entry.stat().st_uid != os.getuid():
                    continue
                lock = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_folder(entry.path)
            except OSError:
                pass  # its workbench lives
            finally:
                os.close(lock)
