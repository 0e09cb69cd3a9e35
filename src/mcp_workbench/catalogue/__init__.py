"""The catalogue: what servers were seen to offer, kept between runs in a file that several workbenches share.

It knows no event loop: its calls wait for the disk, in any thread, one at a time. It is never a reason not to
start, nor not to go on. A broken file is put aside, and another is begun; where none can be used, what is
seen is kept in memory; what cannot be written is dropped. Each is said once in the log.
"""

import _thread  # threading takes its time to load, and the first answer waits for this
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from ..offers import Offer
from .files import IN_MEMORY, File, default_place, made_ready, put_aside
from .seen import Broken, Seen, Unusable

if TYPE_CHECKING:
    from .store import HashOf, Store

__all__ = ["IN_MEMORY", "Catalogue", "Seen", "default_place"]

T = TypeVar("T")


class Catalogue:
    """What is known of servers, by keys that the caller gives them.

    A key is the hash, say, of all that decides what a server is. Keys and revisions can be any text that can
    be encoded.
    """

    def __init__(self, place: str, hash_of: "HashOf") -> None:
        """See `open`, which is how to get one."""
        self.place = place
        self._hash_of = hash_of
        self._store: Store | None = None  # None: nothing is known, and nothing kept
        self._file: File | None = None  # None: in memory
        self._uses_file = place != IN_MEMORY
        self._has_put_aside = False
        self._told: set[str] = set()
        self._lock = _thread.allocate_lock()

    @classmethod
    def open(cls, place: str, hash_of: "HashOf") -> "Catalogue":
        """The catalogue in the file `place`, or in memory if that is `IN_MEMORY` or cannot be used.

        It waits 2 s at most for others to let go of the file. `hash_of` gives the name of a definition under
        which `earlier` finds it; it is only asked about those that are new.
        """
        catalogue = cls(place, hash_of)
        catalogue._begin()
        return catalogue

    @property
    def is_kept(self) -> bool:
        """Whether another run can read what is written; in memory it is only known here."""
        return self._file is not None

    def names(self, keys: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The names of the tools of those servers that are known, in the servers' order."""
        return self._attempt(lambda store: store.names(keys), {})

    def seen(self, keys: Collection[str]) -> dict[str, Seen]:
        """All that is known of those servers that are known."""
        return self._attempt(lambda store: store.seen(keys), {})

    def record(
        self, key: str, tools: Collection[Offer], instructions: bytes, revision: str, at: float
    ) -> None:
        """A server was seen at that time to offer this, and nothing else.

        It replaces what was known, all at once. Where nothing is new, next to nothing is written. It may
        wait 5 s for others that write.
        """

        def write(store: "Store") -> None:
            store.record(key, tools, instructions, revision, at)

        with self._lock:
            if self._file and not self._file.is_in_its_place():
                # Somebody has removed it, or another workbench put it aside: nobody would read what we write.
                self._begin()
        self._attempt(write, None)

    def earlier(self, hash_: str) -> bytes | None:
        """What has this hash: a definition, of now or of some time ago, or what else was approved."""
        return self._attempt(lambda store: store.earlier(hash_), None)

    def keep_approved(self, texts: Mapping[str, bytes]) -> None:
        """Keep what was approved, by its hash, for `earlier`: also where no server has listed it."""
        self._attempt(lambda store: store.keep_approved(texts), None)

    def close(self) -> None:
        """Nothing is known any more, and nothing kept; whoever still asks or tells is not told so."""
        with self._lock:
            self._leave()

    def _attempt(self, action: Callable[["Store"], T], otherwise: T) -> T:
        with self._lock:
            while self._store:
                try:
                    return action(self._store)
                except Unusable as why:
                    self._tell(f"could not be read or written: {why}")
                    return otherwise
                except Broken as why:
                    self._recover(why)
        return otherwise

    def _recover(self, why: Broken) -> None:
        broken = self._file
        self._leave()
        if broken:
            self._put_aside(broken, why)
            self._begin()
        else:
            self._tell(f"is not kept any more: {why}")

    def _begin(self) -> None:
        """Use the file, or memory where it cannot be used."""
        self._leave()
        try:
            from .store import Store
        except ImportError as why:  # some builds of Python lack SQLite
            self._tell(f"is not kept: {why}")
            return
        while self._uses_file:
            try:
                file = made_ready(self.place)
                try:
                    self._store = Store(file.path, self._hash_of)
                except Broken as why:
                    self._put_aside(file, why)
                else:
                    self._file = file
                    return
            except Unusable as why:
                self._tell(f"cannot be used, so it is kept in memory: {why}")
                break
        self._store = Store(IN_MEMORY, self._hash_of)

    def _put_aside(self, broken: File, why: Broken) -> None:
        """Once in a run: a file that breaks again and again has a reason that we cannot mend."""
        if self._has_put_aside:
            self._uses_file = False
            self._tell(f"is broken again, so it is kept in memory: {why}")
            return
        self._has_put_aside = True
        try:
            aside = put_aside(broken)
        except OSError as error:
            self._uses_file = False
            self._tell(
                f"is broken ({why}) and cannot be put aside, so it is kept in memory: {error.strerror}"
            )
        else:
            if aside:
                self._tell(f"was broken ({why}); it is {aside} now, and another was begun")

    def _leave(self) -> None:
        store, self._store, self._file = self._store, None, None
        if store:
            try:
                store.close()
            except (Broken, Unusable):
                pass  # what was written is in the file, or beside it

    def _tell(self, what: str) -> None:
        if what not in self._told:
            from ..events import log, log_to_stderr  # not loaded yet when the first client is answered

            self._told.add(what)
            if not log.hasHandlers():
                log_to_stderr()
            log.warning("The catalogue %s %s", self.place, what)
