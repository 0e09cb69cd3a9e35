"""What all commands share: the configuration that they read, and how they print."""

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from . import chains, config
from .catalogue import Catalogue, default_place
from .config import Config
from .errors import ConfigError, Problem
from .knowledge import Knowledge
from .pins import FILE_NAME
from .pins.canonical import definition_hash

if TYPE_CHECKING:
    from .approvals import Approvals

# os.path instead of pathlib, here and wherever a session comes by: pathlib is half a megabyte.

DONE: Final = 0
FAILED: Final = 1  # what was asked for was not possible, or showed something
NOT_PRINTED: Final = 1
WRONG: Final = 2  # the configuration, or how the command was used
INTERRUPTED: Final = 130

_DEFAULT_FILE: Final = "workbench-config.json"


def open_standard_streams() -> None:
    """What the shell has closed (`2>&-`) leads nowhere: else the next file that is opened takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as we live
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not every encoding has every character
            stream.reconfigure(errors="backslashreplace")


def read(file: str | None, toolboxes: Sequence[str] = ()) -> tuple[str, Config]:
    """The place of the configuration and what it says; these toolboxes are among its own."""
    place = file or os.environ.get("WORKBENCH_CONFIG") or _DEFAULT_FILE
    try:
        with open(place, "rb") as opened:
            data = opened.read()
            mode = os.fstat(opened.fileno()).st_mode
    except OSError as error:
        problem = Problem(
            place,
            f"cannot be read ({error.strerror})",
            "create it, or name another with --config FILE or WORKBENCH_CONFIG",
        )
        raise ConfigError([problem]) from None
    warnings = config.warnings_of_mode(mode, place)
    lock = place_of_lock(place)
    if os.path.exists(lock):  # who can change it can approve
        warnings += config.warnings_of_mode(os.stat(lock).st_mode, lock)
    configuration = config.parse(data, warnings)
    if problems := config.unknown_toolboxes(configuration, toolboxes):
        raise ConfigError(problems, configuration.warnings)
    return os.path.abspath(place), configuration


def chain(place: str) -> str:
    """The workbenches that lead here, this one last; there's no serving where it is among them before."""
    known = os.stat(place)
    try:
        return chains.extended(os.environ.get(chains.VARIABLE, ""), f"{known.st_dev:x}-{known.st_ino:x}")
    except chains.Ring as ring:
        raise ConfigError([Problem(place, str(ring))]) from None


def place_of_catalogue(file: str | None) -> str:
    return file or default_place(os.environ, sys.platform)


def catalogue(file: str | None) -> Catalogue:
    """Where it is remembered what servers offered."""
    return Catalogue.open(place_of_catalogue(file), definition_hash)


def place_of_lock(place: str) -> str:
    """Where `workbench.lock` is, or would be, beside the configuration."""
    return os.path.join(os.path.dirname(place), FILE_NAME)


def approvals(configuration: Config, place: str) -> "Approvals | None":
    """What is approved of the servers of the configuration at `place`; None where nothing is pinned."""
    lock = place_of_lock(place)
    if not configuration.pin and not os.path.lexists(lock):
        return None
    from .approvals import Approvals  # a session without a lock needs none of it

    return Approvals(lock, begins=configuration.pin)


def knowledge(configuration: Config, place: str, file: str | None) -> Knowledge:
    """What is known, and may be used, of the servers of the configuration at `place`.

    `file` is the catalogue.
    """
    return Knowledge(configuration, catalogue(file), approvals(configuration, place))


def say(text: str) -> int:
    """Print to stdout, with nothing in it that acts on a terminal; the exit code."""
    from .printable import printable

    try:
        print(printable(text), flush=True)
    except OSError:  # whoever was reading has read enough (`| head`), or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the exit
        return NOT_PRINTED
    return DONE


def report(problems: Sequence[Problem], warnings: Sequence[Problem], *, serving: bool = False) -> None:
    """Print to stderr what is wrong with the configuration; while `serving`, without waiting for a reader."""
    if problems or warnings:
        from .printable import printable
        from .stderr import stderr

        say = stderr.say if serving else _say_on_stderr
        for problem in problems:
            say(printable(f"error: {problem}"))
        for warning in warnings:
            say(printable(f"warning: {warning}"))


def _say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr)
