"""All that the reference server "everything" offers, directly and through the workbench.

What a client sees through the workbench must be what it sees directly, but for names that say whose it is.
The same is said to both, and their whole answers are compared after names and URIs are mapped.
"""

import asyncio
import base64
import gzip
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .test_real_servers import pytestmark as pytestmark
from .test_real_servers import server
from .workbench import PATIENCE, Client, Json, serving, started, talking_to, toolboxes, until, use

IT = server("everything")
MODES = pytest.mark.parametrize("mode", ["proxy", "dynamic"])

SAMPLING: Json = {"sampling": {}}
FORMS: Json = {"elicitation": {"form": {}}}
URLS: Json = {"elicitation": {"form": {}, "url": {}}}
ROOTS: Json = {"roots": {"listChanged": True}}
EVERYTHING = SAMPLING | URLS | ROOTS

TEXT = "demo://resource/dynamic/text/"
BLOB = "demo://resource/dynamic/blob/"
DOCUMENT = "demo://resource/static/document/"
SESSION = "demo://resource/session/"

PROGRESS = "notifications/progress"
LOG = "notifications/message"
UPDATED = "notifications/resources/updated"
CHANGED = {kind: f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}

Answers = dict[str, Callable[[Json], Json | None]]


# The two ways -----------------------------------------------------------------------------------


def begin(
    client: Client, way: str, tool: str, arguments: Json, toolbox: str = "box", **params: Any
) -> "asyncio.Future[Json]":
    """Begin a call of a tool: "directly", by `use_tool` ("proxy"), or by its native name ("dynamic")."""
    call = {
        "directly": {"name": tool, "arguments": arguments},
        "proxy": {"name": "use_tool", "arguments": use(toolbox, "it", tool, **arguments)},
        "dynamic": {"name": f"{toolbox}__it_{tool}", "arguments": arguments},
    }[way]
    return client.begin("tools/call", call | params)


async def said(answer: "asyncio.Future[Json]") -> Json:
    """All of an answer but its id."""
    async with asyncio.timeout(PATIENCE):
        return {key: value for key, value in (await answer).items() if key != "id"}


async def called(client: Client, way: str, tool: str, toolbox: str = "box", **arguments: Any) -> Json:
    """The result of a call."""
    answer = await said(begin(client, way, tool, arguments, toolbox))
    assert "result" in answer, answer
    return dict(answer["result"])


async def asked(client: Client, method: str, **params: Any) -> Json:
    """The result of a request."""
    answer = await said(client.begin(method, params))
    assert "result" in answer, answer
    return dict(answer["result"])


async def told(client: Client, method: str, having: str = "") -> Json:
    """The parameters of the next notification of this method that has this in it; others are passed over."""
    async with asyncio.timeout(PATIENCE):
        while True:
            note = await client.notifications.get()
            if note["method"] == method and having in str(note.get("params")):
                return dict(note.get("params", {}))


def timeless(value: Any) -> Any:
    """What the server says, without the time at which it says it."""
    match value:
        case dict():
            return {key: timeless(_read(inner) if key == "blob" else inner) for key, inner in value.items()}
        case list():
            return [timeless(inner) for inner in value]
        case str():
            return re.sub(r"created at .*", "created at …", value)
    return value


def _read(blob: str) -> str:
    return base64.b64decode(blob).decode("latin-1")


def named(definition: Json, toolbox: str = "box") -> Json:
    """The definition of a tool or prompt as the workbench offers it natively."""
    ours = {
        "name": f"{toolbox}__it_{definition['name']}",
        "description": f"[{toolbox}/it] {definition['description']}",
    }
    return definition | ours


@dataclass
class Both:
    """The same server twice: one that is talked to directly, and one behind the workbench."""

    direct: Client
    through: Client
    mode: str

    async def call(self, tool: str, arguments: Json) -> tuple[Json, Json]:
        """The answers to the same call."""
        expected = await said(begin(self.direct, "directly", tool, arguments))
        return expected, await said(begin(self.through, self.mode, tool, arguments))

    async def same_call(self, tool: str, **arguments: Any) -> Json:
        """The result of a call, which must be the same in both ways."""
        expected, answer = await self.call(tool, arguments)
        assert timeless(answer) == timeless(expected)
        assert "result" in answer, answer
        return dict(answer["result"])

    async def ask(self, method: str, params: Json, through: Json | None = None) -> tuple[Json, Json]:
        """The answers to the same request; `through` has what the workbench knows by another name."""
        expected = await said(self.direct.begin(method, params))
        return expected, await said(self.through.begin(method, params | (through or {})))

    async def same(self, method: str, params: Json | None = None, through: Json | None = None) -> Json:
        """The answer to a request, which must be the same in both ways."""
        expected, answer = await self.ask(method, params or {}, through)
        assert timeless(answer) == timeless(expected)
        return answer


async def at_rest(direct: Client, capabilities: Json) -> None:
    """A while after its start the server asks for roots; if nobody is there any more, it does not end."""
    if "roots" in capabilities:
        await until(lambda: "roots/list" in [question["method"] for question in direct.asked])


@asynccontextmanager
async def both(
    folder: Path,
    mode: str = "proxy",
    capabilities: Json | None = None,
    answers: Answers | None = None,
    env: dict[str, str] | None = None,
) -> AsyncIterator[Both]:
    """Both are greeted by clients with these capabilities, and the toolbox is open."""
    config = toolboxes(box={"it": {**IT, "env": env or {}}}) | {"toolMode": mode}
    async with (
        talking_to(IT["command"], *IT["args"], folder=folder, env=env) as direct,
        serving(config, folder, capabilities=capabilities) as through,
    ):
        for client in (direct, through):
            client.answers |= answers or {}
        await direct.initialize(capabilities=capabilities or {})
        opened = await through.open("box")
        assert "_errors" not in opened
        yield Both(direct, through, mode)
        await at_rest(direct, capabilities or {})


@asynccontextmanager
async def opened(folder: Path, *toolbox: str, mode: str = "proxy", **options: Any) -> AsyncIterator[Client]:
    """The workbench alone, with the server in each of these toolboxes, which were opened in this order."""
    config = toolboxes(**{name: {"it": IT} for name in toolbox}) | {"toolMode": mode}
    async with serving(config, folder, **options) as client:
        for name in toolbox:
            await client.open(name)
        yield client


# Opening ----------------------------------------------------------------------------------------


@MODES
async def test_the_workbench_declares_what_it_relays(mode: str, tmp_path: Path) -> None:
    async with started(toolboxes(box={"it": IT}) | {"toolMode": mode}, tmp_path) as client:
        declared = (await client.initialize(capabilities=EVERYTHING))["capabilities"]
    assert declared["prompts"] == {"listChanged": True}
    assert declared["resources"] == {"listChanged": True, "subscribe": True}
    assert declared["tools"] == ({"listChanged": True} if mode == "dynamic" else {})
    assert declared["logging"] == declared["completions"] == {}
    assert "tasks" not in declared


@MODES
async def test_the_instructions_of_a_server_come_with_the_opening(mode: str, tmp_path: Path) -> None:
    async with (
        talking_to(IT["command"], *IT["args"], folder=tmp_path) as direct,
        serving(toolboxes(box={"it": IT}) | {"toolMode": mode}, tmp_path) as through,
    ):
        instructions = (await direct.initialize())["instructions"]
        assert "Cross-Feature Relationships" in instructions
        assert (await through.open("box"))["server_instructions"] == {"it": instructions}


@MODES
async def test_what_a_server_offers_is_there_while_its_toolbox_is_open(mode: str, tmp_path: Path) -> None:
    async def offered(client: Client) -> list[int]:
        return [
            len((await asked(client, "tools/list"))["tools"]),
            len((await asked(client, "prompts/list"))["prompts"]),
            len((await asked(client, "resources/list"))["resources"]),
            len((await asked(client, "resources/templates/list"))["resourceTemplates"]),
        ]

    async with serving(toolboxes(box={"it": IT}) | {"toolMode": mode}, tmp_path) as client:
        before = await offered(client)
        assert before[1:] == [0, 0, 0]
        answer = await client.open("box")
        tools, prompts, resources, templates = await offered(client)
        assert (prompts, templates) == (4, 2)
        assert resources > 0
        assert tools == before[0] + (answer["tools_registered"] if mode == "dynamic" else 0)
        closed = await client.close("box")
        assert closed["tools_unregistered"] == (answer.get("tools_registered") or len(answer["tools"]))
        assert await offered(client) == before
        gone = await said(client.begin("prompts/get", {"name": "box__it_simple-prompt"}))
        assert gone["error"]["code"] == -32602


async def test_a_call_that_opens_a_toolbox_offers_its_prompts_and_resources_too(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": IT}), tmp_path) as client:
        assert "hello" in await client.text("box", "it", "echo", message="hello")
        told = {(await client.notification())["method"] for _ in range(2)}
        assert told == {CHANGED["prompts"], CHANGED["resources"]}
        assert len((await asked(client, "prompts/list"))["prompts"]) == 4
        assert len((await asked(client, "resources/templates/list"))["resourceTemplates"]) == 2
        assert (await asked(client, "resources/read", uri=TEXT + "1"))["contents"]


@MODES
async def test_an_opening_and_a_closing_are_each_told_once(mode: str, tmp_path: Path) -> None:
    # The server says several times, while it is being introduced, that it has other tools: nobody minds.
    changes = [CHANGED["prompts"], CHANGED["resources"], *([CHANGED["tools"]] if mode == "dynamic" else [])]
    async with serving(
        toolboxes(box={"it": IT}) | {"toolMode": mode}, tmp_path, capabilities=SAMPLING | FORMS
    ) as client:
        for step in (client.open, client.close, client.open):
            await step("box")
            notes = [(await client.notification())["method"] for _ in changes]
            assert sorted(notes) == sorted(changes)
            await client.ask("ping")
            assert client.heard() == []
        await client.text("box", "it", "echo", message="hello")
        assert client.heard() == []


# What a client declared -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        SAMPLING,
        {"elicitation": {}},
        FORMS,
        {"elicitation": {"url": {}}},
        URLS,
        {"roots": {}},
        ROOTS,
        EVERYTHING,
    ],
    ids=json.dumps,
)
async def test_a_server_knows_what_the_client_can_do_and_has_the_tools_for_it(
    capabilities: Json, tmp_path: Path
) -> None:
    async with both(tmp_path, capabilities=capabilities) as it:
        it.direct.answers["roots/list"] = it.through.answers["roots/list"] = lambda _: {"roots": []}
        definitions = (await asked(it.direct, "tools/list"))["tools"]
        added = {"toolbox_name": "box", "source_server": "it"}
        assert (await it.through.open("box"))["tools"] == [definition | added for definition in definitions]


async def test_a_server_is_not_told_of_tasks_which_the_workbench_does_not_relay(tmp_path: Path) -> None:
    requests: Json = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
    capabilities = SAMPLING | FORMS | {"tasks": {"list": {}, "cancel": {}, "requests": requests}}
    async with both(tmp_path, capabilities=capabilities) as it:
        direct = {tool["name"] for tool in (await asked(it.direct, "tools/list"))["tools"]}
        through = {tool["name"] for tool in (await it.through.open("box"))["tools"]}
        assert direct - through == {"trigger-sampling-request-async", "trigger-elicitation-request-async"}
        assert through < direct


async def test_all_that_the_server_offers_is_tried_here(tmp_path: Path) -> None:
    here = Path(__file__).read_text()  # noqa: ASYNC240
    async with talking_to(IT["command"], *IT["args"], folder=tmp_path) as direct:
        direct.answers["roots/list"] = lambda _: {"roots": []}
        offered = (await direct.initialize(capabilities=EVERYTHING))["capabilities"]
        tools = (await asked(direct, "tools/list"))["tools"]
        prompts = (await asked(direct, "prompts/list"))["prompts"]
        templates = (await asked(direct, "resources/templates/list"))["resourceTemplates"]
        await at_rest(direct, EVERYTHING)
    assert set(offered) == {"tools", "prompts", "resources", "logging", "completions", "tasks"}
    assert [offer["name"] for offer in (*tools, *prompts) if f'"{offer["name"]}"' not in here] == []
    assert {template["uriTemplate"] for template in templates} == {
        TEXT + "{resourceId}",
        BLOB + "{resourceId}",
    }


# Tools ------------------------------------------------------------------------------------------


async def test_native_tools_are_the_servers_own_but_for_the_name_and_the_label(tmp_path: Path) -> None:
    roots: Answers = {"roots/list": lambda _: {"roots": []}}
    async with both(tmp_path, "dynamic", EVERYTHING, roots) as it:
        definitions = (await asked(it.direct, "tools/list"))["tools"]
        native = [named(definition) for definition in definitions]
        listed = (await asked(it.through, "tools/list"))["tools"]
        names = [tool["name"] for tool in native]
        assert [tool for tool in listed if tool["name"] in names] == native
        assert {"open_toolbox", "use_tool", "close_toolbox"} == {tool["name"] for tool in listed} - set(names)
        again = await it.through.open("box")
        assert (again["tools"], again["tools_registered"]) == (names, len(names))


CALLS: dict[str, list[tuple[str, Json]]] = {
    "text": [("echo", {"message": "ünïcödé ☃ 😀"}), ("echo", {"message": ""})],
    "numbers": [("get-sum", {"a": 2, "b": 2.5}), ("get-sum", {"a": -(2**53) + 1, "b": 1e-7})],
    "a picture": [("get-tiny-image", {})],
    "structured content": [
        ("get-structured-content", {"location": city}) for city in ("New York", "Chicago", "Los Angeles")
    ],
    "annotated content": [
        ("get-annotated-message", {"messageType": kind, "includeImage": image})
        for kind in ("error", "success", "debug")
        for image in (False, True)
    ],
    "links": [("get-resource-links", {"count": 10}), ("get-resource-links", {})],
    "embedded resources": [
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 5}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 5}),
    ],
}

MISTAKES: list[tuple[str, Json]] = [
    ("echo", {}),
    ("get-sum", {"a": "two", "b": 2}),
    ("get-structured-content", {"location": "Atlantis"}),
    ("get-annotated-message", {"messageType": "rumour"}),
    ("get-resource-links", {"count": 11}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
    ("trigger-long-running-operation", {"steps": "many"}),
]


@MODES
@pytest.mark.parametrize("kind", CALLS)
async def test_each_kind_of_content_comes_as_it_does_directly(mode: str, kind: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        for tool, arguments in CALLS[kind]:
            assert not (await it.same_call(tool, **arguments)).get("isError")


@MODES
async def test_mistakes_are_answered_as_they_are_directly(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        for tool, arguments in MISTAKES:
            assert (await it.same_call(tool, **arguments))["isError"]


@MODES
async def test_a_server_has_the_environment_of_its_entry(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode, env={"SAID": "in the entry"}) as it:
        directly, through = await it.call("get-env", {})
        (expected,), (content,) = directly["result"]["content"], through["result"]["content"]
        assert content["type"] == expected["type"] == "text"
        assert json.loads(content["text"])["SAID"] == json.loads(expected["text"])["SAID"] == "in the entry"


@MODES
async def test_a_tool_that_only_runs_as_a_task_says_so(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode, FORMS) as it:
        refused = await it.same_call("simulate-research-query", topic="python", ambiguous=True)
        assert refused["isError"]
        assert "task" in refused["content"][0]["text"]


# Files of the session ---------------------------------------------------------------------------


@MODES
async def test_a_file_that_a_tool_makes_can_be_read_by_its_link(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        await told(it.through, CHANGED["resources"])  # of the opening
        file = {"name": "note.txt.gz", "data": "data:text/plain,hello"}
        (link,) = (await it.same_call("gzip-file-as-resource", **file, outputType="resourceLink"))["content"]
        assert (link["type"], link["uri"]) == ("resource_link", SESSION + "note.txt.gz")
        await told(it.through, CHANGED["resources"])
        listed = (await it.same("resources/list"))["result"]["resources"]
        assert link["uri"] in [resource["uri"] for resource in listed]
        read = await it.same("resources/read", {"uri": link["uri"]})
        (content,) = read["result"]["contents"]
        assert gzip.decompress(base64.b64decode(content["blob"])) == b"hello"


@MODES
async def test_a_file_that_a_tool_makes_can_come_with_its_answer(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        file = {"name": "note.txt.gz", "data": "data:text/plain;base64,aGVsbG8="}
        (block,) = (await it.same_call("gzip-file-as-resource", **file, outputType="resource"))["content"]
        assert block["type"] == "resource"
        assert gzip.decompress(base64.b64decode(block["resource"]["blob"])) == b"hello"


@MODES
async def test_what_the_server_does_not_fetch_it_refuses_as_it_does_directly(
    mode: str, tmp_path: Path
) -> None:
    limits = {"GZIP_ALLOWED_DOMAINS": "example.org", "GZIP_MAX_FETCH_SIZE": "4"}
    async with both(tmp_path, mode, env=limits) as it:
        for data in ("https://example.com/", "ftp://example.org/", "data:text/plain,hello", "nowhere"):
            assert (await it.same_call("gzip-file-as-resource", name="x", data=data))["isError"]


# Long operations --------------------------------------------------------------------------------


@MODES
async def test_progress_comes_with_the_clients_own_token_before_the_answer(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        for token in ("mine", 7):
            progress = []
            for client, way in ((it.direct, "directly"), (it.through, mode)):
                client.heard()
                call = begin(
                    client,
                    way,
                    "trigger-long-running-operation",
                    {"duration": 0.05, "steps": 5},
                    _meta={"progressToken": token},
                )
                assert not (await said(call))["result"].get("isError")
                progress.append([note["params"] for note in client.heard() if note["method"] == PROGRESS])
            directly, through = progress
            assert through == directly
            assert [(note["progressToken"], note["progress"]) for note in through] == [
                (token, step) for step in range(1, 6)
            ]


@MODES
async def test_without_a_token_there_is_no_progress(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        await it.same_call("trigger-long-running-operation", duration=0.02, steps=2)
        assert PROGRESS not in [note["method"] for note in it.through.heard()]


@MODES
async def test_a_cancelled_operation_is_not_heard_of_again(mode: str, tmp_path: Path) -> None:
    async with opened(tmp_path, "box", mode=mode) as client:
        tool, arguments = "trigger-long-running-operation", {"duration": 1, "steps": 100}
        cancelled = begin(client, mode, tool, arguments, _meta={"progressToken": "cancelled"})
        await told(client, PROGRESS)
        client.tell(
            "notifications/cancelled",
            {"requestId": cancelled.request_id, "reason": "enough"},  # type: ignore[attr-defined]
        )
        await called(client, mode, "echo", message="so it has been cancelled")
        client.heard()
        # Meanwhile the server goes on with what was cancelled.
        other = begin(client, mode, tool, {"duration": 0.2, "steps": 2}, _meta={"progressToken": "other"})
        assert "result" in await said(other)
        tokens = [note["params"]["progressToken"] for note in client.heard() if note["method"] == PROGRESS]
        assert tokens == ["other", "other"]
        assert not cancelled.done()


# Logging ----------------------------------------------------------------------------------------


async def test_log_messages_say_whose_they_are(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        await it.same("resources/subscribe", {"uri": TEXT + "1"})
        directly, through = await told(it.direct, LOG), await told(it.through, LOG)
        assert TEXT + "1" in directly["data"]
        assert through == directly | {"logger": "box/it"}


async def test_the_loggers_own_name_is_kept_behind_the_servers(tmp_path: Path) -> None:
    roots: Answers = {"roots/list": lambda _: {"roots": []}}
    async with both(tmp_path, capabilities=ROOTS, answers=roots) as it:
        directly, through = await told(it.direct, LOG), await told(it.through, LOG)
        assert directly["logger"] == "everything-server"
        assert through == directly | {"logger": "box/it/everything-server"}


@MODES
async def test_simulated_logging_is_heard_from_the_first_message_on(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        await it.same_call("toggle-simulated-logging")
        for client, logger in ((it.direct, None), (it.through, "box/it")):
            message = await told(client, LOG)
            assert re.search("level[ -]message", message["data"])
            assert message.get("logger") == logger
        stopped = await it.same_call("toggle-simulated-logging")
        assert stopped["content"][0]["text"].startswith("Stopped")


async def test_the_level_that_a_client_sets_reaches_the_server(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        await it.same("logging/setLevel", {"level": "error"})
        await it.same("resources/subscribe", {"uri": TEXT + "1"})  # which is worth an "info"
        await it.same("logging/setLevel", {"level": "info"})
        await it.same("resources/unsubscribe", {"uri": TEXT + "1"})
        for client in (it.direct, it.through):
            assert "Unsubscribe" in (await told(client, LOG))["data"]


async def test_the_level_holds_for_servers_that_start_later(tmp_path: Path) -> None:
    async with serving(toolboxes(box={"it": IT}), tmp_path) as client:
        await asked(client, "logging/setLevel", level="error")
        await client.open("box")
        await asked(client, "resources/subscribe", uri=TEXT + "1")
        await asked(client, "logging/setLevel", level="debug")
        await asked(client, "resources/unsubscribe", uri=TEXT + "1")
        assert "Unsubscribe" in (await told(client, LOG))["data"]


# Sampling ---------------------------------------------------------------------------------------


def drawn(params: Json) -> Json:
    """What a model makes of a question: the question itself, and a field of its vendor."""
    text = params["messages"][0]["content"]["text"]
    return {
        "role": "assistant",
        "content": {"type": "text", "text": f"you said: {text}"},
        "model": "parrot",
        "stopReason": "endTurn",
        "_meta": {"vendor.example/tokens": 7},
    }


@MODES
async def test_a_server_may_ask_the_clients_model(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode, SAMPLING, {"sampling/createMessage": drawn}) as it:
        result = await it.same_call("trigger-sampling-request", prompt="ünïcödé ☃", maxTokens=5)
        assert "you said: " in result["content"][0]["text"]
        (directly,), (through,) = it.direct.asked, it.through.asked
        assert through["method"] == directly["method"] == "sampling/createMessage"
        assert through["params"] == directly["params"]
        assert through["params"]["maxTokens"] == 5


@MODES
async def test_a_client_that_refuses_to_sample_is_understood(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode, SAMPLING) as it:
        refused = await it.same_call("trigger-sampling-request", prompt="hello")
        assert refused["isError"]
        assert "-32601" in refused["content"][0]["text"]


@MODES
async def test_servers_that_ask_at_once_each_get_their_own_answer(mode: str, tmp_path: Path) -> None:
    async with opened(tmp_path, "box", "other", mode=mode, capabilities=SAMPLING) as client:
        client.answers["sampling/createMessage"] = drawn
        prompts = [(toolbox, f"{toolbox} {n}") for toolbox in ("box", "other") for n in range(5)]
        results = await asyncio.gather(
            *(
                called(client, mode, "trigger-sampling-request", toolbox, prompt=prompt)
                for toolbox, prompt in prompts
            )
        )
        for (_, prompt), result in zip(prompts, results, strict=True):
            assert f"context: {prompt}" in result["content"][0]["text"]


@MODES
async def test_a_call_can_be_cancelled_while_its_server_waits_for_the_client(
    mode: str, tmp_path: Path
) -> None:
    async with opened(tmp_path, "box", mode=mode, capabilities=SAMPLING) as client:
        was_asked = asyncio.Event()
        client.answers["sampling/createMessage"] = lambda _: was_asked.set()
        cancelled = begin(client, mode, "trigger-sampling-request", {"prompt": "hello"})
        async with asyncio.timeout(PATIENCE):
            await was_asked.wait()
        client.tell("notifications/cancelled", {"requestId": cancelled.request_id})  # type: ignore[attr-defined]
        (question,) = client.asked
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": drawn(question["params"])})  # too late
        assert (await called(client, mode, "echo", message="hello"))["content"]
        assert not cancelled.done()
        client.answers["sampling/createMessage"] = drawn
        again = await called(client, mode, "trigger-sampling-request", prompt="again")
        assert "context: again" in again["content"][0]["text"]


# Elicitation ------------------------------------------------------------------------------------

FORM = {
    "name": "Ada",
    "check": True,
    "email": "ada@example.com",
    "birthdate": "1815-12-10",
    "integer": 1,
    "number": 2.5,
    "untitledMultipleSelectEnum": ["Piano", "Drums"],
    "titledSingleSelectEnum": "hero-2",
    "legacyTitledEnum": "pet-3",
}


@MODES
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_server_may_ask_the_user_to_fill_in_a_form(mode: str, action: str, tmp_path: Path) -> None:
    filled_in = {"action": action} | ({"content": FORM} if action == "accept" else {})
    async with both(tmp_path, mode, FORMS, {"elicitation/create": lambda _: filled_in}) as it:
        result = await it.same_call("trigger-elicitation-request")
        assert ("Ada" in str(result)) == (action == "accept")
        (directly,), (through,) = it.direct.asked, it.through.asked
        message = directly["params"]["message"]
        assert through["params"] == directly["params"] | {"message": f"[box/it] {message}"}


@MODES
async def test_a_client_that_refuses_to_elicit_is_understood(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode, FORMS) as it:
        assert (await it.same_call("trigger-elicitation-request"))["isError"]


ERRAND = {
    "url": "https://example.com/sign?in=1#here",
    "message": "Sign in, please",
    "elicitationId": "errand-1",
}


def same_errand(through: Json, directly: Json) -> bool:
    """Whether a user is sent to the same place, and told by whom. Ids may be made unique in the workbench."""
    ids = through["elicitationId"], directly["elicitationId"]
    expected = directly | {"message": f"[box/it] {directly['message']}", "elicitationId": ids[0]}
    return through == expected and isinstance(ids[0], str) and bool(ids[0])


@MODES
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_a_server_may_send_the_user_to_a_page(mode: str, action: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode, URLS, {"elicitation/create": lambda _: {"action": action}}) as it:
        result = await it.same_call("trigger-url-elicitation", **ERRAND)
        assert ("completed" in result["content"][0]["text"]) == (action == "accept")
        (directly,), (through,) = it.direct.asked, it.through.asked
        assert directly["params"] == ERRAND | {"mode": "url"}
        assert same_errand(through["params"], directly["params"])
        assert through["params"]["elicitationId"].endswith(ERRAND["elicitationId"])


@MODES
async def test_a_call_may_be_refused_until_the_user_has_been_to_a_page(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode, URLS, {"elicitation/create": lambda _: {"action": "accept"}}) as it:
        arguments = ERRAND | {"errorPath": True}
        directly, through = await it.call("trigger-url-elicitation", arguments)
        expected, refused = directly["error"], through["error"]
        assert refused["code"] == expected["code"] == -32042
        assert refused["message"] == expected["message"]
        (errand,), (ours,) = expected["data"]["elicitations"], refused["data"]["elicitations"]
        assert same_errand(ours, errand | {"elicitationId": ours["elicitationId"]})  # it is a random one
        done = await it.same_call("trigger-url-elicitation", **arguments)
        assert "completed" in done["content"][0]["text"]
        assert [question["method"] for question in it.through.asked] == ["elicitation/create"]


# Roots ------------------------------------------------------------------------------------------


def with_roots(*names: str) -> Callable[[Json], Json]:
    return lambda _: {"roots": [{"uri": f"file:///home/ada/{name}", "name": name} for name in names]}


@MODES
async def test_a_server_may_ask_for_the_clients_roots(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode, ROOTS, {"roots/list": with_roots("ünïcödé", "b c")}) as it:
        listed = (await it.same_call("get-roots-list"))["content"][0]["text"]
        assert "file:///home/ada/ünïcödé" in listed
        assert {question["method"] for question in it.through.asked} == {"roots/list"}


async def test_a_server_may_ask_for_roots_when_nothing_is_asked_of_it(tmp_path: Path) -> None:
    async with opened(tmp_path, "box", capabilities=ROOTS) as client:
        client.answers["roots/list"] = with_roots("a", "b", "c")
        assert "3 root(s)" in (await told(client, LOG))["data"]
        assert [question["method"] for question in client.asked] == ["roots/list"]


@MODES
async def test_servers_hear_that_the_roots_are_others_now(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode, ROOTS, {"roots/list": with_roots("a", "b")}) as it:
        await it.same_call("get-roots-list")
        for names in (("c",), ()):
            for client in (it.direct, it.through):
                client.answers["roots/list"] = with_roots(*names)
                client.tell("notifications/roots/list_changed")
                await told(client, LOG, f"Roots updated: {len(names)} root(s)")
            listed = (await it.same_call("get-roots-list"))["content"][0]["text"]
            assert all(f"file:///home/ada/{name}" in listed for name in names)
            assert ("no roots are currently configured" in listed) == (not names)


# Prompts ----------------------------------------------------------------------------------------


@MODES
async def test_prompts_are_the_servers_own_but_for_the_name_and_the_label(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        prompts = (await asked(it.direct, "prompts/list"))["prompts"]
        assert len(prompts) == 4
        assert (await asked(it.through, "prompts/list"))["prompts"] == [named(prompt) for prompt in prompts]


PROMPTS: list[tuple[str, dict[str, str] | None]] = [
    ("simple-prompt", None),
    ("args-prompt", {"city": "Tromsø"}),
    ("args-prompt", {"city": "Portland", "state": "Oregon"}),
    ("completable-prompt", {"department": "Sales", "name": "Eve"}),
    ("resource-prompt", {"resourceType": "Text", "resourceId": "3"}),
    ("resource-prompt", {"resourceType": "Blob", "resourceId": "3"}),
]


async def test_each_prompt_comes_as_it_does_directly(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        for prompt, arguments in PROMPTS:
            given = {"name": prompt} | ({"arguments": arguments} if arguments else {})
            answer = await it.same("prompts/get", given, {"name": f"box__it_{prompt}"})
            assert answer["result"]["messages"]


async def test_what_a_prompt_refuses_it_refuses_as_it_does_directly(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        for prompt, arguments in (
            ("args-prompt", {}),
            ("resource-prompt", {"resourceType": "Smell", "resourceId": "3"}),
            ("resource-prompt", {"resourceType": "Text", "resourceId": "zero"}),
        ):
            given = {"name": prompt, "arguments": arguments}
            answer = await it.same("prompts/get", given, {"name": f"box__it_{prompt}"})
            assert "error" in answer
        unknown = {"name": "box__it_unknown"}, {"name": "simple-prompt"}
        for params in unknown:
            refused = await said(it.through.begin("prompts/get", params))
            assert refused["error"]["code"] == -32602


# Completions ------------------------------------------------------------------------------------


COMPLETIONS: list[tuple[str, str, str, dict[str, str] | None, list[str]]] = [
    ("completable-prompt", "department", "S", None, ["Sales", "Support"]),
    ("completable-prompt", "department", "", None, ["Engineering", "Sales", "Marketing", "Support"]),
    ("completable-prompt", "name", "", {"department": "Sales"}, ["David", "Eve", "Frank"]),
    ("completable-prompt", "name", "G", {"department": "Marketing"}, ["Grace"]),
    ("completable-prompt", "name", "", None, []),
    ("resource-prompt", "resourceType", "B", None, ["Blob"]),
    ("resource-prompt", "resourceId", "12", None, ["12"]),
    ("args-prompt", "city", "T", None, []),
]


async def test_arguments_of_prompts_are_completed(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        for prompt, argument, value, context, suggested in COMPLETIONS:
            given: Json = {
                "ref": {"type": "ref/prompt", "name": prompt},
                "argument": {"name": argument, "value": value},
            } | ({"context": {"arguments": context}} if context else {})
            ours = {"ref": {"type": "ref/prompt", "name": f"box__it_{prompt}"}}
            answer = await it.same("completion/complete", given, ours)
            assert answer["result"]["completion"]["values"] == suggested


async def test_a_variable_of_a_template_is_completed(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        listed = (await asked(it.through, "resources/templates/list"))["resourceTemplates"]
        for template in listed:
            for value, suggested in (("12", ["12"]), ("zero", [])):
                given = {
                    "ref": {"type": "ref/resource", "uri": template["uriTemplate"]},
                    "argument": {"name": "resourceId", "value": value},
                }
                answer = await it.same("completion/complete", given)
                assert answer["result"]["completion"]["values"] == suggested


async def test_what_cannot_be_completed_is_answered_as_it_is_directly(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        argument = {"name": "resourceId", "value": "1"}
        fixed = {"type": "ref/resource", "uri": DOCUMENT + "features.md"}
        answer = await it.same("completion/complete", {"ref": fixed, "argument": argument})
        assert answer["result"]["completion"]["values"] == []
        for unknown in (
            {"type": "ref/prompt", "name": "unknown"},
            {"type": "ref/resource", "uri": "nowhere://{resourceId}"},
        ):
            directly, through = await it.ask("completion/complete", {"ref": unknown, "argument": argument})
            assert through["error"]["code"] == directly["error"]["code"] == -32602


# Resources --------------------------------------------------------------------------------------


@MODES
async def test_resources_and_templates_are_the_servers_own(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        resources = (await it.same("resources/list"))["result"]["resources"]
        assert all(resource["uri"].startswith(DOCUMENT) for resource in resources)
        templates = (await it.same("resources/templates/list"))["result"]["resourceTemplates"]
        assert len(templates) == 2


async def test_documents_are_read_as_they_are_directly(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        resources = (await asked(it.through, "resources/list"))["resources"]
        for resource in resources:
            read = (await it.same("resources/read", {"uri": resource["uri"]}))["result"]
            assert [content["uri"] for content in read["contents"]] == [resource["uri"]]
            assert read["contents"][0]["text"]


@pytest.mark.parametrize(("kind", "body"), [(TEXT, "text"), (BLOB, "blob")])
async def test_what_a_template_describes_is_read_as_it_is_directly(
    kind: str, body: str, tmp_path: Path
) -> None:
    async with both(tmp_path) as it:
        for number in (1, 2**31):
            read = (await it.same("resources/read", {"uri": f"{kind}{number}"}))["result"]
            assert read["contents"][0]["uri"] == f"{kind}{number}"
            assert read["contents"][0][body]
        assert "error" in await it.same("resources/read", {"uri": kind + "zero"})


async def test_a_resource_that_nobody_has_is_an_error(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        for uri in ("nowhere://at/all", DOCUMENT + "unknown.md", "workbench://box/it/nowhere://at/all"):
            for answer in await it.ask("resources/read", {"uri": uri}):
                assert answer["error"]["code"] in (-32002, -32602)


# Subscriptions ----------------------------------------------------------------------------------


@MODES
async def test_who_subscribes_hears_of_updates_until_unsubscribing(mode: str, tmp_path: Path) -> None:
    async with both(tmp_path, mode) as it:
        kept, left = DOCUMENT + "features.md", TEXT + "1"
        for uri in (kept, left):
            assert (await it.same("resources/subscribe", {"uri": uri}))["result"] == {}
        await it.same_call("toggle-subscriber-updates")
        for client in (it.direct, it.through):
            assert [await told(client, UPDATED) for _ in range(2)] == [{"uri": kept}, {"uri": left}]
        await it.same_call("toggle-subscriber-updates")
        assert (await it.same("resources/unsubscribe", {"uri": left}))["result"] == {}
        for client in (it.direct, it.through):
            client.heard()
        await it.same_call("toggle-subscriber-updates")
        for client in (it.direct, it.through):
            assert await told(client, UPDATED) == {"uri": kept}
        await it.same_call("toggle-subscriber-updates")
        for client in (it.direct, it.through):
            assert left not in str(client.heard())


async def test_without_subscriptions_there_are_no_updates(tmp_path: Path) -> None:
    async with both(tmp_path) as it:
        await it.same_call("toggle-subscriber-updates")
        await it.same_call("toggle-subscriber-updates")
        assert UPDATED not in [note["method"] for note in it.through.heard()]


# Two of the same --------------------------------------------------------------------------------

MARK = "workbench://other/it/"


def marked(value: Any) -> Any:
    """What the server says, as it comes from the toolbox `other`: all its URIs lead there."""
    match value:
        case dict():
            return {
                key: MARK + inner if key in ("uri", "uriTemplate") else marked(inner)
                for key, inner in value.items()
            }
        case list():
            return [marked(inner) for inner in value]
    return value


async def test_the_second_of_the_same_is_listed_under_names_of_its_own(tmp_path: Path) -> None:
    async with (
        talking_to(IT["command"], *IT["args"], folder=tmp_path) as direct,
        opened(tmp_path, "box", "other") as client,
    ):
        await direct.initialize()
        for method, kind in (
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ):
            directly = (await asked(direct, method))[kind]
            assert (await asked(client, method))[kind] == directly + marked(directly)
        prompts = (await asked(direct, "prompts/list"))["prompts"]
        labelled = [named(prompt, toolbox) for toolbox in ("box", "other") for prompt in prompts]
        assert (await asked(client, "prompts/list"))["prompts"] == labelled


async def test_a_marked_uri_is_read_from_its_own_server(tmp_path: Path) -> None:
    async with opened(tmp_path, "box", "other") as client:
        for uri in (DOCUMENT + "features.md", TEXT + "1", BLOB + "2"):
            own = await asked(client, "resources/read", uri=uri)
            other = await asked(client, "resources/read", uri=MARK + uri)
            assert own["contents"][0]["uri"] == uri
            assert timeless(other) == timeless(marked(own))


@MODES
async def test_files_of_two_sessions_are_not_mixed_up(mode: str, tmp_path: Path) -> None:
    async with opened(tmp_path, "box", "other", mode=mode) as client:
        for toolbox, uri in (("box", SESSION + "note.gz"), ("other", MARK + SESSION + "note.gz")):
            for kind in ("resourceLink", "resource"):
                file = {"name": "note.gz", "data": f"data:text/plain,{toolbox}", "outputType": kind}
                (block,) = (await called(client, mode, "gzip-file-as-resource", toolbox, **file))["content"]
                assert block.get("resource", block)["uri"] == uri
        for toolbox, uri in (("box", SESSION + "note.gz"), ("other", MARK + SESSION + "note.gz")):
            (content,) = (await asked(client, "resources/read", uri=uri))["contents"]
            assert content["uri"] == uri
            assert gzip.decompress(base64.b64decode(content["blob"])) == toolbox.encode()


@MODES
async def test_links_and_embedded_resources_lead_to_their_own_server(mode: str, tmp_path: Path) -> None:
    async with opened(tmp_path, "box", "other", mode=mode) as client:
        for tool, arguments in (
            ("get-resource-links", {"count": 4}),
            ("get-resource-reference", {"resourceType": "Text", "resourceId": 8}),
            ("get-resource-reference", {"resourceType": "Blob", "resourceId": 9}),
        ):
            own = await called(client, mode, tool, **arguments)
            other = await called(client, mode, tool, "other", **arguments)
            assert MARK not in str(own)
            assert timeless(other) == timeless(marked(own))
        (_, link, *_), uri = other["content"], MARK + BLOB + "9"
        assert link["resource"]["uri"] == uri
        assert (await asked(client, "resources/read", uri=uri))["contents"][0]["uri"] == uri


async def test_prompts_of_both_embed_what_leads_to_their_own_server(tmp_path: Path) -> None:
    async with opened(tmp_path, "box", "other") as client:
        for kind in ("Text", "Blob"):
            arguments = {"resourceType": kind, "resourceId": "4"}
            own, other = [
                await asked(client, "prompts/get", name=f"{toolbox}__it_resource-prompt", arguments=arguments)
                for toolbox in ("box", "other")
            ]
            assert MARK not in str(own)
            assert timeless(other) == timeless(marked(own))


async def test_marked_templates_and_prompts_of_both_are_completed(tmp_path: Path) -> None:
    async with opened(tmp_path, "box", "other") as client:
        argument = {"name": "resourceId", "value": "12"}
        for ref in (
            {"type": "ref/resource", "uri": TEXT + "{resourceId}"},
            {"type": "ref/resource", "uri": MARK + TEXT + "{resourceId}"},
            {"type": "ref/prompt", "name": "box__it_resource-prompt"},
            {"type": "ref/prompt", "name": "other__it_resource-prompt"},
        ):
            completed = await asked(client, "completion/complete", ref=ref, argument=argument)
            assert completed["completion"]["values"] == ["12"]


async def test_updates_of_a_marked_resource_come_from_its_own_server_alone(tmp_path: Path) -> None:
    async with opened(tmp_path, "box", "other") as client:
        uri = MARK + DOCUMENT + "features.md"
        await asked(client, "resources/subscribe", uri=uri)
        message = await told(client, LOG)
        assert message["logger"] == "other/it"
        assert MARK not in message["data"]
        for toolbox in ("box", "box", "other"):
            await client.text(toolbox, "it", "toggle-subscriber-updates")
        assert [note["method"] for note in client.heard()].count(UPDATED) <= 1
        await client.text("other", "it", "toggle-subscriber-updates")
        updated = {
            told["params"]["uri"] for told in map(json.loads, client.lines) if told.get("method") == UPDATED
        }
        assert updated == {uri}
        await asked(client, "resources/unsubscribe", uri=uri)
        assert "Unsubscribe" in (await told(client, LOG))["data"]


async def test_what_a_template_gives_is_of_the_server_that_has_the_template(tmp_path: Path) -> None:
    async with opened(tmp_path, "box", "other") as client:
        # The second server shows its resources first: the first one's template leads to the first one still.
        links = (await client.use("other", "it", "get-resource-links", count=2))["content"][1:]
        assert [link["uri"] for link in links] == [MARK + BLOB + "1", MARK + TEXT + "2"]
        for uri, logger in ((TEXT + "2", "box/it"), (MARK + TEXT + "2", "other/it")):
            await asked(client, "resources/subscribe", uri=uri)
            assert (await told(client, LOG))["logger"] == logger


async def test_closing_one_leaves_the_others_names_as_they_lead(tmp_path: Path) -> None:
    async with opened(tmp_path, "box", "other") as client:
        await client.close("box")
        prompts = [prompt["name"] for prompt in (await asked(client, "prompts/list"))["prompts"]]
        assert prompts
        assert all(name.startswith("other__it_") for name in prompts)
        for resource in (await asked(client, "resources/list"))["resources"]:
            read = await asked(client, "resources/read", uri=resource["uri"])
            assert read["contents"][0]["uri"] == resource["uri"]
