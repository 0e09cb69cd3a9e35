"""Tier 1: words and their stems, in any language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.search.words import stem, stems, wishes, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("read_file", ["read", "file"]),
        ("get-station-code", ["get", "station", "code"]),
        ("readFile", ["read", "file", "readfile"]),
        ("parseHTTPResponse", ["parse", "http", "response", "parsehttpresponse"]),
        ("GitHub", ["git", "hub", "github"]),
        ("PDF Title", ["pdf", "title"]),
        ("base64", ["base", "64"]),
        ("Äpfel café", ["apfel", "cafe"]),
        ("天气预报", ["天气", "气预", "预报"]),
        ("天", ["天"]),
        ("查询weather数据", ["查询", "weather", "数据"]),
        ("погода ПОГОДА", ["погода", "погода"]),
        ("날씨를 찾다", ["날씨", "씨를", "찾다"]),
        ("हिन्दी", ["हनद"]),
        ("ﬁle", ["file"]),
        ("", []),
        ("_-/!?", []),
    ],
)
def test_names_and_texts_are_split_into_words(text: str, found: list[str]) -> None:
    assert words(text) == found


@pytest.mark.parametrize(
    "forms",
    [
        "file files filed filing",
        "create creates created creating creation creator",
        "query queries querying",
        "search searches searched searching",
        "format formats formatted formatting",
        "translate translation translations translator",
        "delete deleted deletes deleting deletion",
        "match matches matching matched",
    ],
)
def test_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "different", ["status state", "news new", "process pro", "thing th", "bus bu", "need ne"]
)
def test_words_that_only_look_alike_keep_their_own_stems(different: str) -> None:
    one, other = different.split()
    assert stem(one) != stem(other)


def test_words_that_stand_everywhere_are_left_out() -> None:
    assert stems(words("what is the weather in my city, please?")) == [stem("weather"), stem("city")]


@given(st.text())
def test_any_text_has_words_that_are_found_again_in_themselves(text: str) -> None:
    for word in words(text):
        assert word
        assert word in words(word)
        assert stem(word)


@given(st.text(alphabet=st.characters(max_codepoint=0x24F)))
def test_case_makes_no_other_words(text: str) -> None:
    assert set(words(text.lower())) <= {*words(text), *words(text.lower())}


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("read a file", []),
        (
            "find hotels near me, book a table and call a taxi",
            ["find hotels near me", "book a table", "call a taxi"],
        ),
        ("search the web. Then send an email", ["search the web", "send an email"]),
        ("salt and pepper", []),
        ("version 1.2.3 of react", []),
    ],
)
def test_a_query_for_several_things_has_parts(query: str, parts: list[str]) -> None:
    assert wishes(query, 8) == parts


def test_no_more_parts_are_taken_than_asked_for() -> None:
    assert len(wishes("read files, " * 50, 8)) == 8
