"""Tier 1: vectors in big integers against plain arithmetic, and the file of the table."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.search.table import Table, packed
from mcp_workbench.search.vectors import ZERO, Columns, Vector, from_components, vector, weighted_sum

SIZE = 6
rows = st.lists(st.integers(1, 255), min_size=SIZE, max_size=SIZE).map(bytes)
placed = rows.filter(lambda row: any(byte != ZERO for byte in row)).map(from_components)


def plain_cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.hypot(*one) / math.hypot(*other)


def numbers(of: Vector) -> list[int]:
    return [byte - ZERO for byte in of.components]


@given(placed, st.lists(placed, max_size=5))
def test_all_cosines_at_once_are_those_of_each(query: Vector, others: list[Vector]) -> None:
    expected = [plain_cosine(numbers(query), numbers(other)) for other in others]
    assert Columns(others, SIZE).cosines(query) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.integers(1, 65_535), rows), max_size=100))
def test_a_weighted_sum_is_that_of_each_component(parts: list[tuple[int, bytes]]) -> None:
    expected = [sum(weight * (row[at] - ZERO) for weight, row in parts) for at in range(SIZE)]
    assert weighted_sum(parts, SIZE) == expected


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40).filter(lambda them: math.hypot(*them) > 1e-3))
def test_a_vector_points_where_its_numbers_do(direction: list[float]) -> None:
    made = vector(direction)
    assert made is not None
    assert plain_cosine(numbers(made), direction) > 0.999
    assert made.length == pytest.approx(math.hypot(*numbers(made)))


def test_what_has_no_direction_has_no_vector() -> None:
    assert vector([0.0, 0.0]) is None
    assert vector([]) is None


WORDS = ["file", "rain", "fetch"]
VECTORS = [[7, 0, -7, 1], [-7, 7, 0, 3], [1, 2, 3, 4]]


def small_table() -> Table:
    return Table(packed(WORDS, 4, [3, 60_000, 2], VECTORS))


def test_a_packed_table_gives_its_words_back() -> None:
    table = small_table()
    assert (len(table), table.size) == (3, 4)
    assert table.meaning(["file"]) == [21, 0, -21, 3]
    assert table.meaning(["rain"]) == [-420_000, 420_000, 0, 180_000]


def test_words_mean_together_what_they_mean_by_their_weights() -> None:
    assert small_table().meaning(["file", "fetch", "file", "unheard"]) == [44, 4, -36, 14]


def test_another_form_of_a_word_means_the_same() -> None:
    table = small_table()
    for form in ("files", "filed", "fetches", "fetching"):
        assert table.meaning([form]) == table.meaning([form[:4] if form.startswith("file") else "fetch"])


def test_words_that_are_not_in_the_table_mean_nothing() -> None:
    assert small_table().meaning(["unheard", "of"]) == [0, 0, 0, 0]
