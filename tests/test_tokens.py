"""Tier 1: tokens without a table. The counts below are those of `o200k_base`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench import tokens

COUNTED = [
    ("Reads a file from disk and returns its content as text, whatever its encoding is.", 17),
    (
        (
            '{"name":"read_file","description":"Read a file",'
            '"inputSchema":{"type":"object","properties":{"path":{"type":"string"},'
            '"head":{"type":"integer","default":10}},"required":["path"]}}'
        ),
        44,
    ),
    ('read_file(path: string, head?: integer, mode?: "text"|"binary") — Reads a file from disk', 24),
    (("createCustomerSubscription(customerId: string, priceId: string, trialPeriodDays?: integer)"), 19),
    (
        (
            "2026-01-15,103.25,98.70,1204417\n2026-01-16,99.10,97.45,998120\n2026-01-19,"
            "101.80,100.02,1130554\n"
        ),
        56,
    ),
    ("Читает файл с диска и возвращает его содержимое как текст.", 16),
    (("Liest eine Datei und gibt ihren Inhalt zurück, auch wenn sie größer ist als der Speicher."), 19),
    (
        (
            'def area(width: float, height: float) -> float:\n    """The area of a '
            'rectangle."""\n    return width * height\n'
        ),
        27,
    ),
    ("https://example.com/api/v2/items?limit=50&offset=100#top", 18),
    ("a3f5c9e17b2d4806e5f1a2b3c4d5e6f708192a3b4c5d6e7f", 41),
    (
        (
            "| name | size | changed |\n| --- | --- | --- |\n| notes.md | 1.2 kB | "
            "yesterday |\n| report.pdf | 348 kB | today |\n"
        ),
        38,
    ),
]
PLAIN_CHINESE, ITS_COUNT = "读取文件的内容，并以文本形式返回。如果文件不存在，则返回错误信息。", 17


@pytest.mark.parametrize(("text", "counted"), COUNTED)
def test_an_estimate_is_near_the_count(text: str, counted: int) -> None:
    assert tokens.estimate(text) == pytest.approx(counted, rel=0.2)


def test_plain_chinese_is_estimated_too_high_rather_than_too_low() -> None:
    assert ITS_COUNT <= tokens.estimate(PLAIN_CHINESE) <= 1.5 * ITS_COUNT


def test_an_estimate_is_nearer_than_bytes() -> None:
    ours = sum(abs(tokens.estimate(text) / counted - 1) for text, counted in COUNTED)
    assert ours < sum(abs(len(text.encode()) / 4 / counted - 1) for text, counted in COUNTED) / 2


def test_nothing_costs_nothing() -> None:
    assert tokens.estimate("") == 0


@given(st.text(min_size=1))
def test_bytes_cost_what_their_text_does(text: str) -> None:
    assert tokens.estimate(text.encode()) == tokens.estimate(text)


@given(st.binary())
def test_any_bytes_have_a_cost(data: bytes) -> None:
    assert 0 <= tokens.estimate(data) <= 3 * len(data)


@given(st.text(), st.text())
def test_two_lines_cost_what_each_does(one: str, other: str) -> None:
    both = tokens.estimate(f"{one}\n{other}")
    assert both == pytest.approx(tokens.estimate(one) + tokens.estimate(other) + 1, abs=3)
