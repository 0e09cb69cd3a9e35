"""Remote servers, over streamable HTTP and HTTP+SSE, through the command; and what they may do wrong."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from .http_server import (
    ECHO,
    SESSION,
    Exchange,
    HttpServer,
    behave,
    entry,
    first,
    http_server,
    refusing,
)
from .servers.asking_server import Asking
from .servers.over_http import streamable, two_channels
from .test_command import files_in
from .workbench import Client, Json, fake, serving, started, toolboxes, until

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may be behind one."""
    monkeypatch.setenv("NO_PROXY", "*")


Way = Callable[[Asking], AbstractAsyncContextManager[Json]]


@asynccontextmanager
async def by_http(asking: Asking) -> AsyncIterator[Json]:
    async with streamable(asking.server) as url:
        yield {"type": "http", "url": url}


@asynccontextmanager
async def by_json(asking: Asking) -> AsyncIterator[Json]:
    async with streamable(asking.server, json_response=True) as url:
        yield {"type": "http", "url": url}


@asynccontextmanager
async def by_sse(asking: Asking) -> AsyncIterator[Json]:
    async with two_channels(asking.server) as url:
        yield {"type": "sse", "url": url}


every_way = pytest.mark.parametrize("way", [by_http, by_json, by_sse])
with_streams = pytest.mark.parametrize("way", [by_http, by_sse])


@asynccontextmanager
async def asking_server(
    way: Way, folder: Path, mode: str = "proxy", **options: Any
) -> AsyncIterator[tuple[Client, Asking]]:
    """A client of the SDK's server `a` in the toolbox `dev`, which is open."""
    asking = Asking()
    async with way(asking) as server:
        config = toolboxes(dev={"a": server}) | {"toolMode": mode}
        async with serving(config, folder, **options) as client:
            await client.open("dev")
            yield client, asking


@asynccontextmanager
async def with_http(
    folder: Path, server: HttpServer, env: dict[str, str] | None = None, **more: Any
) -> AsyncIterator[Client]:
    """A client of `server` as `a` in the toolbox `dev`, not open yet."""
    async with serving(toolboxes(dev={"a": entry(server, **more)}), folder, env=env) as client:
        yield client


async def failure(client: Client, toolbox: str = "dev") -> str:
    """Why the only server of a toolbox could not be reached."""
    result = await client.result("open_toolbox", {"toolbox_name": toolbox})
    assert result["isError"], result
    return str(result["content"][0]["text"])


def text(result: Json) -> str:
    return str(result["content"][0]["text"])


# With servers of the official SDK ------------------------------------------------------------------


@every_way
async def test_tools_resources_and_prompts_of_a_remote_server_are_there(way: Way, tmp_path: Path) -> None:
    async with asking_server(way, tmp_path) as (client, asking):
        assert await client.use("dev", "a", "measures", reading={"celsius": 3})
        listed = await client.ask("resources/list")
        assert "memo://plan" in [it["uri"] for it in listed["result"]["resources"]]
        read = await client.ask("resources/read", {"uri": "memo://plan"})
        assert read["result"]["contents"][0]["text"] == "plan of 0"
        prompt = await client.ask("prompts/get", {"name": "dev__a_letter", "arguments": {"to": "you"}})
        assert prompt["result"]["description"] == "A letter"
        error = await client.begin_use("dev", "a", "needs_a_page", id="7")
        assert error["error"]["code"] == -32042
    assert asking.heard[:2] == ["initialize", "notifications/initialized"]


@with_streams
async def test_progress_of_a_remote_server_comes_before_its_answer(way: Way, tmp_path: Path) -> None:
    async with asking_server(way, tmp_path) as (client, _):
        answer = await client.begin_use("dev", "a", "counts", meta={"progressToken": "mine"}, to=5)
        assert text(answer["result"]) == "counted"
        told = [it["params"] for it in client.heard() if it["method"] == "notifications/progress"]
        assert [it["progress"] for it in told] == [0.25, 0.5, 0.75, 1, 1.25]
        assert {it["progressToken"] for it in told} == {"mine"}


@with_streams
async def test_a_remote_server_asks_the_model_and_the_user(way: Way, tmp_path: Path) -> None:
    able: Json = {"sampling": {}, "elicitation": {"form": {}}, "roots": {}}
    async with asking_server(way, tmp_path, capabilities=able) as (client, _):
        said = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "small"}
        client.answers = {
            "sampling/createMessage": lambda _: said,
            "elicitation/create": lambda _: {"action": "accept", "content": {"name": "Ada"}},
            "roots/list": lambda _: {"roots": [{"uri": "file:///home"}]},
        }
        assert json.loads(await client.text("dev", "a", "samples", prompt="Well?"))["answer"] == said
        assert json.loads(await client.text("dev", "a", "elicits"))["data"]["name"] == "Ada"
        assert json.loads(await client.text("dev", "a", "lists_roots")) == ["file:///home"]
    assert client.asked[1]["params"]["message"].startswith("[dev/a] ")


@every_way
async def test_what_a_remote_server_offers_anew_is_told(way: Way, tmp_path: Path) -> None:
    async with asking_server(way, tmp_path, "dynamic") as (client, _):
        client.heard()
        await client.use("dev", "a", "grows", name="more")
        told = {(await client.notification())["method"] for _ in range(3)}
        assert told == {f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}
        assert text(await client.result("dev__a_more", {})) == "more of 0"


@every_way
async def test_a_cancelled_call_stops_at_a_remote_server(way: Way, tmp_path: Path) -> None:
    async with asking_server(way, tmp_path) as (client, asking):
        waiting = client.begin_use("dev", "a", "waits")
        async with asyncio.timeout(60):
            await asking.began.wait()
        client.tell("notifications/cancelled", {"requestId": waiting.request_id})  # type: ignore[attr-defined]
        await until(lambda: asking.cancelled)
        assert await client.text("dev", "a", "counts", to=1) == "counted"
        assert asking.heard.count("notifications/cancelled") == 1
        assert not waiting.done()


@every_way
async def test_many_calls_at_once_are_answered_each_with_its_own(way: Way, tmp_path: Path) -> None:
    async with asking_server(way, tmp_path) as (client, _):
        uris = [f"memo://it/{number}" for number in range(100)]
        results = await asyncio.gather(*(client.use("dev", "a", "links", uri=uri) for uri in uris))
        assert [it["content"][0]["uri"] for it in results] == uris


# What is sent --------------------------------------------------------------------------------------


async def test_every_message_has_the_headers_that_the_transport_asks_for(tmp_path: Path) -> None:
    more = {"headers": {"X-Team": "tools"}}
    async with http_server() as server, with_http(tmp_path, server, **more) as client:
        assert await client.text("dev", "a", "echo", text="hello") == "hello"
        await server.hears("GET")
        await client.close("dev")
        await server.hears("DELETE")
    assert [it.asks for it in server.heard[:2]] == ["initialize", "notifications/initialized"]
    for it in server.heard:
        assert len(set(it.names)) == len(it.names)
        assert it.headers["x-team"] == "tools"
        assert it.headers.get("mcp-session-id") == (None if it.asks == "initialize" else SESSION)
        assert it.headers.get("mcp-protocol-version") == (None if it.asks == "initialize" else "2025-11-25")
        if it.method == "POST":
            assert it.headers["accept"] == "application/json, text/event-stream"
            assert it.headers["content-type"] == "application/json"
    assert server.heard[-1].method == "DELETE"


async def test_nothing_is_asked_before_the_server_knows_that_it_was_understood(tmp_path: Path) -> None:
    may_answer = asyncio.Event()

    async def take_time(it: Exchange) -> None:
        await may_answer.wait()
        await behave(it)

    async with (
        http_server(notifications_initialized=take_time) as server,
        with_http(tmp_path, server) as client,
    ):
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}})
        await server.hears("notifications/initialized")
        await client.ask("ping")
        assert not server.asked("tools/list")
        may_answer.set()
        assert not (await opening)["result"].get("isError")


async def test_url_and_headers_are_expanded_at_each_start(tmp_path: Path) -> None:
    async with http_server() as server:
        host = server.url.removesuffix("/mcp")
        more = {"url": "${HOST}/${PATH_THERE:-mcp}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
        async with with_http(tmp_path, server, {"HOST": host, "TOKEN": "hush-hush"}, **more) as client:
            await client.open("dev")
            await client.close("dev")
            await client.open("dev")
    assert len(server.asked("initialize")) == 2
    assert {it.headers["authorization"] for it in server.heard} == {"Bearer hush-hush"}
    assert {it.target for it in server.heard} == {"/mcp"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"headers": {"X-Team": "a\r\nX-Admin: 1"}}, "its header 'X-Team' cannot be sent: no line break"),
        ({"headers": {"X Team": "a"}}, "its header 'X Team' cannot be sent: that is no name"),
        ({"headers": {"Content-Length": "3"}}, "its header 'Content-Length' cannot be sent"),
        ({"headers": {"A": "1", "a": "2"}}, "its header 'a' is there twice"),
        ({"url": "ftp://127.0.0.1/"}, "its url does not begin with http:// or https://"),
        ({"url": "http://[::1"}, "its url is none"),
        ({"url": "/mcp"}, "its url does not begin with"),
        ({"url": "http://0177.0.0.1/mcp"}, "its url is none"),
    ],
)
async def test_what_cannot_be_sent_is_told_and_nothing_is(more: Json, why: str, tmp_path: Path) -> None:
    async with http_server() as server, with_http(tmp_path, server, **more) as client:
        assert why in await failure(client)
    assert not server.connections


async def test_each_toolbox_has_a_session_of_its_own(tmp_path: Path) -> None:
    async with http_server() as server:
        config = toolboxes(one={"a": entry(server)}, two={"a": entry(server)})
        async with serving(config, tmp_path) as client:
            await client.open("one")
            await client.open("two")
            await client.close("one")
            await server.hears("DELETE")
            assert await client.text("two", "a", "echo", text="still") == "still"
    assert len(server.asked("initialize")) == len(server.asked("DELETE")) == 2


# Streams -------------------------------------------------------------------------------------------


async def test_an_answer_comes_whole_however_its_stream_is_cut(tmp_path: Path) -> None:
    async def in_slices(it: Exchange) -> None:
        it.stream()
        result = json.dumps(it.answered({"content": [{"type": "text", "text": "ünï"}]}), ensure_ascii=False)
        head, tail = result[:10], result[10:].replace(",", ",\r\ndata:")
        for byte in f": hello\r\n\r\nid: 1\r\ndata\r\n\r\nid: 2\r\ndata: {head}{tail}\r\n\r\n".encode():
            it.raw(bytes([byte]))
            await it.writer.drain()
        it.close()

    async with http_server(tools_call=in_slices) as server, with_http(tmp_path, server) as client:
        assert await client.text("dev", "a", "echo") == "ünï"


async def test_a_pretty_printed_answer_is_one_line_for_the_client(tmp_path: Path) -> None:
    async def pretty(it: Exchange) -> None:
        message = json.dumps(it.answered({"content": [{"type": "text", "text": "a\nb"}]}), indent=2)
        it.status("200 OK", message.replace("\n", "\r\n"), "Content-Type: application/json; charset=utf-8")

    async with http_server(tools_call=pretty) as server, with_http(tmp_path, server) as client:
        assert await client.text("dev", "a", "echo") == "a\nb"


async def test_a_stream_that_breaks_goes_on_where_it_was(tmp_path: Path) -> None:
    asked: list[Exchange] = []

    async def break_off(it: Exchange) -> None:
        asked.append(it)
        it.stream()
        it.event("", "id: first", "retry: 1")
        it.raw(b"id: half\ndata: {")
        await it.writer.drain()
        it.reset()

    async def go_on(it: Exchange) -> None:
        it.stream()
        if it.headers["last-event-id"] == "first":  # once more in vain
            it.event("", "id: second")
        else:
            it.event(asked[0].answered({"content": [{"type": "text", "text": it.headers["last-event-id"]}]}))
        it.close()

    async with http_server(tools_call=break_off) as server, with_http(tmp_path, server) as client:
        await client.open("dev")
        await server.hears("GET")
        server.on["GET"] = go_on
        assert await client.text("dev", "a", "echo") == "second"
    assert len(asked) == 1
    assert {it.headers["mcp-session-id"] for it in server.asked("GET")} == {SESSION}


@pytest.mark.parametrize("has_id", [True, False])
async def test_a_stream_that_cannot_go_on_ends_its_call_alone(has_id: bool, tmp_path: Path) -> None:
    async def break_off(it: Exchange) -> None:
        it.stream()
        it.event("", "retry: 1", *(["id: 1"] if has_id else []))
        it.close()

    async with http_server(tools_call=first(break_off)) as server, with_http(tmp_path, server) as client:
        error = await client.error("dev", "a", "echo")
        assert error.startswith("Server 'a' in toolbox 'dev' ended its answer before that was complete")
        assert error.endswith("; the call may have been carried out")
        assert ("does not go on with it (HTTP 405)" in error) == has_id
        assert await client.text("dev", "a", "echo", text="next") == "next"
    assert len(server.asked("initialize")) == 1


async def test_what_a_server_says_of_its_own_accord_is_heard_and_its_stream_asked_for_again(
    tmp_path: Path,
) -> None:
    tools = [ECHO]

    async def tell(it: Exchange) -> None:
        tools.append({"name": f"more{len(tools)}", "inputSchema": {"type": "object"}})
        it.stream()
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        it.event(changed, f"id: {len(tools)}", "retry: 1")
        if len(tools) == 2:
            it.close()
        else:
            await asyncio.Event().wait()

    async def listed(it: Exchange) -> None:
        it.answer({"tools": tools})

    async with http_server(GET=tell, tools_list=listed) as server, with_http(tmp_path, server) as client:
        await client.open("dev")
        again = await server.hears("GET", 2)
        assert again.headers["last-event-id"] == "2"
        await until(lambda: "tools/list" in [it.asks for it in server.heard[server.heard.index(again) :]])
        assert not (await client.use("dev", "a", "more2")).get("isError")


async def test_a_stalled_call_holds_up_nobody_and_its_stream_is_closed_when_it_is_cancelled(
    tmp_path: Path,
) -> None:
    closed = asyncio.Event()

    async def stall(it: Exchange) -> None:
        it.stream()
        await it.writer.drain()
        await it.until_closed()
        closed.set()

    async with http_server(tools_call=first(stall)) as server, with_http(tmp_path, server) as client:
        await client.open("dev")
        waiting = client.begin_use("dev", "a", "echo")
        stalled = await server.hears("tools/call")
        for number in range(20):
            assert await client.text("dev", "a", "echo", text=str(number)) == str(number)
        client.tell("notifications/cancelled", {"requestId": waiting.request_id})  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            await closed.wait()
        cancelled = await server.hears("notifications/cancelled")
        assert cancelled.message["params"]["requestId"] == stalled.message["id"]
        assert not waiting.done()


async def test_while_the_client_does_not_read_nothing_is_read_from_the_server(tmp_path: Path) -> None:
    sent = 0
    message = {"jsonrpc": "2.0", "method": "notifications/message"}
    full = asyncio.Event()

    async def flood(it: Exchange) -> None:
        nonlocal sent
        it.stream()
        while True:
            it.event(message | {"params": {"level": "error", "data": "x" * 100_000}})
            sent += 100_000
            try:
                async with asyncio.timeout(1):
                    await it.writer.drain()
            except TimeoutError:
                full.set()
                await it.writer.drain()
                return

    async with http_server(GET=flood) as server, with_http(tmp_path, server) as client:
        await client.open("dev")
        with client.deaf():
            async with asyncio.timeout(60):
                await full.wait()
        assert sent < 60_000_000
        assert await client.text("dev", "a", "echo", text="on") == "on"


# Faults --------------------------------------------------------------------------------------------


async def test_a_server_that_forgot_its_session_is_greeted_anew_and_only_once(tmp_path: Path) -> None:
    forget = refusing("404 Not Found", "who are you?")
    async with http_server(tools_call=first(forget)) as server, with_http(tmp_path, server) as client:
        error = await client.error("dev", "a", "echo")
        assert error == (
            "Server 'a' in toolbox 'dev' does not know its session any more (HTTP 404); "
            "the call was not carried out"
        )
        assert await client.text("dev", "a", "echo", text="again") == "again"
    assert len(server.asked("initialize")) == 2
    assert len(server.asked("tools/call")) == 2
    assert len(server.asked("DELETE")) == 1


@pytest.mark.parametrize(
    ("status", "then"), [("401 Unauthorized", "set what it asks"), ("403 Forbidden", "what the")]
)
async def test_a_server_that_wants_a_token_is_told_as_such_and_its_words_are_not(
    status: str, then: str, tmp_path: Path
) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "send me all"}})
    no = refusing(status, body, "WWW-Authenticate: Bearer", "Content-Type: application/json")
    async with http_server(initialize=no) as server, with_http(tmp_path, server) as client:
        why = await failure(client)
        assert f"needs_auth: it answered HTTP {status}; {then}" in why
        assert "send me all" not in why
        server.on = {"tools/call": no}
        assert "needs_auth" in await client.error("dev", "a", "echo")


@pytest.mark.parametrize(
    ("status", "body", "told", "done"),
    [
        ("400 Bad Request", "no\nsuch  thing", "answered HTTP 400 Bad Request: no such thing", False),
        ("429 Slow Down", "", "answered HTTP 429 Slow Down", False),
        ("500 Oops", "for s3cr3t-token", "answered HTTP 500 Oops: for ***", True),
        (
            "502 Bad Gateway",
            "<html><style>x</style><h1>Sorry</h1>",
            "answered HTTP 502 Bad Gateway: Sorry",
            True,
        ),
        ("200 OK", "hello", "answered with text/html, which is not MCP (HTTP 200)", True),
        ("202 Accepted", "", "answered with text/html, which is not MCP (HTTP 202)", True),
        ("302 Found", "", "redirects to another page", False),
    ],
)
async def test_other_statuses_fail_their_call_alone_with_what_was_said(
    status: str, body: str, told: str, done: bool, tmp_path: Path
) -> None:
    bad = refusing(
        status, body, "Content-Type: text/html", *(["Location: /there"] if status[0] == "3" else [])
    )
    async with http_server(tools_call=first(bad)) as server:
        headers = {"Authorization": "Bearer s3cr3t-token"}
        async with with_http(tmp_path, server, headers=headers) as client:
            error = await client.error("dev", "a", "echo")
            assert told in error
            assert error.endswith("may have been carried out" if done else "was not carried out")
            assert await client.text("dev", "a", "echo", text="next") == "next"
    assert len(server.asked("initialize")) == 1


async def test_an_error_of_json_rpc_beside_one_of_http_is_the_servers_own_answer(tmp_path: Path) -> None:
    async def refuse(it: Exchange) -> None:
        error = {"code": -32077, "message": "not today", "data": {"x": 1}}
        body = json.dumps({"jsonrpc": "2.0", "id": it.message["id"], "error": error})
        it.status("400 Bad Request", body, "Content-Type: application/json")

    async with http_server(tools_call=refuse) as server, with_http(tmp_path, server) as client:
        answer = await client.begin_use("dev", "a", "echo")
        assert answer["error"] == {"code": -32077, "message": "not today", "data": {"x": 1}}


async def reset(it: Exchange) -> None:
    it.reset()


async def half(it: Exchange) -> None:
    it.head("200 OK", "Content-Type: application/json", "Content-Length: 1000")
    it.raw(b'{"jsonrpc":')
    it.close()


async def no_http(it: Exchange) -> None:
    it.raw(b"hello\r\n\r\n")
    it.close()


async def endless_header(it: Exchange) -> None:
    it.raw(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not it.writer.is_closing():
        it.raw(b"x" * 65536)
        await it.writer.drain()


async def endless_body(it: Exchange) -> None:
    it.head("200 OK", "Content-Type: application/json", "Connection: close")
    while not it.writer.is_closing():
        it.raw(b" " * 65536)
        await it.writer.drain()


async def endless_event(it: Exchange) -> None:
    it.stream()
    it.raw(b"data: ")
    while not it.writer.is_closing():
        it.raw(b"x" * 65536)
        await it.writer.drain()


async def split_header(it: Exchange) -> None:
    it.raw(
        b"HTTP/1.1 200 OK\r\nX-A: b\rc\x00d\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )


async def another_answer(it: Exchange) -> None:
    it.as_json({"jsonrpc": "2.0", "id": 99999, "result": {}})


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (reset, "broke the connection off"),
        (half, "broke the connection off or the rules of HTTP"),
        (no_http, "broke the connection off or the rules of HTTP"),
        (endless_header, "broke the connection off or the rules of HTTP"),
        (split_header, "broke the connection off or the rules of HTTP"),
        (endless_body, "sent an answer longer than 16 MiB"),
        (endless_event, "sent an answer longer than 16 MiB"),
        (another_answer, "answered with something else"),
    ],
)
async def test_a_broken_answer_fails_its_call_alone(fault: Any, told: str, tmp_path: Path) -> None:
    async with http_server(tools_call=first(fault)) as server, with_http(tmp_path, server) as client:
        error = await client.error("dev", "a", "echo")
        assert error.startswith(f"Server 'a' in toolbox 'dev' {told}")
        assert error.endswith("; the call may have been carried out")
        assert await client.text("dev", "a", "echo", text="next") == "next"
    assert len(server.asked("initialize")) == 1
    assert len(server.asked("tools/call")) == 2


@pytest.mark.parametrize("streamed", [True, False])
async def test_garbage_instead_of_an_answer_fails_its_call_alone(streamed: bool, tmp_path: Path) -> None:
    bodies = ["no json", '{"jsonrpc": "2.0", "id": 1', "[]", ""]

    async def say(it: Exchange) -> None:
        if streamed:
            it.stream()
            it.raw(b"nonsense\nid\n: \nevent: message\n")
            it.event(bodies.pop())
            it.close()
        else:
            it.status("200 OK", bodies.pop(), "Content-Type: application/json")

    garbage = [say] * len(bodies)
    async with http_server(tools_call=first(*garbage)) as server, with_http(tmp_path, server) as client:
        for _ in garbage:
            assert "may have been carried out" in await client.error("dev", "a", "echo")
        assert await client.text("dev", "a", "echo", text="next") == "next"
    assert len(server.asked("initialize")) == 1


async def test_a_server_that_does_not_let_go_is_left_all_the_same(tmp_path: Path) -> None:
    async def stall(it: Exchange) -> None:
        await it.until_closed()

    async def never_ends(it: Exchange) -> None:
        it.stream()
        await it.until_closed()

    async with http_server(GET=never_ends, DELETE=stall) as server, with_http(tmp_path, server) as client:
        await client.open("dev")
        await server.hears("GET")
        async with asyncio.timeout(5):
            assert await client.end() == 0
    assert server.asked("DELETE")


async def test_a_server_that_is_not_there_is_told_beside_those_that_are(tmp_path: Path) -> None:
    async with http_server() as server:
        gone = dict(entry(server))
    async with serving(toolboxes(dev={"a": gone, "b": fake()}), tmp_path) as client:
        [error] = (await client.open("dev"))["_errors"]
        assert error.startswith("Failed to connect to server 'a' in toolbox 'dev': cannot be reached: ")
        assert "onnection refused" in error


async def test_what_a_server_cannot_list_beside_its_tools_is_told_and_its_tools_serve(tmp_path: Path) -> None:
    async def greet(it: Exchange) -> None:
        it.answer({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "prompts": {}}})

    broken = refusing("500 Oops", "no prompts")
    async with (
        http_server(initialize=greet, prompts_list=broken) as server,
        with_http(tmp_path, server) as client,
    ):
        [error] = (await client.open("dev"))["_errors"]
        assert "it did not list its prompts: it answered HTTP 500 Oops: no prompts" in error
        assert await client.text("dev", "a", "echo", text="on") == "on"
        assert all("mcp-session-id" not in it.headers for it in server.heard)
    assert not server.asked("DELETE")


# Where it may lead ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_redirect_within_the_origin_is_followed_with_the_body(status: str, tmp_path: Path) -> None:
    async def redirect(it: Exchange) -> None:
        if it.target == "/mcp":
            it.status(status, "", "Location: /mcp/")
        else:
            await behave(it)

    kinds = ("initialize", "notifications/initialized", "tools/list", "tools/call", "GET")
    async with http_server() as server:
        server.on = dict.fromkeys(kinds, redirect)
        async with with_http(tmp_path, server) as client:
            assert await client.text("dev", "a", "echo", text="there") == "there"


@pytest.mark.parametrize("kind", ["initialize", "tools/call", "GET", "DELETE"])
async def test_a_redirect_to_another_origin_takes_nothing_there(kind: str, tmp_path: Path) -> None:
    async with http_server() as bait, http_server() as server:
        server.on[kind] = refusing("307 Temporary Redirect", "", f"Location: {bait.url}")
        async with with_http(tmp_path, server, headers={"Authorization": "Bearer s3cr3t-token"}) as client:
            if kind == "initialize":
                assert "redirects to another origin, http://127.0.0.1" in await failure(client)
            elif kind == "tools/call":
                assert "redirects to another origin" in await client.error("dev", "a", "echo")
            else:
                assert await client.text("dev", "a", "echo", text="on") == "on"
                await server.hears("GET")
        await server.hears(kind)
    assert not bait.connections


async def test_redirects_in_a_circle_come_to_an_end(tmp_path: Path) -> None:
    around = refusing("307 Temporary Redirect", "", "Location: /mcp")
    async with http_server(initialize=around) as server, with_http(tmp_path, server) as client:
        assert "redirects in a circle" in await failure(client)
    assert len(server.heard) == 6


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"])
async def test_where_private_networks_are_not_allowed_nothing_there_is_connected_to(
    host: str, tmp_path: Path
) -> None:
    async with http_server() as server:
        remote = entry(server, url=server.url.replace("127.0.0.1", host))
        config = toolboxes(dev={"a": remote}) | {"allowPrivateNetworks": False}
        async with serving(config, tmp_path, env={"HTTP_PROXY": server.url, "NO_PROXY": ""}) as client:
            why = await failure(client)
            assert '"allowPrivateNetworks": false keeps the workbench from those' in why
    assert not server.connections


async def test_a_proxy_is_taken_from_the_environment(tmp_path: Path) -> None:
    async with http_server() as proxy:
        env = {"HTTP_PROXY": proxy.url.removesuffix("/mcp"), "NO_PROXY": ""}
        async with with_http(tmp_path, proxy, env, url="http://far.invalid/mcp") as client:
            assert await client.text("dev", "a", "echo", text="there") == "there"
    assert {it.target for it in proxy.heard} == {"http://far.invalid/mcp"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine's own, with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "localhost.pem"
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.mark.parametrize("trusted", [True, False])
async def test_over_tls_a_server_is_spoken_to_only_if_its_certificate_is_trusted(
    trusted: bool, certificate: Path, tmp_path: Path
) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    env = {"SSL_CERT_FILE": str(certificate)} if trusted else {}
    async with http_server(tls) as server, with_http(tmp_path, server, env) as client:
        if trusted:
            assert await client.text("dev", "a", "echo", text="x" * 300_000) == "x" * 300_000
            assert "uvloop" in files_in(client.process.pid)
        else:
            assert "cannot be reached: " in (why := await failure(client))
            assert "certificate verify failed" in why
            assert not server.heard


# HTTP+SSE ------------------------------------------------------------------------------------------


def streaming(endpoint: str, after: Callable[[Exchange], None] = lambda it: None) -> Any:
    async def stream(it: Exchange) -> None:
        it.stream()
        it.event(endpoint, "event: endpoint")
        after(it)
        await it.until_closed()

    return stream


async def test_messages_go_only_to_the_origin_that_was_configured(tmp_path: Path) -> None:
    async with http_server() as server, with_http(tmp_path, server, type="sse") as client:
        for endpoint in ("http://localhost:1/post", "//example.com/post", "https://127.0.0.1/post"):
            server.on["GET"] = streaming(endpoint)
            assert "leads to another origin" in await failure(client)
    assert {it.asks for it in server.heard} == {"GET"}


async def test_a_server_whose_stream_ends_is_gone_and_started_again(tmp_path: Path) -> None:
    streams: list[Exchange] = []

    async def answer_there(it: Exchange) -> None:
        stream, it.as_json = streams[-1], lambda message, *_: streams[-1].event(message)  # type: ignore[method-assign]
        await behave(it)
        if "id" in it.message:
            it.status("202 Accepted")
        if it.message.get("params", {}).get("arguments", {}).get("text") == "end":
            stream.close()

    async with http_server(GET=streaming("/post?session=1", streams.append)) as server:
        server.on |= dict.fromkeys(("initialize", "tools/list", "tools/call"), answer_there)
        async with with_http(tmp_path, server, type="sse") as client:
            assert await client.text("dev", "a", "echo", text="one") == "one"
            await client.use("dev", "a", "echo", text="end")
            await until(lambda: len(streams) == 2)
            assert await client.text("dev", "a", "echo", text="two") == "two"
    assert len(streams) == 2
    assert {it.target for it in server.asked("tools/call")} == {"/post?session=1"}


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (refusing("401 Unauthorized"), "needs_auth: it answered HTTP 401 Unauthorized"),
        (refusing("404 Not Found", "nothing here"), "answered HTTP 404 Not Found: nothing here"),
        (refusing("200 OK", "{}"), "has no stream of events there (HTTP 200)"),
    ],
)
async def test_a_page_that_is_no_stream_is_told(behaviour: Any, told: str, tmp_path: Path) -> None:
    async with http_server(GET=behaviour) as server, with_http(tmp_path, server, type="sse") as client:
        assert told in await failure(client)


async def test_a_message_that_is_refused_fails_its_call_alone(tmp_path: Path) -> None:
    streams: list[Exchange] = []

    async def answer_there(it: Exchange) -> None:
        it.as_json = lambda message, *_: streams[-1].event(message)  # type: ignore[method-assign]
        await behave(it)
        it.status("202 Accepted")

    async with http_server(GET=streaming("/post", streams.append)) as server:
        server.on |= dict.fromkeys(("initialize", "tools/list"), answer_there)
        server.on["tools/call"] = first(refusing("500 Oops", "no"), answer_there)
        async with with_http(tmp_path, server, type="sse") as client:
            assert "answered HTTP 500 Oops: no; the call may have" in await client.error("dev", "a", "echo")
            assert await client.text("dev", "a", "echo", text="on") == "on"
    assert len(streams) == 1


async def test_a_workbench_that_was_never_asked_for_a_remote_server_has_not_loaded_what_it_takes(
    tmp_path: Path,
) -> None:
    async with http_server() as server:
        config = toolboxes(dev={"a": fake()}, far={"b": entry(server)})
        async with started(config, tmp_path) as client:
            await client.initialize()
            await client.open("dev")
            assert "libssl" not in files_in(client.process.pid)
            await client.open("far")
            assert "libssl" in files_in(client.process.pid)
