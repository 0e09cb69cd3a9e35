"""Tier 1: the lists that clients page through."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_workbench import pages
from mcp_workbench.pages import BadCursor, Shelf


def entries(*keys: str, version: int = 1) -> dict[str, bytes]:
    return {key: json.dumps({"key": key, "version": version}).encode() for key in keys}


def shelf_of(*keys: str, member: str = "tools") -> Shelf:
    """A shelf that a client has seen."""
    shelf = Shelf(member)
    shelf.put(entries(*keys))
    shelf.page(None)
    return shelf


def page_of(shelf: Shelf, cursor: str | None = None) -> tuple[list[Any], str | None]:
    """The entries on a page, and the cursor of the next one."""
    page = json.loads(shelf.page(cursor))
    assert list(page) == ["tools", *(["nextCursor"] if "nextCursor" in page else [])]
    return page["tools"], page.get("nextCursor")


def turned(shelf: Shelf) -> Iterator[list[Any]]:
    """Each page in its turn; the shelf may change between them."""
    found, cursor = page_of(shelf)
    yield found
    while cursor is not None:
        before = cursor
        found, cursor = page_of(shelf, before)
        assert cursor != before
        yield found


def listed(shelf: Shelf) -> list[str]:
    return [entry["key"] for page in turned(shelf) for entry in page]


def cursors_of(shelf: Shelf) -> list[str]:
    found: list[str] = []
    _, cursor = page_of(shelf)
    while cursor is not None:
        assert cursor not in found
        found.append(cursor)
        _, cursor = page_of(shelf, cursor)
    return found


@pytest.fixture
def two_on_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_ON_A_PAGE", 2)


# Order --------------------------------------------------------------------------------------------

shelves = st.lists(st.sampled_from("abcdefgh"), unique=True).map(lambda keys: entries(*keys))


@given(st.lists(shelves, max_size=6), st.integers(1, 4))
def test_what_stays_keeps_its_order_and_what_comes_stands_at_the_end(
    states: list[dict[str, bytes]], most: int
) -> None:
    shelf = Shelf("tools")
    order: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "MOST_ON_A_PAGE", most)
        for state in states:
            shelf.put(state)
            stayed = [key for key in order if key in state]
            order = [*stayed, *(key for key in state if key not in order)]
            assert listed(shelf) == order


def test_before_anybody_has_seen_a_page_what_comes_first_stands_first() -> None:
    shelf = Shelf("tools")
    shelf.put(entries("b"))
    shelf.put(entries("a", "b", "c"))
    assert listed(shelf) == ["a", "b", "c"]
    shelf.put(entries("d", "c", "b"))
    assert listed(shelf) == ["b", "c", "d"]


def test_an_entry_that_went_and_comes_again_is_an_addition() -> None:
    shelf = shelf_of("a", "b")
    shelf.put(entries("b"))
    shelf.put(entries("a", "b"))
    assert listed(shelf) == ["b", "a"]


def test_an_entry_that_changed_keeps_its_place() -> None:
    shelf = shelf_of("a", "b", "c")
    shelf.put(entries("c", "a") | entries("b", version=2))
    assert [[entry["key"], entry["version"]] for entry in page_of(shelf)[0]] == [
        ["a", 1],
        ["b", 2],
        ["c", 1],
    ]


# Paging -------------------------------------------------------------------------------------------


@given(st.lists(shelves, min_size=1, max_size=8), st.integers(1, 3))
@example([entries("a", "b", "c"), entries("b", "c"), entries("c")], 1)  # what was seen goes
@example([entries("a", "b", "c"), entries("a", "c", "b", "d")], 1)
def test_who_turns_the_pages_sees_each_entry_once_also_while_others_come_and_go(
    states: list[dict[str, bytes]], most: int
) -> None:
    """There is another state of the shelf at each page, and the last one stays."""
    waiting = iter(states)
    shelf = Shelf("tools")
    shelf.put(next(waiting))
    begun_with = states[0]
    met: list[Mapping[str, bytes]] = [begun_with]  # the states while the pages were turned
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "MOST_ON_A_PAGE", most)
        for page in turned(shelf):
            seen += [entry["key"] for entry in page]
            assert len(page) <= most
            if (state := next(waiting, None)) is not None:
                shelf.put(state)
                met.append(state)
    always = [key for key in begun_with if all(key in state for state in met)]
    assert [key for key in seen if key in always] == always
    for key in {*seen}:
        # Seen twice is only what had gone in between, and so is another one now.
        comings = sum(key in now and key not in before for before, now in zip([{}, *met], met, strict=False))
        assert seen.count(key) <= comings


def test_an_entry_that_comes_while_pages_are_turned_is_on_a_later_one(two_on_a_page: None) -> None:
    shelf = shelf_of("a", "b", "c")
    first, cursor = page_of(shelf)
    shelf.put(entries("new", "a", "b", "c"))
    rest, end = page_of(shelf, cursor)
    assert [entry["key"] for entry in first + rest] == ["a", "b", "c", "new"]
    assert end is None


def test_a_cursor_still_leads_on_where_all_that_was_seen_or_all_that_was_left_is_gone(
    two_on_a_page: None,
) -> None:
    shelf = shelf_of("a", "b", "c", "d")
    cursor = page_of(shelf)[1]
    shelf.put(entries("c", "d"))
    assert [entry["key"] for entry in page_of(shelf, cursor)[0]] == ["c", "d"]
    shelf.put(entries())
    assert page_of(shelf, cursor) == ([], None)


def test_the_same_cursor_gives_the_same_page_again(two_on_a_page: None) -> None:
    shelf = shelf_of(*"abcdef")
    for cursor in cursors_of(shelf):
        assert shelf.page(cursor) == shelf.page(cursor)


# Sizes --------------------------------------------------------------------------------------------


def test_five_hundred_small_entries_are_one_page_and_one_more_makes_two() -> None:
    keys = [f"tool_{number}" for number in range(501)]
    assert [len(page) for page in turned(shelf_of(*keys[:500]))] == [500]
    assert [len(page) for page in turned(shelf_of(*keys))] == [500, 1]


def test_an_empty_list_is_one_page_with_nothing_on_it() -> None:
    assert Shelf("resourceTemplates").page(None) == b'{"resourceTemplates":[]}'


def test_a_page_is_the_entries_as_they_are_one_after_the_other(two_on_a_page: None) -> None:
    shelf = Shelf("tools")
    shelf.put({"a": b'{"n":1E400}', "b": b'{"n":"\\u0061"}', "c": b"{}"})
    page, end = shelf.page(None).split(b',"nextCursor":"')
    assert page == b'{"tools":[{"n":1E400},{"n":"\\u0061"}]'
    assert end.endswith(b'"}')
    assert shelf.page(end[:-2].decode()) == b'{"tools":[{}]}'


@given(st.lists(st.integers(2, 60), max_size=12))
def test_a_page_is_not_larger_than_it_may_be_unless_one_entry_alone_is(lengths: list[int]) -> None:
    texts = {str(number): b'"%b"' % (b"x" * length) for number, length in enumerate(lengths)}
    shelf = Shelf("tools")
    shelf.put(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "LARGEST_PAGE", 50)
        found = list(turned(shelf))
    sizes = [[len(text) + 2 for text in page] for page in found]
    assert [text for page in found for text in page] == [json.loads(text) for text in texts.values()]
    assert all(len(page) == 1 or sum(page) <= 50 for page in sizes)
    # And not smaller than need be: the next entry would have been too much.
    assert all(sum(page) + after[0] > 50 for page, after in pairwise(sizes))


def test_large_definitions_do_not_make_a_line_that_is_refused() -> None:
    shelf = Shelf("tools")
    shelf.put({str(number): b'"%b"' % (b"x" * 200_000) for number in range(7)})
    assert [len(page) for page in turned(shelf)] == [2, 2, 2, 1]


# Cursors ------------------------------------------------------------------------------------------


def test_a_cursor_is_a_plain_word_that_tells_nothing_of_the_entries(two_on_a_page: None) -> None:
    for cursor in cursors_of(shelf_of("alpha", "beta", "gamma", "delta", "epsilon")):
        assert cursor.isascii()
        assert cursor.isalnum()
        assert "beta" not in cursor


@pytest.mark.parametrize(
    "damaged",
    [
        lambda cursor: "",
        lambda cursor: cursor[:-1],
        lambda cursor: cursor[1:],
        lambda cursor: cursor + "0",
        lambda cursor: cursor + "30",
        lambda cursor: cursor + " ",
        lambda cursor: " " + cursor,
        lambda cursor: cursor.upper(),
        lambda cursor: cursor[:2] + " " + cursor[2:],
        lambda cursor: cursor + "\ud800",
        lambda cursor: cursor * 2,
        lambda cursor: bytes.fromhex(cursor).decode(),
    ],
)
def test_a_damaged_cursor_is_refused(two_on_a_page: None, damaged: Any) -> None:
    shelf = shelf_of(*"abcdefghijkl")
    cursor = cursors_of(shelf)[-1]
    assert any(character.isalpha() for character in cursor)  # or `upper` changes nothing
    with pytest.raises(BadCursor):
        shelf.page(damaged(cursor))


@given(st.text() | st.from_regex(r"([0-9a-f]{2})*", fullmatch=True) | st.integers().map(str))
@example("9" * 10_000)
@example(b"0:tools".hex())
@example(b"-1:tools".hex())
@example(b"4:tools".hex())
@example(b"01:tools".hex())
@example(b"1_0:tools".hex())
@example("١:tools".encode().hex())
@example((b"9" * 10_000 + b":tools").hex())
@example(b"\xff:tools".hex())
@example(b"1:prompts".hex())
@example(b"1:tool".hex())
@example(b"1:".hex())
def test_what_is_no_cursor_of_the_list_is_refused_whatever_it_is(foreign: str) -> None:
    shelf = shelf_of("a", "b", "c")
    with pytest.raises(BadCursor):
        shelf.page(foreign)


def test_a_cursor_that_was_cut_short_does_not_lead_elsewhere(two_on_a_page: None) -> None:
    shelf = shelf_of(*map(str, range(30)))
    for cursor in cursors_of(shelf):
        for length in range(len(cursor)):
            with pytest.raises(BadCursor):
                shelf.page(cursor[:length])


def test_a_cursor_of_another_list_is_refused(two_on_a_page: None) -> None:
    keys = "abcde"
    for cursor in cursors_of(shelf_of(*keys)):
        with pytest.raises(BadCursor):
            shelf_of(*keys, member="prompts").page(cursor)


def test_a_cursor_from_beyond_the_end_is_refused(two_on_a_page: None) -> None:
    """One of an earlier run, say, in which there was more."""
    cursor = cursors_of(shelf_of(*"abcdefgh"))[-1]
    with pytest.raises(BadCursor):
        shelf_of("a", "b", "c").page(cursor)


# What has changed ---------------------------------------------------------------------------------


@given(st.lists(shelves | st.just(entries("a", "b", version=2)), max_size=8))
def test_a_change_is_told_exactly_where_a_client_sees_one(states: list[dict[str, bytes]]) -> None:
    shelf = Shelf("tools")
    for state in states:
        before = shelf.page(None)
        assert shelf.put(state) is (shelf.page(None) != before)


def test_another_order_of_the_same_entries_is_no_change() -> None:
    shelf = shelf_of("a", "b", "c")
    assert not shelf.put(entries("c", "a", "b"))
    assert listed(shelf) == ["a", "b", "c"]


def test_one_byte_of_one_entry_is_a_change() -> None:
    shelf = shelf_of("a", "b", "c")
    assert shelf.put(entries("a", "c") | entries("b", version=2))
    assert not shelf.put(entries("a", "c") | entries("b", version=2))


def test_what_was_put_is_not_changed_from_outside() -> None:
    mine = entries("a")
    shelf = Shelf("tools")
    shelf.put(mine)
    mine |= entries("b")
    assert listed(shelf) == ["a"]
    assert shelf.put(mine)
