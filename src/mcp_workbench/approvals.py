"""What of the servers is approved, by `workbench.lock` beside the configuration.

The file is read anew when it has changed. It is written by `approve`, and at the first sight of a server with
`"pin": true`.
"""

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from .config import Server
from .errors import ConfigError, Problem
from .events import log
from .knowledge import NOTHING_SAID, Admitted
from .naming import Origin
from .offers import Offer
from .pins.canonical import definition_hash
from .pins.changes import Change, approved, refused_text, withheld_text
from .pins.entries import entry_hash
from .pins.judge import Judgement, entry_change, hashes, judged
from .pins.lock_file import Lock, read, written
from .raw_json import Payload

# Nobody holds the file for longer than a write takes.
_TURN_WITHIN: Final = 1.0
_BETWEEN_LOOKS: Final = 0.005


class Approvals:
    def __init__(self, place: str, *, begins: bool = False) -> None:
        """`begins`: a server that was never approved is, as it is when it is first seen."""
        self.place = place
        self._begins = begins
        self._lock: Lock | None = None
        self._version: tuple[int, ...] | None = None
        self._broken: ConfigError | None = None  # why the file cannot be understood as it is now
        self._read()

    @property
    def lock(self) -> Lock:
        """What is approved now.

        While the file cannot be understood, or is gone, it is what was approved before: never more.
        """
        try:
            self._read()
        except ConfigError as error:
            log.error("What was approved before holds, since the file cannot be read: %s", error)
        return self._lock or Lock()

    @property
    def version(self) -> object:
        """Equal to what it was before as long as the same is approved."""
        self.lock  # noqa: B018 - reads it, if it has changed
        return self._version

    def refusal(self, origin: Origin, server: Server) -> str:
        """Why a server must not be started; empty if it may."""
        lock = self.lock
        if self._is_first_seen(lock, origin):
            return ""
        change = entry_change(lock, origin, entry_hash(server))
        return withheld_text([change]) if change else ""

    def _is_first_seen(self, lock: Lock, origin: Origin) -> bool:
        """Whether this is approved as it is now, because it never was."""
        return self._begins and not lock.pins(origin)

    def admitted(
        self, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
    ) -> Admitted:
        """What was approved of a server."""
        lock = self.lock
        if self._is_first_seen(lock, origin):
            return Admitted(dict(tools), instructions)
        found = _judged(lock, origin, server, tools, instructions)
        left_out = withheld_text(found.changes)
        return Admitted(
            {name: tool for name, tool in tools.items() if name in found.tools},
            instructions if found.instructions else NOTHING_SAID,
            (left_out,) if left_out else (),
            {it.tool: refused_text(it) for it in found.changes if it.tool and it.withholds},
        )

    def pinned(self, origin: Origin) -> Collection[str]:
        """The hashes of its tools that were approved."""
        pins = self.lock.pins(origin)
        return {*pins.tools.values()} if pins else ()

    def first_seen(
        self, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
    ) -> None:
        """A server lists this: it is approved, if it never was, and that is how pinning begins."""
        if not self._is_first_seen(self.lock, origin):
            return
        with _turn(self.place):
            lock = self.lock
            if self._is_first_seen(lock, origin):  # still: another workbench may have seen it meanwhile
                try:
                    self._replace(lock, self.differing(lock, origin, server, tools, instructions))
                except ConfigError as error:
                    log.warning("%s is pinned for as long as this runs: %s", origin, error)

    def withheld(
        self, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
    ) -> list[Change]:
        """What is kept back of a server until it is approved."""
        lock = self.lock
        if self._is_first_seen(lock, origin):
            return []
        return [it for it in self.differing(lock, origin, server, tools, instructions) if it.withholds]

    @staticmethod
    def differing(
        lock: Lock, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
    ) -> tuple[Change, ...]:
        """All that differs from what a lock approves of a server."""
        return _judged(lock, origin, server, tools, instructions).changes

    def approve(self, changes: Iterable[Change]) -> None:
        """Take these over, and write the file. Raises ConfigError."""
        with _turn(self.place):
            self._read()
            self._replace(self._lock or Lock(), changes)

    def replace(self, lock: Lock, changes: Iterable[Change]) -> None:
        """Have this lock with these changes, and write the file. Raises ConfigError."""
        with _turn(self.place):
            self._read()
            self._replace(lock, changes)

    def _replace(self, lock: Lock, changes: Iterable[Change]) -> None:
        self._lock = approved(lock, changes)
        if self._broken:
            raise self._broken  # what somebody has to mend is not written over
        file = os.path.realpath(self.place)  # it may be a link, and stays one
        beside = f"{file}.{os.getpid()}"
        try:
            with open(beside, "wb") as opened:
                opened.write(written(self._lock))
            os.replace(beside, file)
        except OSError as error:
            with suppress(OSError):
                os.unlink(beside)
            raise ConfigError([Problem(self.place, f"cannot be written ({error.strerror})")]) from None
        self._version = _version_of(self.place)

    def _read(self) -> None:
        """Have what the file says, if it says something new. Raises ConfigError, once for each content."""
        version = _version_of(self.place)
        if version == self._version or version is None:
            return
        broken: ConfigError | None = None
        try:
            with open(self.place, "rb") as file:
                self._lock = read(file.read())
        except OSError as error:
            broken = ConfigError([Problem(self.place, f"cannot be read ({error.strerror})")])
        except ConfigError as error:
            broken = ConfigError(
                [
                    Problem(f"{self.place}: {it.place}" if it.place else self.place, it.message, it.hint)
                    for it in error.problems
                ]
            )
        # Last: searches ask in a thread of their own, and are to have the lock of this version.
        self._broken, self._version = broken, version
        if broken:
            raise broken


def _judged(
    lock: Lock, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
) -> Judgement:
    said = None if bytes(instructions) in (NOTHING_SAID, b'""') else definition_hash(bytes(instructions))
    return judged(lock, origin, entry_hash(server), hashes(tools.values()), said)


def _version_of(place: str) -> tuple[int, ...] | None:
    """What differs between one content of a file and the next; None where there is no file."""
    try:
        found = os.stat(place)
    except FileNotFoundError:
        return None
    except OSError as error:
        return (error.errno or 0,)
    return found.st_mtime_ns, found.st_size, found.st_ino


@contextmanager
def _turn(place: str) -> Iterator[None]:
    """No other workbench reads and writes the file meanwhile, on systems where that can be had."""
    try:
        import fcntl

        folder = os.open(os.path.dirname(os.path.realpath(place)), os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        until = time.monotonic() + _TURN_WITHIN
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    break
                time.sleep(_BETWEEN_LOOKS)
            except OSError:  # not on this file system
                break
        yield
    finally:
        os.close(folder)
