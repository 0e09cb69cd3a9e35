"""Which file a command is, and why there is none."""

import errno
import os
from collections.abc import Iterable, Mapping


class SpawnError(Exception):
    """A child that could not be started."""


class CommandNotFound(SpawnError):
    def __init__(self, command: str, searched: str) -> None:
        super().__init__(f"command '{command}' not found (searched: {searched})")


class CommandNotRunnable(SpawnError):
    def __init__(self, command: str, reason: str) -> None:
        super().__init__(f"command '{command}' cannot be run: {reason}")


class BadWorkingDirectory(SpawnError):
    def __init__(self, cwd: str, reason: str) -> None:
        super().__init__(f"working directory '{cwd}' cannot be used: {reason}")


def find(command: str, env: Mapping[str, str], cwd: str | None) -> str:
    """The file that the child's own PATH and working directory lead to. Raises a `SpawnError`."""
    home = os.path.abspath(cwd or ".")
    if not os.path.isdir(home):
        raise BadWorkingDirectory(home, "not a directory" if os.path.exists(home) else "no such directory")
    if os.path.basename(command) != command:  # with a place, or a "./"
        return _at(command, os.path.normpath(os.path.join(home, command)))
    searched = env.get("PATH", os.defpath)
    for place in searched.split(os.pathsep):
        if found := _runnable(os.path.join(home, place, command)):
            return found
    raise CommandNotFound(command, searched)


def _at(command: str, file: str) -> str:
    if found := _runnable(file):
        return found
    if not os.path.exists(file):
        raise CommandNotFound(command, file)
    raise CommandNotRunnable(command, "it is a directory" if os.path.isdir(file) else "it is not executable")


def _runnable(file: str) -> str | None:
    if os.name == "posix":  # shutil brings three compression libraries, half a megabyte
        return file if os.path.isfile(file) and os.access(file, os.X_OK) else None
    import shutil  # knows PATHEXT

    return shutil.which(file)


def refuse_nul(command: str, texts: Iterable[str]) -> None:
    """The system ends every text there."""
    if any("\0" in text for text in texts):
        raise CommandNotRunnable(command, "a NUL character in the command, its arguments or environment")


def not_started(command: str, error: OSError) -> SpawnError:
    if isinstance(error, FileNotFoundError):
        return CommandNotRunnable(command, "the interpreter that its first line names is missing")
    if error.errno == errno.EMFILE:
        return CommandNotRunnable(command, f"{error.strerror} in the workbench; raise its limit (ulimit -n)")
    return CommandNotRunnable(command, error.strerror or str(error))
