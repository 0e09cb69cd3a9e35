"""Labelled queries, and how well a ranking answers them."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

RESAMPLES = 5_000

Ranker = Callable[[str, int], Sequence[str]]
"""From a query to the ids of at most so many tools, best first."""

Outcome = Mapping[str, Sequence[float]]
"""For each set, what each of its queries scored."""


@dataclass(frozen=True)
class Query:
    set: str
    text: str
    relevant: frozenset[str]


@dataclass(frozen=True)
class Data:
    tools: Sequence[Mapping[str, Any]]
    queries: Sequence[Query]


def load(folder: Path) -> Data:
    return Data(
        rows(folder / "tools.jsonl"),
        [
            Query(row["set"], row["query"], frozenset(row["relevant"]))
            for row in rows(folder / "queries.jsonl")
        ],
    )


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


@dataclass(frozen=True)
class Judged:
    hit1: Outcome
    hit3: Outcome
    hit5: Outcome
    reciprocal_rank: Outcome


def judged(rank: Ranker, queries: Sequence[Query]) -> Judged:
    found: dict[str, list[int]] = {}
    for query in queries:
        place = next(
            (place for place, tool in enumerate(rank(query.text, 50), 1) if tool in query.relevant), 0
        )
        found.setdefault(query.set, []).append(place)
    hit1, hit3, hit5 = (
        {name: [float(0 < place <= most) for place in places] for name, places in found.items()}
        for most in (1, 3, 5)
    )
    ranks = {name: [1 / place if place else 0.0 for place in places] for name, places in found.items()}
    return Judged(hit1, hit3, hit5, ranks)


def overall(outcome: Outcome) -> float:
    """The mean of the sets, whatever their sizes."""
    return mean(mean(scores) for scores in outcome.values())


@dataclass(frozen=True)
class Difference:
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def difference(before: Outcome, after: Outcome) -> Difference:
    """After less before, with a 95 % interval: a paired bootstrap within each set."""
    chance = random.Random(1)
    gains = [[new - old for old, new in zip(before[name], after[name], strict=True)] for name in before]
    drawn = sorted(
        mean(mean(chance.choices(of_set, k=len(of_set))) for of_set in gains) for _ in range(RESAMPLES)
    )
    edge = RESAMPLES // 40
    return Difference(overall(after) - overall(before), drawn[edge], drawn[-edge - 1])


def halves(outcome: Outcome) -> tuple[float, float]:
    """The same for a random half of the queries of each set, and for the other."""
    chance = random.Random(7)
    first: dict[str, list[float]] = {}
    second: dict[str, list[float]] = {}
    for name, scores in outcome.items():
        places = list(range(len(scores)))
        chance.shuffle(places)
        middle = len(places) // 2
        first[name] = [scores[at] for at in places[:middle]]
        second[name] = [scores[at] for at in places[middle:]]
    return overall(first), overall(second)
