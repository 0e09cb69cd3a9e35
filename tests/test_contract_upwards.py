"""What servers ask of the client: handed on as it came, answered by the client, gone with its reason."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from .clock import on_a_clock
from .clock import until as it_holds
from .fake_link import FakeServer
from .test_contract_relays import received
from .test_workbench import Client as Agent
from .test_workbench import client as in_memory
from .test_workbench import fakes
from .workbench import PATIENCE, Client, Json, fake, serving, started, toolboxes, until, use

SAMPLING, ELICITATION, ROOTS = "sampling/createMessage", "elicitation/create", "roots/list"
QUESTIONS = (SAMPLING, ELICITATION, ROOTS)
EACH_QUESTION = pytest.mark.parametrize("method", QUESTIONS)
COMPLETE = "notifications/elicitation/complete"
ROOTS_CHANGED = "notifications/roots/list_changed"

ABLE: Json = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}
FORM: Json = {"message": "Your name?", "requestedSchema": {"type": "object", "properties": {}}}


def unanswered(_: Json) -> Json | None:
    return None


@asynccontextmanager
async def asked_by(folder: Path, capabilities: Json = ABLE, **script: Any) -> AsyncIterator[Client]:
    """A client that leaves all questions open, and a server `a` that keeps a record of what it hears."""
    config = toolboxes(dev={"a": fake(record=str(folder / "record"), **script)})
    async with serving(config, folder, capabilities=capabilities) as client:
        client.answers = dict.fromkeys(QUESTIONS, unanswered)
        yield client


async def asked(client: Client, count: int = 1) -> list[Json]:
    """The questions that came, once there are so many."""
    await until(lambda: len(client.asked) >= count)
    return client.asked


def answer(client: Client, question: Json, result: Json) -> None:
    client.send({"jsonrpc": "2.0", "id": question["id"], "result": result})


def withdrawn(client: Client) -> list[Any]:
    """The ids of the questions that the client need not answer any more."""
    messages = [json.loads(line) for line in client.lines]
    return [it["params"]["requestId"] for it in messages if it.get("method") == "notifications/cancelled"]


def told(client: Client, method: str) -> list[Json]:
    messages = [json.loads(line) for line in client.lines]
    return [message["params"] for message in messages if message.get("method") == method]


def lines(folder: Path) -> list[bytes]:
    """What the server was sent, as it came."""
    return (folder / "record").read_bytes().splitlines()


def answered(folder: Path, key: Any) -> list[Json]:
    """The answers that the server got to its question."""
    messages = [json.loads(line) for line in lines(folder)]
    return [message for message in messages if "method" not in message and message.get("id") == key]


def question(key: Any, method: str, params: str = "{}") -> str:
    """A question as a line, with parameters to the byte."""
    return f'{{"jsonrpc":"2.0","id":{json.dumps(key)},"method":"{method}","params":{params}}}'


async def say(client: Client, *line: str) -> None:
    """Have the server write these lines at once."""
    assert await client.text("dev", "a", "raw", line="\n".join(line)) == "done"


async def while_called(client: Client, *line: str) -> "asyncio.Future[Json]":
    """Have the server write these lines while a call of it goes on."""
    call = client.begin_use("dev", "a", "slow")
    await say(client, *line)
    return call


async def is_untouched(client: Client, slow: "asyncio.Future[Json]") -> None:
    """A call of `slow` waits still, and gets its own answer."""
    assert not slow.done()
    await client.text("dev", "a", "release")
    async with asyncio.timeout(PATIENCE):
        assert (await slow)["result"]["content"][0]["text"] == "released"


async def heard(client: Client) -> list[str]:
    """The notifications that the server got, as it says."""
    return list(json.loads(await client.text("dev", "a", "heard")))


def response(text: str) -> Json:
    return dict(json.loads(text))


# Who is asked -----------------------------------------------------------------------------------


@EACH_QUESTION
async def test_what_the_client_did_not_declare_is_refused_at_once_and_never_reaches_it(
    method: str, tmp_path: Path
) -> None:
    others = {name: value for name, value in ABLE.items() if name != method.partition("/")[0]}
    async with asked_by(tmp_path, others) as client:
        refused = response(await client.text("dev", "a", "ask", method=method, params=FORM))
        assert refused["error"]["code"] == -32601
        assert client.asked == []


@pytest.mark.parametrize("method", ["tools/call", "tools/list", "tasks/get", "initialize", "x/unknown"])
async def test_a_server_can_ask_the_client_nothing_else(method: str, tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        params = {"name": "use_tool", "arguments": use("dev", "a", "echo")}
        refused = response(await client.text("dev", "a", "ask", method=method, params=params))
        assert refused["error"]["code"] == -32601
        assert client.asked == []


@pytest.mark.parametrize(
    "able",
    [{}, {"sampling": {"tools": {}, "x-vendor": [1.5]}}, {"roots": {}}, {"elicitation": {}}, ABLE],
    ids=["nothing", "sampling", "roots", "elicitation", "everything"],
)
async def test_a_server_is_told_exactly_what_the_client_can_do_and_is_relayed(
    able: Json, tmp_path: Path
) -> None:
    not_relayed: Json = {"tasks": {"list": {}}, "experimental": {"x": {}}, "extensions": {}, "future": {}}
    async with asked_by(tmp_path, able | not_relayed) as client:
        await client.open("dev")
    (greeting,) = received(tmp_path / "record", "initialize")
    assert greeting["params"]["capabilities"] == able


async def test_a_client_that_has_not_greeted_is_asked_nothing(tmp_path: Path) -> None:
    async with started(toolboxes(dev={"a": fake(record=str(tmp_path / "record"))}), tmp_path) as client:
        for method in QUESTIONS:
            refused = response(await client.text("dev", "a", "ask", method=method, params=FORM))
            assert refused["error"]["code"] == -32601
        assert client.asked == []
    (greeting,) = received(tmp_path / "record", "initialize")
    assert greeting["params"]["capabilities"] == {}


# What is asked ----------------------------------------------------------------------------------


async def test_the_question_carries_the_servers_own_params_to_the_byte(tmp_path: Path) -> None:
    params = (
        '{"messages":[{"role":"user","content":{"type":"text", "text":"\\u0041\\ud800" }}],"maxTokens":1.50,'
        '"x-vendor":{"big":12345678901234567890,"a":1, "a":2},"_meta":{"vendor/key": [ ]}}'
    )
    async with asked_by(tmp_path) as client:
        await while_called(client, question("q", SAMPLING, params))
        await asked(client)
        (line,) = [line for line in client.lines if SAMPLING.encode() in line]
        assert b'"params":' + params.encode() + b"}" in line


@pytest.mark.parametrize(
    "params",
    [
        '{"message":"Your name?","requestedSchema":{"type":"object", "properties":{"n":{"minimum":1.0}}}}',
        '{"mode":"url","message":"Your name?","elicitationId":"e","url":"https://example.com/?a=\\u0026b"}',
        '{"mode":"future","_meta":{"vendor/big":12345678901234567890},"message":"Your name?","x":[ ]}',
    ],
    ids=["form", "url", "a mode to come"],
)
async def test_an_elicitation_is_the_servers_own_but_for_what_names_the_server(
    params: str, tmp_path: Path
) -> None:
    async with asked_by(tmp_path) as client:
        await while_called(client, question("q", ELICITATION, params))
        await asked(client)
        (line,) = [line for line in client.lines if ELICITATION.encode() in line]
    named = params.replace('"Your name?"', '"[dev/a] Your name?"').replace('"e"', '"dev/a/e"')
    assert b'"params":' + named.encode() + b"}" in line


@pytest.mark.parametrize("message", [{}, {"message": None}, {"message": ""}], ids=["none", "null", "empty"])
async def test_an_elicitation_without_a_message_says_whose_it_is_all_the_same(
    message: Json, tmp_path: Path
) -> None:
    params = {"mode": "url", "elicitationId": "e", "url": "https://example.com", **message}
    async with asked_by(tmp_path) as client:
        client.begin_use("dev", "a", "ask", method=ELICITATION, params=params)
        (reached,) = await asked(client)
        assert "[dev/a]" in reached["params"].get("message", "")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (SAMPLING, "[]"),
        (SAMPLING, "null"),
        (SAMPLING, '{"_meta":5}'),
        (ELICITATION, '{"message":5}'),
        (ROOTS, "7"),
    ],
)
async def test_a_question_of_the_wrong_shape_is_refused_and_the_next_one_asked(
    method: str, params: str, tmp_path: Path
) -> None:
    async with asked_by(tmp_path) as client:
        await while_called(client, question("wrong", method, params))
        await until(lambda: answered(tmp_path, "wrong"))
        assert [it["error"]["code"] for it in answered(tmp_path, "wrong")] == [-32602]
        assert client.asked == []
        await say(client, question("right", method))
        await asked(client)


# The answer -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["q", "7", 7, 0, -1, "ünïcödé"])
@pytest.mark.parametrize(
    "body",
    [
        b'"result":{"model":"parrot", "x":1.50,"big":12345678901234567890,"_meta":{"vendor/key":[ ]}}',
        b'"error":{"code":-1,"message":"User rejected sampling request", "data":{"x":1.50}}',
    ],
    ids=["a result", "an error"],
)
async def test_the_clients_own_answer_reaches_the_server_under_the_servers_own_id(
    key: Any, body: bytes, tmp_path: Path
) -> None:
    async with asked_by(tmp_path) as client:
        await while_called(client, question(key, SAMPLING))
        (reached,) = await asked(client)
        client.write(b'{"jsonrpc":"2.0","id":%d,%b}\n' % (reached["id"], body))
        await until(lambda: answered(tmp_path, key))
        assert b'{"jsonrpc":"2.0","id":%b,%b}' % (json.dumps(key).encode(), body) in lines(tmp_path)
        assert len(answered(tmp_path, key)) == 1


async def test_each_of_five_thousand_questions_at_once_has_exactly_one_answer(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        client.answers[SAMPLING] = lambda params: params
        responses = json.loads(
            await client.text("dev", "a", "ask", method=SAMPLING, params={"n": 1}, times=5_000)
        )
        assert [it["id"] for it in responses] == [f"ask-{number}" for number in range(1, 5_001)]
        refused = [it for it in responses if "error" in it]
        assert all(it["result"] == {"n": 1} for it in responses if "result" in it)
        assert len(client.asked) + len(refused) == 5_000
        assert await client.text("dev", "a", "echo", text="serves") == "serves"


async def test_progress_on_a_question_goes_back_to_the_server_under_its_own_token(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        call = client.begin_use("dev", "a", "ask", method=SAMPLING, with_progress=True)
        (reached,) = await asked(client)
        token = reached["params"]["_meta"]["progressToken"]
        for progress in (1, 2, 2, 1, 3):  # what does not rise is dropped
            params = {"progressToken": token, "progress": progress, "message": "thinking", "x": [1.5]}
            client.tell("notifications/progress", params)
        client.tell("notifications/progress", {"progressToken": "unknown", "progress": 9})
        answer(client, reached, {"model": "parrot"})
        client.tell("notifications/progress", {"progressToken": token, "progress": 4})
        async with asyncio.timeout(PATIENCE):
            outcome = response((await call)["result"]["content"][0]["text"])
        await client.text("dev", "a", "echo")
    own = {"progressToken": "progress-of-ask-1", "message": "thinking", "x": [1.5]}
    assert outcome["progress"] == [{**own, "progress": progress} for progress in (1, 2, 3)]
    assert outcome["response"]["result"] == {"model": "parrot"}
    assert len(received(tmp_path / "record", "notifications/progress")) == 3


async def test_a_question_without_a_token_asks_for_no_progress(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        client.begin_use("dev", "a", "ask", method=SAMPLING, params={"_meta": {"vendor/key": 1}})
        (reached,) = await asked(client)
        assert reached["params"] == {"_meta": {"vendor/key": 1}}


# Whose answer -----------------------------------------------------------------------------------


@EACH_QUESTION
async def test_two_toolboxes_with_the_same_server_that_ask_at_once_each_get_their_own_answer(
    method: str, tmp_path: Path
) -> None:
    config = toolboxes(one={"it": fake()}, two={"it": fake()})
    async with serving(config, tmp_path, capabilities=ABLE) as client:
        client.answers[method] = unanswered
        boxes = ("one", "two")
        calls = [
            client.begin_use(box, "it", "ask", method=method, params=FORM | {"box": box}) for box in boxes
        ]
        for reached in reversed(await asked(client, 2)):
            answer(client, reached, {"for": reached["params"]["box"]})
        async with asyncio.timeout(PATIENCE):
            texts = [(await call)["result"]["content"][0]["text"] for call in calls]
        # Both servers gave their question the same id.
        assert [(it["id"], it["result"]) for it in map(response, texts)] == [
            ("ask-1", {"for": box}) for box in boxes
        ]


async def test_two_calls_of_one_server_each_get_the_answer_to_their_own_question(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        calls = [
            client.begin_use("dev", "a", "ask", method=SAMPLING, params={"call": call}) for call in (1, 2)
        ]
        for reached in reversed(await asked(client, 2)):
            answer(client, reached, {"call": reached["params"]["call"]})
        async with asyncio.timeout(PATIENCE):
            texts = [(await call)["result"]["content"][0]["text"] for call in calls]
        assert [response(text)["result"] for text in texts] == [{"call": 1}, {"call": 2}]


async def test_a_question_of_ours_and_a_request_of_the_clients_may_have_the_same_id(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        asking = client.begin_use("dev", "a", "ask", method=SAMPLING)
        (reached,) = await asked(client)
        params = {"name": "use_tool", "arguments": use("dev", "a", "slow")}
        slow = client.begin("tools/call", params, reached["id"])
        await client.text("dev", "a", "echo")
        answer(client, reached, {"model": "parrot"})
        async with asyncio.timeout(PATIENCE):
            assert response((await asking)["result"]["content"][0]["text"])["result"] == {"model": "parrot"}
        await is_untouched(client, slow)


async def test_a_question_of_a_server_and_a_call_of_ours_may_have_the_same_id(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        slow = client.begin_use("dev", "a", "slow")
        await client.text("dev", "a", "echo")
        key = received(tmp_path / "record", "tools/call")[0]["id"]
        await say(client, question(key, SAMPLING))
        (reached,) = await asked(client)
        answer(client, reached, {"model": "parrot"})
        await until(lambda: answered(tmp_path, key))
        assert answered(tmp_path, key)[0]["result"] == {"model": "parrot"}
        await is_untouched(client, slow)


async def test_both_ends_are_pinged_while_a_question_is_open(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        call = client.begin_use("dev", "a", "ask", method=ELICITATION, params=FORM)
        (reached,) = await asked(client)
        assert (await client.ask("ping"))["result"] == {}
        assert response(await client.text("dev", "a", "ask", method="ping"))["result"] == {}
        assert not call.done()
        answer(client, reached, {"action": "decline"})
        async with asyncio.timeout(PATIENCE):
            assert "decline" in (await call)["result"]["content"][0]["text"]


# Tied to its request ----------------------------------------------------------------------------


async def cancelled(client: Client, call: "asyncio.Future[Json]") -> None:
    client.tell("notifications/cancelled", {"requestId": call.request_id})  # type: ignore[attr-defined]


async def its_server_dies(client: Client, _: "asyncio.Future[Json]") -> None:
    await client.error("dev", "a", "die")


async def its_toolbox_closes(client: Client, _: "asyncio.Future[Json]") -> None:
    await client.close("dev")


async def answered_meanwhile(client: Client, _: "asyncio.Future[Json]") -> None:
    await client.text("dev", "a", "release")


End = Callable[[Client, "asyncio.Future[Json]"], Awaitable[None]]
EACH_END = pytest.mark.parametrize(
    "end", [cancelled, its_server_dies, its_toolbox_closes, answered_meanwhile], ids=lambda end: end.__name__
)


@EACH_END
@pytest.mark.parametrize("method", [SAMPLING, ELICITATION])
async def test_a_question_is_withdrawn_once_when_its_call_is(method: str, end: End, tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        call = await while_called(client, question("q", method))
        (reached,) = await asked(client)
        await end(client, call)
        await until(lambda: withdrawn(client))
        await client.text("dev", "a", "echo")
        assert withdrawn(client) == [reached["id"]]


@EACH_END
async def test_an_answer_after_that_reaches_nobody_and_breaks_nothing(end: End, tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        call = await while_called(client, question("ask-1", SAMPLING))
        (reached,) = await asked(client)
        await end(client, call)
        await until(lambda: withdrawn(client))
        answer(client, reached, {"model": "too late"})
        client.answers[SAMPLING] = lambda _: {"model": "in time"}
        again = response(await client.text("dev", "a", "ask", method=SAMPLING))
        assert (again["id"], again["result"]) == ("ask-1", {"model": "in time"})
    assert b"too late" not in (tmp_path / "record").read_bytes()


async def test_a_server_learns_that_nobody_answers_a_question_whose_call_was_cancelled(
    tmp_path: Path,
) -> None:
    async with asked_by(tmp_path) as client:
        call = await while_called(client, question("q", ELICITATION))
        await asked(client)
        await cancelled(client, call)
        await until(lambda: answered(tmp_path, "q"))
        await client.text("dev", "a", "echo")
    assert ["result" in it for it in answered(tmp_path, "q")] == [False]
    assert len(received(tmp_path / "record", "notifications/cancelled")) == 1


async def test_while_another_call_may_have_caused_it_a_question_stays(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        other = client.begin_use("dev", "a", "slow", key="other")
        call = await while_called(client, question("q", SAMPLING))
        (reached,) = await asked(client)
        await cancelled(client, call)
        await client.text("dev", "a", "echo")
        assert withdrawn(client) == []
        answer(client, reached, {"model": "parrot"})
        await until(lambda: answered(tmp_path, "q"))
        assert answered(tmp_path, "q")[0]["result"] == {"model": "parrot"}
        assert not other.done()


async def test_roots_are_asked_for_their_own_sake_whatever_becomes_of_a_call(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        call = await while_called(client, question("q", ROOTS))
        (reached,) = await asked(client)
        await cancelled(client, call)
        await client.text("dev", "a", "echo")
        answer(client, reached, {"roots": []})
        await until(lambda: answered(tmp_path, "q"))
        assert answered(tmp_path, "q")[0]["result"] == {"roots": []}
        assert withdrawn(client) == []


@EACH_QUESTION
async def test_what_is_asked_while_no_call_goes_on_is_answered_whatever_else_is_called(
    method: str, tmp_path: Path
) -> None:
    async with asked_by(tmp_path) as client:
        await client.text("dev", "a", "ask", method=method, params=FORM, later=True)
        (reached,) = await asked(client)
        await client.text("dev", "a", "echo")
        assert withdrawn(client) == []
        answer(client, reached, {"x": 1})
        await until(lambda: answered(tmp_path, "ask-1"))
        assert answered(tmp_path, "ask-1")[0]["result"] == {"x": 1}


@EACH_QUESTION
@pytest.mark.parametrize("end", [its_server_dies, its_toolbox_closes], ids=lambda end: end.__name__)
async def test_what_is_asked_while_no_call_goes_on_is_withdrawn_with_its_server(
    end: End, method: str, tmp_path: Path
) -> None:
    async with asked_by(tmp_path) as client:
        await client.text("dev", "a", "ask", method=method, params=FORM, later=True)
        (reached,) = await asked(client)
        await end(client, asyncio.get_running_loop().create_future())
        await until(lambda: withdrawn(client))
        await client.text("dev", "a", "echo")
        assert withdrawn(client) == [reached["id"]]


@EACH_QUESTION
async def test_a_server_that_asks_and_dies_leaves_no_question_open(method: str, tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        told = await client.error("dev", "a", "ask", method=method, params=FORM, times=3, die=True)
        assert "may have been carried out" in told
        client.answers[method] = lambda _: {"x": 1}
        again = response(await client.text("dev", "a", "ask", method=method, params=FORM))
        assert (again["id"], again["result"]) == ("ask-1", {"x": 1})
        # Of those that came, each is withdrawn once; the last is that of the server's next life.
        assert sorted(withdrawn(client)) == [it["id"] for it in client.asked[:-1]]


@EACH_QUESTION
async def test_a_server_may_cancel_its_own_question(method: str, tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        call = await while_called(client, question("q", method))
        (reached,) = await asked(client)
        cancel = {"requestId": "q", "reason": "found it"}
        await client.text("dev", "a", "notify", method="notifications/cancelled", params=cancel)
        await until(lambda: withdrawn(client))
        assert withdrawn(client) == [reached["id"]]
        answer(client, reached, {"x": 1})
        await client.text("dev", "a", "echo")
        assert answered(tmp_path, "q") == []
        assert not call.done()


async def test_a_question_that_is_cancelled_in_the_same_breath_is_not_left_open(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        for method in QUESTIONS:
            await client.text("dev", "a", "ask", method=method, params=FORM, cancel=True, times=3)
        await client.text("dev", "a", "echo")
        assert sorted(withdrawn(client)) == [it["id"] for it in client.asked]
        assert json.loads(await client.text("dev", "a", "answers")) == []


async def test_a_server_that_cancels_what_it_never_asked_changes_nothing(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        call = client.begin_use("dev", "a", "ask", method=SAMPLING)
        (reached,) = await asked(client)
        ours = received(tmp_path / "record", "tools/call")[0]["id"]
        for key in (ours, reached["id"], "unknown", None, [1]):
            params = {"requestId": key}
            await client.text("dev", "a", "notify", method="notifications/cancelled", params=params)
        assert withdrawn(client) == []
        answer(client, reached, {"x": 1})
        async with asyncio.timeout(PATIENCE):
            assert response((await call)["result"]["content"][0]["text"])["result"] == {"x": 1}


@asynccontextmanager
async def hanging_call() -> AsyncIterator[tuple[Agent, FakeServer, int]]:
    """A client whose call hangs, the server it hangs on, and the call's id."""
    servers = fakes("dev/files")
    files = servers["dev/files"]
    async with in_memory(servers) as agent:
        await agent.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": ABLE})
        files.hang("tools/call")
        call = agent.send("tools/call", {"name": "use_tool", "arguments": use("dev", "files", "read")})
        await it_holds(lambda: files.asked("tools/call"))
        yield agent, files, call


@on_a_clock
async def test_a_question_is_withdrawn_when_its_call_times_out() -> None:
    async with hanging_call() as (agent, files, call):
        await asyncio.sleep(30)
        files.say({"id": "q", "method": SAMPLING, "params": {}})
        await it_holds(lambda: [it for it in agent.lines if it.get("method") == SAMPLING])
        await asyncio.sleep(580)  # ten minutes after the call, and before the question's own end
        (reached,) = [it for it in agent.lines if it.get("method") == SAMPLING]
        (withdrawal,) = [it for it in agent.lines if it.get("method") == "notifications/cancelled"]
        assert withdrawal["params"]["requestId"] == reached["id"]
        (late,) = agent.answers(call)
        assert "did not answer within 600 s" in late["result"]["content"][0]["text"]


@on_a_clock
async def test_a_call_does_not_time_out_while_its_server_waits_for_a_person() -> None:
    async with hanging_call() as (agent, files, call):
        files.say({"id": "q", "method": ELICITATION, "params": {"message": "Sure?"}})
        await asyncio.sleep(300)
        (reached,) = [it for it in agent.lines if it.get("method") == ELICITATION]
        agent.say(
            json.dumps({"jsonrpc": "2.0", "id": reached["id"], "result": {"action": "accept"}}).encode()
        )
        await asyncio.sleep(59)  # a whole minute from here on, as after the call itself
        files.answer(files.asked("tools/call")[0], {"content": []})
        await it_holds(lambda: agent.answers(call))
        assert agent.answers(call)[0]["result"] == {"content": []}


# Before and after -------------------------------------------------------------------------------


async def test_a_server_may_ask_before_it_is_ready(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    reactions = {
        "start": {"stdout": question("first", "ping") + "\n"},
        "initialize": {"stdout": question("early", ROOTS) + "\n"},
        "tools/list": {"wait": str(gate)},
    }
    asks = [{"method": SAMPLING, "params": {"maxTokens": 1}}]
    async with asked_by(tmp_path, on=reactions, ask_on_initialized=asks) as client:
        client.answers |= {ROOTS: lambda _: {"roots": []}, SAMPLING: lambda params: params}
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}})
        await until(lambda: (tmp_path / "record").exists() and answered(tmp_path, "ask-1"))
        results = [answered(tmp_path, key)[0]["result"] for key in ("first", "early", "ask-1")]
        assert results == [{}, {"roots": []}, {"maxTokens": 1}]
        assert not opening.done()
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            assert "_errors" not in (await opening)["result"]["content"][0]["text"]


async def test_a_server_that_asks_while_it_starts_and_dies_leaves_no_question_open(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    asks = question("early", ROOTS) + "\n" + question("more", SAMPLING) + "\n"
    dies = {"wait": str(gate), "exit": 3}
    reactions = {"tools/list": {"stdout": asks}, "resources/list": dies}
    async with asked_by(tmp_path, on=reactions, resources=["x://a"]) as client:
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}})
        ids = [it["id"] for it in await asked(client, 2)]
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            assert "exited with code 3" in (await opening)["result"]["content"][0]["text"]
        await until(lambda: len(withdrawn(client)) >= len(ids))
        assert sorted(withdrawn(client)) == sorted(ids)


@pytest.mark.parametrize("how", ["the end of stdin", "SIGTERM"])
@EACH_QUESTION
async def test_shutting_down_while_a_question_is_open_answers_the_call_and_ends(
    method: str, how: str, tmp_path: Path
) -> None:
    async with asked_by(tmp_path) as client:
        call = client.begin_use("dev", "a", "ask", method=method, params=FORM)
        await asked(client)
        if how == "SIGTERM":
            client.process.terminate()
            await client.gone()
        else:
            assert await client.end() == 0
        assert "may have been carried out" in call.result()["result"]["content"][0]["text"]
    assert lines(tmp_path)[-1] == b'{"eof":true}'


# Elicitation by URL -----------------------------------------------------------------------------


async def test_the_id_of_an_elicitation_is_the_same_wherever_it_is_told(tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        params = {"mode": "url", "message": "Sign in", "elicitationId": "e", "url": "https://example.com"}
        client.answers[ELICITATION] = lambda _: {"action": "accept"}
        await client.text("dev", "a", "ask", method=ELICITATION, params=params)
        call = client.begin_use("dev", "a", "url_needed", id="e", url="https://example.com")
        async with asyncio.timeout(PATIENCE):
            (needed,) = (await call)["error"]["data"]["elicitations"]
        await client.text("dev", "a", "notify", method=COMPLETE, params={"elicitationId": "e", "x": [1.5]})
        ours = client.asked[0]["params"]["elicitationId"]
        assert needed["elicitationId"] == ours
        assert told(client, COMPLETE) == [{"elicitationId": ours, "x": [1.5]}]


async def test_equal_ids_of_two_servers_elicitations_are_told_apart(tmp_path: Path) -> None:
    config = toolboxes(one={"it": fake(), "other": fake()}, two={"it": fake()})
    async with serving(config, tmp_path, capabilities=ABLE) as client:
        ids = []
        for address in (("one", "it"), ("one", "other"), ("two", "it")):
            call = client.begin_use(*address, "url_needed", id="e", url="https://example.com")
            async with asyncio.timeout(PATIENCE):
                ids.append((await call)["error"]["data"]["elicitations"][0]["elicitationId"])
        assert len(set(ids)) == 3
        await client.text("two", "it", "notify", method=COMPLETE, params={"elicitationId": "e"})
        assert told(client, COMPLETE) == [{"elicitationId": ids[2]}]


URL_NEEDED = {
    "code": -32042,
    "message": "URL elicitation required",
    "data": {
        "elicitations": [
            {"mode": "url", "message": "Sign in", "elicitationId": "e", "url": "https://example.com", "x": 1},
            {"mode": "url", "message": "Pay", "elicitationId": "f", "url": "https://example.com"},
        ],
        "vendor": {"elicitationId": "e"},
    },
    "x": [1.5],
}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "use_tool", "arguments": use("dev", "a", "echo")}),
        ("prompts/get", {"name": "dev__a_greet"}),
        ("resources/read", {"uri": "x://a"}),
    ],
)
async def test_whatever_waits_for_an_elicitation_by_url_names_the_server_in_each(
    method: str, params: Json, tmp_path: Path
) -> None:
    script: Json = {"prompts": ["greet"], "resources": ["x://a"], "on": {method: {"error": URL_NEEDED}}}
    async with asked_by(tmp_path, **script) as client:
        await client.open("dev")
        error = (await client.ask(method, params))["error"]
        first, second = error["data"].pop("elicitations")
        expected_first, expected_second = URL_NEEDED["data"]["elicitations"]  # type: ignore[index]
        assert first == expected_first | {"message": "[dev/a] Sign in", "elicitationId": "dev/a/e"}
        assert second == expected_second | {"message": "[dev/a] Pay", "elicitationId": "dev/a/f"}
        assert error == {**URL_NEEDED, "data": {"vendor": {"elicitationId": "e"}}}


@pytest.mark.parametrize(
    "error",
    [
        '{"code":-32042,"message":"no data"}',
        '{"code":-32042,"message":"m", "data":null}',
        '{"code":-32042,"message":"m", "data":{"elicitations":5}}',
        '{"code":-32042,"message":"m", "data":{"elicitations":[7, null]}}',
        '{"code":-32000,"message":"-32042", "data":{"elicitations":[{"message":"m","elicitationId":"e"}]}}',
    ],
)
async def test_an_error_that_only_looks_like_one_comes_as_it_is(error: str, tmp_path: Path) -> None:
    async with asked_by(tmp_path) as client:
        call = client.begin_use("dev", "a", "slow")
        await client.text("dev", "a", "echo")
        key = received(tmp_path / "record", "tools/call")[0]["id"]
        await say(client, f'{{"jsonrpc":"2.0","id":{key},"error":{error}}}')
        assert (await client.line(call)).rstrip().endswith(b'"error":' + error.encode() + b"}")


async def test_a_client_that_declared_no_elicitation_is_not_told_that_one_is_complete(tmp_path: Path) -> None:
    async with asked_by(tmp_path, {"sampling": {}}) as client:
        await client.text("dev", "a", "notify", method=COMPLETE, params={"elicitationId": "e"})
        assert client.notifications.empty()


async def test_the_word_that_an_elicitation_is_complete_does_not_overtake_it(tmp_path: Path) -> None:
    params = {"mode": "url", "message": "Sign in", "elicitationId": "e", "url": "https://example.com"}
    complete = {"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": "e"}}
    async with asked_by(tmp_path) as client:
        # Clients ignore it where they don't know the elicitation, and would wait for it for ever.
        await while_called(client, question("q", ELICITATION, json.dumps(params)), json.dumps(complete))
        await asked(client)
        methods = [json.loads(line).get("method") for line in client.lines]
        assert methods.index(ELICITATION) < methods.index(COMPLETE)


# Roots ------------------------------------------------------------------------------------------


async def test_changed_roots_are_told_to_every_server_in_an_open_toolbox(tmp_path: Path) -> None:
    config = toolboxes(one={"a": fake(), "b": fake()}, two={"a": fake()}, closed={"a": fake()})
    async with serving(config, tmp_path, capabilities=ABLE) as client:
        await client.open("one")
        await client.open("two")
        client.tell(ROOTS_CHANGED)
        await client.open("closed")
        for address, times in ((("one", "a"), 1), (("one", "b"), 1), (("two", "a"), 1), (("closed", "a"), 0)):
            notifications = json.loads(await client.text(*address, "heard"))
            assert notifications.count(ROOTS_CHANGED) == times


async def test_a_client_without_roots_cannot_tell_that_they_changed(tmp_path: Path) -> None:
    async with asked_by(tmp_path, {"sampling": {}}) as client:
        await client.open("dev")
        client.tell(ROOTS_CHANGED)
        assert ROOTS_CHANGED not in await heard(client)


async def test_a_server_that_asked_for_roots_while_it_starts_hears_that_they_changed(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script: Json = {"on": {"tools/list": {"wait": str(gate)}}, "ask_on_initialized": [ROOTS]}
    async with asked_by(tmp_path, **script) as client:
        client.answers[ROOTS] = lambda _: {"roots": []}
        opening = client.begin("tools/call", {"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}})
        await asked(client)
        client.tell(ROOTS_CHANGED)
        await client.ask("ping")
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            await opening
        assert ROOTS_CHANGED in await heard(client)
