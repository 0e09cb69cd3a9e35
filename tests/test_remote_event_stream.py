"""Server-sent events, cut out of their stream."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.remote.event_stream import Event, EventStream, Overflow

TEXT = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)
FIELD = st.one_of(
    st.tuples(st.sampled_from(["data", "id", "event", "other"]), TEXT).map(lambda it: f"{it[0]}: {it[1]}"),
    st.integers(0, 10_000).map(lambda it: f"retry: {it}"),
    TEXT.map(lambda it: f":{it}"),
    st.just("data"),
)
EVENTS = st.lists(st.lists(FIELD, max_size=5), max_size=6)


def heard(data: bytes, limit: int = 2**24) -> list[Event | Overflow]:
    return EventStream(limit).feed(data)


def datas(data: bytes) -> list[bytes]:
    return [it.data for it in heard(data) if isinstance(it, Event)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_may_end_in_three_ways(end: bytes) -> None:
    stream = b"event: greeting\ndata: one\ndata:two\n\ndata: three\n\n".replace(b"\n", end)
    assert heard(stream) == [Event("greeting", b"one\ntwo"), Event("message", b"three")]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", []),
        (b"data: x", []),
        (b"data: x\n", []),
        (b"data: x\n\n", [b"x"]),
        (b"data:  x\n\n", [b" x"]),
        (b"data:x:y\n\n", [b"x:y"]),
        (b"data\n\n", [b""]),
        (b"data\ndata\n\n", [b"\n"]),
        (b"\n\n\ndata: x\n\n\n\n", [b"x"]),
        (b": comment\ndata: x\n: more\n\n", [b"x"]),
        (b"nonsense\ndata: x\n\n", [b"x"]),
        (b" data: x\n\n", []),
        (b"event: only\n\n", []),
        (b"\xef\xbb\xbfdata: x\n\n", [b"x"]),
        (b"data: \xff\n\n", [b"\xff"]),
        (b"data: a\r\r\ndata: b\n\r", [b"a", b"b"]),
    ],
)
def test_the_data_of_events(stream: bytes, expected: list[bytes]) -> None:
    assert datas(stream) == expected


def test_an_id_counts_when_its_event_is_whole_with_or_without_data() -> None:
    stream = EventStream()
    assert stream.last_id is None
    stream.feed(b"id: 1\n")
    assert stream.last_id is None
    assert stream.feed(b"\nid: 2\ndata: {") == []
    assert stream.last_id == b"1"
    stream.begin_anew()
    assert stream.feed(b'}"\n\ndata: x\n\n') == [Event("message", b"x")]
    assert stream.last_id == b"1"
    stream.feed(b"id: a\0b\n\n")
    assert stream.last_id == b"1"
    stream.feed(b"id\n\n")
    assert stream.last_id == b""


@pytest.mark.parametrize(
    ("field", "seconds"),
    [(b"retry: 1500", 1.5), (b"retry:0", 0.0), (b"retry: -1", None), (b"retry: 1.5", None), (b"retry", None)],
)
def test_the_time_before_the_next_attempt(field: bytes, seconds: float | None) -> None:
    stream = EventStream()
    stream.feed(field + b"\n")
    assert stream.retry == seconds


def test_a_time_of_a_million_digits_is_a_number_too() -> None:
    stream = EventStream()
    stream.feed(b"retry: " + b"9" * 1_000_000 + b"\n")
    assert stream.retry is not None


@pytest.mark.parametrize(
    "endless", [b"data: xxxxx", b"data: x\n", b"data\n", b"xxxxxxxxx", b": xxxxxxx", b"id: xxxxxx\n"]
)
def test_an_event_that_does_not_end_is_given_up_in_time(endless: bytes) -> None:
    stream = EventStream(1000)
    stream.feed(b"data: before\n\n")
    found: list[Event | Overflow] = []
    for _ in range(1000):
        found += stream.feed(endless if endless.endswith(b"\n") else endless * 3)
    assert found == [Overflow()]
    assert stream.feed(b"\n\ndata: after\n\n") == []


def test_comments_between_lines_do_not_count() -> None:
    stream = EventStream(100)
    for _ in range(1000):
        assert stream.feed(b": still here\n") == []
    assert stream.feed(b"data: x\n\n") == [Event("message", b"x")]


def test_an_event_of_the_longest_length_passes() -> None:
    assert heard(b"data: " + b"x" * 94 + b"\n\n", limit=100) == [Event("message", b"x" * 94)]
    assert heard(b"data: " + b"x" * 95 + b"\n\n", limit=100) == [Overflow()]


@given(EVENTS, st.sampled_from(["\n", "\r", "\r\n"]), st.lists(st.integers(0, 400)), st.integers(20, 200))
def test_whatever_the_chunks_are_the_events_are_the_same(
    events: list[list[str]], end: str, cuts: list[int], limit: int
) -> None:
    data = "".join(line + end for fields in events for line in [*fields, ""]).encode()
    whole, cut = EventStream(limit), EventStream(limit)
    expected = whole.feed(data)
    places = sorted({0, len(data), *(it for it in cuts if it < len(data))})
    found = [it for start, stop in itertools.pairwise(places) for it in cut.feed(data[start:stop])]
    assert found == expected
    if Overflow() not in expected:
        assert (cut.last_id, cut.retry) == (whole.last_id, whole.retry)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_are_too_strange(data: bytes, at: int) -> None:
    cut = EventStream()
    assert [*cut.feed(data[:at]), *cut.feed(data[at:])] == heard(data)
