"""The fake server by itself: what tests of the workbench take for granted about it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.workbench import Client, Json, fake, talking_to, until


@asynccontextmanager
async def faking(folder: Path, **script: Any) -> AsyncIterator[Client]:
    entry = fake(**script)
    async with talking_to(entry["command"], *entry["args"], folder=folder) as client:
        yield client


async def said(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool's text says, read as JSON."""
    result = await client.result(tool, arguments)
    return json.loads(result["content"][0]["text"])


async def shown(client: Client, method: str, member: str, key: str) -> list[Any]:
    return [each[key] for each in (await client.ask(method))["result"][member]]


async def next_method(client: Client) -> str:
    return str((await client.notification())["method"])


async def test_it_declares_and_serves_only_what_its_script_has(tmp_path: Path) -> None:
    async with faking(tmp_path) as client:
        assert (await client.initialize())["capabilities"] == {"tools": {"listChanged": True}}
        for method in ("prompts/list", "prompts/get", "resources/list", "resources/templates/list"):
            assert (await client.ask(method, {"name": "a"}))["error"]["code"] == -32601
    async with faking(tmp_path, prompts=[], templates=[], completions=True, logging=True) as client:
        assert (await client.initialize())["capabilities"] == {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "completions": {},
            "logging": {},
        }
        assert (await client.ask("resources/list"))["result"] == {"resources": []}


async def test_prompts_are_paged_and_got(tmp_path: Path) -> None:
    own = [{"role": "assistant", "content": {"type": "text", "text": "own"}}]
    prompts = ["a/b", {"name": "c", "title": "C", "messages": own}]
    async with faking(tmp_path, prompts=prompts, page_size=1) as client:
        first = (await client.ask("prompts/list"))["result"]
        second = (await client.ask("prompts/list", {"cursor": first.pop("nextCursor")}))["result"]
        assert (first, second) == (
            {"prompts": [{"name": "a/b"}]},
            {"prompts": [{"name": "c", "title": "C"}]},
        )
        got = await client.ask("prompts/get", {"name": "a/b", "arguments": {"x": "1"}})
        [message] = got["result"]["messages"]
        assert json.loads(message["content"]["text"]) == {"prompt": "a/b", "arguments": {"x": "1"}}
        assert (await client.ask("prompts/get", {"name": "c"}))["result"] == {"messages": own}
        assert (await client.ask("prompts/get", {"name": "d"}))["error"]["code"] == -32602


async def test_resources_are_read_by_their_uri_or_by_a_template(tmp_path: Path) -> None:
    own = [{"uri": "m://own", "blob": "AA=="}]
    resources = ["m://a/b.txt", {"uri": "m://own", "name": "own", "contents": own}]
    async with faking(tmp_path, resources=resources, templates=["m://x/{id}.md", "f:///{+path}"]) as client:
        listed = (await client.ask("resources/list"))["result"]["resources"]
        assert listed == [{"uri": "m://a/b.txt", "name": "b.txt"}, {"uri": "m://own", "name": "own"}]
        templates = await shown(client, "resources/templates/list", "resourceTemplates", "uriTemplate")
        assert templates == ["m://x/{id}.md", "f:///{+path}"]
        for uri in ("m://a/b.txt", "m://x/1.md", "f:///a/b"):
            contents = (await client.ask("resources/read", {"uri": uri}))["result"]["contents"]
            assert contents == [{"uri": uri, "mimeType": "text/plain", "text": f"contents of {uri}"}]
        assert (await client.ask("resources/read", {"uri": "m://own"}))["result"] == {"contents": own}
        for uri in ("m://x/1/2.md", "m://x/1xmd", "m://none"):
            error = (await client.ask("resources/read", {"uri": uri}))["error"]
            assert (error["code"], error["data"]) == (-32002, {"uri": uri})


async def test_it_remembers_subscriptions_the_log_level_and_what_it_heard(tmp_path: Path) -> None:
    async with faking(tmp_path, resources=["m://a"], logging=True) as client:
        await client.initialize()
        assert await said(client, "log_level") is None
        assert (await client.ask("logging/setLevel", {"level": "error"}))["result"] == {}
        assert await said(client, "log_level") == "error"
        for uri in ("m://a", "m://b", "m://a"):
            assert (await client.ask("resources/subscribe", {"uri": uri}))["result"] == {}
        assert await said(client, "subscriptions") == ["m://a", "m://b"]
        assert (await client.ask("resources/unsubscribe", {"uri": "m://a"}))["result"] == {}
        assert await said(client, "subscriptions") == ["m://b"]
        client.tell("notifications/roots/list_changed")
        assert await said(client, "heard") == [
            "notifications/initialized",
            "notifications/roots/list_changed",
        ]


async def test_it_changes_what_it_is_told_to_change_and_tells_of_it(tmp_path: Path) -> None:
    script = {
        "tools": ["change", "list_changed"],
        "tools_after": ["change", "change_tools"],
        "prompts": ["a"],
        "prompts_after": ["b"],
        "resources": ["m://a"],
        "templates": ["m://a/{x}"],
        "templates_after": ["m://b/{x}"],
    }
    lists = [
        ("tools/list", "tools", "name"),
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ]
    async with faking(tmp_path, **script) as client:
        await client.result("list_changed", {"of": "prompts"})
        assert await next_method(client) == "notifications/prompts/list_changed"
        await client.result("change", {"kinds": ["resources"]})
        assert await next_method(client) == "notifications/resources/list_changed"
        assert [await shown(client, *each) for each in lists] == [
            ["change", "list_changed"], ["a"], ["m://a"], ["m://b/{x}"],
        ]  # fmt: skip
        await client.result("change", {"quiet": True})
        assert client.notifications.empty()
        assert [await shown(client, *each) for each in lists] == [
            ["change", "change_tools"], ["b"], ["m://a"], ["m://b/{x}"],
        ]  # fmt: skip
        await client.result("change", {})
        told = [await next_method(client) for _ in range(3)]
        assert told == [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]


async def test_it_completes(tmp_path: Path) -> None:
    async with faking(tmp_path, completions=True) as client:
        params: Json = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": "v"}}
        answer = await client.ask("completion/complete", params)
        assert answer["result"] == {"completion": {"values": ["p:x:v"], "hasMore": False}}
        params |= {"ref": {"type": "ref/resource", "uri": "m://{x}"}, "context": {"arguments": {"y": "1"}}}
        values = (await client.ask("completion/complete", params))["result"]["completion"]["values"]
        assert values == ["m://{x}:x:v", '{"arguments": {"y": "1"}}']


async def test_its_tools_notify_link_and_need_a_url(tmp_path: Path) -> None:
    async with faking(tmp_path) as client:
        await client.result("touch", {"uri": "m://a"})
        await client.result("log", {"level": "error", "logger": "db", "data": {"a": 1}, "n": 2})
        await client.result("log", {})
        await client.result("notify", {"method": "notifications/x"})
        notes = [await client.notification() for _ in range(5)]
        assert notes[0]["params"] == {"uri": "m://a"}
        assert notes[1] == notes[2]
        assert notes[2]["params"] == {"level": "error", "logger": "db", "data": {"a": 1}}
        assert notes[3]["params"] == {"level": "info", "data": "logged by the fake"}
        assert notes[4] == {"jsonrpc": "2.0", "method": "notifications/x"}
        result = await client.result("link", {"uri": "m://a/b", "text": "t"})
        assert result["content"] == [
            {"type": "resource_link", "uri": "m://a/b", "name": "b"},
            {"type": "resource", "resource": {"uri": "m://a/b", "mimeType": "text/plain", "text": "t"}},
        ]
        assert result["structuredContent"] == {"uri": "m://a/b"}
        needed = {"name": "url_needed", "arguments": {"url": "https://sign.in", "id": "e1"}}
        error = (await client.ask("tools/call", needed))["error"]
        [elicitation] = error["data"]["elicitations"]
        assert (error["code"], elicitation["elicitationId"]) == (-32042, "e1")


async def test_it_asks_in_all_the_ways_there_are(tmp_path: Path) -> None:
    def response(request: Json, **result: Any) -> Json:
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}

    async def question(number: int) -> Json:
        """The question that came as the so-manieth, open still."""
        await until(lambda: len(client.asked) >= number)
        return client.asked[number - 1]

    async with faking(tmp_path, ask_on_initialized=["roots/list"]) as client:
        client.answers = dict.fromkeys(("roots/list", "ping", "x"), lambda _: None)
        await client.initialize()
        early = await question(1)

        plain = client.begin("tools/call", {"name": "ask", "arguments": {"method": "ping", "times": 2}})
        first, second = await question(2), await question(3)
        for request in (second, first):
            client.send(response(request))
        text = (await plain)["result"]["content"][0]["text"]
        assert json.loads(text) == [response(first), response(second)]

        asks = {"method": "x", "params": {"a": 1, "_meta": {"b": 2}}, "with_progress": True}
        call = client.begin("tools/call", {"name": "ask", "arguments": asks})
        request = await question(4)
        token = request["params"]["_meta"].pop("progressToken")
        assert request["params"] == {"a": 1, "_meta": {"b": 2}}
        client.tell("notifications/progress", {"progressToken": token, "progress": 1})
        client.tell("notifications/progress", {"progressToken": "other", "progress": 2})
        client.send(response(request, c=3))
        text = (await call)["result"]["content"][0]["text"]
        progress = [{"progressToken": token, "progress": 1}]
        assert json.loads(text) == {"response": response(request, c=3), "progress": progress}

        cancels = {"method": "x", "cancel": True}
        assert (await client.result("ask", cancels))["content"][0]["text"] == "asked"
        request, cancelled = await question(5), await client.notification()
        assert cancelled["params"]["requestId"] == request["id"]

        assert await said(client, "answers") == []
        assert (await client.result("ask", {"method": "x", "later": True}))["content"][0]["text"] == "asked"
        late = await question(6)
        for request in (late, early):
            client.send(response(request))
        assert await said(client, "answers") == [response(late), response(early)]

        client.begin("tools/call", {"name": "ask", "arguments": {"method": "x", "die": True}})
        assert (await question(7))["method"] == "x"
        assert await client.gone() == 1
