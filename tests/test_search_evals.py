"""Tier 1: the command that judges the search, on a handful of tools."""

import json
from pathlib import Path

import pytest
from evals.__main__ import print_quality
from evals.judging import Query, difference, halves, judged, load, overall

TOOLS = [
    {"id": f"{server}/{tool}", "server": server, "server_description": "", "category": "some", "tool": tool}
    | {"description": description, "inputSchema": {"type": "object"}}
    for server, tool, description in [
        ("files", "read_file", "Read a file."),
        ("files", "write_file", "Write a file."),
        ("sky", "get_forecast", "Weather for a city."),
    ]
]


def test_a_set_counts_as_much_as_another_however_many_queries_it_has() -> None:
    queries = [Query("one", "a", frozenset({"x"})), *[Query("two", "a", frozenset({"y"}))] * 3]
    result = judged(lambda query, most: ["x", "z", "y"][:most], queries)
    assert overall(result.hit1) == 0.5
    assert overall(result.hit3) == 1.0
    assert overall(result.reciprocal_rank) == pytest.approx((1 + 1 / 3) / 2)


def test_a_difference_has_an_interval_around_it() -> None:
    before = {"one": [0.0] * 50 + [1.0] * 50}
    after = {"one": [0.0] * 30 + [1.0] * 70}
    found = difference(before, after)
    assert found.value == pytest.approx(0.2)
    assert 0.1 < found.low < found.value < found.high < 0.3
    assert difference(before, before).low == difference(before, before).high == 0


def test_halves_share_no_query() -> None:
    one, other = halves({"one": [1.0] * 10 + [0.0] * 10})
    assert one + other == pytest.approx(1.0)


def test_the_command_shows_each_ingredient(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tools.jsonl").write_text("\n".join(map(json.dumps, TOOLS)))
    queries = [
        {"set": "only", "query": "read files", "relevant": ["files/read_file"]},
        {"set": "only", "query": "will it rain", "relevant": ["sky/get_forecast"]},
    ]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)) + "\n")
    print_quality(load(tmp_path))
    told = capsys.readouterr().out
    for ingredient in ("words in one text", "+ stems", "+ fields", "+ word meanings (the default)"):
        assert ingredient in told
