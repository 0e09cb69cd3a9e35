"""Tools and queries as vectors: near is alike. By the meanings of words, and by those of sentences. Pure."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from itertools import islice
from typing import Final, Protocol

from ..naming import Origin
from ..offers import Offer
from .definitions import Said
from .table import Table
from .vectors import Columns, Vector, between, from_components, vector
from .words import COMMON, words

# What is read of a description here: the rest goes into details, which make all tools alike.
_LONGEST_DESCRIPTION: Final = 600
_LONGEST_SENTENCE: Final = 400
_MOST_WORDS: Final = 100


class Space:
    """The places of documents by number; who has None has no direction."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._places: dict[int, Vector | None] = {}
        self._columns: Columns | None = None
        self._order: list[int] = []

    def add(self, number: int, place: Vector | None) -> None:
        self._places[number] = place
        self._columns = None

    def remove(self, number: int) -> None:
        if self._places.pop(number, None):
            self._columns = None

    def cosines(self, query: Vector | None) -> Mapping[int, float]:
        """How near each document is."""
        if query is None:
            return {}
        if self._columns is None:
            placed = {number: place for number, place in self._places.items() if place}
            self._order = list(placed)
            self._columns = Columns(list(placed.values()), self._size)
        return dict(zip(self._order, self._columns.cosines(query), strict=True))


class WordMeanings:
    """Places texts by the mean of what their words mean."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.space = Space(table.size)

    def add(self, number: int, origin: Origin, tool: Offer, said: Said) -> None:
        # Each by its direction: a long description does not drown the name.
        texts = (tool.name, said.description[:_LONGEST_DESCRIPTION], origin.server)
        self.space.add(number, between(filter(any, map(self._meaning, texts))))

    def place(self, text: str) -> Vector | None:
        return vector(self._meaning(text))

    def _meaning(self, text: str) -> Sequence[int]:
        telling = [word for word in words(text) if word not in COMMON]
        return self._table.meaning(telling[:_MOST_WORDS])


class Embedder(Protocol):
    """What places whole sentences: `semantic.MiniLM`, say."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> Sequence[Vector | None]: ...


class SentenceMeanings:
    """Places texts by an embedder. That is slow: what it said of a tool is kept, by the hash of its text."""

    def __init__(self, embedder: Embedder, cache: MutableMapping[str, bytes]) -> None:
        self._embedder = embedder
        self._cache = cache
        self._unlearnt: dict[int, str] = {}
        self.space = Space(embedder.size)

    @property
    def complete(self) -> bool:
        """Whether every tool has its place."""
        return not self._unlearnt

    def add(self, number: int, origin: Origin, tool: Offer, said: Said) -> None:
        text = _sentence(origin, tool, said)
        if (components := self._cache.get(self._key(text))) is None:
            self._unlearnt[number] = text
        else:
            self.space.add(number, from_components(components))

    def remove(self, number: int) -> None:
        self._unlearnt.pop(number, None)
        self.space.remove(number)

    def unlearnt(self, most: int) -> list[str]:
        return list(islice(self._unlearnt.values(), most))

    def learn(self, texts: Sequence[str], places: Iterable[Vector | None]) -> None:
        known = dict(zip(texts, places, strict=True))
        for text, place in known.items():
            if place:
                self._cache[self._key(text)] = place.components
        for number, text in [*self._unlearnt.items()]:
            if text in known:
                self.space.add(number, known[text])
                del self._unlearnt[number]

    def places(self, queries: Sequence[str]) -> Mapping[str, Vector | None]:
        return dict(zip(queries, self._embedder.embed(queries), strict=True))

    def _key(self, text: str) -> str:
        import hashlib  # only where there is an embedder

        return hashlib.sha256(f"{self._embedder.name}\n{text}".encode("utf-8", "replace")).hexdigest()


def _sentence(origin: Origin, tool: Offer, said: Said) -> str:
    """What an embedder reads of a tool."""
    names = " ".join(words(f"{origin.server} {tool.name}"))
    parameters = ", ".join(" ".join(words(name)) for name in said.parameters.split())
    return f"{names}: {said.description[:_LONGEST_SENTENCE]} {parameters}"
