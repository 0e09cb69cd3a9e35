"""The same random session, straight with a server and through a workbench: its client sees the same.

What may differ is said in `tests/differential.py`, and here by the rules that do not compare everything.

The sessions are the same in every run. With `DIFFERENTIAL_SESSIONS=1000` in the environment there are that
many, at random.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests import fake_tools
from tests.differential import (
    LEVELS,
    URL_ELICITATION_REQUIRED,
    Native,
    Request,
    Seen,
    Side,
    Sides,
    Used,
    all_sides,
)
from tests.workbench import PATIENCE, Json

T = TypeVar("T")

SESSIONS = os.environ.get("DIFFERENTIAL_SESSIONS")

# The server ---------------------------------------------------------------------------------------

ELABORATE: Json = {
    "name": "elaborate",
    "title": "Elaborate ✓",
    "description": "Has all that a tool can have, and more.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "maxLength": 10**30}}},
    "outputSchema": {"type": "object", "required": ["a", "b"]},
    "annotations": {"readOnlyHint": True, "x-vendor": [1.5, None]},
    "icons": [{"src": "data:image/png;base64,AA=="}],
    "_meta": {"vendor/key": {"kept": True}, "ui": {"resourceUri": "ui://fake/page"}},
    "futureField": {"number": 1},
}
# Names that no client takes natively, or that could be another server's.
ODD_TOOLS = ("dotted.name", "with space", "öffnen", "n" * 70, "a__b", "_0123456789ab")
ODD_PROMPTS = ("review", "a/b", "prüfen", "p" * 80)
RESOURCES = ("file:///a.txt", "file:///b%20c.txt", "note:ü", "https://example.com/x?y=1#z")
TEMPLATES = ("file:///logs/{day}.txt", "db://{+path}")
MADE = ("file:///logs/monday.txt", "db://tables/one", "db://")
UNKNOWN = ("file:///nowhere", "file:///logs/a/b.txt", "urn:x")
_SCHEMA: Json = {"type": "object"}
_A_LINK: Json = {"type": "resource_link", "uri": RESOURCES[0], "name": "a"}
SCRIPT: Json = {
    "tools": [
        *fake_tools.BEHAVIOURS,
        ELABORATE,
        *({"name": name, "inputSchema": _SCHEMA} for name in ODD_TOOLS),
    ],
    "many_tools": 500,  # so that both sides have pages
    "page_size": 100,
    "prompts": [
        *ODD_PROMPTS,
        {
            "name": "linked",
            "description": "It shows a file.",
            "arguments": [{"name": "a"}],
            "messages": [{"role": "user", "content": _A_LINK}],
        },
    ],
    "resources": [*RESOURCES, {"uri": "ui://fake/page", "name": "page", "size": 3, "_meta": {"k": 1}}],
    "templates": [*TEMPLATES],
    "completions": True,
    "logging": True,
}
# One thing of each kind goes, one turns into something else, one is new. No other rule uses these.
_TURNING = [{"name": "turning", "description": told, "inputSchema": _SCHEMA} for told in ("before", "after")]
_TURNING_FILE = [{"uri": "file:///turning", "name": told} for told in ("before", "after")]
CHANGING: Json = {
    **SCRIPT,
    "many_tools": 0,  # they would stand behind what is new
    "tools": [*SCRIPT["tools"], _TURNING[0], {"name": "going", "inputSchema": _SCHEMA}],
    "tools_after": [*SCRIPT["tools"], _TURNING[1], {"name": "new", "inputSchema": _SCHEMA}],
    "prompts": [*SCRIPT["prompts"], _TURNING[0], "going"],
    "prompts_after": [*SCRIPT["prompts"], _TURNING[1], "new"],
    "resources": [*SCRIPT["resources"], _TURNING_FILE[0], "file:///going"],
    "resources_after": [*SCRIPT["resources"], _TURNING_FILE[1], "file:///new"],
    "templates": [*SCRIPT["templates"], "going://{a}"],
    "templates_after": [*SCRIPT["templates"], "new://{a}"],
}
PROMPTS = (*ODD_PROMPTS, "linked")
URIS = (*RESOURCES, *MADE, "ui://fake/page")

# What is said -------------------------------------------------------------------------------------

TEXTS = st.text(max_size=8) | st.sampled_from(["\ud800", "\x00\x7f\u2028", "workbench://", *RESOURCES])
NUMBERS = st.integers(-(10**6), 10**6) | st.sampled_from([0, 1.5, -0.0, 1e300, 2**53 + 1, 10**25])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
LEVEL = st.sampled_from(LEVELS)

_SPACE = st.sampled_from(["", "", " ", "\t\r "])
_RAW_TEXTS = st.sampled_from(
    [
        '"\\ud800"',
        '"\\u0041\\/"',
        '"\u2028é😀"',
        '"text"',
        '"resource_link"',
        '"resource"',
        '"file:///a.txt"',
        '""',
    ]
)
_RAW_KEYS = st.sampled_from(
    ['"content"', '"uri"', '"type"', '"resource"', '"_meta"', '"ui"', '"resourceUri"', '"\\u0075ri"', '"x"']
)
_RAW_NUMBERS = st.sampled_from(["0", "-0", "1.50", "1E400", "12345678901234567890", "-1e-7"])


def _joined(brackets: str, space: str, parts: Sequence[str]) -> str:
    return brackets[0] + space + f"{space},{space}".join(parts) + space + brackets[1]


def _raw_containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    # A key may come twice: which of them counts is for the client to say.
    members = st.builds("{}{}:{}".format, _RAW_KEYS, _SPACE, inner)
    return st.builds(_joined, st.just("[]"), _SPACE, st.lists(inner, max_size=3)) | st.builds(
        _joined, st.just("{}"), _SPACE, st.lists(members, max_size=4)
    )


RAW_JSON = st.recursive(
    st.sampled_from(["null", "true", "false"]) | _RAW_NUMBERS | _RAW_TEXTS, _raw_containers, max_leaves=12
)

What = tuple[str, Json]  # a request: its method and parameters


def _called(name: str, arguments: Json | None = None, meta: Json | None = None) -> What:
    given = {} if arguments is None else {"arguments": arguments}
    return "tools/call", {"name": name, **given, **({} if meta is None else {"_meta": meta})}


def _objects(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Objects with these members. One that begins with "maybe_" is there without that, or not at all."""
    maybe = [name for name in members if name.startswith("maybe_")]
    return st.fixed_dictionaries(
        {name: value for name, value in members.items() if name not in maybe},
        optional={name.removeprefix("maybe_"): members[name] for name in maybe},
    )


def _calls(tool: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[What]:
    return st.builds(_called, st.just(tool), _objects(**arguments), METAS)


TOKENS = st.sampled_from([0, 1, 7, "1", "é\ud800", "", 10**25, -1])
METAS = st.none() | st.builds(lambda token, more: {**more, "progressToken": token}, TOKENS, OBJECTS)
ANY_URI = st.sampled_from([*URIS, *UNKNOWN])
PROMPT = st.sampled_from(PROMPTS)

# One that asks for an elicitation is not any error.
CODES = st.integers(-33000, 10).filter(lambda code: code != URL_ELICITATION_REQUIRED)

CALLS = st.one_of(
    st.builds(_called, st.sampled_from(["echo", "elaborate", *ODD_TOOLS]), st.none() | OBJECTS, METAS),
    st.sampled_from(["unknown_fields", "lone_surrogate", "subscriptions", "log_level", "heard"]).map(_called),
    _calls("result", json=RAW_JSON),
    _calls("error", maybe_code=CODES, maybe_message=TEXTS, maybe_data=VALUES),
    _calls("is_error", maybe_text=TEXTS),
    _calls("big", n=st.sampled_from([0, 1000, 70_000])),
    _calls("link", uri=ANY_URI, maybe_text=TEXTS),
    _calls("url_needed", url=st.just("https://example.com/"), id=TEXTS),
    _calls("progress", maybe_n=st.integers(0, 5), maybe_after=st.integers(0, 2)),
    _calls("progress", values=st.lists(st.integers(-3, 9) | st.floats(0, 5)), maybe_after=st.integers(0, 2)),
    _calls(
        "log",
        maybe_level=LEVEL | st.just("loud"),
        maybe_logger=TEXTS,
        maybe_data=VALUES,
        maybe_n=st.integers(1, 2),
    ),
    _calls("touch", uri=ANY_URI),
    _calls("list_changed", n=st.integers(1, 3), of=st.sampled_from(["tools", "prompts", "resources"])),
    _calls(
        "notify",
        method=st.just("notifications/elicitation/complete"),
        params=_objects(elicitationId=TEXTS),
    ),
    _calls("notify", method=st.just("notifications/of_a_vendor"), maybe_params=OBJECTS),
)

ARGUMENTS = st.dictionaries(TEXTS, TEXTS, max_size=2)
REFS = _objects(type=st.just("ref/prompt"), name=PROMPT) | _objects(
    type=st.just("ref/resource"), uri=st.sampled_from([*TEMPLATES, *RESOURCES])
)


def _asked(method: str, **params: st.SearchStrategy[Any]) -> st.SearchStrategy[What]:
    return st.tuples(st.just(method), _objects(**params))


OTHERS = st.one_of(
    _asked("prompts/get", name=PROMPT, maybe_arguments=ARGUMENTS),
    _asked("resources/read", uri=st.sampled_from(URIS)),
    _asked(
        "completion/complete",
        ref=REFS,
        argument=_objects(name=TEXTS, value=TEXTS),
        maybe_context=_objects(arguments=ARGUMENTS),
    ),
)

# Of any other URI the workbench knows that there is nothing to be told of.
SUBSCRIPTIONS = _asked("resources/subscribe", uri=st.sampled_from(URIS)) | _asked(
    "resources/unsubscribe", uri=st.sampled_from(URIS)
)
ALONE: list[What] = [("ping", {}), ("no/such_method", {})]


def _question(method: str, **params: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return _objects(method=st.just(method), params=_objects(**params))


MESSAGES = st.lists(
    _objects(role=st.just("user"), content=_objects(type=st.just("text"), text=TEXTS)), max_size=2
)
FOR_A_CALL = st.one_of(
    _question("sampling/createMessage", messages=MESSAGES, maybe__meta=OBJECTS),
    _question("elicitation/create", mode=st.just("form"), message=TEXTS, requestedSchema=OBJECTS),
    _question("elicitation/create", mode=st.just("url"), message=TEXTS, url=TEXTS, elicitationId=TEXTS),
)
ROOTS = st.just({"method": "roots/list"}) | _question("roots/list", maybe__meta=OBJECTS)
QUESTIONS = FOR_A_CALL | ROOTS
PING = st.just({"method": "ping"})
REPLIES = st.one_of(
    st.builds(lambda result: {"result": result}, OBJECTS),
    st.sampled_from([{"action": "decline"}, {"action": "cancel"}]).map(lambda result: {"result": result}),
    st.builds(lambda code, text: {"error": {"code": code, "message": text}}, st.integers(-32768, 5), TEXTS),
    st.just({"error": {"code": -32601, "message": "Method not found"}}),
)


def _token_of(what: What) -> object:
    """What no two requests at once have in common: their token, or nothing at all."""
    token = what[1].get("_meta", {}).get("progressToken")
    return object() if token is None else token


def _cancelled(request: int | str) -> Json:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}}


class Session(RuleBasedStateMachine):
    runner: ClassVar[asyncio.Runner]
    script: ClassVar[Json] = SCRIPT

    def __init__(self) -> None:
        super().__init__()
        self._stack = AsyncExitStack()
        self._requests = 1000  # above the ids of `Client.ask`
        self._held: dict[int | str, int] = {}  # calls in flight, and what releases each
        self._over: list[int | str] = []  # requests that are answered or cancelled
        self._unawaited = 0  # answers of ours that no call waits for

    @initialize()
    def begin(self) -> None:
        self._run(self._begin())

    async def _begin(self) -> None:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self.sides: Sides = await self._stack.enter_async_context(all_sides(self.script, folder))

    def teardown(self) -> None:
        try:
            if hasattr(self, "sides") and not sys.exc_info()[0]:
                self._end_well()
        finally:
            self._run(self._stack.aclose())

    def _end_well(self) -> None:
        self.release_all()
        for side in self.sides.behind:
            assert not side.open_questions, (
                f"{side}: nothing is in flight for whose sake these could be asked"
            )
            assert not self._run(side.changed_lists()), f"{side}: no list has changed"

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def _request(self, what: What, *, held: bool = False) -> Request:
        number = self._requests = self._requests + 1
        forms: tuple[int | str, ...] = (number, f"é {number}", -number, str(number))
        return Request(forms[number % len(forms)], *what, held)

    def _step(self, *requests: Request, told: Sequence[Json] = ()) -> Seen:
        """Say this on each side: each client sees the same."""

        async def on_each_side() -> tuple[Seen, Seen, Seen]:
            direct, native, used = self.sides
            return await asyncio.gather(
                direct.say(requests, told), native.say(requests, told), used.say(requests, told)
            )

        direct, native, used = self._run(on_each_side())
        assert native == direct
        assert used == direct
        self._over += [request.id for request in requests if not request.held]
        return direct

    def _answer_with(self, reply: Json | None, progress: Sequence[float] = ()) -> None:
        for side in self.sides:
            side.reply, side.progress = reply, progress

    # Requests -------------------------------------------------------------------------------------

    @rule(all_=st.lists(CALLS, min_size=1, max_size=5, unique_by=_token_of))
    def call(self, all_: list[What]) -> None:
        """Answers come in the order in which the server gives them."""
        self._step(*map(self._request, all_))

    @rule(all_=st.lists(OTHERS | CALLS, min_size=1, max_size=5, unique_by=_token_of))
    def ask(self, all_: list[What]) -> None:
        self._step(*map(self._request, all_))

    @rule(all_=st.lists(SUBSCRIPTIONS, min_size=1, max_size=8))
    def subscribe_and_unsubscribe(self, all_: list[What]) -> None:
        self._step(*map(self._request, all_))
        self._step(self._request(_called("subscriptions")))

    @rule(what=st.sampled_from(ALONE) | _asked("resources/read", uri=st.sampled_from(UNKNOWN)))
    def ask_for_what_each_answers_alone(self, what: What) -> None:
        self._step(self._request(what))

    @rule(level=LEVEL)
    def set_the_log_level(self, level: str) -> None:
        self._step(self._request(("logging/setLevel", {"level": level})))
        self._step(self._request(_called("log_level")))

    @rule()
    def change_the_roots(self) -> None:
        told = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
        self._step(self._request(_called("heard")), told=[told])

    @rule(name=st.text(max_size=8))
    def ask_for_what_is_not_there(self, name: str) -> None:
        """It is refused by whoever knows first, in words of its own; `use_tool` tells the model."""
        unknown = f"not there {name}"

        for method, params in (
            _called(unknown),
            ("prompts/get", {"name": unknown}),
            ("tools/list", {"cursor": unknown}),
        ):
            for side in self.sides:
                answer = self._run(side.answer(method, params))
                if side is self.sides.used and method == "tools/call":
                    assert answer["result"]["isError"]
                    assert "not found" in answer["result"]["content"][0]["text"]
                else:
                    assert answer["error"]["code"] == -32602, side

    @rule()
    def list_everything(self) -> None:
        direct, native, used = [self._run(side.offered()) for side in self.sides]
        assert native == direct
        assert used == direct

    # Calls in flight ------------------------------------------------------------------------------

    @rule(meta=METAS)
    def begin_a_call(self, meta: Json | None) -> None:
        request = self._request(_called("slow", {"key": self._requests}, meta), held=True)
        self._held[request.id] = request.params["arguments"]["key"]
        self._step(request)

    @precondition(lambda self: self._held)
    @rule(which=st.integers(0, 9))
    def release_one(self, which: int) -> None:
        request = [*self._held][which % len(self._held)]
        self._step(self._request(_called("release", {"key": self._held.pop(request)})))
        self._over.append(request)

    @precondition(lambda self: self._held)
    @rule()
    def release_all(self) -> None:
        self._step(self._request(_called("release")))
        self._over += self._held
        self._held.clear()

    @precondition(lambda self: self._held)
    @rule(which=st.integers(0, 9))
    def cancel(self, which: int) -> None:
        """The server hears of it, once."""
        request = [*self._held][which % len(self._held)]
        del self._held[request]
        self._over.append(request)
        self._step(self._request(_called("heard")), told=[_cancelled(request)])

    @precondition(lambda self: self._over)
    @rule(which=st.integers(0, 99))
    def cancel_too_late(self, which: int) -> None:
        """A server need not hear of it: the workbench knows that there is nothing to cancel."""
        request = self._over[-1 - which % len(self._over)]
        for side in self.sides.behind:
            assert self._run(side.say([], [_cancelled(request)])) == Seen([], [])
        self._step(self._request(_called("heard")))

    # Questions of the server ----------------------------------------------------------------------

    @rule(
        question=QUESTIONS | PING,
        reply=REPLIES,
        more=st.fixed_dictionaries({}, optional={"times": st.integers(1, 3), "with_progress": st.just(True)}),
        progress=st.lists(st.integers(-3, 20), unique=True, max_size=3).map(sorted),
        meta=METAS,
    )
    def be_asked(
        self, question: Json, reply: Json, more: Json, progress: list[float], meta: Json | None
    ) -> None:
        self._answer_with(reply, progress)
        self._step(self._request(_called("ask", {**question, **more}, meta)))

    @rule(question=QUESTIONS, reply=REPLIES, times=st.integers(1, 2))
    def be_asked_for_no_call(self, question: Json, reply: Json, times: int) -> None:
        self._answer_with(reply)
        self._step(self._request(_called("ask", {**question, "times": times, "later": True})))
        self._unawaited += times

        async def arrived(side: Side) -> None:
            async with asyncio.timeout(PATIENCE):
                while len(json.loads(await side.text("answers"))) < self._unawaited:
                    pass

        for side in self.sides:
            self._run(arrived(side))
        self._step(self._request(_called("answers")))

    @rule(question=QUESTIONS, times=st.integers(1, 2))
    def be_asked_and_no_more(self, question: Json, times: int) -> None:
        """The server withdraws what it asks; it may not be handed on at all."""
        self._answer_with(None)
        self._step(self._request(_called("ask", {**question, "times": times, "cancel": True})))
        self._step(self._request(_called("answers")))

    @rule(question=FOR_A_CALL)
    def give_up_a_call_with_a_question_open(self, question: Json) -> None:
        """The server may still want to know, but the workbench has nobody to ask it for."""
        self._answer_with(None)
        call = self._request(_called("ask", question), held=True)
        self._step(call)
        self._step(self._request(_called("heard")), told=[_cancelled(call.id)])
        self._over.append(call.id)
        for side in self.sides.behind:
            assert bool(side.open_questions) == bool(self._held)


class ChangingSession(Session):
    """One in which the server comes to offer something else."""

    script: ClassVar[Json] = CHANGING

    def __init__(self) -> None:
        super().__init__()
        self._changed: set[str] = set()

    @rule(kinds=st.sets(st.sampled_from(["tools", "prompts", "resources"]), min_size=1))
    def change(self, kinds: set[str]) -> None:
        """Each client hears of every list that it sees change, and of no other, however often it is told."""
        self._step(self._request(_called("change", {"kinds": sorted(kinds)})))
        new, self._changed = kinds - self._changed, self._changed | kinds
        own = self._run(self.sides.direct.offered())

        async def follow(side: Native | Used) -> None:
            seen = new - {"tools"} if side is self.sides.used else new
            assert sorted(await side.changed_lists(len(seen))) == [
                f"notifications/{kind}/list_changed" for kind in sorted(seen)
            ]
            async with asyncio.timeout(PATIENCE):
                while side is self.sides.used and await side.offered_tools() != own["tools"]:
                    pass  # it was told nothing that it could wait for
            await side.learn(own)

        for side in self.sides.behind:
            self._run(follow(side))
        self.list_everything()


def sessions_are_the_same(machine: type[Session], sessions: int, steps: int) -> None:
    found = settings(
        max_examples=int(SESSIONS or sessions),
        stateful_step_count=steps,
        derandomize=not SESSIONS,
        deadline=None,
        print_blob=bool(SESSIONS),
        suppress_health_check=list(HealthCheck),
    )
    with asyncio.Runner() as machine.runner:
        run_state_machine_as_test(machine, settings=found)


def test_a_client_sees_the_same_straight_by_native_names_and_by_use_tool() -> None:
    sessions_are_the_same(Session, sessions=20, steps=100)


def test_a_client_sees_the_same_where_the_server_comes_to_offer_something_else() -> None:
    sessions_are_the_same(ChangingSession, sessions=5, steps=40)
