"""Ranking by words: BM25 over fields of different weight, kept up to date tool by tool. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

# How soon more of the same word stops to count, and how much a long field is held against its words.
_SATURATION: Final = 2.0
_LENGTH: Final = 0.5


class Field(msgspec.Struct, frozen=True):
    """One part of what is searched. `usual` is the number of words that it mostly has.

    A constant and not the mean of what is indexed: so one server's tools never change another's.
    """

    weight: float
    usual: float


class Ranking:
    """Documents by number, each given as the words of its fields."""

    def __init__(self) -> None:
        self._impacts: defaultdict[str, dict[int, float]] = defaultdict(dict)
        self._words: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._words)

    def add(self, number: int, fields: Iterable[tuple[Field, Sequence[str]]]) -> None:
        found: defaultdict[str, float] = defaultdict(float)
        for field, words in fields:
            share = field.weight / (1 - _LENGTH + _LENGTH * len(words) / field.usual)
            for word in words:
                found[word] += share
        for word, frequency in found.items():
            self._impacts[word][number] = frequency / (_SATURATION + frequency)
        self._words[number] = tuple(found)

    def remove(self, number: int) -> None:
        for word in self._words.pop(number):
            having = self._impacts[word]
            del having[number]
            if not having:
                del self._impacts[word]

    def scores(self, words: Iterable[str]) -> Mapping[int, float]:
        """How well each document matches; those that have none of the words are missing."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in dict.fromkeys(words):
            having = self._impacts.get(word)
            if having:
                rarity = self._rarity(len(having))
                for number, impact in having.items():
                    scores[number] += rarity * impact
        return scores

    def _rarity(self, having: int) -> float:
        return math.log(1 + (len(self._words) - having + 0.5) / (having + 0.5))
