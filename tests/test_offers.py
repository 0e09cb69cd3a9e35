"""Tier 1: the pages of what a server offers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench import offers as offers_module
from mcp_workbench.offers import TOOLS, Listing, compact
from mcp_workbench.raw_json import Malformed

from .fake_link import dumped, tool


def page(*tools: Any, cursor: object = None, **more: Any) -> Raw:
    ending = {} if cursor is None else {"nextCursor": cursor}
    return Raw(dumped({"tools": list(tools), **ending, **more}))


def listing_of(*tools: Any) -> Listing:
    listing = Listing(TOOLS)
    assert listing.take(page(*tools)) is None
    return listing


def test_all_pages_are_taken_in_their_order() -> None:
    listing = Listing(TOOLS)
    assert listing.take(page(tool("b"), cursor="2")) == "2"
    assert listing.take(page(tool("a"), tool("d"), cursor="3")) == "3"
    assert listing.take(page(tool("c"))) is None
    assert list(listing.offers) == ["b", "a", "d", "c"]
    assert listing.left_out == []


def test_an_empty_cursor_is_a_cursor_and_null_is_none() -> None:
    listing = Listing(TOOLS)
    assert listing.take(page(tool("a"), cursor="")) == ""
    assert listing.take(Raw(b'{"tools":[],"nextCursor":null}')) is None


def test_an_empty_page_in_the_middle_does_not_end_the_list() -> None:
    listing = Listing(TOOLS)
    assert listing.take(page(cursor="2")) == "2"
    assert listing.take(page(tool("a"))) is None
    assert list(listing.offers) == ["a"]


@pytest.mark.parametrize("cursors", [["x", "x"], ["", ""], ["x", "y", "x"]])
def test_a_cursor_that_comes_again_ends_the_list_with_a_word(cursors: list[str]) -> None:
    listing = Listing(TOOLS)
    asked = [listing.take(page(tool(str(at)), cursor=cursor)) for at, cursor in enumerate(cursors)]
    assert asked == [*cursors[:-1], None]
    assert list(listing.offers) == [str(at) for at in range(len(cursors))]
    assert listing.left_out == ["its list of tools does not end; what was read until there is used"]


def test_an_endless_list_of_new_cursors_is_given_up() -> None:
    listing = Listing(TOOLS)
    pages = 0
    while listing.take(page(cursor=str(pages))) is not None:
        pages += 1
        assert pages <= offers_module.MOST_PAGES
    assert pages == offers_module.MOST_PAGES
    assert "does not end" in listing.left_out[0]


def test_more_tools_than_can_be_used_are_cut_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers_module, "MOST_OFFERS", 3)
    listing = Listing(TOOLS)
    assert listing.take(page(tool("a"), tool("b"), cursor="2")) == "2"
    assert listing.take(page(tool("c"), tool("d"), tool("e"), cursor="3")) is None
    assert list(listing.offers) == ["a", "b", "c"]
    assert listing.left_out == ["it lists more than 3 tools; the rest is left out"]


def test_as_many_tools_as_can_be_used_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers_module, "MOST_OFFERS", 3)
    assert listing_of(tool("a"), tool("b"), tool("c")).left_out == []


def test_many_invalid_definitions_do_not_make_an_endless_report() -> None:
    listing = Listing(TOOLS)
    for number in range(20):
        listing.take(page(*({"name": f"{number}-{at}"} for at in range(1000)), cursor=str(number)))
    assert len(listing.left_out) == 101
    assert listing.left_out[-1] == "more of its tools are left out, their definitions are invalid"


@pytest.mark.parametrize(
    ("definition", "label", "why"),
    [
        ({"inputSchema": {"type": "object"}}, "inputSchema", "name"),
        ({"name": "", "inputSchema": {"type": "object"}}, "''", "name is empty"),
        ({"name": 5, "inputSchema": {"type": "object"}}, "5", "str"),
        ({"name": None, "inputSchema": {"type": "object"}}, "null", "name is empty"),
        ({"name": "bad"}, "'bad'", "inputSchema is missing"),
        ({"name": "bad", "inputSchema": None}, "'bad'", "object"),
        ({"name": "bad", "inputSchema": True}, "'bad'", "object"),
        ({"name": "bad", "inputSchema": []}, "'bad'", "object"),
        ({"name": "bad", "inputSchema": {}}, "'bad'", 'type of inputSchema is not "object"'),
        ({"name": "bad", "inputSchema": {"type": "array"}}, "'bad'", 'type of inputSchema is not "object"'),
        ({"name": "bad", "inputSchema": {"type": ["object"]}}, "'bad'", "inputSchema"),
        ([], "[]", "object"),
        ("bad", "'bad'", "object"),
        (None, "null", "object"),
        ({"name": "x" * 1000}, "x" * 50, "inputSchema is missing"),
    ],
)
def test_an_invalid_definition_is_left_out_and_named_and_its_siblings_are_kept(
    definition: Any, label: str, why: str
) -> None:
    listing = listing_of(tool("before"), definition, tool("after"))
    assert list(listing.offers) == ["before", "after"]
    (told,) = listing.left_out
    assert told.startswith("tool ")
    assert label in told
    assert why in told
    assert "left out, its definition is invalid: " in told
    assert len(told) < 300


def test_a_name_that_is_listed_twice_counts_once_and_is_named() -> None:
    listing = Listing(TOOLS)
    listing.take(page(tool("a", description="first"), tool("a", description="second"), cursor="2"))
    listing.take(page(tool("a", description="third"), tool("b")))
    assert list(listing.offers) == ["a", "b"]
    assert json.loads(listing.offers["a"].definition)["description"] == "first"
    twice = "the name is listed twice, with different definitions"
    assert listing.left_out == [f"tool 'a' is left out, its definition is invalid: {twice}"] * 2


def test_what_is_listed_twice_alike_is_one_and_nothing_to_speak_of() -> None:
    listing = Listing(TOOLS)
    assert listing.take(page(tool("a"), tool("b"), cursor="2")) == "2"
    assert listing.take(page(tool("b"), tool("a"))) is None
    assert list(listing.offers) == ["a", "b"]
    assert listing.left_out == []


def test_every_field_that_the_server_gave_is_kept() -> None:
    definition = tool(
        "a",
        title="A",
        annotations={"readOnlyHint": True},
        outputSchema={"type": "object", "$defs": {"x": {"const": None}}},
        _meta={"vendor/x": [1, 2]},
        execution={"taskSupport": "optional"},
        notYetInvented={"deep": [{}]},
    )
    assert json.loads(listing_of(definition).offers["a"].definition) == definition


@pytest.mark.parametrize(
    "text", [b"{}", b"[]", b"null", b'{"tools":{}}', b'{"tools":null}', b'{"tools":[],"nextCursor":5}', b"1"]
)
def test_a_page_of_the_wrong_shape_is_malformed(text: bytes) -> None:
    with pytest.raises(Malformed):
        Listing(TOOLS).take(Raw(text))


def test_a_lone_surrogate_in_one_definition_costs_no_tool() -> None:
    text = b'{"tools":[{"name":"a","description":"\\ud800","inputSchema":{"type":"object"}},%b]}'
    listing = Listing(TOOLS)
    assert listing.take(Raw(text % dumped(tool("b")))) is None
    assert list(listing.offers) == ["a", "b"]
    assert b'"\\ud800"' in listing.offers["a"].definition


def test_a_name_with_a_lone_surrogate_is_left_out_and_its_siblings_are_kept() -> None:
    text = b'{"tools":[{"name":"\\ud800","inputSchema":{"type":"object"}},%b]}'
    listing = Listing(TOOLS)
    assert listing.take(Raw(text % dumped(tool("b")))) is None
    assert list(listing.offers) == ["b"]
    assert len(listing.left_out) == 1


# Compacting ---------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_compacting_changes_no_value_and_leaves_no_space(
    value: object, indent: int | str | None, ascii_only: bool
) -> None:
    source = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    try:
        found = compact(source.encode())
    except UnicodeEncodeError:
        return
    tight = json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only)
    assert found == tight.encode()


@pytest.mark.parametrize(
    "number", ["1E400", "-0", "0.10", "1e5", "123456789012345678901234567890", "-1.5E-300", "9" * 5000]
)
def test_numbers_stay_as_they_are_written(number: str) -> None:
    assert compact(f'{{ "a" : {number} }}'.encode()) == f'{{"a":{number}}}'.encode()


def test_strings_stay_as_they_are_written() -> None:
    assert compact(b'{"a" : "\\u0061 \\/ \\ud83d\\ude00 : , "}') == b'{"a":"\\u0061 \\/ \\ud83d\\ude00 : , "}'


def test_what_cannot_be_compacted_stays_as_it_is() -> None:
    assert compact(b'{"a" : "\\ud800"}') == b'{"a" : "\\ud800"}'
