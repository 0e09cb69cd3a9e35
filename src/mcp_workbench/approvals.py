"""What of the servers is approved, by `workbench.lock` beside the configuration.

The file is read anew when it has changed. It is written by `approve`, and at the first sight of a server with
`"pin": true`.
"""

import os
from collections.abc import Iterable, Mapping

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


class Approvals:
    def __init__(self, place: str, *, begins: bool = False) -> None:
        """`begins`: a server that was never approved is, as it is when it is first seen."""
        self.place = place
        self._begins = begins
        self._lock: Lock | None = None
        self._version: tuple[int, ...] | None = None
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
        if self._begins and not lock.pins(origin):
            return ""
        change = entry_change(lock, origin, entry_hash(server))
        return withheld_text([change]) if change else ""

    def admitted(
        self, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
    ) -> Admitted:
        """What was approved of a server."""
        lock = self.lock
        if self._begins and not lock.pins(origin):
            return Admitted(dict(tools), instructions)
        found = _judged(lock, origin, server, tools, instructions)
        left_out = withheld_text(found.changes)
        return Admitted(
            {name: tool for name, tool in tools.items() if name in found.tools},
            instructions if found.instructions else NOTHING_SAID,
            (left_out,) if left_out else (),
            {it.tool: refused_text(it) for it in found.changes if it.tool and it.withholds},
        )

    def first_seen(
        self, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
    ) -> None:
        """A server lists this: it is approved, if it never was, and that is how pinning begins."""
        if self._begins and not self.lock.pins(origin):
            try:
                self.approve(self.differing(self.lock, origin, server, tools, instructions))
            except ConfigError as error:
                log.warning("%s is not pinned: %s", origin, error)

    @staticmethod
    def differing(
        lock: Lock, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
    ) -> tuple[Change, ...]:
        """All that differs from what a lock approves of a server."""
        return _judged(lock, origin, server, tools, instructions).changes

    def approve(self, changes: Iterable[Change]) -> None:
        """Take these over, and write the file. Raises ConfigError."""
        self._read()
        self.replace(self._lock or Lock(), changes)

    def replace(self, lock: Lock, changes: Iterable[Change]) -> None:
        """Have this lock with these changes, and write the file. Raises ConfigError."""
        self._lock = approved(lock, changes)
        beside = f"{self.place}.{os.getpid()}"
        try:
            with open(beside, "wb") as file:
                file.write(written(self._lock))
            os.replace(beside, self.place)
        except OSError as error:
            raise ConfigError([Problem(self.place, f"cannot be written ({error.strerror})")]) from None
        self._version = _version_of(self.place)

    def _read(self) -> None:
        version = _version_of(self.place)
        if version == self._version or version is None:
            return
        try:
            with open(self.place, "rb") as file:
                self._lock = read(file.read())
        except OSError as error:
            raise ConfigError([Problem(self.place, f"cannot be read ({error.strerror})")]) from None
        except ConfigError as error:
            raise ConfigError(
                [Problem(f"{self.place}: {it.place}", it.message, it.hint) for it in error.problems]
            ) from None
        finally:
            # Last: searches ask in a thread of their own, and are to have the lock of this version.
            self._version = version


def _judged(
    lock: Lock, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
) -> Judgement:
    said = None if bytes(instructions) in (NOTHING_SAID, b'""') else definition_hash(bytes(instructions))
    return judged(lock, origin, entry_hash(server), hashes(tools.values()), said)


def _version_of(place: str) -> tuple[int, ...] | None:
    """What differs between one content of a file and the next; None where there is no file."""
    try:
        found = os.stat(place)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
