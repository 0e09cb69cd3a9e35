"""What is known of the configured servers, and which of their tools may be used.

The catalogue remembers what they offered, in this run and earlier ones. What of it is shown, filters of the
configuration decide, and approvals where there is a `workbench.lock`.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Final, Protocol

import msgspec

from .catalogue import Catalogue, Seen
from .config import Config, Server
from .naming import Origin
from .offers import Offer
from .pins.canonical import definition_hash
from .pins.entries import catalogue_key
from .raw_json import Payload

NOTHING_SAID: Final = b"null"
_WRITTEN_WITHIN: Final = 1.0


class Admitted(msgspec.Struct, frozen=True):
    """What of a server may be shown and called, and what is to be said of the rest."""

    tools: dict[str, Offer]
    instructions: Payload = NOTHING_SAID
    left_out: tuple[str, ...] = ()
    withheld: dict[str, str] = {}  # why, by the names of tools that are kept back until they are approved


class Approving(Protocol):
    """Who decides what of a server's tools may be used, of those that its filters let pass."""

    @property
    def version(self) -> object:
        """Equal to what it was before as long as the same is approved."""

    def refusal(self, origin: Origin, server: Server) -> str:
        """Why it must not be started; empty if it may."""

    def admitted(
        self, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
    ) -> Admitted: ...

    def pinned(self, origin: Origin) -> Collection[str]:
        """The hashes of its tools that were approved."""

    def first_seen(
        self, origin: Origin, server: Server, tools: Mapping[str, Offer], instructions: Payload
    ) -> None:
        """It lists this, maybe for the first time."""


class Knowledge:
    def __init__(self, config: Config, catalogue: Catalogue, approvals: Approving | None = None) -> None:
        """`approvals`: only what they approve may be used."""
        self.approvals = approvals
        self._servers = config.servers()
        self._keys = {
            origin: catalogue_key(origin.toolbox, server) for origin, server in self._servers.items()
        }
        self._catalogue = catalogue
        self._learnt: dict[Origin, Seen] = {}  # in this run
        self._writer: _Writer | None = None

    @property
    def tool_counts(self) -> dict[str, int]:
        """How many tools each toolbox shows of which all servers were seen before this run."""
        counts: dict[str, int] = {}
        for origin, count in self._counts_before.items():
            counts[origin.toolbox] = counts.get(origin.toolbox, 0) + count
        unseen = {toolbox for toolbox, _ in self._servers.keys() - self._counts_before.keys()}
        return {toolbox: count for toolbox, count in counts.items() if toolbox not in unseen}

    @property
    def known_tools(self) -> int:
        """How many tools are shown of those servers that were seen before this run."""
        return sum(self._counts_before.values())

    @cached_property
    def _counts_before(self) -> dict[Origin, int]:
        if self.approvals:  # which go by whole definitions
            return {origin: len(it.tools) for origin, it in self.remembered(self._servers).items()}
        names = self._catalogue.names(self._keys.values())
        return {
            origin: sum(map(server.admits, names[key]))
            for origin, server in self._servers.items()
            if (key := self._keys[origin]) in names
        }

    def remembered(self, origins: Iterable[Origin]) -> dict[Origin, Admitted]:
        """What may be used of servers that were seen, now or in an earlier run. It waits for the disk."""
        asked = list(origins)
        earlier = [origin for origin in asked if origin not in self._learnt]
        seen = self._catalogue.seen([self._keys[origin] for origin in earlier]) if earlier else {}
        found = {origin: seen[key] for origin in earlier if (key := self._keys[origin]) in seen}
        known = {**self._learnt, **found}
        return {
            origin: self.admitted(
                origin, {tool.name: tool for tool in known[origin].tools}, known[origin].instructions
            )
            for origin in asked
            if origin in known
        }

    def earlier(self, hash_: str) -> bytes | None:
        """What has this hash: a definition that a server gave once, or what else was approved."""
        return self._catalogue.earlier(hash_)

    def keep_approved(self, texts: Mapping[str, bytes]) -> None:
        """Remember what a person has approved, by its hash, to show later what has changed of it."""
        self._catalogue.keep_approved(texts)

    def learn(self, origin: Origin, tools: Mapping[str, Offer], instructions: Payload, revision: str) -> None:
        """Remember what a server has just listed. It is written behind this: nobody waits for the disk."""
        import time

        now = time.time()
        seen = self._learnt[origin] = Seen(tuple(tools.values()), bytes(instructions), revision, now, now)
        if self.approvals:
            self.approvals.first_seen(origin, self._servers[origin], self._shown(origin, tools), instructions)
        if not self._writer:
            self._writer = _Writer(self._catalogue)
        pinned = self.approvals.pinned(origin) if self.approvals else ()
        self._writer.write(self._keys[origin], seen, pinned)

    def close(self, within: float = _WRITTEN_WITHIN) -> None:
        """Have what was learnt written, if that does not take long."""
        if self._writer:
            self._writer.finish(within)

    def is_kept(self) -> bool:
        """Whether what was learnt is written, for the next run to know. It waits for the disk."""
        learnt = {self._keys[origin]: seen for origin, seen in self._learnt.items()}
        written = self._catalogue.names(learnt)
        return self._catalogue.is_kept and all(
            written.get(key) == tuple(tool.name for tool in seen.tools) for key, seen in learnt.items()
        )

    @property
    def approved(self) -> object:
        """Equal to what it was before as long as the same may be used of what was remembered."""
        return self.approvals.version if self.approvals else None

    def refusal(self, origin: Origin) -> str:
        """Why a server must not be started; empty if it may."""
        return self.approvals.refusal(origin, self._servers[origin]) if self.approvals else ""

    def admitted(self, origin: Origin, tools: Mapping[str, Offer], instructions: Payload) -> Admitted:
        """What may be used of what a server lists: what its filters let pass, and was approved."""
        shown = self._shown(origin, tools)
        if self.approvals:
            return self.approvals.admitted(origin, self._servers[origin], shown, instructions)
        return Admitted(shown, instructions)

    def _shown(self, origin: Origin, tools: Mapping[str, Offer]) -> dict[str, Offer]:
        server = self._servers[origin]
        return {name: tool for name, tool in tools.items() if server.admits(name)}


class _Writer:
    """Writes to the catalogue in a thread of its own: the disk, or another workbench, may be slow."""

    def __init__(self, catalogue: Catalogue) -> None:
        from queue import SimpleQueue
        from threading import Thread

        self._catalogue = catalogue
        self._tasks: SimpleQueue[tuple[str, Seen, Collection[str]] | None] = SimpleQueue()
        # A daemon: a file that others have locked must not hold up the end.
        self._thread: Thread = Thread(target=self._work, daemon=True, name="catalogue")
        self._thread.start()

    def write(self, key: str, seen: Seen, pinned: Collection[str]) -> None:
        """Tools of these hashes are kept, whatever else is said of them later: to show what has changed."""
        self._tasks.put((key, seen, pinned))

    def finish(self, within: float) -> None:
        self._tasks.put(None)
        self._thread.join(within)

    def _work(self) -> None:
        while task := self._tasks.get():
            key, seen, pinned = task
            self._catalogue.record(key, seen.tools, seen.instructions, seen.revision, seen.last_seen)
            if pinned:
                texts = {definition_hash(tool.definition): tool.definition for tool in seen.tools}
                self._catalogue.keep_approved({hash_: texts[hash_] for hash_ in texts if hash_ in pinned})
