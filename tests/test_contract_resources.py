"""Prompts, resources and completions of the servers in open toolboxes: whose they are and where they lead."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from .test_contract_relays import received
from .workbench import PATIENCE, Client, Json, fake, serving, toolboxes, use, with_one_server

MODES = pytest.mark.parametrize("mode", ["proxy", "dynamic"])
UPDATED = "notifications/resources/updated"
CHANGED = {kind: f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}

# What the server of both toolboxes offers: the same, so that URIs of the second one are marked.
URI, TEMPLATE, PAGE = "x://r", "x://t/{id}", "ui://page"
MARK = "workbench://two/it/"
EMBEDDED: Json = {"type": "resource", "resource": {"uri": URI, "text": "embedded"}}
LINKED: Json = {"type": "resource_link", "uri": URI, "name": "r"}
SHOWN = {
    "name": "shown",
    "inputSchema": {"type": "object"},
    "does": "echo",
    "_meta": {"ui": {"resourceUri": PAGE, "csp": [1.5]}, "vendor/uri": PAGE},
}
OFFERED: Json = {
    "prompts": [{"name": "p", "messages": [{"role": "user", "content": EMBEDDED}]}],
    "resources": [URI, PAGE],
    "templates": [TEMPLATE],
    "completions": True,
    "tools": ["echo", "link", "touch", "subscriptions", "raw", "ask", "slow", "die", SHOWN],
}


@asynccontextmanager
async def two_of_the_same(folder: Path, mode: str = "proxy") -> AsyncIterator[Client]:
    """A client of the toolboxes `one` and `two`, opened in this order, with the same server in each."""
    config = toolboxes(
        one={"it": fake(record=str(folder / "one"), **OFFERED)},
        two={"it": fake(record=str(folder / "two"), **OFFERED)},
    )
    async with serving(config | {"toolMode": mode}, folder, capabilities={"sampling": {}}) as client:
        await client.open("one")
        await client.open("two")
        client.heard()
        yield client


def methods(notifications: list[Json]) -> list[str]:
    return sorted(it["method"] for it in notifications)


async def asked(client: Client, method: str, **params: Any) -> Json:
    """The result of a request."""
    answer = await client.ask(method, params)
    assert "result" in answer, answer
    return dict(answer["result"])


async def refused(client: Client, method: str, **params: Any) -> Json:
    """The error that a request is answered with."""
    return dict((await client.ask(method, params))["error"])


LISTS = {
    "prompts": ("prompts/list", "prompts", "name"),
    "resources": ("resources/list", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
}


async def listed(client: Client, of: str) -> list[str]:
    method, member, key = LISTS[of]
    return [each[key] for each in (await asked(client, method))[member]]


async def contents(client: Client, uri: str) -> tuple[str, str]:
    """The URI and the text that reading gives."""
    (content,) = (await asked(client, "resources/read", uri=uri))["contents"]
    return content["uri"], content["text"]


# What is offered --------------------------------------------------------------------------------


@MODES
async def test_lists_follow_the_opening_and_closing_of_toolboxes_and_each_is_told_once(
    mode: str, tmp_path: Path
) -> None:
    config = toolboxes(
        full={"a": fake(prompts=["p"]), "b": fake(resources=["x://b"], templates=["x://b/{id}"])},
        bare={"a": fake(prompts=["p"])},
    )
    both = [CHANGED["prompts"], CHANGED["resources"]]
    tools = [CHANGED["tools"]] if mode == "dynamic" else []
    async with serving(config | {"toolMode": mode}, tmp_path) as client:
        for of in LISTS:
            assert await listed(client, of) == []
        await client.open("full")
        assert methods(client.heard()) == sorted(both + tools)
        await client.open("bare")
        assert methods(client.heard()) == sorted(both[:1] + tools)
        shown = [await listed(client, of) for of in LISTS]
        assert shown == [["full__a_p", "bare__a_p"], ["x://b"], ["x://b/{id}"]]
        await client.open("full")
        assert client.heard() == []
        await client.close("full")
        assert methods(client.heard()) == sorted(both + tools)
        assert [await listed(client, of) for of in LISTS] == [["bare__a_p"], [], []]
        await client.close("bare")
        assert [await listed(client, of) for of in LISTS] == [[], [], []]


@MODES
async def test_a_toolbox_with_tools_alone_changes_no_other_list(mode: str, tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake()}) | {"toolMode": mode}, tmp_path) as client:
        await client.open("dev")
        await client.close("dev")
        assert set(methods(client.heard())) == ({CHANGED["tools"]} if mode == "dynamic" else set())


@MODES
async def test_a_call_that_opens_a_toolbox_tells_of_all_that_it_offers(mode: str, tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(prompts=["p"], resources=["x://r"])}) | {"toolMode": mode}
    async with serving(config, tmp_path) as client:
        await client.text("dev", "a", "echo")
        expected = {CHANGED["prompts"], CHANGED["resources"]} | (
            {CHANGED["tools"]} if mode == "dynamic" else set()
        )
        assert {(await client.notification())["method"] for _ in expected} == expected
        assert await listed(client, "prompts") == ["dev__a_p"]
        assert await contents(client, "x://r") == ("x://r", "contents of x://r")


async def test_a_server_is_asked_for_nothing_that_it_did_not_declare(tmp_path: Path) -> None:
    async with with_one_server(tmp_path) as client:
        assert await listed(client, "resources") == []
    lines = (tmp_path / "record").read_text()
    assert "prompts/" not in lines
    assert "resources/" not in lines


async def test_all_pages_of_a_server_are_shown_and_every_one_of_them_leads_back(tmp_path: Path) -> None:
    uris = [f"x://r/{n}" for n in range(1_100)]
    async with with_one_server(tmp_path, resources=uris, prompts=["p"], page_size=300) as client:
        pages = [await asked(client, "resources/list")]
        while cursor := pages[-1].get("nextCursor"):
            pages.append(await asked(client, "resources/list", cursor=cursor))
        assert len(pages) > 1
        assert [it["uri"] for page in pages for it in page["resources"]] == uris
        assert await contents(client, uris[-1]) == (uris[-1], f"contents of {uris[-1]}")
        for method, cursor in (("resources/list", "1"), ("prompts/list", pages[0]["nextCursor"])):
            assert (await refused(client, method, cursor=cursor))["code"] == -32602


@pytest.mark.parametrize(
    ("reaction", "told"),
    [
        ({"error": {"code": -32603, "message": "no database"}}, "no database"),
        ({"result": "{}"}, "what is not MCP"),
        ({"result": '{"resources":5}'}, "what is not MCP"),
        ({"result": '{"resources":NaN}'}, ""),
    ],
    ids=["an error", "no list", "a number", "no JSON"],
)
async def test_a_server_that_cannot_list_its_resources_serves_all_else_and_is_named(
    reaction: Json, told: str, tmp_path: Path
) -> None:
    refusing = fake(resources=["x://r"], prompts=["p"], on={"resources/list": reaction})
    async with serving(toolboxes(dev={"a": refusing, "good": fake(resources=["x://g"])}), tmp_path) as client:
        opened = await client.open("dev")
        assert opened["servers_connected"] == 2
        (error,) = opened["_errors"]
        assert error.startswith("Server 'a' in toolbox 'dev': ")
        assert "resource" in error
        assert told in error
        assert await client.text("dev", "a", "echo", text="serves") == "serves"
        assert await listed(client, "prompts") == ["dev__a_p"]
        assert await listed(client, "resources") == ["x://g"]


async def test_a_server_with_resources_need_not_have_templates(tmp_path: Path) -> None:
    missing = {"error": {"code": -32601, "message": "Method not found"}}
    config = toolboxes(dev={"a": fake(resources=["x://r"], on={"resources/templates/list": missing})})
    async with serving(config, tmp_path) as client:
        assert "_errors" not in await client.open("dev")
        assert await listed(client, "resources") == ["x://r"]


async def test_an_entry_that_is_invalid_is_left_out_and_named_and_its_siblings_are_offered(
    tmp_path: Path,
) -> None:
    prompts = (
        '{"prompts":[{"name":"p"},{"title":"nameless"},7,{"name":""},{"name":"p","title":"P"},{"name":"q"}]}'
    )
    script: Json = {"prompts": [], "on": {"prompts/list": {"result": prompts}}}
    async with serving(toolboxes(dev={"a": fake(**script)}), tmp_path) as client:
        errors = (await client.open("dev"))["_errors"]
        assert len(errors) == 4
        assert all(error.startswith("Server 'a' in toolbox 'dev': prompt ") for error in errors)
        assert await listed(client, "prompts") == ["dev__a_p", "dev__a_q"]


# Prompts ----------------------------------------------------------------------------------------


async def test_a_prompt_reaches_the_server_that_it_names_under_its_own_name(tmp_path: Path) -> None:
    config = toolboxes(one={"it": fake(prompts=["p", "q"])}, two={"it": fake(prompts=["p"]), "b": fake()})
    config["toolboxes"]["two"]["mcpServers"]["b"] = fake(record=str(tmp_path / "b"), prompts=["p"])
    async with serving(config, tmp_path) as client:
        await client.open("one")
        await client.open("two")
        result = await asked(client, "prompts/get", name="two__b_p", arguments={"x": "1"})
    assert json.loads(result["messages"][0]["content"]["text"]) == {"prompt": "p", "arguments": {"x": "1"}}
    (got,) = received(tmp_path / "b", "prompts/get")
    assert got["params"] == {"name": "p", "arguments": {"x": "1"}}


async def test_a_prompt_with_any_name_can_be_had_and_keeps_all_but_name_and_description(
    tmp_path: Path,
) -> None:
    own: list[Json] = [
        {"name": "dé jà/vu", "title": "T", "arguments": [{"name": "x", "required": True}], "x": 1.5},
        {"name": "long " * 40, "description": "D", "icons": [{"src": "data:,"}]},
    ]
    async with with_one_server(tmp_path, prompts=own) as client:
        shown = (await asked(client, "prompts/list"))["prompts"]
        assert len({it["name"] for it in shown}) == 2
        for it, definition in zip(shown, own, strict=True):
            assert it["name"].isascii()
            assert len(it["name"]) <= 64
            label = " ".join(["[dev/a]", *filter(None, [definition.get("description")])])
            assert it == definition | {"name": it["name"], "description": label}
            result = await asked(client, "prompts/get", name=it["name"])
            assert json.loads(result["messages"][0]["content"]["text"])["prompt"] == definition["name"]


@pytest.mark.parametrize("name", ["dev__a_p", "closed__a_p", "dev__a_nobody", "p", "", "open_toolbox"])
async def test_a_prompt_of_a_closed_toolbox_or_of_nobody_is_invalid_params(name: str, tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(prompts=["p"])}, closed={"a": fake(prompts=["p"])})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        assert (await client.ask("prompts/get", {"name": "dev__a_p"}))["result"]
        await client.close("dev")
        assert (await refused(client, "prompts/get", name=name))["code"] == -32602
        argument = {"name": "x", "value": ""}
        ref = {"type": "ref/prompt", "name": name}
        assert (await refused(client, "completion/complete", ref=ref, argument=argument))["code"] == -32602


# Resources --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        "x://r",
        "x://t/1",
        "workbench://dev/a/x://r",
        "workbench://closed/a/x://r",
        "workbench://nobody/a/x://r",
        "workbench://dev/nobody/x://r",
        "workbench://dev",
        "workbench://",
        "x://nobody",
        "",
    ],
)
@pytest.mark.parametrize("method", ["resources/read", "resources/subscribe", "resources/unsubscribe"])
async def test_a_uri_of_a_closed_toolbox_or_of_nobody_is_a_resource_that_is_not_found(
    method: str, uri: str, tmp_path: Path
) -> None:
    offers: Json = {"resources": ["x://r"], "templates": ["x://t/{id}"]}
    config = toolboxes(dev={"a": fake(**offers)}, closed={"a": fake(**offers)})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        assert await contents(client, "x://t/1") == ("x://t/1", "contents of x://t/1")
        await client.close("dev")
        error = await refused(client, method, uri=uri)
        assert (error["code"], error["data"]) == (-32002, {"uri": uri})


async def test_nobody_completes_for_a_uri_of_a_closed_toolbox(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(**OFFERED)})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        await client.close("dev")
        for uri in (TEMPLATE, f"workbench://dev/a/{TEMPLATE}", "x://nobody"):
            ref, argument = {"type": "ref/resource", "uri": uri}, {"name": "id", "value": ""}
            error = await refused(client, "completion/complete", ref=ref, argument=argument)
            assert error["code"] == -32602


@pytest.mark.parametrize("params", [{}, {"uri": 5}, {"uri": None}, [], {"uri": "x://r", "_meta": 5}], ids=str)
async def test_a_request_of_the_wrong_shape_is_invalid_params(params: Any, tmp_path: Path) -> None:
    async with with_one_server(tmp_path, resources=["x://r"]) as client:
        for number, method in enumerate(("resources/read", "resources/subscribe")):
            client.send({"jsonrpc": "2.0", "id": f"bad-{number}", "method": method, "params": params})
            async with asyncio.timeout(PATIENCE):
                assert (await client.expect(f"bad-{number}"))["error"]["code"] == -32602
    assert received(tmp_path / "record", "resources/read") == []


async def test_what_a_server_says_of_a_resource_is_its_own_answer(tmp_path: Path) -> None:
    async with with_one_server(tmp_path, resources=["x://r"], templates=["x://t/{id}"]) as client:
        error = await refused(client, "resources/read", uri="x://t/a/b")  # it fits for us, and not for it
        assert error == {"code": -32002, "message": "Resource not found", "data": {"uri": "x://t/a/b"}}


async def test_a_death_while_it_reads_is_an_error_that_says_so(tmp_path: Path) -> None:
    lives: list[Json] = [{"on": {"resources/read": {"exit": 3}}}, {}]
    script: Json = {"resources": ["x://r"], "starts": str(tmp_path / "starts"), "by_start": lives}
    async with with_one_server(tmp_path, **script) as client:
        error = await refused(client, "resources/read", uri="x://r")
        assert error["code"] == -32603
        assert "Server 'a' in toolbox 'dev' exited with code 3" in error["message"]
        assert "may have been carried out" in error["message"]
        # What it offers is there while it is restarted, and who asks waits for it.
        assert await listed(client, "resources") == ["x://r"]
        assert await contents(client, "x://r") == ("x://r", "contents of x://r")


# URIs -------------------------------------------------------------------------------------------


@MODES
async def test_uris_are_the_servers_own_while_unique(mode: str, tmp_path: Path) -> None:
    async with with_one_server(tmp_path, mode, **OFFERED) as client:
        assert await listed(client, "resources") == [URI, PAGE]
        assert await listed(client, "templates") == [TEMPLATE]
        assert b"workbench://" not in b"".join(client.lines)


@MODES
async def test_of_equal_uris_the_second_is_marked_wherever_it_is_listed_and_leads_back(
    mode: str, tmp_path: Path
) -> None:
    async with two_of_the_same(tmp_path, mode) as client:
        assert await listed(client, "resources") == [URI, PAGE, MARK + URI, MARK + PAGE]
        assert await listed(client, "templates") == [TEMPLATE, MARK + TEMPLATE]
        for uri, own in (
            (URI, URI),
            (MARK + URI, URI),
            ("x://t/7", "x://t/7"),
            (MARK + "x://t/7", "x://t/7"),
        ):
            assert await contents(client, uri) == (uri, f"contents of {own}")
    for name in ("one", "two"):
        read = received(tmp_path / name, "resources/read")
        assert [it["params"]["uri"] for it in read] == [URI, "x://t/7"]


async def test_a_marked_uri_stands_in_links_and_in_what_is_embedded_and_not_in_data(tmp_path: Path) -> None:
    async with two_of_the_same(tmp_path) as client:
        for toolbox, uri in (("one", URI), ("two", MARK + URI)):
            result = await client.use(toolbox, "it", "link", uri=URI, text=f'"uri":"{URI}"')
            link, embedded = result["content"]
            assert (link["uri"], embedded["resource"]["uri"]) == (uri, uri)
            assert embedded["resource"]["text"] == f'"uri":"{URI}"'
            assert result["structuredContent"] == {"uri": URI}


async def test_a_marked_uri_stands_in_prompts_and_in_what_the_clients_model_is_asked(tmp_path: Path) -> None:
    async with two_of_the_same(tmp_path) as client:
        client.answers["sampling/createMessage"] = lambda _: {"model": "parrot"}
        for toolbox, uri in (("one", URI), ("two", MARK + URI)):
            prompt = await asked(client, "prompts/get", name=f"{toolbox}__it_p")
            assert prompt["messages"][0]["content"]["resource"] == {"uri": uri, "text": "embedded"}
            messages = [
                {"role": "user", "content": [LINKED, {"type": "tool_result", "content": [EMBEDDED]}]},
                {"role": "user", "content": EMBEDDED},
            ]
            await client.text(
                toolbox, "it", "ask", method="sampling/createMessage", params={"messages": messages}
            )
            several, one = (it["content"] for it in client.asked[-1]["params"]["messages"])
            embedded = EMBEDDED | {"resource": {"uri": uri, "text": "embedded"}}
            assert several == [LINKED | {"uri": uri}, {"type": "tool_result", "content": [embedded]}]
            assert one == embedded


async def test_the_page_of_a_tool_is_marked_where_its_definition_is_shown(tmp_path: Path) -> None:
    pages = {"one": PAGE, "two": MARK + PAGE}
    async with two_of_the_same(tmp_path, "dynamic") as client:
        tools = {tool["name"]: tool for tool in (await asked(client, "tools/list"))["tools"]}
        for toolbox, page in pages.items():
            meta = tools[f"{toolbox}__it_shown"]["_meta"]
            assert meta == {"ui": {"resourceUri": page, "csp": [1.5]}, "vendor/uri": PAGE}


async def test_the_page_of_a_tool_is_marked_in_the_answer_of_an_opening_too(tmp_path: Path) -> None:
    async with two_of_the_same(tmp_path) as client:
        for toolbox, page in (("one", PAGE), ("two", MARK + PAGE)):
            (shown,) = [tool for tool in (await client.open(toolbox))["tools"] if tool["name"] == "shown"]
            assert shown["_meta"]["ui"]["resourceUri"] == page


async def test_marked_templates_are_completed_by_their_own_server(tmp_path: Path) -> None:
    argument, context = {"name": "id", "value": "7"}, {"arguments": {"other": "x"}}
    async with two_of_the_same(tmp_path) as client:
        for uri in (TEMPLATE, MARK + TEMPLATE):
            ref = {"type": "ref/resource", "uri": uri}
            done = await asked(client, "completion/complete", ref=ref, argument=argument, context=context)
            assert done["completion"]["values"] == [f"{TEMPLATE}:id:7", json.dumps(context)]
        await asked(
            client, "completion/complete", ref={"type": "ref/prompt", "name": "two__it_p"}, argument=argument
        )
    refs = [it["params"]["ref"] for it in received(tmp_path / "two", "completion/complete")]
    assert refs == [{"type": "ref/resource", "uri": TEMPLATE}, {"type": "ref/prompt", "name": "p"}]
    assert len(received(tmp_path / "one", "completion/complete")) == 1


async def test_a_uri_that_a_server_marked_itself_leads_back_to_it(tmp_path: Path) -> None:
    # A workbench behind this one, say, whose names are the same as ours.
    theirs = "workbench://dev/a/x://r"
    config = toolboxes(dev={"a": fake(resources=["x://r"]), "b": fake(resources=[theirs])})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        plain, behind = await listed(client, "resources")
        assert plain == "x://r"
        assert await contents(client, behind) == (behind, f"contents of {theirs}")


async def test_names_with_marks_of_their_own_lead_back(tmp_path: Path) -> None:
    servers = {name: fake(resources=["x://r?a=%2F#b"], name=name) for name in ("a", "b/c %41", "ü")}
    async with serving(toolboxes(**{"my box/1": servers}), tmp_path) as client:
        await client.open("my box/1")
        uris = await listed(client, "resources")
        assert len(set(uris)) == 3
        for uri in uris:
            assert await contents(client, uri) == (uri, "contents of x://r?a=%2F#b")


async def test_closing_the_first_leaves_the_uris_of_the_second_as_they_were(tmp_path: Path) -> None:
    async with two_of_the_same(tmp_path) as client:
        shown = {of: await listed(client, of) for of in ("resources", "templates")}
        await client.close("one")
        client.heard()
        assert await listed(client, "resources") == [MARK + URI, MARK + PAGE]
        assert await listed(client, "templates") == [MARK + TEMPLATE]
        for uri in (MARK + URI, MARK + "x://t/7"):
            assert await contents(client, uri) == (uri, f"contents of {uri.removeprefix(MARK)}")
        await client.open("one")
        assert {of: sorted(await listed(client, of)) for of in shown} == {
            of: sorted(them) for of, them in shown.items()
        }


@pytest.mark.parametrize("method", ["resources/read", "resources/subscribe", "resources/unsubscribe"])
async def test_what_a_client_has_of_a_closed_toolbox_leads_to_no_other(method: str, tmp_path: Path) -> None:
    linked, made = "x://linked", "x://t/7"
    async with two_of_the_same(tmp_path) as client:
        await client.use("one", "it", "link", uri=linked)
        await client.close("one")
        await client.use("two", "it", "link", uri=linked)
        for uri in (URI, made, linked):
            error = await refused(client, method, uri=uri)
            assert (error["code"], error["data"]) == (-32002, {"uri": uri})
        assert received(tmp_path / "two", method) == []
        await client.open("one")
        assert await contents(client, URI) == (URI, f"contents of {URI}")
    assert received(tmp_path / "two", method) == []


async def test_contents_have_the_uri_by_which_they_were_asked_for(tmp_path: Path) -> None:
    more = [{"uri": uri, "text": uri} for uri in ("x://r/My File", "x://r/part")]
    reading: Json = {"resources": [{"uri": "x://r/My File", "contents": more}], "templates": ["mem://{id}"]}
    config = toolboxes(
        one={"it": fake(templates=["mem://{id}/of/one"])},
        two={"it": fake(**reading), "also": fake(**reading)},
    )
    async with serving(config, tmp_path) as client:
        await client.open("one")
        await client.open("two")
        for mark, escaped in (("", "x://r/My%20File"), ("workbench://two/also/", "x://r/My%20File")):
            read = await asked(client, "resources/read", uri=mark + escaped)
            assert read["contents"] == [
                {"uri": mark + escaped, "text": "x://r/My File"},
                {"uri": mark + "x://r/part", "text": "x://r/part"},
            ]
        uri = "workbench://two/it/mem://foo"
        assert await contents(client, uri) == (uri, "contents of mem://foo")
        uri = "workbench://two/it/x://r/My File"  # that of its own, too
        assert (await asked(client, "resources/read", uri=uri))["contents"][0]["uri"] == uri


# What no server has shown -----------------------------------------------------------------------

SERVES_MORE: Json = {
    "resources": [],
    "on": {"resources/read": {"result": '{"contents":[{"uri":"x://42","text":"a"}]}'}},
}
COMPLETES = {"argument": {"name": "id", "value": ""}}


async def test_a_uri_that_nobody_has_shown_is_asked_of_the_one_server_with_resources(tmp_path: Path) -> None:
    config = toolboxes(
        dev={
            "a": fake(**SERVES_MORE, record=str(tmp_path / "a"), completions=True, tools=["touch"]),
            "b": fake(),
        },
        late={"a": fake(resources=["x://42", "x://43"])},
    )
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        assert await contents(client, "x://42") == ("x://42", "a")
        assert await asked(client, "resources/subscribe", uri="x://43") == {}
        ref = {"type": "ref/resource", "uri": "x://t/{id}"}
        done = await asked(client, "completion/complete", ref=ref, **COMPLETES)
        assert done["completion"]["values"] == ["x://t/{id}:id:"]
        # From here on it is known whose they are.
        await client.open("late")
        assert await listed(client, "resources") == ["workbench://late/a/x://42", "workbench://late/a/x://43"]
        assert await contents(client, "x://42") == ("x://42", "a")
        client.heard()
        await client.text("dev", "a", "touch", uri="x://43")
        assert [it["params"] for it in client.heard()] == [{"uri": "x://43"}]
    assert [it["params"]["uri"] for it in received(tmp_path / "a", "resources/subscribe")] == ["x://43"]


async def test_what_that_server_says_of_it_is_its_own_answer(tmp_path: Path) -> None:
    error = {"code": -32002, "message": "no such note", "data": 5}
    async with with_one_server(tmp_path, resources=[], on={"resources/read": {"error": error}}) as client:
        assert await refused(client, "resources/read", uri="x://42") == error


@pytest.mark.parametrize("having", [0, 2])
async def test_a_uri_that_nobody_has_shown_is_asked_of_none_or_of_two_servers(
    having: int, tmp_path: Path
) -> None:
    servers = {f"r{it}": fake(**SERVES_MORE, record=str(tmp_path / f"r{it}")) for it in range(having)}
    async with serving(toolboxes(dev={"plain": fake(), **servers}), tmp_path) as client:
        await client.open("dev")
        for method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
            assert (await refused(client, method, uri="x://42"))["code"] == -32002
        ref = {"type": "ref/resource", "uri": "x://42"}
        assert (await refused(client, "completion/complete", ref=ref, **COMPLETES))["code"] == -32602
    for name in servers:
        assert received(tmp_path / name, "resources/read") == []


async def test_a_server_that_is_being_restarted_may_have_what_nobody_has_shown(tmp_path: Path) -> None:
    held: Json = {"on": {"start": {"wait": str(tmp_path / "never")}}}
    lives: Json = {"starts": str(tmp_path / "starts"), "by_start": [{}, held]}
    config = toolboxes(dev={"a": fake(**SERVES_MORE), "b": fake(resources=[], tools=["die"], **lives)})
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        await client.error("dev", "b", "die")
        assert (await refused(client, "resources/read", uri="x://42"))["code"] == -32002


async def test_what_nobody_has_shown_waits_for_the_restart_of_the_only_server(tmp_path: Path) -> None:
    async with with_one_server(tmp_path, tools=["die"], **SERVES_MORE) as client:
        await client.error("dev", "a", "die")
        assert await contents(client, "x://42") == ("x://42", "a")


async def test_a_uri_that_differs_from_a_listed_one_in_escapes_alone_leads_to_it(tmp_path: Path) -> None:
    own, written = "x://My File.md", "x://My%20File.md"
    config = toolboxes(
        one={"it": fake(resources=[own])}, two={"it": fake(resources=[own]), "b": fake(templates=["x://{a}"])}
    )
    async with serving(config, tmp_path) as client:
        await client.open("one")
        await client.open("two")
        for mark in ("", MARK):
            assert await contents(client, mark + own) == (mark + own, f"contents of {own}")
            assert await contents(client, mark + written) == (mark + written, f"contents of {own}")


# Subscriptions ----------------------------------------------------------------------------------


async def subscriptions(client: Client, toolbox: str, server: str) -> list[str]:
    return list(json.loads(await client.text(toolbox, server, "subscriptions")))


async def test_who_subscribes_to_a_marked_uri_is_told_under_it(tmp_path: Path) -> None:
    async with two_of_the_same(tmp_path) as client:
        assert await asked(client, "resources/subscribe", uri=MARK + URI) == {}
        assert await subscriptions(client, "two", "it") == [URI]
        assert await subscriptions(client, "one", "it") == []
        await client.text("two", "it", "touch", uri=URI)
        assert [it["params"] for it in client.heard()] == [{"uri": MARK + URI}]
        assert await asked(client, "resources/unsubscribe", uri=MARK + URI) == {}
        assert await subscriptions(client, "two", "it") == []


async def test_who_subscribed_to_a_marked_uri_is_told_under_it_when_it_is_unique_again(
    tmp_path: Path,
) -> None:
    async with two_of_the_same(tmp_path) as client:
        await asked(client, "resources/subscribe", uri=MARK + URI)
        await client.close("one")
        client.heard()
        await client.text("two", "it", "touch", uri=URI)
        assert [it["params"] for it in client.heard()] == [{"uri": MARK + URI}]


async def test_an_update_keeps_all_else_that_the_server_says_in_it(tmp_path: Path) -> None:
    rest = '"title":"\\u0041", "big":12345678901234567890,"_meta":{"vendor/key":[ ]}'
    async with two_of_the_same(tmp_path) as client:
        for toolbox in ("one", "two"):
            line = f'{{"jsonrpc":"2.0","method":"{UPDATED}","params":{{"uri":"{URI}",{rest}}}}}'
            await client.text(toolbox, "it", "raw", line=line)
        own, marked = [line.decode() for line in client.lines if UPDATED.encode() in line]
        assert f'"params":{{"uri":"{URI}",{rest}}}' in own
        for part in (f'"{MARK}{URI}"', *rest.replace(', "', ',"').split(',"')):
            assert part in marked


async def test_subscriptions_are_restored_after_the_server_restarted(tmp_path: Path) -> None:
    kept, left = "x://kept", "x://left"
    async with with_one_server(tmp_path, resources=[kept, left]) as client:
        for uri in (kept, left):
            await asked(client, "resources/subscribe", uri=uri)
        await asked(client, "resources/unsubscribe", uri=left)
        await client.error("dev", "a", "die")
        await client.text("dev", "a", "echo")
        assert await subscriptions(client, "dev", "a") == [kept]


async def test_subscriptions_are_restored_before_anything_is_called(tmp_path: Path) -> None:
    async with with_one_server(tmp_path, resources=["x://r"]) as client:
        await asked(client, "resources/subscribe", uri="x://r")
        await client.error("dev", "a", "die")
        # This call waits for the restart; what it changes would not be heard of if it came first.
        assert await subscriptions(client, "dev", "a") == ["x://r"]


async def test_a_subscription_that_was_refused_is_not_made_after_a_restart(tmp_path: Path) -> None:
    refusal = {"resources/subscribe": {"error": {"code": -32601, "message": "no"}}}
    async with with_one_server(tmp_path, resources=["x://r"], on=refusal) as client:
        assert (await refused(client, "resources/subscribe", uri="x://r"))["code"] == -32601
        await client.error("dev", "a", "die")
        await client.text("dev", "a", "echo")
        assert await subscriptions(client, "dev", "a") == []
    assert len(received(tmp_path / "record", "resources/subscribe")) == 1


async def test_a_toolbox_that_is_opened_again_has_no_subscriptions(tmp_path: Path) -> None:
    async with with_one_server(tmp_path, resources=["x://r"]) as client:
        await asked(client, "resources/subscribe", uri="x://r")
        await client.close("dev")
        await client.open("dev")
        assert await subscriptions(client, "dev", "a") == []


# What passes as it came -------------------------------------------------------------------------

RAW = {
    "tools/call": '{"content":[{"type":"text", "text":"\\u0041"}],"structuredContent":{"uri": "x://r"},%s}',
    "prompts/get": '{"description":"\\u0041", "messages":[{"role":"user","content":{"type":"resource",'
    '"resource":{"uri":"x:\\/\\/r", "text":"\\ud800"}}}],%s}',
    "resources/read": '{"contents":[{"uri": "x:\\/\\/r","text":"\\u0041", "x":1.50 }],%s}',
    "completion/complete": '{"completion":{"values":["\\u0041"], "total":1.0,"hasMore":false},%s}',
}
META = '"_meta":{"vendor/key":[ ],"big":12345678901234567890, "traceparent":"00-1-2-01"},"x":null'
REQUESTS: dict[str, Json] = {
    "tools/call": {"name": "use_tool", "arguments": use("dev", "a", "echo")},
    "prompts/get": {"name": "dev__a_p"},
    "resources/read": {"uri": "x://r"},
    "completion/complete": {
        "ref": {"type": "ref/resource", "uri": "x://r"},
        "argument": {"name": "id", "value": ""},
    },
}
EACH_REQUEST = pytest.mark.parametrize("method", REQUESTS)


@EACH_REQUEST
async def test_a_result_with_its_meta_comes_back_to_the_byte(method: str, tmp_path: Path) -> None:
    result = RAW[method] % META
    script: Json = {"prompts": ["p"], "resources": ["x://r"], "completions": True}
    async with with_one_server(tmp_path, **script, on={method: {"result": result}}) as client:
        line = await client.line(client.begin(method, REQUESTS[method], "mine"))
    assert line == b'{"jsonrpc":"2.0","id":"mine","result":' + result.encode() + b"}\n"


@EACH_REQUEST
async def test_where_a_uri_is_marked_all_else_comes_back_to_the_byte(method: str, tmp_path: Path) -> None:
    result = RAW[method] % META
    script: Json = {"prompts": ["p"], "resources": ["x://r"], "completions": True}
    config = toolboxes(
        first={"a": fake(**script)}, dev={"a": fake(**script, on={method: {"result": result}})}
    )
    request = json.loads(json.dumps(REQUESTS[method]).replace("x://r", "workbench://dev/a/x://r"))
    async with serving(config, tmp_path) as client:
        await client.open("first")
        await client.open("dev")
        line = (await client.line(client.begin(method, request, "mine"))).decode()
    marked = result.replace('"x:\\/\\/r"', '"workbench://dev/a/x://r"')
    if marked == result:
        assert line == f'{{"jsonrpc":"2.0","id":"mine","result":{result}}}\n'
    assert json.loads(line)["result"] == json.loads(marked)
    assert META.partition(',"x"')[0] in line
    assert '"\\u0041"' in line


TRACED = '{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=1",'
VENDED = TRACED + '"baggage":"k=v","vendor/key":{"big":12345678901234567890, "f":1.50,"s":"\\u0041"}}'


@pytest.mark.parametrize("method", [*REQUESTS, "resources/subscribe", "resources/unsubscribe"])
@MODES
async def test_vendors_meta_and_trace_context_of_a_request_reach_the_server_to_the_byte(
    method: str, mode: str, tmp_path: Path
) -> None:
    params = REQUESTS.get(method, {"uri": "x://r"})
    if mode == "dynamic" and method == "tools/call":
        params = {"name": "dev__a_echo", "arguments": {}}
    script: Json = {"prompts": ["p"], "resources": ["x://r"], "completions": True}
    async with with_one_server(tmp_path, mode, **script) as client:
        answer = client.expect("mine")
        own = json.dumps(params).removesuffix("}")
        client.write(
            f'{{"jsonrpc":"2.0","id":"mine","method":"{method}","params":{own},"_meta":{VENDED}}}}}\n'.encode()
        )
        async with asyncio.timeout(PATIENCE):
            assert "result" in await answer
    (line,) = [it for it in (tmp_path / "record").read_text().splitlines() if f'"{method}"' in it]
    values = VENDED.removeprefix("{").removesuffix("}")
    assert all(part in line for part in values.split(',"')), line
    assert json.loads(line)["params"]["_meta"] == json.loads(VENDED)


# Instructions -----------------------------------------------------------------------------------


@MODES
async def test_instructions_of_servers_come_with_the_opening_labelled_and_only_of_those_that_have_some(
    mode: str, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"a": 'Read me.\n☃ "quoted"', "none": ..., "null": None, "number": 5, "z": "Last."}
    servers = {
        name: fake(initialize={} if text is ... else {"instructions": text}) for name, text in own.items()
    }
    async with serving(toolboxes(dev=servers, bare={"a": fake()}) | {"toolMode": mode}, tmp_path) as client:
        assert (await client.open("dev"))["server_instructions"] == {"a": own["a"], "z": own["z"]}
        assert "server_instructions" not in await client.open("bare")


async def test_empty_instructions_are_none(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake(initialize={"instructions": ""})}), tmp_path) as client:
        assert "server_instructions" not in await client.open("dev")


async def test_instructions_of_a_server_that_is_down_are_not_told(tmp_path: Path) -> None:
    failing = fake(initialize={"instructions": "Never."}, on={"tools/list": {"exit": 3}})
    good = fake(initialize={"instructions": "Ask me."})
    async with serving(toolboxes(dev={"bad": failing, "good": good}), tmp_path) as client:
        opened = await client.open("dev")
        assert opened["server_instructions"] == {"good": "Ask me."}
        assert len(opened["_errors"]) == 1
