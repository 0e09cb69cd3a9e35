"""Tier 1: a server's words in a line of ours."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_workbench.legible import first_sentence, name, quoted, visible

SENTENCES = [
    ("Reads a file.", "Reads a file"),
    ("Reads a file. Then closes it.", "Reads a file"),
    ("Reads a file\nof any size. Fast.", "Reads a file of any size"),
    ("\n\n   Reads a file.\n\n   Args:\n      path: where", "Reads a file"),
    ("Reads a file\n\nArgs:\n    path: where", "Reads a file"),
    ("Reads a file\nArgs:\n    path: where", "Reads a file"),
    ("Returns:\n  - the text of a file\n  - its size", "the text of a file"),
    ("Reads text, e.g. Markdown. Slow.", "Reads text, e.g. Markdown"),
    ("Reads text (i.e. UTF-8) or more. Slow.", "Reads text (i.e. UTF-8) or more"),
    ("Reads logs, traces, etc. and more. Slow.", "Reads logs, traces, etc. and more"),
    ("Waits 1.5 s for v2.0 of it. Slow.", "Waits 1.5 s for v2.0 of it"),
    ("Asks Dr. Who about it. Slow.", "Asks Dr. Who about it"),
    ("Is it there? Then read it.", "Is it there?"),
    ('Says "done." Then ends.', 'Says "done."'),
    ("读取文件。然后关闭它。", "读取文件"),
    ("读取文件！然后关闭它。", "读取文件！"),
    ("# Read File\n\nReads a file. Fast.", "Reads a file"),
    ("# Read File", "Read File"),
    ("Read File\n=========\nReads a file.", "Read File"),
    ("- reads files\n- writes files", "reads files"),
    ("Can do:\n- read files\n- write files", "Can do:"),
    ("**Reads** a file.", "Reads a file"),
    ("⚠️ Reads a file.", "⚠ Reads a file"),
    ("", ""),
    (" \n\t ", ""),
    ("...", "..."),
    ("Reads a\tfile", "Reads a file"),
    ("a\x1b[31mred\u202e and\u200b hidden.", "a\\u001b[31mred\\u202e and\\u200b hidden"),
    ("tag \U000e0041 here", "tag \\udb40\\udc41 here"),
]


@pytest.mark.parametrize(("description", "sentence"), SENTENCES)
def test_the_first_sentence_of_a_description(description: str, sentence: str) -> None:
    assert first_sentence(description) == sentence


def test_a_long_sentence_ends_with_a_word() -> None:
    told = first_sentence("Reads " + "every kind of file " * 20)
    assert told.endswith("...")
    assert 120 < len(told) <= 160
    assert set(told.removesuffix("...").split()) <= {"Reads", "every", "kind", "of", "file"}


def test_a_chinese_sentence_has_half_of_the_room_and_needs_no_spaces() -> None:
    told = first_sentence("读" * 500)
    assert told == "读" * 78 + "..."


@given(st.text())
@example("\x7f \x9f \u2028 \ud800 \U000e0041 \u3164")
def test_what_is_visible_acts_on_nothing(text: str) -> None:
    told = visible(text)
    assert told.isprintable()
    assert visible(told) == told


@given(st.text())
def test_a_sentence_is_one_short_line_of_what_can_be_seen(description: str) -> None:
    told = first_sentence(description)
    assert len(told) <= 160
    assert told.isprintable()
    assert visible(told) == told
    assert told == told.strip()


@given(st.text())
def test_what_is_quoted_can_be_seen_and_read_back(text: str) -> None:
    told = quoted(text)
    assert visible(told) == told
    assert json.loads(told) == text


@given(st.text())
def test_a_name_stands_as_it_is_or_as_json(text: str) -> None:
    told = name(text)
    assert told == text or json.loads(told) == text
    assert visible(told) == told
    if told == text:
        assert not set(text) & set(' \t\n()",…')


@pytest.mark.parametrize("plain", ["read_file", "get-weather", "ns.tool/read:v1", "lire_données", "读取"])
def test_a_name_that_nobody_misreads_is_not_quoted(plain: str) -> None:
    assert name(plain) == plain
