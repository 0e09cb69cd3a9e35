"""`"maxResultTokens"`: what is longer in a server's results is kept, shown in part, and read on request."""

import asyncio
import json
import re
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.test_contract_calling import UNTOUCHED
from tests.test_contract_dynamic import is_not_found, listed
from tests.workbench import Client, Json, alive, descendants, fake, started, toolboxes, until, use

LIMIT = 600
ROOM = LIMIT * 4  # characters that count as so many tokens
LINES = [f"line {n} of the log" for n in range(1, 1001)]
LONG = "\n".join(LINES)
IMAGE = {"type": "image", "data": "A" * 2 * ROOM, "mimeType": "image/png"}
SCHEME = "workbench-result://"
STRUCTURE: Json = {"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]}


def text(said: str, **more: Any) -> Json:
    return {"type": "text", "text": said, **more}


def answering(tool: str, result: Json | str, **more: Any) -> Json:
    """A tool that answers with this result, to the byte if it is a text."""
    written = result if isinstance(result, str) else json.dumps(result)
    return {
        "name": tool,
        "does": "result",
        "with": {"json": written},
        "inputSchema": {"type": "object"},
        **more,
    }


def limited(*tools: Json | str, limit: int = LIMIT, **script: Any) -> Json:
    return fake(tools=[*tools], **script) | {"maxResultTokens": limit}


LOG = answering("log", {"content": [text(LONG)]})


@asynccontextmanager
async def serving(
    folder: Path, *tools: Json | str, revision: str = "2025-11-25", **more: Any
) -> AsyncIterator[Client]:
    """A workbench whose runtime directory is `run`, with a limited server `a` in the toolbox `dev`."""
    async with begun(folder, toolboxes(dev={"a": limited(*tools)}) | more) as client:
        await client.initialize(revision)
        yield client


@asynccontextmanager
async def begun(folder: Path, config: Json, **options: Any) -> AsyncIterator[Client]:
    (folder / "run").mkdir(exist_ok=True)
    async with started(config, folder, env={"XDG_RUNTIME_DIR": str(folder / "run")}, **options) as client:
        yield client


def kept_in(folder: Path) -> list[Path]:
    """The files and folders in the runtime directory."""
    return sorted((folder / "run").rglob("*"))


def links(result: Json) -> list[Json]:
    return [block for block in result["content"] if block["type"] == "resource_link"]


def handles(result: Json) -> list[str]:
    return [link["uri"].removeprefix(SCHEME) for link in links(result)]


def room_of(result: Json) -> int:
    """What of a result counts: all but images."""
    counted = {**result, "content": [it for it in result["content"] if it["type"] != "image"]}
    return len(json.dumps(counted, ensure_ascii=False).encode())


async def reading(client: Client, handle: str, **more: Any) -> Json:
    return await client.result("read_result", {"handle": handle, **more})


async def read(client: Client, handle: str, **more: Any) -> str:
    result = await reading(client, handle, **more)
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


async def complaint(client: Client, handle: str, **more: Any) -> str:
    result = await reading(client, handle, **more)
    assert result["isError"] is True
    return str(result["content"][0]["text"])


async def kept(client: Client, tool: str = "log") -> str:
    """The handle of a result that is kept."""
    (handle,) = handles(await client.use("dev", "a", tool))
    return handle


# What is shown ----------------------------------------------------------------------------------


async def test_what_is_not_too_large_is_given_back_untouched(tmp_path: Path) -> None:
    whole = [
        *UNTOUCHED,
        json.dumps({"content": [text("x" * ROOM)]}),
        json.dumps({"content": [text("x"), IMAGE], "_meta": {"k": "x" * 2 * ROOM}}),
    ]
    tools = [answering(f"t{n}", result) for n, result in enumerate(whole)]
    async with serving(tmp_path, *tools) as client:
        for n, result in enumerate(whole):
            line = await client.line(client.begin_use("dev", "a", f"t{n}"))
            assert line == b'{"jsonrpc":"2.0","id":%d,"result":%b}\n' % (n + 2, result.encode())
    assert kept_in(tmp_path) == []


async def test_a_longer_text_is_shown_by_its_beginning_and_its_end_with_a_link(tmp_path: Path) -> None:
    async with serving(tmp_path, LOG) as client:
        result = await client.use("dev", "a", "log")
    first, link = result["content"]
    assert room_of(result) <= ROOM
    head, notice, tail = re.split(r"\n(\[….*\])\n", first["text"])
    assert LONG.startswith(f"{head}\n")
    assert LONG.endswith(f"\n{tail}")
    assert len(head) > len(tail) > 200
    (handle,) = handles(result)
    next_line = head.count("\n") + 2
    assert f'read_result {{"handle": "{handle}", "lines": "{next_line}-"}}' in notice
    assert link == {
        "type": "resource_link",
        "uri": SCHEME + handle,
        "name": "log",
        "mimeType": "text/plain",
        "size": len(LONG),
    }


async def test_all_else_of_the_result_stays(tmp_path: Path) -> None:
    result = {"_meta": {"vendor/k": [1.5]}, "isError": True, "future": {"x": None}}
    noted = text(LONG, annotations={"priority": 0.1}, _meta={"n": 1})
    embedded = {"type": "resource", "resource": {"uri": "a:b", "blob": "A" * 2 * ROOM}}
    tool = answering("t", result | {"content": [IMAGE, noted, embedded, text("the end")]})
    async with serving(tmp_path, tool) as client:
        shown = await client.use("dev", "a", "t")
    assert {name: part for name, part in shown.items() if name != "content"} == result
    image, cut, blob, end, _link = shown["content"]
    assert (image, blob, end) == (IMAGE, embedded, text("the end"))
    assert {**cut, "text": LONG} == noted
    assert len(cut["text"]) < ROOM


async def test_two_large_texts_are_each_shown_in_part_and_read_by_themselves(tmp_path: Path) -> None:
    other = LONG.replace("log", "book")
    async with serving(tmp_path, answering("t", {"content": [text(LONG), text(other)]})) as client:
        result = await client.use("dev", "a", "t")
        assert room_of(result) <= ROOM
        one, two = (block["text"] for block in result["content"][:2])
        assert one.startswith("line 1 of the log") and two.startswith("line 1 of the book")  # noqa: PT018
        for handle, last in zip(handles(result), ("log", "book"), strict=True):
            assert await read(client, handle, lines="-1") == f"line 1000 of the {last}\n[line 1,000 of 1,000]"


async def test_structured_content_is_left_out_and_can_be_read(tmp_path: Path) -> None:
    items = [{"n": n} for n in range(1000)]
    says_more = {"content": [text("1,000 items")], "structuredContent": {"items": items}}
    says_same = {"content": [text(json.dumps({"items": items}))], "structuredContent": {"items": items}}
    async with serving(tmp_path, answering("more", says_more), answering("same", says_same)) as client:
        for tool in ("more", "same"):
            result = await client.use("dev", "a", tool)
            assert "structuredContent" not in result
            assert room_of(result) <= ROOM
            (link,) = links(result)
            assert link["mimeType"] == "application/json"
            (handle,) = handles(result)
            whole = await client.ask("resources/read", {"uri": link["uri"]})
            assert json.loads(whole["result"]["contents"][0]["text"]) == {"items": items}
            assert f'"{handle}"' in json.dumps(result).replace('\\"', '"')


async def test_only_the_servers_that_have_the_key_are_limited(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": limited(LOG), "b": fake(tools=[LOG])})
    async with begun(tmp_path, config) as client:
        assert await client.text("dev", "b", "log") == LONG
        assert await client.text("dev", "a", "log") != LONG


async def test_what_fails_for_its_arguments_has_its_schema_and_is_within_the_limit(tmp_path: Path) -> None:
    refused = {"content": [text(f"Invalid arguments: {LONG}")], "isError": True}
    async with serving(tmp_path, answering("t", refused), detail="names") as client:
        result = await client.use("dev", "a", "t")
    assert room_of(result) <= ROOM
    assert text('Input schema of t: {"type":"object"}') in result["content"]


async def test_a_client_of_an_early_revision_gets_no_block_that_it_cannot_read(tmp_path: Path) -> None:
    async with serving(tmp_path, LOG, revision="2025-03-26") as client:
        (shown,) = (await client.use("dev", "a", "log"))["content"]
        (handle,) = re.findall(r'"handle": "(\w+)"', shown["text"])
        assert await read(client, handle, lines="7") == f"{LINES[6]}\n[line 7 of 1,000]"


# Natively ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["dev__a_log", "use_readonly_tool"])
async def test_it_is_so_whichever_way_a_tool_is_called(by: str, tmp_path: Path) -> None:
    log = {**LOG, "annotations": {"readOnlyHint": True}}
    config = toolboxes(dev={"a": limited(log) | {"trustAnnotations": True}})
    async with begun(tmp_path, config | {"toolMode": "dynamic", "readOnlyTools": True}) as client:
        await client.open("dev")
        result = await client.result(by, use("dev", "a", "log") if by == "use_readonly_tool" else {})
        assert room_of(result) <= ROOM
        (handle,) = handles(result)
        assert (await read(client, handle)).startswith(LINES[0])


@pytest.mark.parametrize("arguments", [(), ("--toolbox", "dev")])
async def test_a_tool_whose_results_may_be_cut_promises_no_structure_natively(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    tool = answering("t", {"content": []}, outputSchema=STRUCTURE)
    config = toolboxes(dev={"a": limited(tool), "b": fake(tools=[tool])}) | {"toolMode": "dynamic"}
    async with begun(tmp_path, config, arguments=arguments) as client:
        await client.open("dev")
        tools = {name.rpartition("__")[2]: tool for name, tool in (await listed(client)).items()}
    assert "outputSchema" not in tools["a_t"]
    assert tools["b_t"]["outputSchema"] == STRUCTURE


# Reading ----------------------------------------------------------------------------------------


async def test_read_result_is_there_only_where_a_server_has_the_key(tmp_path: Path) -> None:
    async with begun(tmp_path, toolboxes(dev={"a": fake(tools=["echo"])})) as client:
        assert "read_result" not in await listed(client)
        assert await is_not_found(client, "read_result")
        unknown = await client.ask("resources/read", {"uri": f"{SCHEME}{'0' * 32}"})
        assert unknown["error"]["code"] == -32002
    async with serving(tmp_path, LOG, metaToolPrefix="workbench_") as client:
        assert (await listed(client))["workbench_read_result"]["annotations"]["readOnlyHint"] is True
        shown = await client.result("workbench_use_tool", use("dev", "a", "log"))
        assert "workbench_read_result {" in shown["content"][0]["text"]


async def test_going_on_as_each_answer_says_reads_all(tmp_path: Path) -> None:
    async with serving(tmp_path, LOG) as client:
        handle, found, lines = await kept(client), list[str](), "1-"
        while lines:
            *part, note = (await read(client, handle, lines=lines)).split("\n")
            assert len("\n".join((*part, note))) <= ROOM
            found += part
            lines = "".join(re.findall(r'"lines": "([^"]+)" goes on', note))
        assert found == LINES


PARTS: list[tuple[Json, str]] = [
    ({"lines": "2-3"}, r"line 2 of the log\nline 3 of the log\n\[line 3 of 1,000\]"),
    ({"lines": "-1"}, r"line 1000 of the log\n\[line 1,000 of 1,000\]"),
    ({"lines": "10+5"}, r'10 of the log\nline 11 of (?s:.*)\n\[line \d+ of 1,000; "lines": "\d+-" goes on\]'),
    ({"lines": "2000-"}, r"\[there are only 1,000 lines\]"),
    ({"grep": "line 99[89]"}, r"998: line 998 of the log\n999: line 999 of the log"),
    ({"grep": "line 9", "lines": "1-20"}, r"9: line 9 of the log"),
    ({"grep": "no such"}, r"\[nothing found\]"),
    (
        {"grep": "log"},
        r'1: line 1 of (?s:.*)\n\[there may be more; "lines": "\d+-1000" with this grep goes on\]',
    ),
]

# What means nothing, or asks for too much; and what is said to it.
COMPLAINTS: list[tuple[Json, str]] = [
    ({"lines": "all"}, 'lines: expected "10-40"'),
    ({"lines": 5}, "lines: expected string, received number"),
    ({"grep": "("}, "not a regular expression"),
    ({"more": 1}, "Unrecognized key: 'more'"),
    ({"grep": "a", "jq": "."}, "jq goes without lines and grep"),
]


async def test_parts_are_read_by_lines_and_by_a_pattern_within_the_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, LOG) as client:
        handle = await kept(client)
        for asked, told in PARTS:
            answer = await read(client, handle, **asked)
            assert re.fullmatch(told, answer), answer
            assert len(answer) <= ROOM


async def test_what_means_nothing_is_refused_in_words(tmp_path: Path) -> None:
    async with serving(tmp_path, LOG) as client:
        handle = await kept(client)
        for asked, told in COMPLAINTS:
            assert told in await complaint(client, handle, **asked)
        nameless = await client.result("read_result", {})
    assert nameless["content"][0]["text"] == "Invalid parameters: handle: required"


@pytest.mark.skipif(not find_spec("jq"), reason="jq is not here")
async def test_what_is_json_is_asked_by_jq(tmp_path: Path) -> None:
    value = {"items": [{"n": n, "name": f"thing {n}"} for n in range(1000)], "big": 9007199254740991}
    async with serving(tmp_path, answering("t", {"content": [text(json.dumps(value))]}), LOG) as client:
        handle = await kept(client, "t")
        assert await read(client, handle, jq=".items | length") == "1000"
        assert await read(client, handle, jq=".items[7].name, .big") == '"thing 7"\n9007199254740991'
        assert await read(client, handle, jq=".none[]?") == "[nothing found]"
        assert "there is more: ask for less" in await read(client, handle, jq=".")
        assert len(await read(client, handle, jq=".items[]")) <= ROOM
        assert "jq:" in await complaint(client, handle, jq=".[")
        assert await read(client, handle, jq="env") == "{}"
        assert "jq:" in await complaint(client, await kept(client, "log"), jq=".")


async def test_handles_of_nobody_and_of_another_workbench_lead_nowhere(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    async with serving(folders[0], LOG) as one, serving(folders[1], LOG) as two:
        handle = await kept(one)
        own = await kept(two)
        for bad in (handle, "", "lock", f"../{handle}", own.upper(), f"{own}\0", "\ud800", "x" * 10_000):
            told = await complaint(two, bad, lines="1-")
            assert "not found" in told or "lone surrogate" in told
            assert len(told) < 300
            answer = await two.ask("resources/read", {"uri": SCHEME + bad})
            assert answer["error"]["code"] in (-32002, -32602), answer
        assert (await read(one, handle)).startswith(LINES[0])


async def test_a_link_can_be_read_as_the_resource_that_it_is(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": limited(LOG, resources=["x://own"])})
    async with begun(tmp_path, config) as client:
        await client.open("dev")
        handle = await kept(client)
        answer = await client.ask("resources/read", {"uri": SCHEME + handle})
        listed = (await client.ask("resources/list"))["result"]["resources"]
    assert answer["result"] == {
        "contents": [{"uri": SCHEME + handle, "mimeType": "text/plain", "text": LONG}]
    }
    assert [resource["uri"] for resource in listed] == ["x://own"]


# The files --------------------------------------------------------------------------------------


async def test_what_is_kept_is_for_nobody_else_and_is_gone_at_the_end_of_stdin(tmp_path: Path) -> None:
    async with serving(tmp_path, LOG) as client:
        assert kept_in(tmp_path) == []  # before there is a need
        handle = await kept(client)
        folder, *files = kept_in(tmp_path)
        assert handle in [file.name for file in files]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert kept_in(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_it_is_gone_after_a_signal_too(number: int, tmp_path: Path) -> None:
    async with serving(tmp_path, LOG) as client:
        await kept(client)
        client.process.send_signal(number)
        await client.gone()
        assert kept_in(tmp_path) == []


async def test_what_a_killed_workbench_left_is_removed_when_another_keeps_something(tmp_path: Path) -> None:
    async with serving(tmp_path, LOG) as living, serving(tmp_path, LOG) as killed:
        held = await kept(living)
        left = await kept(killed)
        killed.process.kill()
        await killed.gone()
        assert left in [path.name for path in kept_in(tmp_path)]
        async with serving(tmp_path, LOG) as another:
            await kept(another)
            assert left not in [path.name for path in kept_in(tmp_path)]
            assert (await read(living, held)).startswith(LINES[0])
    assert kept_in(tmp_path) == []


async def test_where_nothing_can_be_kept_the_result_passes_whole(tmp_path: Path) -> None:
    async with serving(tmp_path, LOG) as client:
        handle = await kept(client)
        (tmp_path / "run").rename(tmp_path / "elsewhere")
        assert await client.use("dev", "a", "log") == {"content": [text(LONG)]}
        (tmp_path / "elsewhere").rename(tmp_path / "run")
        assert await kept(client) != handle
    assert b"cannot be kept" in client.stderr


async def test_a_file_that_somebody_removed_is_said_to_be_gone(tmp_path: Path) -> None:
    async with serving(tmp_path, LOG) as client:
        handle = await kept(client)
        for path in kept_in(tmp_path):
            if path.name == handle:
                path.unlink()
        assert "cannot be read any more" in await complaint(client, handle)
        answer = await client.ask("resources/read", {"uri": SCHEME + handle})
    assert answer["error"]["code"] == -32002


async def test_a_search_that_never_ends_is_ended_with_its_call(tmp_path: Path) -> None:
    endless = answering("t", {"content": [text("a" * 3 * ROOM)]})
    async with serving(tmp_path, endless) as client:
        handle = await kept(client, "t")
        params = {"name": "read_result", "arguments": {"handle": handle, "grep": "(a+)+b"}}
        before = set(descendants(client.process.pid))
        searching = client.begin("tools/call", params)
        await until(lambda: set(descendants(client.process.pid)) - before)
        (child,) = set(descendants(client.process.pid)) - before
        client.tell("notifications/cancelled", {"requestId": searching.request_id})  # type: ignore[attr-defined]
        async with asyncio.timeout(4):  # by itself it ends after 5 s of computing
            await until(lambda: not alive(child))
        assert (await client.ask("ping"))["result"] == {}
