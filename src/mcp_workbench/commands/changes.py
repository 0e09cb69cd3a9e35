"""What differs from `workbench.lock`, for those who look at it and those who approve it."""

from argparse import Namespace
from collections.abc import Collection, Iterable, Sequence
from typing import Self

from .. import console
from ..approvals import Approvals
from ..config import Config
from ..errors import Findings
from ..knowledge import NOTHING_SAID, Knowledge
from ..naming import Origin, nearest
from ..pins.canonical import definition_hash
from ..pins.changes import Change
from ..pins.differences import differences
from ..pins.entries import entry_hash, entry_identity
from ..pins.judge import entry_change, gone
from .seeing import Sight, see


class Changes:
    """All changes, and the servers that were seen or could not be."""

    def __init__(
        self,
        approvals: Approvals,
        known: Knowledge,
        changes: Sequence[Change],
        sights: Sequence[Sight],
        current: dict[str, bytes],
    ) -> None:
        self.approvals = approvals
        self.changes = changes
        self.seen = [sight for sight in sights if not sight.failure]
        self.unreachable = [sight for sight in sights if sight.failure]
        self._known = known
        self._current = current  # what is there now, by its hash

    @classmethod
    def found(cls, asked: Namespace, names: Sequence[str] = ()) -> Self:
        """What has changed of all servers, or of what is named.

        A server whose entry was not approved is not started: its entry comes first, its tools another time.
        """
        place, configuration = console.read(asked.config, asked.toolboxes)
        servers = configuration.servers()
        approvals = Approvals(console.place_of_lock(place))
        lock = approvals.lock
        _refuse_unknown(names, {*servers, *lock.origins()})
        entries = {
            origin: entry_change(lock, origin, entry_hash(server)) for origin, server in servers.items()
        }
        started = [origin for origin, it in entries.items() if it is None and is_named(origin, names)]
        known = Knowledge(configuration, console.catalogue(asked.catalogue))
        sights = see(place, configuration, known, started)
        changes: list[Change] = [*gone(lock, servers.keys() | configuration.disabled)]
        reached = {sight.origin: sight for sight in sights if not sight.failure}
        for origin, change in entries.items():
            if sight := reached.get(origin):
                changes += approvals.differing(lock, origin, servers[origin], sight.tools, sight.instructions)
            elif change:
                changes.append(change)
        return cls(approvals, known, changes, sights, by_hash(configuration, reached.values()))

    def approve(self, changes: Iterable[Change]) -> None:
        """Take these over, and remember what they say."""
        self.approvals.approve(changes)
        self._known.keep_approved(
            {it.after: self._current[it.after] for it in changes if it.after in self._current}
        )

    def told(self, changes: Iterable[Change]) -> str:
        """Changes as a person reads them."""
        return differences(changes, self._current, self._known.earlier)

    def explains(self, name: str) -> bool:
        """Whether nothing has changed under a name because its server could not be reached."""
        unreachable = any(is_named(sight.origin, [name]) for sight in self.unreachable)
        return unreachable and not any(is_named(change.origin, [name]) for change in self.changes)


def by_hash(configuration: Config, seen: Iterable[Sight]) -> dict[str, bytes]:
    """All that may be approved: entries, definitions and instructions."""
    found = {entry_hash(server): entry_identity(server) for server in configuration.servers().values()}
    for sight in seen:
        found |= {definition_hash(tool.definition): tool.definition for tool in sight.tools.values()}
        if sight.instructions != NOTHING_SAID:
            said = bytes(sight.instructions)
            found[definition_hash(said)] = said
    return found


def is_named(origin: Origin, names: Sequence[str]) -> bool:
    """Whether one of the names is that of a server, its toolbox or one of its tools, or there are none."""
    server = origin.path
    return not names or any(
        name in (origin.toolbox, server) or name.startswith(f"{server}/") for name in names
    )


def _refuse_unknown(names: Iterable[str], origins: Collection[Origin]) -> None:
    """Nothing is started for a name that leads nowhere. Raises ConfigError."""
    findings = Findings()
    for name in names:
        if not any(is_named(origin, [name]) for origin in origins):
            known = [it.path if "/" in name else it.toolbox for it in origins]
            near = nearest(name, known)
            findings.problem(
                name, "there is no such toolbox or server", f"did you mean '{near}'?" if near else ""
            )
    if findings.problems:
        findings.give_up()
