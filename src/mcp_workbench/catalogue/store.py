"""What the catalogue writes and reads, and how it stays small. In short transactions, since it is shared."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from ..offers import Offer
from .database import Database, checked
from .seen import Broken, Seen, Unusable

HashOf = Callable[[bytes], str]
Tools = dict[str, tuple[str, bytes]]  # hash and definition by name

# How often it is written that a server was seen which offers what it did before.
SECONDS_BETWEEN_SIGHTINGS: Final = 60
SECONDS_KEPT: Final = 180 * 24 * 3600
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_BYTES_OF_A_SERVER: Final = MOST_BYTES // 4

MOST_EARLIER: Final = 5  # of each tool
MOST_APPROVED: Final = 20_000
LARGEST_EARLIER: Final = 200_000
MOST_BYTES_OF_EARLIER: Final = 8 * 1024 * 1024  # of each server

_BYTES_OF_A_ROW: Final = 200  # what stands in it besides a definition, roughly

_read_names = msgspec.json.Decoder(tuple[str, ...]).decode


class _Known(msgspec.Struct, frozen=True):
    """What is in the file about one server; `names` has the order of its tools."""

    id: int
    names: tuple[str, ...]
    instructions: bytes
    revision: str
    first_seen: float
    last_seen: float
    tools: Tools

    def offers(self) -> tuple[Offer, ...]:
        if self.tools.keys() != set(self.names):
            raise Broken("its tools do not agree with their names")
        return tuple(Offer(name, self.tools[name][1]) for name in self.names)


class Store:
    """What servers were seen to offer, in one database. `hash_of` is only asked about what is new."""

    def __init__(self, path: str, hash_of: HashOf) -> None:
        self._db = Database(path)
        self._hash_of = hash_of

    def close(self) -> None:
        self._db.close()

    def names(self, keys: Collection[str]) -> dict[str, tuple[str, ...]]:
        known = {}
        with self._db.transaction():
            for key in keys:
                for (names,) in self._db.execute("SELECT names FROM server WHERE key = ?", (key,)):
                    known[key] = _read_names(checked(names, bytes))
        return known

    def seen(self, keys: Collection[str]) -> dict[str, Seen]:
        with self._db.transaction():
            known = {key: server for key in keys if (server := self._known(key))}
        return {
            key: Seen(
                server.offers(), server.instructions, server.revision, server.first_seen, server.last_seen
            )
            for key, server in known.items()
        }

    def earlier(self, hash_: str) -> bytes | None:
        with self._db.transaction():
            found = self._db.execute(
                "SELECT definition FROM tool WHERE hash = ?1"
                " UNION ALL SELECT definition FROM earlier WHERE hash = ?1"
                " UNION ALL SELECT text FROM approved WHERE hash = ?1 LIMIT 1",
                (hash_,),
            ).fetchone()
            return checked(found[0], bytes) if found else None

    def keep_approved(self, texts: Mapping[str, bytes]) -> None:
        with self._db.transaction("IMMEDIATE"):
            self._db.executemany(
                "INSERT OR IGNORE INTO approved (hash, text) VALUES (?, ?)",
                [(hash_, text) for hash_, text in texts.items() if len(text) <= LARGEST_EARLIER],
            )
            self._db.execute(
                "DELETE FROM approved WHERE id <= (SELECT max(id) FROM approved) - ?", (MOST_APPROVED,)
            )

    def record(
        self, key: str, tools: Collection[Offer], instructions: bytes, revision: str, at: float
    ) -> None:
        offers = {offer.name: offer for offer in tools}
        if sum(map(_size, offers.values())) + len(instructions) > MOST_BYTES_OF_A_SERVER:
            raise Unusable("a server offers more than it can hold")
        with self._db.transaction():
            known = self._known(key)
        if known and (known.offers(), known.instructions, known.revision) == (
            tuple(offers.values()),
            instructions,
            revision,
        ):
            if abs(at - known.last_seen) >= SECONDS_BETWEEN_SIGHTINGS:
                with self._db.transaction("IMMEDIATE"):
                    self._db.execute("UPDATE server SET last_seen = ? WHERE key = ?", (at, key))
                    self._forget(at)
            return
        # Before the transaction, which others wait for.
        before = known.tools if known else {}
        hashed = {
            name: (_hash_known(before, offer) or self._hash_of(offer.definition), offer.definition)
            for name, offer in offers.items()
        }
        with self._db.transaction("IMMEDIATE"):
            self._replace(key, hashed, instructions, revision, at)
            self._forget(at, besides=key)

    def _known(self, key: str) -> _Known | None:
        row = self._db.execute(
            "SELECT id, names, instructions, revision, first_seen, last_seen FROM server WHERE key = ?",
            (key,),
        ).fetchone()
        if row is None:
            return None
        id_, names, instructions, revision, first_seen, last_seen = checked(
            row, tuple[int, bytes, bytes, str, float, float]
        )
        rows = self._db.execute("SELECT name, hash, definition FROM tool WHERE server = ?", (id_,)).fetchall()
        tools = {
            name: (hash_, definition)
            for name, hash_, definition in checked(rows, list[tuple[str, str, bytes]])
        }
        return _Known(id_, _read_names(names), instructions, revision, first_seen, last_seen, tools)

    def _replace(self, key: str, tools: Tools, instructions: bytes, revision: str, at: float) -> None:
        known = self._known(key)  # which may be something else since it was last looked at
        self._db.execute(
            "INSERT INTO server (key, names, instructions, revision, first_seen, last_seen, size)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?5, 0) ON CONFLICT (key) DO UPDATE SET names = excluded.names,"
            " instructions = excluded.instructions, revision = excluded.revision,"
            " last_seen = excluded.last_seen",
            (key, msgspec.json.encode(tuple(tools)), instructions, revision, at),
        )
        server = known.id if known else self._db.number("SELECT last_insert_rowid()")
        before = known.tools if known else {}
        changed = {name: tool for name, tool in tools.items() if before.get(name) != tool}
        gone = before.keys() - tools.keys()
        outdated = {
            name: (hash_, definition)
            for name, (hash_, definition) in before.items()
            # A definition of the same hash says the same: with its members in another order, perhaps.
            if name in gone or (name in changed and changed[name][0] != hash_)
        }
        self._db.executemany(
            "DELETE FROM tool WHERE server = ? AND name = ?", [(server, name) for name in gone]
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO tool (server, name, hash, definition) VALUES (?, ?, ?, ?)",
            [(server, name, *tool) for name, tool in changed.items()],
        )
        if outdated:
            self._keep_earlier(server, outdated)
        taken = f"SELECT total(length(name) + length(definition) + {_BYTES_OF_A_ROW})"
        self._db.execute(
            f"UPDATE server SET size = {_BYTES_OF_A_ROW} + length(names) + length(instructions)"
            f" + ({taken} FROM tool WHERE server = ?1) + ({taken} FROM earlier WHERE server = ?1)"
            " WHERE id = ?1",
            (server,),
        )

    def _keep_earlier(self, server: int, outdated: Tools) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO earlier (server, name, hash, definition) VALUES (?, ?, ?, ?)",
            [
                (server, name, hash_, definition)
                for name, (hash_, definition) in outdated.items()
                if len(definition) <= LARGEST_EARLIER
            ],
        )
        self._db.execute(
            """DELETE FROM earlier WHERE id IN (SELECT id FROM (
                SELECT id, row_number() OVER (PARTITION BY name ORDER BY id DESC) AS nth,
                    sum(length(definition)) OVER (ORDER BY id DESC) AS bytes
                FROM earlier WHERE server = ?
            ) WHERE nth > ? OR bytes > ?)""",
            (server, MOST_EARLIER, MOST_BYTES_OF_EARLIER),
        )

    def _forget(self, at: float, besides: str = "") -> None:
        """Servers that were not seen for long go, then those seen longest ago, until the rest is small."""
        self._db.execute("DELETE FROM server WHERE last_seen < ?", (at - SECONDS_KEPT,))
        self._db.execute(
            """DELETE FROM server WHERE id IN (SELECT id FROM (
                SELECT id, key, sum(size) OVER (ORDER BY key = ? DESC, last_seen DESC, id DESC) AS bytes
                FROM server
            ) WHERE bytes > ? AND key != ?)""",
            (besides, MOST_BYTES, besides),
        )


def _hash_known(tools: Tools, offer: Offer) -> str | None:
    hash_, definition = tools.get(offer.name, (None, None))
    return hash_ if definition == offer.definition else None


def _size(offer: Offer) -> int:
    return len(offer.name) + len(offer.definition) + _BYTES_OF_A_ROW
