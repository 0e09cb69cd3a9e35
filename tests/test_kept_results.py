"""Tier 1: results that are too large: what is kept, what is shown, and how the rest is read."""

import asyncio
import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_workbench import raw_json
from mcp_workbench.config_file import LEAST_RESULT_TOKENS
from mcp_workbench.errors import InvalidParameters, NotFound
from mcp_workbench.kept_results import (
    KeptResults,
    oversized,
    read_part,
    runtime_folder,
    without_promise,
)
from mcp_workbench.kept_results.parts import Span, lines_of, span_of
from mcp_workbench.kept_results.shortening import BYTES_PER_TOKEN
from mcp_workbench.metatools.requests import read_reading

from .fake_link import dumped

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

LIMIT = 600
ROOM = LIMIT * BYTES_PER_TOKEN
LINES = "\n".join(f"line {n} of the log" for n in range(1, 1001))


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def shorter(result: dict[str, Any], limit: int = LIMIT) -> tuple[dict[str, Any], list[bytes]]:
    """The shortened result, and what is kept: its handles are h0, h1, …"""
    found = oversized(dumped(result), limit)
    assert found
    made = found.shortened([f"h{n}" for n in range(len(found.texts))], "log", "read_result")
    return json.loads(made), list(found.texts)


# Shortening ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [
        {"content": []},
        {},
        {"content": [text("x" * ROOM)]},
        {"content": [{"type": "image", "data": "A" * 100_000, "mimeType": "image/png"}, text("small")]},
        {"content": [text("small")], "_meta": {"x": "y" * 100_000}},
        {"content": [{"type": "resource", "resource": {"uri": "a:b", "blob": "A" * 100_000}}]},
        {"content": [{"type": 5, "text": "x" * 100_000}, {"type": "text"}, {"type": "text", "text": 5}]},
    ],
)
def test_what_is_not_too_large_passes(result: dict[str, Any]) -> None:
    assert oversized(dumped(result), LIMIT) is None


@pytest.mark.parametrize("result", [b"", b"[" + b"1," * 9000 + b"1]", b'{"content":' + b" " * 9000 + b"5}"])
def test_what_is_no_result_passes(result: bytes) -> None:
    assert oversized(result, LIMIT) is None


def test_a_long_text_is_shown_by_its_beginning_and_its_end() -> None:
    made, kept = shorter({"content": [text(LINES)]})
    assert kept == [LINES.encode()]
    shown, link = made["content"]
    assert shown["text"].startswith("line 1 of the log\nline 2 of")
    assert shown["text"].endswith("\nline 999 of the log\nline 1000 of the log")
    assert '"handle": "h0"' in shown["text"]
    assert link == {
        "type": "resource_link",
        "uri": "workbench-result://h0",
        "name": "log",
        "mimeType": "text/plain",
        "size": len(LINES),
    }


def test_what_the_notice_names_is_the_first_that_is_left_out() -> None:
    for said in (LINES, "é" * 5000, "one\n" + "x" * 9000, "\n" * 9000):
        made, (kept,) = shorter({"content": [text(said)]})
        head, _, notice = made["content"][0]["text"].partition("\n[… ")
        lines = notice.partition('"lines": "')[2].partition('"')[0]
        rest = lines_of(kept, span_of(lines), 10**6)
        assert said.startswith(head)
        missing = said[len(head) :]
        # Where a line ends at the cut, its end is shown by the notice's own line.
        assert missing.removeprefix("\n").startswith(rest.rpartition("\n[")[0][:500])


def test_all_else_stays_byte_for_byte() -> None:
    image = b'{"type":"image", "data":"AA\\u0041", "mimeType": "image/png"}'
    block = dumped(text(LINES, annotations={"audience": ["user"]}))
    result = b'{"content":[%b,%b],"isError": true,"_meta":{"n": 1.50},"later":{"a":  1}}' % (image, block)
    found = oversized(result, LIMIT)
    assert found
    parts = raw_json.members(found.shortened(["h0"], "log", "read_result"))
    assert bytes(parts["_meta"]) == b'{"n": 1.50}'
    assert bytes(parts["later"]) == b'{"a":  1}'
    assert bytes(parts["isError"]) == b"true"
    first, second, _ = raw_json.elements(parts["content"])
    assert bytes(first) == image
    assert bytes(raw_json.members(second)["annotations"]) == b'{"audience":["user"]}'


def test_only_the_largest_texts_are_cut() -> None:
    made, kept = shorter({"content": [text("small"), text(LINES), text("also small")]}, 2000)
    assert kept == [LINES.encode()]
    assert made["content"][0] == text("small")
    assert made["content"][2] == text("also small")
    made, kept = shorter({"content": [text(LINES), text(LINES.upper())]}, 2000)
    assert kept == [LINES.encode(), LINES.upper().encode()]
    assert [block.get("uri") for block in made["content"]] == [
        None,
        None,
        "workbench-result://h0",
        "workbench-result://h1",
    ]


def test_many_small_texts_become_one() -> None:
    made, kept = shorter({"content": [text(f"entry {n}") for n in range(2000)]})
    assert kept == ["\n".join(f"entry {n}" for n in range(2000)).encode()]
    shown, _ = made["content"]
    assert shown["text"].startswith("entry 0\nentry 1\n")


def test_the_text_of_a_resource_is_cut_in_its_place() -> None:
    made, kept = shorter({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": LINES}}]})
    assert kept == [LINES.encode()]
    assert made["content"][0]["resource"]["uri"] == "a:b"
    assert "left out" in made["content"][0]["resource"]["text"]


ROWS = [{"id": n, "name": f"row {n}"} for n in range(300)]


@pytest.mark.parametrize(
    ("said", "structured"),
    [
        (json.dumps(ROWS), {"result": ROWS}),
        (json.dumps({"rows": ROWS}, indent=2), {"rows": ROWS}),
        (LINES, {"result": LINES}),
        (LINES, {"content": LINES}),
        (json.dumps(ROWS), {"rows": ROWS}),
    ],
)
def test_structured_content_that_says_the_same_is_dropped_and_kept_once(said: str, structured: Any) -> None:
    made, kept = shorter({"content": [text(said)], "structuredContent": structured})
    assert kept == [said.encode()]
    assert "structuredContent" not in made
    assert made["content"][1] == text("[structuredContent is left out: it says the same as the text]")


def test_structured_content_that_says_more_is_kept_by_itself() -> None:
    made, kept = shorter({"content": [text("300 rows")], "structuredContent": {"rows": ROWS}})
    assert kept == [dumped({"rows": ROWS})]
    assert "structuredContent" not in made
    assert made["content"][0] == text("300 rows")
    assert '{"handle": "h0"}' in made["content"][1]["text"]
    assert made["content"][2]["mimeType"] == "application/json"


@pytest.mark.parametrize("limit", [LEAST_RESULT_TOKENS, 700, 2000])
def test_texts_and_structure_that_are_kept_are_within_the_bound_together(limit: int) -> None:
    result = {"content": [text(LINES), text(LINES.upper())], "structuredContent": {"rows": ROWS}}
    found = oversized(dumped(result), limit)
    assert found
    made = json.loads(found.shortened(["f" * 32] * len(found.texts), "n" * 100, "workbench_read_result"))
    said = sum(len(block["text"].encode()) for block in made["content"] if block["type"] == "text")
    links = sum(len(dumped(block)) for block in made["content"] if block["type"] == "resource_link")
    assert limit * BYTES_PER_TOKEN * 0.5 < said + links <= limit * BYTES_PER_TOKEN


def test_a_lone_surrogate_is_no_obstacle() -> None:
    result = b'{"content":[{"type":"text","text":"\\ud800%b"}]}' % (b"x" * 9000)
    found = oversized(result, LIMIT)
    assert found
    assert found.texts == (b"?" + b"x" * 9000,)
    json.loads(found.shortened(["h0"], "log", "read_result"))


pieces = st.one_of(
    st.sampled_from(["a", "\n", "é", "🙂", "word ", "line\n", '"', "\\", "\x00"]), st.text(max_size=3)
)
long_texts = st.builds(
    lambda piece, times: "".join(piece) * times, st.lists(pieces, max_size=5), st.integers(0, 900)
)
blocks = st.one_of(
    long_texts.map(text),
    long_texts.map(lambda said: {"type": "resource", "resource": {"uri": "a:b", "text": said}}),
    st.just({"type": "image", "data": "AAAA", "mimeType": "image/png"}),
)


@unhurried
@given(
    st.lists(blocks, max_size=8),
    st.none() | st.builds(lambda said: {"result": said}, long_texts),
    st.integers(0, 3000),
)
def test_a_shortened_result_keeps_all_and_is_within_the_bound(
    content: list[Any], structured: Any, limit: int
) -> None:
    result = {"content": content, **({"structuredContent": structured} if structured else {})}
    found = oversized(dumped(result), limit)
    room = max(limit, LEAST_RESULT_TOKENS) * BYTES_PER_TOKEN
    texts = [said for block in content if (said := _said(block)) is not None]
    size = sum(len(said.encode()) for said in texts) + (len(dumped(structured)) if structured else 0)
    if found is None:
        assert size <= room
        return
    assert size > room or len(dumped(result)) > room
    made = json.loads(found.shortened(["f" * 32] * len(found.texts), "n" * 100, "workbench_read_result"))
    links = [block for block in made["content"] if block["type"] == "resource_link"]
    assert len(links) == len(found.texts)
    shown = [said for block in made["content"] if (said := _said(block)) is not None]
    assert sum(len(said.encode()) for said in shown) + sum(len(dumped(link)) for link in links) <= room
    images = [block for block in content if block["type"] == "image"]
    assert [block for block in made["content"] if block["type"] == "image"] == images
    for said in texts:  # as it came, or kept
        assert said in shown or any(said.encode() in kept for kept in found.texts)


def _said(block: Any) -> str | None:
    said = block.get("resource", block).get("text")
    return said if isinstance(said, str) else None


def test_a_tool_whose_results_may_be_shortened_promises_no_structure() -> None:
    assert without_promise(b'{"name":"a"}') == b'{"name":"a"}'
    assert without_promise(b'{"name":"a","outputSchema":{"type":"object"},"x": 1}') == b'{"name":"a","x":1}'


# Asking -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "span"),
    [
        (None, Span()),
        ("10-40", Span(10, 40)),
        ("10-", Span(10)),
        ("7", Span(7, 7)),
        ("-20", Span(from_end=20)),
        ("3+500", Span(3, offset=500)),
    ],
)
def test_lines_may_be_asked_for_in_these_ways(lines: str | None, span: Span) -> None:
    assert span_of(lines) == span


@pytest.mark.parametrize("lines", ["", "a", "10-40-50", "1,2", "10 40", "-", "+5", "1+", "٣", "9" * 30])
def test_other_ways_are_refused(lines: str) -> None:
    with pytest.raises(InvalidParameters, match="lines: expected"):
        span_of(lines)


@pytest.mark.parametrize(
    "arguments",
    [
        b"{}",
        b"[]",
        b'{"handle":5}',
        b'{"handle":"h","other":1}',
    ],
)
def test_a_request_that_means_nothing_is_refused(arguments: bytes) -> None:
    with pytest.raises(InvalidParameters, match="Invalid parameters"):
        read_reading(arguments)


@pytest.mark.parametrize("more", [{"grep": "a"}, {"lines": "1-"}])
async def test_jq_goes_alone(more: dict[str, str], tmp_path: Path) -> None:
    store = KeptResults(str(tmp_path))
    asked = read_reading(dumped({"handle": store.keep(b"{}"), "jq": ".", **more}))
    with pytest.raises(InvalidParameters, match="jq goes without lines and grep"):
        await read_part(store, asked, LIMIT)


# Lines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ("2-3", "b\nc\n[line 3 of 4]"),
        ("3-", "c\nd\n[line 4 of 4]"),
        ("-1", "d\n[line 4 of 4]"),
        ("-9", "a\nb\nc\nd\n[line 4 of 4]"),
        ("0-1", "a\n[line 1 of 4]"),
        ("9-", "[there are only 4 lines]"),
        ("4+1", "\n[line 4 of 4]"),
    ],
)
def test_lines_are_read_as_they_are(lines: str, answer: str) -> None:
    assert lines_of(b"a\nb\nc\nd\n", span_of(lines), 1000) == answer


@unhurried
@given(st.lists(long_texts, max_size=4).map("\n".join).filter(bool))
def test_going_on_as_each_answer_says_reads_all_within_the_bound(said: str) -> None:
    data, lines, read = said.encode(), "1-", ""
    for _ in range(len(data) + 1):
        part = lines_of(data, span_of(lines), LEAST_RESULT_TOKENS)
        assert len(part.encode()) <= LEAST_RESULT_TOKENS * BYTES_PER_TOKEN
        shown, _, note = part.rpartition("[")
        read += shown.removesuffix("\n") if note.startswith("within") else shown
        if '"lines"' not in note:
            break
        lines = note.partition('"lines": "')[2].partition('"')[0]
    assert read.removesuffix("\n") == said.removesuffix("\n")


# Searching ----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeptResults]:
    kept = KeptResults(str(tmp_path))
    yield kept
    kept.close()


async def asked(store: KeptResults, said: str, limit: int = LIMIT, **request: str) -> str:
    handle = store.keep(said.encode())
    return await read_part(store, read_reading(dumped({"handle": handle, **request})), limit)


@pytest.mark.parametrize("pattern", ["line 77 ", "line (?:77) "])  # at once, and in another process
async def test_grep_shows_lines_with_their_numbers(store: KeptResults, pattern: str) -> None:
    assert await asked(store, LINES, grep=pattern) == "77: line 77 of the log"
    assert await asked(store, LINES, grep=pattern, lines="78-") == "[nothing found]"
    assert await asked(store, LINES, grep=pattern, lines="-10") == "[nothing found]"


ONE_LINE = json.dumps([{"name": "x" * 150, "line": f"line {n} of the log"} for n in range(1, 1001)])


@pytest.mark.parametrize("said", [LINES, ONE_LINE])
@pytest.mark.parametrize("pattern", ["of the log", "of the [l]og"])
async def test_grep_goes_on_as_each_answer_says(store: KeptResults, said: str, pattern: str) -> None:
    handle, lines = store.keep(said.encode()), "1-"
    found: list[str] = []
    while lines:
        request = read_reading(dumped({"handle": handle, "grep": pattern, "lines": lines}))
        answer = await read_part(store, request, 8000)
        assert len(answer.encode()) <= 8000 * BYTES_PER_TOKEN
        rows, _, note = answer.rpartition("\n[there may be more")
        found += (rows or answer).split("\n")
        lines = note.partition('"lines": "')[2].partition('"')[0] if rows else ""
    assert len(found) == len(set(found))
    for n in range(1, 1001):
        assert len([row for row in found if f"line {n} of the log" in row]) == 1


async def test_a_pattern_that_never_ends_is_ended(
    store: KeptResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*args: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*args, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    handle = store.keep(b"a" * 60)
    request = read_reading(dumped({"handle": handle, "grep": "(a|aa)+$b"}))
    with pytest.raises(InvalidParameters, match="make it simpler"):
        await read_part(store, request, LIMIT, seconds=0.5)
    assert [process.returncode for process in started] == [-9]


async def test_what_is_no_pattern_is_refused(store: KeptResults) -> None:
    with pytest.raises(InvalidParameters, match="not a regular expression"):
        await asked(store, "a", grep="(")


needs_jq = pytest.mark.skipif(find_spec("jq") is None, reason="jq is an extra")


async def test_without_jq_it_is_said_how_to_get_it(
    store: KeptResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidParameters, match=r"pip install 'mcp-workbench\[jq\]'"):
        await asked(store, "{}", jq=".")


@needs_jq
async def test_jq_reads_what_it_makes_of_json(store: KeptResults) -> None:
    said = json.dumps({"rows": ROWS})
    assert await asked(store, said, jq=".rows | length") == "300"
    assert await asked(store, said, jq=".rows[3:5][].name") == '"row 3"\n"row 4"'
    assert "ask for less" in await asked(store, said, jq=".rows[]")


@needs_jq
@pytest.mark.parametrize("program", [".[", "error", 'import "a" as $a {search: "/"}; $a', "input"])
async def test_a_program_that_fails_says_why(store: KeptResults, program: str) -> None:
    with pytest.raises(InvalidParameters, match="jq"):
        await asked(store, "{}", jq=program)


@needs_jq
async def test_jq_sees_neither_the_environment_nor_files(
    store: KeptResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    (tmp_path / "data.json").write_text('"secret"')
    assert await asked(store, "{}", jq="env, $ENV") == "{}\n{}"
    with pytest.raises(InvalidParameters):
        await asked(store, "{}", jq=f'import "data" as $it {{search: "{tmp_path}"}}; $it')


@needs_jq
async def test_a_program_that_never_ends_is_ended(store: KeptResults) -> None:
    handle = store.keep(b"1")
    with pytest.raises(InvalidParameters, match="make it simpler"):
        await read_part(store, read_reading(dumped({"handle": handle, "jq": "last(repeat(1))"})), LIMIT, 0.5)


# Files --------------------------------------------------------------------------------------------


def test_what_is_kept_can_be_read_until_it_is_closed(tmp_path: Path) -> None:
    store = KeptResults(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    handle = store.keep(b"said")
    assert store.read(handle) == b"said"
    assert len(handle) == 32
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    store.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotFound):
        store.read(handle)


@pytest.mark.parametrize("handle", ["", "..", "../secret", "/etc/passwd", "lock", "0" * 32, "\x00"])
def test_only_its_own_handles_lead_to_files(store: KeptResults, tmp_path: Path, handle: str) -> None:
    (tmp_path / "secret").write_text("secret")
    store.keep(b"said")
    with pytest.raises(NotFound):
        store.read(handle)


def test_the_oldest_make_room(tmp_path: Path) -> None:
    store = KeptResults(str(tmp_path), most_bytes=10, most_results=3)
    first, second = store.keep(b"1234"), store.keep(b"5678")
    third = store.keep(b"90ab")
    with pytest.raises(NotFound, match="not kept any more"):
        store.read(first)
    assert store.read(second) == b"5678"
    store.keep(b"")
    store.keep(b"")
    with pytest.raises(NotFound):
        store.read(second)
    assert store.read(third) == b"90ab"
    with pytest.raises(OSError, match="more than is kept"):
        store.keep(b"x" * 11)
    assert store.read(third) == b"90ab"
    store.close()


def test_a_file_that_is_gone_is_said_to_be(store: KeptResults) -> None:
    handle = store.keep(b"said")
    os.unlink(store.path(handle))
    with pytest.raises(NotFound, match="cannot be read any more"):
        store.read(handle)


def test_what_a_killed_workbench_left_is_removed_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    killed = f"""
import os
from mcp_workbench.kept_results import KeptResults
KeptResults({str(tmp_path)!r}).keep(b"left")
os._exit(9)
"""
    living, new = KeptResults(str(tmp_path)), KeptResults(str(tmp_path))
    kept = living.keep(b"said")
    subprocess.run([sys.executable, "-c", killed], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    new.keep(b"new")
    assert living.read(kept) == b"said"
    assert len(list(tmp_path.iterdir())) == 2
    for store in (living, new):
        store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = KeptResults(str(tmp_path))
    with monkeypatch.context() as broken:
        broken.setattr(os, "rename", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                store.keep(b"kept")
    assert list(tmp_path.iterdir()) == []
    assert store.read(store.keep(b"kept")) == b"kept"
    with monkeypatch.context() as broken:
        broken.setattr("mcp_workbench.kept_results.store._write", full)
        with pytest.raises(OSError, match="No space left"):
            store.keep(b"more")
    assert store.read(store.keep(b"kept")) == b"kept"
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error_for_the_caller(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        KeptResults(str(tmp_path / "missing")).keep(b"said")


def test_the_runtime_folder_is_the_first_that_there_is(tmp_path: Path) -> None:
    assert runtime_folder({"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": "/"}) == str(tmp_path)
    assert runtime_folder({"XDG_RUNTIME_DIR": "relative", "TMPDIR": str(tmp_path)}) == str(tmp_path)
    assert runtime_folder({"XDG_RUNTIME_DIR": str(tmp_path / "missing")}) == "/tmp"
    assert runtime_folder({}) == "/tmp"
