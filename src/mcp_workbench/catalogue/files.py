"""Where the catalogue's file is, whether it may be used, and how a broken one is put aside.

All that touches the file other than SQLite itself.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from .seen import Unusable

IN_MEMORY: Final = ":memory:"
MOST_BROKEN: Final = 3
_COMPANIONS: Final = ("-wal", "-shm", "-journal")  # SQLite keeps these beside its file


class File(NamedTuple):
    """One file, wherever it is moved to; another may stand in its place one day."""

    path: str
    device: int
    inode: int

    def is_in_its_place(self) -> bool:
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (self.device, self.inode)


def default_place(environment: Mapping[str, str], platform: str) -> str:
    """The file in the user's cache directory; in memory where there is none. `platform` as `sys.platform`."""
    if platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return rf"{local}\mcp-workbench\catalogue.sqlite3" if local else IN_MEMORY
    home = environment.get("HOME", "")
    caches = environment.get("XDG_CACHE_HOME", "")
    # A relative path would be another one for each directory that a client starts us in.
    if platform == "darwin" or not caches.startswith("/"):
        if not home.startswith("/"):
            return IN_MEMORY
        caches = f"{home}/Library/Caches" if platform == "darwin" else f"{home}/.cache"
    return f"{caches}/mcp-workbench/catalogue.sqlite3"


def made_ready(place: str) -> File:
    """The file at `place`, which is made, empty, if it is not there. Raises Unusable if it may not be used.

    Nobody else can read or write it then.
    """
    try:
        if os.path.islink(place):
            _check_owner(place, os.lstat(place))
        path = os.path.realpath(place)
        directory = os.path.dirname(path)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        _check_directory(directory)
        try:
            # O_EXCL: to open and close a file that SQLite has open in this process would release its locks.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        _check_file(path)
        for companion in _companions(path):
            if os.path.lexists(companion):
                _check_file(companion)
        found = os.lstat(path)
        return File(path, found.st_dev, found.st_ino)
    except OSError as error:
        raise Unusable(error.strerror or str(error)) from None
    except ValueError as error:  # no path at all: it has a NUL in it, say
        raise Unusable(str(error)) from None


def put_aside(file: File) -> str | None:
    """Move a broken file, and what SQLite kept beside it, out of the way; its new path.

    None if it is out of the way already. Of the files that were put aside before, a few are kept. Raises
    OSError.
    """
    if not file.is_in_its_place():
        return None
    aside = min((f"{file.path}.broken-{n}" for n in range(1, MOST_BROKEN + 1)), key=_age)
    # Before the file itself: once that is gone, another workbench may begin anew.
    for suffix, companion in zip(_COMPANIONS, _companions(file.path), strict=True):
        try:
            os.replace(companion, aside + suffix)
        except FileNotFoundError:
            pass
    os.replace(file.path, aside)
    return aside


def _age(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _companions(path: str) -> Iterator[str]:
    return (path + suffix for suffix in _COMPANIONS)


def _check_directory(directory: str) -> None:
    mode = os.stat(directory).st_mode
    if os.name == "posix" and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise Unusable("every user of this machine can change its directory")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise Unusable("its directory cannot be written to")


def _check_file(path: str) -> None:
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        raise Unusable(f"{path} is not a file")
    _check_owner(path, found)
    if os.name == "posix" and found.st_mode & 0o077:
        os.chmod(path, 0o600)
    if not os.access(path, os.R_OK | os.W_OK):
        raise Unusable(f"{path} cannot be written to")


def _check_owner(path: str, found: os.stat_result) -> None:
    if os.name == "posix" and found.st_uid != os.geteuid():
        raise Unusable(f"{path} belongs to another user")
