"""Tier 1: lines, envelopes and splicing, as tables and properties."""

import json
import sys
import tracemalloc
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from mcp_workbench import raw_json, wire
from mcp_workbench.raw_json import Malformed
from mcp_workbench.wire import Answer, Envelope, Lines, TooLong


def cut(data: bytes, lengths: list[int]) -> list[bytes]:
    """The data in chunks of these lengths, and what is left in one."""
    chunks = []
    for length in lengths:
        chunks.append(data[:length])
        data = data[length:]
    return [*chunks, data]


def lines_of(chunks: list[bytes], limit: int = wire.LONGEST_LINE) -> list[bytes | None]:
    """What `Lines` makes of the chunks; None stands for a line that is too long."""
    lines = Lines(limit)
    return [None if isinstance(line, TooLong) else line for chunk in chunks for line in lines.feed(chunk)]


# Lines --------------------------------------------------------------------------------------------

streams = st.lists(st.sampled_from([b"\n", b"\r", b"a", b"\xff", b"{}", b"\n\n", b"long" * 3])).map(b"".join)


@given(streams, st.lists(st.integers(0, 5)))
def test_any_bytes_in_any_chunks_give_the_same_lines(data: bytes, lengths: list[int]) -> None:
    assert lines_of(cut(data, lengths)) == [line for line in data.split(b"\n")[:-1] if line]


@given(streams, st.lists(st.integers(0, 5)), st.integers(0, 12))
def test_whatever_the_limit_the_chunks_make_no_difference(
    data: bytes, lengths: list[int], limit: int
) -> None:
    ended = data.split(b"\n")[:-1]
    expected = [line if len(line) <= limit else None for line in ended if line]
    assert lines_of(cut(data, lengths), limit) == expected


def test_one_byte_at_a_time_gives_the_lines() -> None:
    data = b'{"id":1}\n\n{"id":2}\r\n'
    assert lines_of([bytes([byte]) for byte in data]) == [b'{"id":1}', b'{"id":2}\r']


def test_a_thousand_frames_in_one_chunk_are_a_thousand_lines_in_their_order() -> None:
    frames = [b'{"id":%d}' % number for number in range(1000)]
    assert lines_of([b"\n".join(frames) + b"\n"]) == frames


def test_a_line_of_the_limit_passes_and_one_byte_more_does_not() -> None:
    assert lines_of([b"x" * 10, b"\n"], limit=10) == [b"x" * 10]
    assert lines_of([b"x" * 10, b"x", b"\n"], limit=10) == [None]


@pytest.mark.parametrize("size", [1, 100, 65536])
def test_an_endless_line_is_noticed_at_the_limit_and_next_to_nothing_of_it_is_kept(size: int) -> None:
    limit = 64 * 1024
    lines = Lines(limit)
    tracemalloc.start()
    try:
        for _ in range(limit // size):
            assert lines.feed(b"x" * size) == []
        assert not lines.overflow
        for _ in range(limit // size):
            assert lines.feed(b"y" * size) == []
            assert lines.overflow
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 8 * 1024
    assert peak < 3 * limit
    assert lines.feed(b"\n") == [b"x" * 512 + b"y" * 512]
    assert not lines.overflow


@given(
    st.lists(st.sampled_from([b"a", b"bc", b"d" * 500, b"e" * 600, b"f" * 5000]), min_size=3).map(b"".join),
    st.lists(st.integers(0, 5000)),
)
def test_of_a_line_that_is_too_long_both_ends_are_kept_whatever_the_chunks_are(
    line: bytes, lengths: list[int]
) -> None:
    lines = Lines(limit=1024)
    found = [found for chunk in cut(line + b"\n", lengths) for found in lines.feed(chunk)]
    if len(line) > 1024:
        assert isinstance(found[0], TooLong)
        assert found == [line[:512] + line[-512:]]
    else:
        assert found == [line]


def test_after_a_line_that_is_too_long_the_next_one_works() -> None:
    assert lines_of([b"xxxxxx", b"xxx", b"xx\nok\n"], limit=5) == [None, b"ok"]
    assert lines_of([b"xxxxxx\nok\nyyyyyy\nok\n"], limit=5) == [None, b"ok", None, b"ok"]


@pytest.mark.parametrize("size", [1, 2, 100, 5000])
def test_a_long_line_costs_at_most_about_twice_its_bytes_whatever_the_chunks_are(size: int) -> None:
    length = 128 * 1024
    lines = Lines()
    tracemalloc.start()
    try:
        for start in range(0, length, size):
            assert lines.feed(b"x" * min(size, length - start)) == []
        (line,) = lines.feed(b"\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(line, bytes)
    assert len(line) == length
    assert peak < 2.5 * length


class Searched(bytes):
    """A chunk that counts how many of its bytes are searched for the ends of lines."""

    searched = 0

    def find(self, sought: Any, start: Any = 0, end: Any = None) -> int:
        found = super().find(sought, start)
        Searched.searched += (len(self) if found < 0 else found + 1) - start
        return found


def test_each_byte_is_searched_once_however_long_its_line_is() -> None:
    Searched.searched = 0
    lines = Lines()
    for _ in range(1000):
        lines.feed(Searched(b"x" * 64))
    lines.feed(Searched(b"\n"))
    lines.feed(Searched(b"x\n" * 1000))
    assert Searched.searched == 64_001 + 2000


def steps(chunks: int) -> int:
    """How many calls it takes to cut one line out of so many chunks."""
    lines, made = Lines(), 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        for _ in range(chunks):
            lines.feed(b"xx")
        lines.feed(b"\n")
    finally:
        sys.setprofile(None)
    return made


def test_twice_the_chunks_are_twice_the_work() -> None:
    assert steps(2000) <= 2 * steps(1000)


# Envelopes ----------------------------------------------------------------------------------------


def test_an_envelope_has_what_decides_and_leaves_the_rest_as_bytes() -> None:
    message = wire.read_envelope(b'{"jsonrpc":"2.0","id": 7 ,"method":"m","params": {"a" : [1]} }')
    assert message.method == "m"
    assert isinstance(message.id, Raw)
    assert bytes(message.id) == b"7"
    assert isinstance(message.params, Raw)
    assert bytes(message.params) == b'{"a" : [1]}'
    assert message.result is UNSET
    assert message.error is UNSET


@pytest.mark.parametrize(
    "frame",
    [
        b'{"id":1,"method":"ping"}',
        b'{"method":"ping","id":1}',
        b'{"id":1,"method":"ping","extra":{"deep":[1,{"x":2}]}}',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b' \t{"id":1,"method":"ping"}\r',
        b'{"id":9,"id":1,"method":"other","method":"ping"}',
        b'{"id":1,"method":"ping","x":"\\ud800"}',
        b'{"id":9,"id":1,"method":"other","method":"ping","x":"\\udfff\\ud800"}',
        b'{"id":1,"method":"ping","x":' + b"9" * 10_000 + b"}",
        b'{"id":1,"method":"p\\u0069ng"}',
        b'{"id":1,"m\\u0065thod":"ping"}',
    ],
)
def test_an_unusual_but_sound_frame_is_read(frame: bytes) -> None:
    message = wire.read_envelope(frame)
    assert message.method == "ping"
    assert isinstance(message.id, Raw)
    assert bytes(message.id) == b"1"


def test_an_id_of_ten_thousand_digits_stays_itself() -> None:
    message = wire.read_envelope(b'{"id":' + b"9" * 10_000 + b',"method":"ping","x":"\\ud800"}')
    assert isinstance(message.id, Raw)
    assert bytes(message.id) == b"9" * 10_000


NESTED = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"nonsense",
        b"{",
        b'{"id":1',
        b'{"id":1,}',
        b'{"id":1 "method":"ping"}',
        b'{"id":1,"x":NaN}',
        b'{"id":1,"x":Infinity}',
        b'{"id":1,"x":[-Infinity]}',
        b'{"id":1,"x":"\x01"}',
        b'{"id":1}{"id":2}',
        b'{"id":01}',
        b"{1:2}",
        b'{"x":"\\ud800"',
        b'{"x":"\\ud800",}',
        b'{"x":"\\ud800"} 1',
        b'{"x":"\\ud800" "y":1}',
        b'{"x":' + NESTED + b"}",
        b'{"params":' + NESTED + b',"id":1}',
        b'{"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b'{"method":"\xff"}',
        b'{"x":"\xff\\ud800"}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_not_json_is_malformed(frame: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        wire.read_envelope(frame)
    assert caught.value.code == raw_json.PARSE_ERROR
    assert str(caught.value)


@pytest.mark.parametrize(
    "frame",
    [b"[]", b"1", b"null", b'"text"', b'{"method":1}', b'{"method":null}', b'{"method":1,"x":"\\ud800"}'],
)
def test_json_of_the_wrong_type_is_an_invalid_request(frame: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        wire.read_envelope(frame)
    assert caught.value.code == raw_json.INVALID_REQUEST


@given(st.binary(max_size=40))
@example(b'{"\xff":1}')
@example(b'{"method":"\xff"}')
def test_no_bytes_make_reading_fail_in_any_other_way(frame: bytes) -> None:
    for read in (wire.read_envelope, raw_json.members, raw_json.elements):
        try:
            read(frame)
        except Malformed:
            pass
    wire.id_of(frame)
    wire.repaired(frame)


# JSON as text, written in any of the ways that mean the same ----------------------------------------

spaces = st.text(" \t\r\n", max_size=2)
characters = st.one_of(
    st.characters(min_codepoint=0x20, exclude_characters='"\\', exclude_categories=["Cs"]),
    st.sampled_from(
        ["\\n", "\\/", '\\"', "\\\\", "\\u0061", "\\u00e9", "\\ud83d\\ude00", "\\u0000", "é", "😀"]
    ),
)
lone_surrogates = st.sampled_from(["\\ud800", "\\udfff", "\\uD834"])


def strings(surrogates: bool) -> st.SearchStrategy[str]:
    parts = st.one_of(characters, lone_surrogates) if surrogates else characters
    return st.lists(parts, max_size=6).map(lambda found: '"' + "".join(found) + '"')


numbers = st.one_of(
    st.sampled_from(["-0", "1E400", "-1e-400", "0.10", "1.0e+5", "9" * 400]),
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
)


def spaced(source: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(spaces, source, spaces).map("".join)


def values(surrogates: bool) -> st.SearchStrategy[str]:
    scalars = st.one_of(st.sampled_from(["true", "false", "null"]), numbers, strings(surrogates))

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        members = st.tuples(spaced(strings(surrogates)), spaced(inner)).map(":".join)
        return st.one_of(
            st.lists(spaced(inner), max_size=3).map(lambda items: f"[{','.join(items)}]"),
            st.lists(members, max_size=3).map(lambda items: f"{{{','.join(items)}}}"),
        )

    return st.recursive(scalars, larger, max_leaves=6)


def pairs(surrogates: bool) -> st.SearchStrategy[list[tuple[str, str]]]:
    names = st.one_of(strings(surrogates), st.sampled_from(['"a"', '"id"', '"\\u0061"']))
    return st.lists(st.tuples(names, values(surrogates)), max_size=5)


def written(found: list[tuple[str, str]], space: str) -> bytes:
    inside = f"{space},{space}".join(f"{name}{space}:{space}{value}" for name, value in found)
    return f"{space}{{{space}{inside}{space}}}{space}".encode()


def meant(found: list[tuple[str, str]]) -> dict[str, bytes]:
    return {json.loads(name): value.encode() for name, value in found}


def as_bytes(found: dict[str, raw_json.Payload]) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in found.items()}


@given(pairs(surrogates=False), spaces)
def test_each_member_of_an_object_is_exactly_its_own_bytes(found: list[tuple[str, str]], space: str) -> None:
    assert as_bytes(raw_json.members(written(found, space))) == meant(found)


@given(pairs(surrogates=True), spaces)
def test_so_it_is_where_escapes_of_lone_surrogates_stand(found: list[tuple[str, str]], space: str) -> None:
    read = as_bytes(raw_json.members(written(found, space)))
    assert read == meant(found)
    assert list(read) == list(meant(found))


@given(pairs(surrogates=False), spaces)
def test_the_slow_way_of_reading_members_agrees_with_the_fast_one(
    found: list[tuple[str, str]], space: str
) -> None:
    frame = written(found, space)
    slow = {name: text.encode() for name, text in raw_json._members(frame.decode()).items()}
    assert slow == as_bytes(raw_json.members(frame))


@given(pairs(surrogates=True), spaces)
def test_members_put_together_again_are_the_same_members(found: list[tuple[str, str]], space: str) -> None:
    read = raw_json.members(written(found, space))
    again = raw_json.members(raw_json.object_of(read.items()))
    assert as_bytes(again) == as_bytes(read)
    assert list(again) == list(read)


@given(st.lists(values(surrogates=True), max_size=5), spaces)
def test_each_element_of_an_array_is_exactly_its_own_bytes(found: list[str], space: str) -> None:
    frame = f"{space}[{space}{f'{space},{space}'.join(found)}{space}]{space}".encode()
    assert [bytes(element) for element in raw_json.elements(frame)] == [value.encode() for value in found]


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    a: str
    id: Raw | msgspec.UnsetType = UNSET
    listed: list[Raw] = []
    named: dict[str, Raw] = {}


shaped = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(['"a"', '"\\u0061"']), st.sampled_from(['"x"', '"\\n"', "1", "null"])),
        st.tuples(st.just('"id"'), values(surrogates=False)),
        st.tuples(st.just('"listed"'), st.sampled_from(["[]", '[1, {"b":2}]', "{}"])),
        st.tuples(st.just('"named"'), st.sampled_from(["{}", '{"c": [1]}', "[]"])),
        st.tuples(st.sampled_from(['"other"', '"A"']), values(surrogates=False)),
    ),
    max_size=5,
)


def outcome(reader: raw_json.Reader[Shape], frame: bytes, *, slowly: bool) -> object:
    try:
        read = reader._slowly(frame) if slowly else reader(frame)
    except Malformed as why:
        return why.code
    return (
        read.a,
        UNSET if isinstance(read.id, msgspec.UnsetType) else bytes(read.id),
        [bytes(value) for value in read.listed],
        as_bytes({**read.named}),
    )


@given(shaped, spaces)
def test_the_slow_way_of_reading_a_struct_agrees_with_the_fast_one(
    found: list[tuple[str, str]], space: str
) -> None:
    reader, frame = raw_json.Reader(Shape), written(found, space)
    # Of keys that stand twice msgspec also checks the one that does not count.
    if len(meant(found)) == len(found):
        assert outcome(reader, frame, slowly=True) == outcome(reader, frame, slowly=False)


def test_a_struct_with_lists_of_payloads_is_read_where_a_lone_surrogate_stands_in_them() -> None:
    read = raw_json.Reader(Shape)(b'{"a":"x","listed":[1,"\\ud800"],"named":{"c":"\\ud800"}}')
    assert [bytes(value) for value in read.listed] == [b"1", b'"\\ud800"']
    assert as_bytes({**read.named}) == {"c": b'"\\ud800"'}


@pytest.mark.parametrize("text", ["\\ud800", "a\\udfffb", "\\ud834"])
def test_a_text_may_have_a_lone_surrogate_in_it(text: str) -> None:
    assert raw_json.Reader(Shape)(f'{{"a":"{text}"}}'.encode()).a == json.loads(f'"{text}"')


def test_a_key_that_is_forbidden_is_so_beside_a_lone_surrogate_too() -> None:
    with pytest.raises(Malformed) as caught:
        raw_json.Reader(Shape)(b'{"a":"x","extra":"\\ud800"}')
    assert caught.value.code == raw_json.INVALID_REQUEST


# Splicing -----------------------------------------------------------------------------------------


@given(values(surrogates=True), st.sampled_from([b"1", b'"a"', b"-5", b'"\\u0061"']))
def test_an_answer_is_the_body_with_our_envelope_around_it(body: str, key: bytes) -> None:
    raw = body.encode()
    line = b"".join(wire.answer_line(key, Answer("result", raw)))
    assert line == b'{"jsonrpc":"2.0","id":' + key + b',"result":' + raw + b"}\n"


def test_a_body_is_spliced_as_it_is_without_a_copy() -> None:
    body = msgspec.json.decode(b'{"content": [ ] }', type=Raw)
    parts = wire.answer_line(Raw(b"3"), Answer("result", body))
    assert any(part is body for part in parts)
    assert b"".join(parts) == b'{"jsonrpc":"2.0","id":3,"result":{"content": [ ] }}\n'


def test_an_error_is_answered_as_error_and_its_text_is_quoted() -> None:
    answer = wire.error(raw_json.INVALID_PARAMS, 'not "so"\n\u2028')
    assert answer.failed
    line = b"".join(wire.answer_line(b"null", answer))
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32602, "message": 'not "so"\n\u2028'},
    }


@given(values(surrogates=True), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_request_is_one_line_with_the_params_as_they_are(params: str, method: str) -> None:
    raw = params.replace("\n", " ").encode()
    line = b"".join(wire.request_line(b"12", method, (raw[:1], raw[1:])))
    assert line.endswith(b',"params":' + raw + b"}\n")
    assert line.count(b"\n") == 1
    message = wire.read_envelope(line)
    assert message.method == method
    assert isinstance(message.id, Raw)
    assert bytes(message.id) == b"12"


def test_a_notification_has_no_id_and_params_only_where_there_are_some() -> None:
    assert wire.notification_line("n") == b'{"jsonrpc":"2.0","method":"n"}\n'
    assert wire.notification_line("n", b'{"a":1}') == b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}\n'


def test_an_empty_object_is_put_together_too() -> None:
    assert raw_json.object_of([]) == b"{}"
    assert raw_json.members(b" { } ") == {}


def test_text_with_a_lone_surrogate_can_be_quoted() -> None:
    assert json.loads(raw_json.encoded("a\ud800é")) == "a\ud800é"


# Damaged frames -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "key"),
    [
        (b'{"id":7,"result":NaN}', b"7"),
        (b'{"id":"seven","result":NaN}', b'"seven"'),
        (b'{"id":"\\ud800","result":NaN}', b'"\\ud800"'),
        (b'{"id":null,"result":NaN}', None),
        (b'{"id":true,"result":NaN}', None),
        (b'{"id":[1],"result":NaN}', None),
        (b'{"id":1.5,"result":NaN}', None),
        (b'{"result":NaN}', None),
        (b"[7]", None),
        (b"banner: 7", None),
        (b"", None),
        (b'{"id":7,"x":' + NESTED + b"}", b"7"),
        (b'{"x":' + NESTED + b',"id":"seven"}', b'"seven"'),
        (b'{"x":' + NESTED + b"}", None),
        (b'{"id":' + b"9" * 10_000 + b"}", None),
        (b'{"id":7,"x":"\xff"}', b"7"),
        (b'{"jsonrpc":"2.0","id":7,"result":{},}', b"7"),
        (b'{"result":{"a":1,},"jsonrpc":"2.0","id":7}', b"7"),
        (b'{"result":{},"jsonrpc":"2.0","id":7,}', b"7"),
        (b'{"result":{"a":1,},"id": "seven", "jsonrpc": "2.0" }', b'"seven"'),
        (b'{"jsonrpc":"2.0","id":7,"result":{"content":[', b"7"),
        (b'{"result":{"of":{"kind":"another","id":7}', None),
        (b"{'jsonrpc':'2.0','id':7,'result':{}}", None),
    ],
)
def test_the_id_of_a_damaged_frame_is_told_where_it_can_be(frame: bytes, key: bytes | None) -> None:
    assert wire.id_of(frame) == key


LONG = b'"params":{"text":"' + b"x" * 2000 + b'"}'


@pytest.mark.parametrize(
    ("frame", "key"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call",' + LONG + b"}", b"7"),
        (b'{"jsonrpc": "2.0", "method": "tools/call", "id": "seven", ' + LONG + b"}", b'"seven"'),
        (b'{"method":"tools/call",' + LONG + b',"jsonrpc":"2.0","id":7}\r', b"7"),
        (b'{"method":"tools/call",' + LONG + b',"id":7,"jsonrpc":"2.0"}', b"7"),
        (b"{" + LONG + b', "id": -7, "method": "tools/call", "jsonrpc": "2.0"}', b"-7"),
        (b'{"method":"tools/call",' + LONG + b"}", None),
        (b'{"method":"tools/call",' + LONG[:-1] + b',"id":7}}', None),
        (b'{"method":"tools/call","params":{"id":7,' + LONG + b"}}", None),
        (b'[{"id":7,' + LONG + b"}]", None),
        (b"x" * 5000, None),
    ],
)
def test_the_id_of_a_line_that_is_too_long_is_told_where_it_stands_at_an_end(
    frame: bytes, key: bytes | None
) -> None:
    (ends,) = Lines(limit=1024).feed(frame + b"\n")
    assert isinstance(ends, TooLong)
    assert wire.id_of(ends) == key


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_frame_of_sound_utf8_is_left_alone(text: str) -> None:
    frame = text.encode()
    assert wire.repaired(frame) is frame


@given(st.binary())
@example(b'{"a":"\xff"}')
def test_a_repaired_frame_is_sound_utf8_and_sound_parts_are_kept(frame: bytes) -> None:
    assert wire.repaired(frame).decode() == frame.decode(errors="replace")


def test_a_name_that_is_not_utf8_is_malformed() -> None:
    with pytest.raises(Malformed, match="UTF-8"):
        raw_json.members(b'{"\xff":1}')


def test_an_envelope_can_be_shown() -> None:
    assert "ping" in repr(Envelope(method="ping"))
