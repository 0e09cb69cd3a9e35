"""Tier 2: conversations of a `Peer`, in memory and on a clock that the tests own."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from mcp_workbench import peer as peer_module
from mcp_workbench import raw_json, wire
from mcp_workbench.peer import Gone, Lost, Patience, Peer, TimedOut, Unreadable
from mcp_workbench.raw_json import Malformed, Payload
from mcp_workbench.wire import Answer

from .clock import a_few_turns, now, on_a_clock, until

Json = dict[str, Any]
PATIENT = Patience(quiet=60, longest=600)


async def nothing(method: str, params: Payload) -> Answer:
    return wire.result(b"{}")


class Ours:
    """The `Handler` under a peer, and everything that it was told."""

    def __init__(self, answering: Callable[[str, Payload], Awaitable[Answer]] = nothing) -> None:
        self._answering = answering
        self.heard: list[tuple[str, bytes]] = []
        self.garbage: list[tuple[bytes, str]] = []
        self.complaint: Answer | None = None

    async def answer(self, method: str, params: Payload) -> Answer:
        return await self._answering(method, params)

    def failure(self, method: str, error: BaseException) -> Answer | None:
        return None

    def told(self, method: str, params: Payload) -> None:
        self.heard.append((method, bytes(params)))

    def garbled(self, frame: Payload, why: Malformed) -> Answer | None:
        self.garbage.append((bytes(frame), str(why)))
        return self.complaint


class Wire:
    """A peer whose lines are kept; `say` is the other end."""

    def __init__(self, answering: Callable[[str, Payload], Awaitable[Answer]] = nothing) -> None:
        self.lines: list[Any] = []
        self.handler = Ours(answering)
        self.peer = Peer(self._keep, self.handler)

    def _keep(self, parts: Sequence[Payload]) -> None:
        line = b"".join(parts)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self.lines.append(json.loads(line))

    def say(self, *frames: bytes) -> None:
        for frame in frames:
            self.peer.receive(frame)

    def ask(self, **more: Any) -> asyncio.Task[Answer]:
        """A request of ours, under way."""
        arguments: Json = {"method": "m", "params": (b"{}",), "patience": PATIENT, **more}

        async def asking() -> Answer:
            return await self.peer.request(**arguments)

        return asyncio.create_task(asking())

    def asked(self) -> list[Json]:
        return [line for line in self.lines if "id" in line and "method" in line]

    def cancelled(self) -> list[int]:
        """The ids that the other end was told to stop working on."""
        found = [line for line in self.lines if line.get("method") == "notifications/cancelled"]
        assert all("id" not in line for line in found)
        return [line["params"]["requestId"] for line in found]


def result_for(key: object, body: str = "{}") -> bytes:
    return f'{{"jsonrpc":"2.0","id":{json.dumps(key)},"result":{body}}}'.encode()


def joined(
    left: Callable[[str, Payload], Awaitable[Answer]], right: Callable[[str, Payload], Awaitable[Answer]]
) -> tuple[Peer, Peer]:
    """Two peers, each the other's other end."""
    loop = asyncio.get_running_loop()
    ends: list[Peer] = []

    def carry_to(end: int) -> Callable[[Sequence[Payload]], None]:
        def send(parts: Sequence[Payload]) -> None:
            loop.call_soon(ends[end].receive, b"".join(parts))

        return send

    ends.append(Peer(carry_to(1), Ours(left)))
    ends.append(Peer(carry_to(0), Ours(right)))
    return ends[0], ends[1]


# Asking -------------------------------------------------------------------------------------------


@on_a_clock
async def test_each_request_has_an_id_of_its_own() -> None:
    line = Wire()
    tasks = [line.ask() for _ in range(100)]
    await until(lambda: len(line.asked()) == 100)
    ids = [message["id"] for message in line.asked()]
    assert len(set(ids)) == 100
    line.say(*(result_for(key) for key in ids))
    await asyncio.gather(*tasks)
    assert line.peer.waiting == 0


@on_a_clock
async def test_answers_in_any_order_reach_the_request_that_they_belong_to() -> None:
    line = Wire()
    tasks = [line.ask(params=(b'{"n":%d}' % number,)) for number in range(20)]
    await until(lambda: len(line.asked()) == 20)
    for message in sorted(line.asked(), key=lambda message: message["id"] * 7 % 20):
        line.say(result_for(message["id"], str(message["params"]["n"])))
    assert [bytes((await task).body) for task in tasks] == [b"%d" % number for number in range(20)]


@on_a_clock
async def test_a_result_is_handed_on_as_the_bytes_that_came() -> None:
    line = Wire()
    task = line.ask()
    await until(line.asked)
    body = b'{ "content": [], "x" : 1E400, "_meta":{"a/b":-0} }'
    frame = b'{"extra":1,"result":' + body + b',"id":1}'
    line.say(frame)
    assert await task == Answer("result", (await task).body, frame)
    assert bytes((await task).body) == body


@on_a_clock
@pytest.mark.parametrize(
    ("answer", "member"),
    [
        (b'"result":null,"error":{"code":1,"message":"no"}', "error"),
        (b'"error":{"code":1,"message":"no"}', "error"),
        (b'"result":{},"error":null', "result"),
        (b'"result":null,"error":null', "result"),
        (b'"result":null', "result"),
    ],
)
async def test_an_answer_with_both_members_is_the_one_that_says_something(answer: bytes, member: str) -> None:
    line = Wire()
    task = line.ask()
    await until(line.asked)
    line.say(b'{"jsonrpc":"2.0","id":1,%b}' % answer)
    assert (await task).member == member


@on_a_clock
async def test_an_error_is_an_answer_too() -> None:
    line = Wire()
    task = line.ask()
    await until(line.asked)
    line.say(b'{"id":1,"error":{"code":-32602,"message":"no","data":[1]}}')
    assert (await task).failed
    assert bytes((await task).body) == b'{"code":-32602,"message":"no","data":[1]}'


@on_a_clock
async def test_equal_ids_from_both_ends_are_not_mixed_up() -> None:
    release = asyncio.Event()

    async def slowly(method: str, params: Payload) -> Answer:
        await release.wait()
        return wire.result(b'"theirs"')

    line = Wire(slowly)
    task = line.ask()
    await until(line.asked)
    line.say(b'{"id":1,"method":"their_question"}')
    await a_few_turns()
    line.say(result_for(1, '"ours"'))
    assert bytes((await task).body) == b'"ours"'
    release.set()
    await until(lambda: len(line.lines) == 2)
    assert line.lines[1] == {"jsonrpc": "2.0", "id": 1, "result": "theirs"}


@on_a_clock
async def test_two_peers_ask_each_other_at_the_same_time() -> None:
    async def left(method: str, params: Payload) -> Answer:
        return wire.result(b'{"left":%b}' % params)

    async def right(method: str, params: Payload) -> Answer:
        return wire.result(b'{"right":%b}' % params)

    one, other = joined(left, right)
    ours = [one.request("m", (b"%d" % number,), PATIENT) for number in range(50)]
    theirs = [other.request("m", (b"%d" % number,), PATIENT) for number in range(50)]
    answers = await asyncio.gather(*ours, *theirs)
    assert [bytes(answer.body) for answer in answers[:50]] == [b'{"right":%d}' % n for n in range(50)]
    assert [bytes(answer.body) for answer in answers[50:]] == [b'{"left":%d}' % n for n in range(50)]


@on_a_clock
async def test_unknown_answers_are_counted_and_change_nothing() -> None:
    line = Wire()
    task = line.ask()
    await until(line.asked)
    line.say(
        result_for(99), result_for("1"), result_for(None), b'{"result":{}}', result_for(1), result_for(1)
    )
    assert (await task).member == "result"
    assert line.peer.strays == 5


@on_a_clock
@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ((), ""),
        ((result_for("1"),), ' (1 answer came with an id that nobody asked under: "1")'),
        ((result_for(1.0),), " (1 answer came with an id that nobody asked under: 1.0)"),
        (
            (result_for("a"), b'{"result":{}}', result_for("1")),
            ' (3 answers came with ids that nobody asked under, the last: "1")',
        ),
        ((result_for("1" * 99),), f' (1 answer came with an id that nobody asked under: "{"1" * 39})'),
        ((result_for(2), result_for(2)), ""),
    ],
    ids=["none", "a text", "a fraction", "several", "long", "twice"],
)
async def test_answers_that_nobody_asked_for_are_named_where_one_is_missing(
    answers: Sequence[bytes], told: str
) -> None:
    line = Wire()
    task, other = line.ask(), line.ask()
    await until(lambda: len(line.asked()) == 2)
    line.say(*answers)
    with pytest.raises(TimedOut) as late:
        await task
    assert str(late.value) == f"did not answer within 60 s{told}"
    await asyncio.wait([other])


@on_a_clock
async def test_answers_that_came_before_a_request_are_no_reason_for_its_silence() -> None:
    line = Wire()
    line.say(result_for("1"))
    await asyncio.sleep(1)
    with pytest.raises(TimedOut, match=r"did not answer within 60 s$"):
        await line.ask()


@on_a_clock
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b'{"id":1}', "invalid JSON-RPC: neither a method nor an answer"),
        (b'{"id":1,"result":NaN}', "invalid JSON: NaN"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":1,}}', "invalid JSON: "),
        (b'{"jsonrpc":"2.0","id":1,"result":{}} x', "invalid JSON: more than one value"),
        (b'{"result":{"a":1,},"jsonrpc":"2.0","id":1}', "invalid JSON: "),
        (b'{"result":{},"jsonrpc":"2.0","id":1,}', "invalid JSON: "),
        (b'{"result":{"a":1,},"id": 1, "jsonrpc": "2.0"}', "invalid JSON: "),
    ],
)
async def test_an_answer_that_cannot_be_read_ends_its_request_at_once(answer: bytes, told: str) -> None:
    line = Wire()
    task = line.ask()
    await until(line.asked)
    line.say(answer)
    with pytest.raises(Unreadable) as ended:
        await task
    assert str(ended.value).startswith(told)
    assert line.handler.garbage == []
    assert line.cancelled() == []


@on_a_clock
async def test_a_mark_of_the_byte_order_before_a_message_is_passed_over() -> None:
    line = Wire()
    task = line.ask()
    await until(line.asked)
    line.say(b"\xef\xbb\xbf" + result_for(1))
    assert (await task).member == "result"


@on_a_clock
@pytest.mark.parametrize("waits", [True, False])
async def test_noise_is_not_looked_into(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Wire()
    if waits:
        task = line.ask()
        await until(line.asked)
    looks: list[bytes] = []
    monkeypatch.setattr(raw_json.Reader, "_slowly", lambda _, frame: looks.append(frame))
    monkeypatch.setattr("json.loads", looks.append)
    noise = [
        b"a log line",
        b"\x1b[32mready",
        b"42 is it",
        b"{}",
        b'{"level":"info"}',
        b'"half',
        b"  x",
        b"null",
    ]
    line.say(*noise)
    assert [frame for frame, _ in line.handler.garbage] == noise
    assert looks == []
    if waits:
        line.say(result_for(1))
        await task


@on_a_clock
@pytest.mark.parametrize("frame", [b'{"half":', b'{"id":2,"x":NaN}', b'{"id":3'])
async def test_of_damaged_noise_no_id_is_looked_for_where_nobody_waits(
    frame: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Wire()
    looks: list[Payload] = []
    monkeypatch.setattr(wire, "id_of", looks.append)
    line.say(frame)
    assert [found for found, _ in line.handler.garbage] == [frame]
    assert looks == []


@on_a_clock
@pytest.mark.parametrize("frame", [b'{"id":2}', b'{"id":1,"method":5}', b"noise"])
async def test_other_garbage_ends_no_request(frame: bytes) -> None:
    line = Wire()
    task = line.ask()
    await until(line.asked)
    line.say(frame)
    assert [garbage for garbage, _ in line.handler.garbage] == [frame]
    line.say(result_for(1))
    await task


@on_a_clock
async def test_where_sending_fails_the_caller_learns_it_and_nothing_is_left_behind() -> None:
    def broken(parts: Sequence[Payload]) -> None:
        raise OSError("broken pipe")

    peer = Peer(broken, Ours())
    with pytest.raises(OSError, match="broken pipe"):
        await peer.request("initialize", (b"{}",), PATIENT, token=b"1", on_progress=lambda params: None)
    assert peer.waiting == 0


# Cancelling ---------------------------------------------------------------------------------------


@on_a_clock
async def test_who_stops_waiting_has_the_request_cancelled_once_with_its_own_id() -> None:
    line = Wire()
    kept, dropped = line.ask(), line.ask()
    await until(lambda: len(line.asked()) == 2)
    dropped.cancel()
    await asyncio.wait([dropped])
    line.say(result_for(2))
    line.say(result_for(1))
    await kept
    await a_few_turns()
    assert dropped.cancelled()
    assert line.cancelled() == [2]
    assert line.peer.strays == 1


@on_a_clock
async def test_after_the_answer_nothing_is_cancelled() -> None:
    line = Wire()
    task = line.ask()
    await until(line.asked)
    line.say(result_for(1))
    task.cancel()
    await asyncio.wait([task])
    assert line.cancelled() == []


@on_a_clock
async def test_the_handshake_is_never_cancelled() -> None:
    line = Wire()
    task = line.ask(method="initialize")
    await until(line.asked)
    task.cancel()
    await asyncio.wait([task])
    assert line.cancelled() == []


@on_a_clock
async def test_a_request_that_the_other_end_cancelled_is_not_answered() -> None:
    stopped: list[str] = []

    async def slowly(method: str, params: Payload) -> Answer:
        try:
            await asyncio.get_running_loop().create_future()
            return wire.result(b"{}")
        finally:
            stopped.append(method)

    line = Wire(slowly)
    line.say(b'{"id":"a","method":"slow"}')
    await a_few_turns()
    line.say(b'{"method":"notifications/cancelled","params":{"requestId":"a","reason":"enough"}}')
    await until(lambda: stopped)
    await a_few_turns()
    assert line.lines == []


@on_a_clock
async def test_a_request_that_is_cancelled_at_once_leaves_its_id_free() -> None:
    async def soon(method: str, params: Payload) -> Answer:
        if method == "soon":
            await asyncio.sleep(0)
        return await nothing(method, params)

    line = Wire(soon)
    for _ in range(3):
        line.say(
            b'{"id":1,"method":"soon"}', b'{"method":"notifications/cancelled","params":{"requestId":1}}'
        )
        await a_few_turns()
    assert line.lines == []
    line.say(b'{"id":1,"method":"ping"}')
    await until(lambda: line.lines)
    assert line.lines == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@on_a_clock
async def test_an_id_that_is_used_again_after_its_cancellation_belongs_to_the_new_request() -> None:
    async def slowly(method: str, params: Payload) -> Answer:
        if method == "slow":
            await asyncio.get_running_loop().create_future()
        return await nothing(method, params)

    line = Wire(slowly)
    line.say(b'{"id":1,"method":"slow"}')
    await a_few_turns()
    line.say(b'{"method":"notifications/cancelled","params":{"requestId":1}}')
    await a_few_turns()
    line.say(b'{"id":1,"method":"slow"}')
    await a_few_turns()
    line.say(b'{"id":1,"method":"quick"}')
    assert [message["error"]["message"] for message in line.lines] == ["id is in use by a request in flight"]
    line.peer.close("done")


@on_a_clock
@pytest.mark.parametrize(
    "params",
    [
        b"{}",
        b'{"requestId":"1"}',
        b'{"requestId":2}',
        b'{"requestId":null}',
        b"[]",
        b"7",
        b'{"requestId":{}}',
    ],
)
async def test_a_cancellation_that_names_no_request_changes_nothing(params: bytes) -> None:
    release = asyncio.Event()

    async def slowly(method: str, params: Payload) -> Answer:
        await release.wait()
        return wire.result(b"{}")

    line = Wire(slowly)
    line.say(b'{"id":1,"method":"slow"}')
    await a_few_turns()
    line.say(b'{"method":"notifications/cancelled","params":' + params + b"}")
    line.say(b'{"method":"notifications/cancelled"}')
    release.set()
    await until(lambda: line.lines)
    assert line.lines[0]["id"] == 1


# Patience -----------------------------------------------------------------------------------------


@on_a_clock
async def test_who_gets_no_answer_in_time_learns_it_and_the_request_is_cancelled() -> None:
    line = Wire()
    began = now()
    with pytest.raises(TimedOut, match="did not answer within 60 s"):
        await line.ask()
    assert now() - began == pytest.approx(60)
    assert line.cancelled() == [1]


@on_a_clock
async def test_each_request_has_its_own_time() -> None:
    line = Wire()
    ends: dict[float, float] = {}

    async def wait(quiet: float) -> None:
        with pytest.raises(TimedOut, match=f"within {quiet:g} s"):
            await line.peer.request("m", (b"{}",), Patience(quiet, 600))
        ends[quiet] = now() - began

    began = now()
    await asyncio.gather(*(wait(quiet) for quiet in (30.0, 10.0, 20.0, 0.5, 10.5)))
    assert ends == {quiet: pytest.approx(quiet) for quiet in (30.0, 10.0, 20.0, 0.5, 10.5)}


@on_a_clock
async def test_an_answer_in_time_leaves_the_others_to_their_own_time() -> None:
    line = Wire()
    quick, slow = line.ask(patience=Patience(5, 5)), line.ask(patience=Patience(9, 9))
    await until(lambda: len(line.asked()) == 2)
    line.say(result_for(1))
    await quick
    began = now()
    with pytest.raises(TimedOut):
        await slow
    assert now() - began == pytest.approx(9)


@on_a_clock
async def test_each_progress_starts_the_time_anew_until_the_longest_is_over() -> None:
    line = Wire()
    heard: list[bytes] = []
    began = now()
    task = line.ask(token=b"7", on_progress=lambda params: heard.append(bytes(params)))

    async def keep_telling() -> None:
        while not task.done():
            await asyncio.sleep(50)
            line.say(b'{"method":"notifications/progress","params":{"progressToken":7,"progress":1}}')

    telling = asyncio.create_task(keep_telling())
    with pytest.raises(TimedOut, match="did not answer within 600 s"):
        await task
    assert now() - began == pytest.approx(600)
    assert len(heard) == 11
    await telling
    assert len(heard) == 11
    assert line.cancelled() == [1]


@on_a_clock
async def test_progress_that_ends_leaves_the_rest_of_the_time() -> None:
    line = Wire()
    began = now()
    task = line.ask(token=b"7", on_progress=lambda params: None)
    await asyncio.sleep(40)
    line.say(b'{"method":"notifications/progress","params":{"progressToken":7,"progress":1}}')
    with pytest.raises(TimedOut, match="within 60 s"):
        await task
    assert now() - began == pytest.approx(100)


@on_a_clock
async def test_progress_reaches_its_own_request_as_it_came() -> None:
    line = Wire()
    heard: dict[str, list[bytes]] = {"one": [], "other": []}
    one = line.ask(token=b"1", on_progress=lambda params: heard["one"].append(bytes(params)))
    other = line.ask(token=b"2", on_progress=lambda params: heard["other"].append(bytes(params)))
    await until(lambda: len(line.asked()) == 2)
    line.say(b'{"method":"notifications/progress","params":{"progressToken":2, "progress":0.5,"new":[1]}}')
    line.say(b'{"method":"notifications/progress","params":{"progressToken":"2","progress":1}}')
    line.say(b'{"method":"notifications/progress","params":{"progressToken":3,"progress":1}}')
    line.say(b'{"method":"notifications/progress","params":{"progress":1}}')
    line.say(b'{"method":"notifications/progress"}')
    assert heard == {"one": [], "other": [b'{"progressToken":2, "progress":0.5,"new":[1]}']}
    line.say(result_for(1), result_for(2))
    await asyncio.gather(one, other)


@on_a_clock
async def test_progress_after_the_answer_is_dropped_even_in_the_same_breath() -> None:
    line = Wire()
    heard: list[Payload] = []
    task = line.ask(token=b"7", on_progress=heard.append)
    await until(line.asked)
    progress = b'{"method":"notifications/progress","params":{"progressToken":7,"progress":1}}'
    line.say(result_for(1), progress)
    await task
    line.say(progress)
    assert heard == []


@on_a_clock
async def test_tokens_are_made_once() -> None:
    line = Wire()
    tokens = [line.peer.new_token() for _ in range(100)]
    assert len(set(tokens)) == 100
    assert all(json.loads(token) for token in tokens)


@on_a_clock
async def test_a_listener_that_cannot_read_the_progress_does_no_harm() -> None:
    line = Wire()

    def refuse(params: Payload) -> None:
        raise Malformed("no number")

    task = line.ask(token=b"7", on_progress=refuse)
    await until(line.asked)
    line.say(b'{"method":"notifications/progress","params":{"progressToken":7}}')
    assert line.peer.strays == 1
    line.say(result_for(1))
    await task


# Answering ----------------------------------------------------------------------------------------


@on_a_clock
async def test_a_request_is_answered_with_its_own_id_as_it_was_written() -> None:
    sent: list[bytes] = []

    async def echo(method: str, params: Payload) -> Answer:
        return wire.result(params)

    peer = Peer(lambda parts: sent.append(b"".join(parts)), Ours(echo))
    for key in (b"1", b'"\\u0061"', b"-7", b"9" * 100, b'"\\ud800"', b"1.5"):
        peer.receive(b'{"id": ' + key + b' ,"method":"m","params":{"a": 1E400}}')
        await until(lambda: sent)
        assert sent.pop() == b'{"jsonrpc":"2.0","id":' + key + b',"result":{"a": 1E400}}\n'


@on_a_clock
async def test_a_request_without_params_has_none() -> None:
    asked: list[tuple[str, bytes]] = []

    async def note(method: str, params: Payload) -> Answer:
        asked.append((method, bytes(params)))
        return wire.result(b"{}")

    line = Wire(note)
    line.say(b'{"id":1,"method":"m"}', b'{"method":"told"}', b'{"method":"told","params":[1]}')
    await until(lambda: asked)
    assert asked == [("m", b"{}")]
    assert line.handler.heard == [("told", b"{}"), ("told", b"[1]")]


@on_a_clock
@pytest.mark.parametrize("key", [b"null", b"{}", b"[1]", b"true", b"false", b'{"id":1}'])
async def test_an_id_that_is_neither_text_nor_number_is_refused(key: bytes) -> None:
    line = Wire()
    line.say(b'{"id":' + key + b',"method":"ping"}')
    await a_few_turns()
    (answer,) = line.lines
    assert answer["id"] is None
    assert answer["error"] == {"code": -32600, "message": "id must be a string or a number"}


@on_a_clock
async def test_an_id_in_use_is_refused_and_the_first_request_is_served() -> None:
    release = asyncio.Event()

    async def slowly(method: str, params: Payload) -> Answer:
        await release.wait()
        return wire.result(params)

    line = Wire(slowly)
    line.say(b'{"id":1,"method":"m","params":[1]}', b'{"id":1,"method":"m","params":[2]}')
    line.say(b'{"id":"1","method":"m","params":[3]}')
    release.set()
    await until(lambda: len(line.lines) == 3)
    assert line.lines[0]["error"]["code"] == raw_json.INVALID_REQUEST
    assert [line["result"] for line in line.lines[1:]] == [[1], [3]]


@on_a_clock
async def test_more_requests_than_can_be_in_flight_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_module, "MOST_IN_FLIGHT", 3)
    release = asyncio.Event()

    async def slowly(method: str, params: Payload) -> Answer:
        await release.wait()
        return wire.result(b"{}")

    line = Wire(slowly)
    line.say(*(b'{"id":%d,"method":"m"}' % key for key in range(5)))
    assert [answer["id"] for answer in line.lines] == [3, 4]
    assert all(answer["error"]["code"] == raw_json.INTERNAL_ERROR for answer in line.lines)
    release.set()
    await until(lambda: len(line.lines) == 5)
    line.say(b'{"id":9,"method":"m"}')
    await until(lambda: len(line.lines) == 6)
    assert line.lines[5]["result"] == {}


@on_a_clock
async def test_a_bug_is_an_internal_error_and_its_traceback_stays_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(method: str, params: Payload) -> Answer:
        raise KeyError("a secret detail")

    line = Wire(broken)
    with caplog.at_level(logging.ERROR, "mcp_workbench"):
        line.say(b'{"id":1,"method":"m"}')
        await until(lambda: line.lines)
    (answer,) = line.lines
    assert answer["error"]["code"] == raw_json.INTERNAL_ERROR
    assert "secret" not in json.dumps(answer)
    assert "Traceback" not in json.dumps(answer)
    assert "a secret detail" in caplog.text
    line.say(b'{"id":1,"method":"m"}')
    await until(lambda: len(line.lines) == 2)


# Batches ------------------------------------------------------------------------------------------


async def echo(method: str, params: Payload) -> Answer:
    return wire.result(params)


async def echo_later(method: str, params: Payload) -> Answer:
    await asyncio.sleep(0)
    return wire.result(params)


@on_a_clock
async def test_a_batch_is_answered_with_one_array() -> None:
    line = Wire(echo)
    line.say(b' [{"id":1,"method":"m","params":[1]},{"method":"told"},{"id":2,"method":"m","params":[2]}]')
    await until(lambda: line.lines)
    (answers,) = line.lines
    assert sorted(answers, key=lambda answer: int(answer["id"])) == [
        {"jsonrpc": "2.0", "id": 1, "result": [1]},
        {"jsonrpc": "2.0", "id": 2, "result": [2]},
    ]
    assert line.handler.heard == [("told", b"{}")]


@on_a_clock
async def test_a_batch_without_requests_is_not_answered() -> None:
    line = Wire(echo)
    line.say(b'[{"method":"told"},{"method":"told"}]')
    await a_few_turns()
    assert line.lines == []
    assert len(line.handler.heard) == 2


@on_a_clock
async def test_a_batch_of_answers_reaches_the_requests() -> None:
    line = Wire()
    tasks = [line.ask(), line.ask()]
    await until(lambda: len(line.asked()) == 2)
    line.say(b"[" + result_for(2, "2") + b"," + result_for(1, "1") + b"]")
    assert [bytes((await task).body) for task in tasks] == [b"1", b"2"]


@on_a_clock
async def test_garbage_in_a_batch_leaves_the_rest_of_it_alone() -> None:
    line = Wire(echo)
    line.say(b'[1,[],{"id":1,"method":"m"},null,{"x":"\\ud800","id":2,"method":"m"},{"id":3}]')
    await until(lambda: line.lines)
    (answers,) = line.lines
    assert sorted(answer["id"] for answer in answers) == [1, 2]
    assert [frame for frame, _ in line.handler.garbage] == [b"1", b"[]", b"null", b'{"id":3}']


@on_a_clock
@pytest.mark.parametrize("frame", [b"[]", b"[", b"[1", b"[NaN]", b"[" * 100_000 + b"]" * 100_000, b"[]]"])
async def test_a_batch_that_is_none_is_garbage_once(frame: bytes) -> None:
    line = Wire(echo)
    line.say(frame)
    line.say(b'{"id":1,"method":"m"}')
    await until(lambda: line.lines)
    assert [found for found, _ in line.handler.garbage] == [frame]
    assert [answer["id"] for answer in line.lines] == [1]


@on_a_clock
async def test_a_batch_that_is_too_long_is_garbage_as_a_whole() -> None:
    line = Wire(echo)
    line.say(b"[" + b",".join([b'{"id":1,"method":"m"}'] * 1001) + b"]")
    await a_few_turns()
    assert [why for _, why in line.handler.garbage] == ["a batch of more than 1000 messages"]
    assert line.lines == []


@on_a_clock
async def test_what_garbage_in_a_batch_is_answered_with_stands_in_its_array() -> None:
    line = Wire(echo)
    line.handler.complaint = wire.error(raw_json.INVALID_REQUEST, "what?")
    line.say(b'[1,{"id":1,"method":"m"},{"id":3}]')
    await until(lambda: line.lines)
    await a_few_turns()
    (answers,) = line.lines
    assert sorted((str(answer["id"]), "error" in answer) for answer in answers) == [
        ("1", False),
        ("3", True),
        ("None", True),
    ]


@on_a_clock
async def test_a_frame_that_is_garbage_is_answered_where_the_handler_wants_it() -> None:
    line = Wire(echo)
    line.handler.complaint = wire.error(raw_json.PARSE_ERROR, "what?")
    for frame in (b"banner", b'{"id":7,"x":NaN}', b"[", b"[]", b'{"id":8}'):
        line.say(frame)
    await a_few_turns()
    assert [answer["id"] for answer in line.lines] == [None, 7, None, None, 8]


@on_a_clock
async def test_a_batch_may_cancel_one_of_its_own_requests() -> None:
    line = Wire(echo_later)
    line.say(
        b'[{"id":1,"method":"m"},{"id":2,"method":"m"},'
        b'{"method":"notifications/cancelled","params":{"requestId":1}}]'
    )
    await until(lambda: line.lines)
    assert [[answer["id"] for answer in answers] for answers in line.lines] == [[2]]


@on_a_clock
async def test_an_id_that_stands_twice_in_a_batch_is_refused_within_the_array() -> None:
    line = Wire(echo_later)
    line.say(b'[{"id":1,"method":"m"},{"id":1,"method":"m"}]')
    await until(lambda: line.lines)
    (answers,) = line.lines
    assert sorted("error" in answer for answer in answers) == [False, True]


# Going away ---------------------------------------------------------------------------------------


@on_a_clock
async def test_closing_tells_all_who_wait_and_cancels_what_is_served() -> None:
    stopped = asyncio.Event()

    async def slowly(method: str, params: Payload) -> Answer:
        try:
            await asyncio.get_running_loop().create_future()
            return wire.result(b"{}")
        finally:
            stopped.set()

    line = Wire(slowly)
    tasks = [line.ask() for _ in range(5)]
    line.say(b'{"id":1,"method":"m"}')
    await until(lambda: len(line.asked()) == 5)
    line.peer.close("exited with code 3")
    for task in tasks:
        with pytest.raises(Gone, match="exited with code 3"):
            await task
    await stopped.wait()
    await a_few_turns()
    assert line.cancelled() == []
    assert line.peer.waiting == 0


@on_a_clock
async def test_one_that_is_gone_is_asked_and_told_nothing() -> None:
    line = Wire()
    line.peer.close("first reason")
    line.peer.close("second reason")
    with pytest.raises(Gone, match="first reason"):
        await line.ask()
    line.peer.tell("notifications/x")
    line.say(b'{"id":1,"method":"m"}')
    await a_few_turns()
    assert line.lines == []


@on_a_clock
async def test_finishing_waits_for_what_is_served_and_not_longer_than_it_may() -> None:
    async def work(method: str, params: Payload) -> Answer:
        await asyncio.sleep(json.loads(bytes(params))[0])
        return wire.result(params)

    line = Wire(work)
    line.say(b'{"id":1,"method":"m","params":[1]}', b'[{"id":2,"method":"m","params":[2]}]')
    line.say(b'{"id":3,"method":"m","params":[100]}')
    began = now()
    await line.peer.finish(3)
    assert now() - began == pytest.approx(3)
    assert len(line.lines) == 2
    line.say(b'[{"id":4,"method":"m","params":[100]},{"id":5,"method":"m","params":[100]}]')
    await a_few_turns()
    await line.peer.refuse_the_rest("leaving")
    alone, batch = line.lines[2:]
    assert alone["error"]["message"] == "leaving"
    assert {answer["id"]: answer["error"]["message"] for answer in batch} == {4: "leaving", 5: "leaving"}
    began = now()
    await line.peer.finish(3)
    assert now() == began


# Requests that a transport gives up


@on_a_clock
async def test_a_request_that_got_lost_fails_alone_and_is_not_cancelled() -> None:
    wire_ = Wire()
    first, second = wire_.ask(), wire_.ask()
    await a_few_turns()
    one, two = (str(it["id"]).encode() for it in wire_.asked())
    assert wire_.peer.waits(one)
    wire_.peer.lose(one, Lost("broke off", done=True))
    wire_.peer.lose(one, Lost("once more", done=True))
    assert not wire_.peer.waits(one)
    assert wire_.peer.waits(two)
    with pytest.raises(Lost, match="broke off"):
        await first
    wire_.say(b'{"jsonrpc":"2.0","id":%b,"result":{}}' % one)  # late, and nobody's any more
    wire_.say(b'{"jsonrpc":"2.0","id":%b,"result":{"x":1}}' % two)
    assert bytes((await second).body) == b'{"x":1}'
    assert wire_.lines == wire_.asked()
