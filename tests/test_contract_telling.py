"""What servers tell of their own accord: log messages, progress, changed lists; and what is not told."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from .test_contract_relays import progress_of, received
from .workbench import PATIENCE, Client, Json, fake, serving, toolboxes, until, with_one_server

SET_LEVEL = "logging/setLevel"
LOG = "notifications/message"
PROGRESS = "notifications/progress"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
CHANGED = {kind: f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}
LISTS = {"prompts": "prompts/list", "resources": "resources/list", "templates": "resources/templates/list"}
EACH_LIST = pytest.mark.parametrize("of", ["prompts", "resources", "templates"])


def logged(client: Client) -> list[Json]:
    return [note["params"] for note in client.heard() if note["method"] == LOG]


def note(method: str, params: str) -> str:
    """A notification as a line, with parameters to the byte."""
    return f'{{"jsonrpc":"2.0","method":"{method}","params":{params}}}'


def last(record: Path, method: str) -> Json:
    """The latest request of this method that a server got."""
    return received(record, method)[-1]


async def say(client: Client, *line: str) -> None:
    """Have the server write these lines at once."""
    assert await client.text("dev", "a", "raw", line="\n".join(line)) == "done"


async def set_level(client: Client, level: Any) -> Json:
    return await client.ask(SET_LEVEL, {"level": level})


# Logging ----------------------------------------------------------------------------------------


async def test_the_level_reaches_every_server_that_logs_and_no_other(tmp_path: Path) -> None:
    records = {name: tmp_path / name for name in ("a", "b", "mute")}
    servers = {name: fake(record=str(record), logging=name != "mute") for name, record in records.items()}
    config = toolboxes(
        one={"a": servers["a"], "mute": servers["mute"]}, two={"b": servers["b"]}, closed={"c": fake()}
    )
    async with serving(config, tmp_path) as client:
        await client.open("one")
        await client.open("two")
        assert (await set_level(client, "warning"))["result"] == {}
        levels = [json.loads(await client.text(*it, "log_level")) for it in (("one", "a"), ("two", "b"))]
        assert levels == ["warning", "warning"]
        await client.text("one", "mute", "echo")
    assert received(records["mute"], SET_LEVEL) == []


async def test_the_level_reaches_servers_that_start_later(tmp_path: Path) -> None:
    async with serving(toolboxes(dev={"a": fake(logging=True)}), tmp_path) as client:
        await set_level(client, "debug")
        await client.open("dev")
        await client.text("dev", "a", "echo")
        assert await client.text("dev", "a", "log_level") == '"debug"'


async def test_the_level_reaches_servers_that_start_later_before_anything_is_called(tmp_path: Path) -> None:
    record, gate = tmp_path / "record", tmp_path / "gate"
    slow = fake(logging=True, record=str(record), on={"tools/list": {"wait": str(gate)}})
    async with serving(toolboxes(dev={"a": slow}), tmp_path) as client:
        await set_level(client, "debug")
        # Were it told later, what this call has to say might be lost.
        call = client.begin_use("dev", "a", "log_level")
        await until(lambda: record.exists() and received(record, "tools/list"))
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            assert (await call)["result"]["content"][0]["text"] == '"debug"'
        await set_level(client, "error")
        assert await client.text("dev", "a", "log_level") == '"error"'


async def test_the_level_holds_after_a_server_was_restarted(tmp_path: Path) -> None:
    async with with_one_server(tmp_path, logging=True) as client:
        await set_level(client, "error")
        await client.error("dev", "a", "die")
        await client.text("dev", "a", "echo")
        assert await client.text("dev", "a", "log_level") == '"error"'


@pytest.mark.parametrize("level", ["debug", "warning", "emergency"])
async def test_what_is_less_grave_than_the_level_is_not_told_whatever_the_server_sends(
    level: str, tmp_path: Path
) -> None:
    async with with_one_server(tmp_path) as client:  # it does not even take the level
        await set_level(client, level)
        await say(client, *(note(LOG, f'{{"level":"{each}","data":1}}') for each in LEVELS))
        assert [message["level"] for message in logged(client)] == LEVELS[LEVELS.index(level) :]


async def test_without_a_level_all_is_told_and_a_level_can_be_changed(tmp_path: Path) -> None:
    async with with_one_server(tmp_path) as client:
        lines = [note(LOG, f'{{"level":"{each}","data":1}}') for each in LEVELS]
        await say(client, *lines)
        assert [message["level"] for message in logged(client)] == LEVELS
        await set_level(client, "alert")
        await set_level(client, "error")
        await say(client, *lines)
        assert [message["level"] for message in logged(client)] == LEVELS[4:]


@pytest.mark.parametrize(
    ("own", "shown"),
    [
        ("", '"logger":"dev/a"'),
        ('"logger":"db",', '"logger":"dev/a/db"'),
        ('"logger":"db/pool",', '"logger":"dev/a/db/pool"'),
        ('"logger":"two/it",', '"logger":"dev/a/two/it"'),  # it can't pass itself off as another
        ('"logger":null,', '"logger":"dev/a"'),
    ],
    ids=["none", "one", "with a slash", "another's", "null"],
)
async def test_the_logger_is_named_for_toolbox_and_server_and_all_else_is_the_servers_own(
    own: str, shown: str, tmp_path: Path
) -> None:
    data = '"data":{"text":"\\u0041", "big":12345678901234567890,"f":1.50},"_meta":{"vendor/key":[ ]},"x":1'
    async with with_one_server(tmp_path) as client:
        await say(client, note(LOG, f'{{"level":"info",{own}{data}}}'))
        (line,) = [line.decode() for line in client.lines if LOG.encode() in line]
        assert data in line
        assert shown in line
        assert set(json.loads(line)["params"]) == {"level", "logger", "data", "_meta", "x"}


async def test_equal_servers_in_two_toolboxes_are_told_apart_by_their_loggers(tmp_path: Path) -> None:
    async with serving(toolboxes(one={"it": fake()}, two={"it": fake()}), tmp_path) as client:
        for toolbox in ("two", "one"):
            await client.text(toolbox, "it", "log", logger="db", data=toolbox)
        heard_of = [(message["logger"], message["data"]) for message in logged(client)]
        assert heard_of == [("two/it/db", "two"), ("one/it/db", "one")]


@pytest.mark.parametrize(
    "params",
    [{"level": "loud"}, {"level": "Warning"}, {"level": ""}, {"level": 5}, {"level": None}, {}, [], 7],
    ids=str,
)
async def test_a_level_that_is_none_is_refused_and_the_old_one_holds(params: Any, tmp_path: Path) -> None:
    async with with_one_server(tmp_path, logging=True) as client:
        await set_level(client, "error")
        client.send({"jsonrpc": "2.0", "id": "bad", "method": SET_LEVEL, "params": params})
        async with asyncio.timeout(PATIENCE):
            assert (await client.expect("bad"))["error"]["code"] == -32602
        assert await client.text("dev", "a", "log_level") == '"error"'
        await client.text("dev", "a", "log", level="warning")
        assert logged(client) == []


@pytest.mark.parametrize(
    "reaction", [{"error": {"code": -32603, "message": "no"}}, {"hang": True}, {"result": "5"}], ids=str
)
async def test_a_server_that_does_not_take_the_level_holds_nobody_up(reaction: Json, tmp_path: Path) -> None:
    async with with_one_server(tmp_path, logging=True, on={SET_LEVEL: reaction}) as client:
        assert (await set_level(client, "error"))["result"] == {}
        assert await client.text("dev", "a", "echo", text="serves") == "serves"
    assert [it["params"] for it in received(tmp_path / "record", SET_LEVEL)] == [{"level": "error"}]


async def test_what_a_server_logs_before_it_is_ready_is_told(tmp_path: Path) -> None:
    early = note(LOG, '{"level":"info","data":"warming up"}') + "\n"
    script = fake(on={"tools/list": {"stdout": early}})
    async with serving(toolboxes(dev={"a": script}), tmp_path) as client:
        await client.open("dev")
        assert logged(client) == [{"level": "info", "logger": "dev/a", "data": "warming up"}]


# Progress ---------------------------------------------------------------------------------------

SERVED: Json = {"prompts": ["greet"], "resources": ["x://a"], "completions": True}
ASKED: dict[str, Json] = {
    "tools/call": {"name": "dev__a_slow"},
    "prompts/get": {"name": "dev__a_greet"},
    "resources/read": {"uri": "x://a"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "dev__a_greet"},
        "argument": {"name": "n", "value": ""},
    },
}
OTHERS = [method for method in ASKED if method != "tools/call"]


async def tell(client: Client, token: Any, progress: Any, **more: Any) -> None:
    params = {"progressToken": token, "progress": progress, **more}
    await client.text("dev", "a", "notify", method=PROGRESS, params=params)


@pytest.mark.parametrize("token", ["mine", 7])
@pytest.mark.parametrize("method", OTHERS)
async def test_progress_of_whatever_is_asked_comes_under_the_clients_token(
    method: str, token: Any, tmp_path: Path
) -> None:
    record, gate = tmp_path / "record", tmp_path / "gate"
    async with with_one_server(tmp_path, **SERVED, on={method: {"wait": str(gate)}}) as client:
        asking = client.begin(method, ASKED[method] | {"_meta": {"progressToken": token, "vendor/key": 1}})
        await until(lambda: received(record, method))
        meta = last(record, method)["params"]["_meta"]
        own = meta.pop("progressToken")
        assert own != token
        assert meta == {"vendor/key": 1}
        for progress in (1, 1, 0.5, 2):  # what does not rise is dropped
            await tell(client, own, progress, total=3, message="working", x=[1.5])
        gate.touch()
        async with asyncio.timeout(PATIENCE):
            assert "result" in await asking
        await tell(client, own, 3)  # none after the answer
    shared = {"progressToken": token, "total": 3, "message": "working", "x": [1.5]}
    assert progress_of(client) == [{**shared, "progress": 1}, {**shared, "progress": 2}]


async def test_equal_tokens_of_whatever_is_asked_at_once_are_not_crossed(tmp_path: Path) -> None:
    record, gate = tmp_path / "record", tmp_path / "gate"
    waits = {method: {"wait": str(gate)} for method in OTHERS}
    async with with_one_server(tmp_path, mode="dynamic", **SERVED, on=waits) as client:
        for method, params in ASKED.items():
            client.begin(method, params | {"_meta": {"progressToken": "same"}})
        await until(lambda: all(received(record, method) for method in ASKED))
        tokens = [received(record, method)[0]["params"]["_meta"]["progressToken"] for method in ASKED]
        assert len(set(tokens)) == len(ASKED)
        for n, token in enumerate(tokens):  # crossed, the later ones would not rise
            await tell(client, token, 100 - n)
    assert progress_of(client) == [{"progressToken": "same", "progress": 100 - n} for n in range(len(tokens))]


@pytest.mark.parametrize("token", ['"\\u0041 \\"quoted\\""', "12345678901234567890", "0", '""', "-1"])
async def test_a_token_and_all_else_of_progress_come_to_the_byte(token: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with with_one_server(tmp_path) as client:
        call = '{"name":"use_tool","arguments":{"tool":{"toolbox":"dev","server":"a","tool":"slow"}}'
        client.write(b'{"jsonrpc":"2.0","id":"c","method":"tools/call","params":')
        client.write(f'{call},"_meta":{{"progressToken":{token}}}}}}}\n'.encode())
        await client.text("dev", "a", "echo")
        (slow,) = [it for it in received(record, "tools/call") if it["params"]["name"] == "slow"]
        own = json.dumps(slow["params"]["_meta"]["progressToken"])
        rest = '"progress":1.50,"total":3e0,"message":"\\u0041", "x":{"big":12345678901234567890}'
        await say(client, note(PROGRESS, f'{{"progressToken":{own},{rest}}}'))
        (line,) = [line.decode() for line in client.lines if PROGRESS.encode() in line]
        assert f'"progressToken":{token}' in line
        for each in rest.replace(", ", ",").split(',"'):
            assert each.removeprefix('"') in line


@pytest.mark.parametrize(
    "progress",
    [
        '"1"',
        "null",
        "[]",
        "{}",
        '1,"progressToken":[]',
        '1,"progressToken":null',
        '1,"progressToken":"unknown"',
    ],
)
async def test_progress_that_is_none_is_dropped_and_the_next_is_told(progress: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with with_one_server(tmp_path) as client:
        client.begin_use("dev", "a", "slow", meta={"progressToken": "mine"})
        await client.text("dev", "a", "echo")
        own = received(record, "tools/call")[0]["params"]["_meta"]["progressToken"]
        await say(client, note(PROGRESS, f'{{"progressToken":{own},"progress":{progress}}}'))
        await say(client, note(PROGRESS, "[]"))
        await tell(client, own, 2)
    assert progress_of(client) == [{"progressToken": "mine", "progress": 2}]


async def test_progress_of_a_server_reaches_no_request_to_another(tmp_path: Path) -> None:
    config = toolboxes(dev={"a": fake(), "b": fake(record=str(tmp_path / "b"))})
    async with serving(config, tmp_path) as client:
        client.begin_use("dev", "b", "slow", meta={"progressToken": "mine"})
        await client.text("dev", "b", "echo")
        own = received(tmp_path / "b", "tools/call")[0]["params"]["_meta"]["progressToken"]
        for token in (own, "mine"):
            await tell(client, token, 1)
        assert progress_of(client) == []


# Changed lists ----------------------------------------------------------------------------------

NAMES = {"prompts": "name", "resources": "uri", "templates": "uriTemplate"}
BEFORE: Json = {"prompts": ["p"], "resources": ["x://r"], "templates": ["x://t/{id}"]}
MEMBERS = {"prompts": "prompts", "resources": "resources", "templates": "resourceTemplates"}


def kind(of: str) -> str:
    """What a change of this list is told as: templates are resources."""
    return "resources" if of == "templates" else of


async def names(client: Client, of: str) -> list[str]:
    listed = (await client.ask(LISTS[of]))["result"][MEMBERS[of]]
    return [each[NAMES[of]] for each in listed]


async def changed_otherwise(client: Client, otherwise: str) -> list[str]:
    """Have another list change; the methods of all that is told until that is, which is listed last."""
    await client.text("dev", "a", "change", kinds=[otherwise])
    methods = [(await client.notification())["method"]]
    while methods[-1] != CHANGED[otherwise]:
        methods.append((await client.notification())["method"])
    return methods


@pytest.mark.parametrize("mode", ["proxy", "dynamic"])
@EACH_LIST
async def test_a_list_that_changed_is_told_once_and_is_another_one_then(
    of: str, mode: str, tmp_path: Path
) -> None:
    after = {"prompts": ["q", "p"], "resources": ["x://q", "x://r"], "templates": ["x://u/{id}"]}
    async with with_one_server(tmp_path, mode, **BEFORE | {f"{of}_after": after[of]}) as client:
        assert len(await names(client, of)) == 1
        await client.text("dev", "a", "change")
        assert (await client.notification()) == {"jsonrpc": "2.0", "method": CHANGED[kind(of)]}
        expected = {"prompts": ["dev__a_p", "dev__a_q"], "resources": ["x://r", "x://q"]}  # additions last
        assert await names(client, of) == expected.get(of, after[of])
        assert client.heard() == []


@EACH_LIST
async def test_a_change_of_a_definition_alone_is_told_too(of: str, tmp_path: Path) -> None:
    (name,) = BEFORE[of]
    after: list[Json] = [{NAMES[of]: name, "name": "p" if of == "prompts" else "r", "title": "New"}]
    async with with_one_server(tmp_path, **BEFORE | {f"{of}_after": after}) as client:
        await client.text("dev", "a", "change")
        assert (await client.notification())["method"] == CHANGED[kind(of)]
        (listed,) = (await client.ask(LISTS[of]))["result"][MEMBERS[of]]
        assert listed["title"] == "New"


@pytest.mark.parametrize(("of", "otherwise"), [("prompts", "resources"), ("resources", "prompts")])
async def test_a_list_that_stayed_as_it_was_is_not_told_of(of: str, otherwise: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with with_one_server(tmp_path, **BEFORE | {f"{otherwise}_after": []}) as client:
        await client.text("dev", "a", "list_changed", of=of)
        await until(lambda: len(received(record, LISTS[of])) == 2)
        assert await changed_otherwise(client, otherwise) == [CHANGED[otherwise]]


async def test_tools_that_changed_are_listed_anew_and_in_proxy_mode_not_told_of(tmp_path: Path) -> None:
    script: Json = {"tools": ["echo", "change", "raw"], "tools_after": ["pid", "change"], "prompts": ["p"]}
    async with with_one_server(tmp_path, **script, prompts_after=[]) as client:
        await client.text("dev", "a", "change", kinds=["tools"])
        assert await changed_otherwise(client, "prompts") == [CHANGED["prompts"]]
        assert (await client.use("dev", "a", "pid"))["content"]


@pytest.mark.parametrize(("of", "otherwise"), [("prompts", "resources"), ("resources", "prompts")])
async def test_a_storm_makes_two_listings_at_most_and_one_notification(
    of: str, otherwise: str, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    after: Json = {"prompts_after": ["q"], "resources_after": ["x://q"]}
    async with with_one_server(tmp_path, **BEFORE | after) as client:
        await client.text("dev", "a", "change", kinds=[of], quiet=True)
        await client.text("dev", "a", "list_changed", of=of, n=10_000)
        told = await changed_otherwise(client, otherwise)
        assert told.count(CHANGED[of]) == 1
        assert len(received(record, LISTS[of])) <= 1 + 2
        assert await names(client, of) == (["dev__a_q"] if of == "prompts" else ["x://q"])


async def test_changes_of_many_servers_are_told_once_a_second_at_most(tmp_path: Path) -> None:
    servers = {f"s{n}": fake(prompts=["p"], prompts_after=["q"]) for n in range(8)}
    async with serving(toolboxes(dev=servers), tmp_path) as client:
        await client.open("dev")
        assert [note["method"] for note in client.heard()] == [CHANGED["prompts"]]
        loop = asyncio.get_running_loop()
        began = loop.time()
        for name in servers:
            await client.text("dev", name, "change")
        told = 0
        while sorted(await names(client, "prompts")) != [f"dev__{name}_q" for name in servers]:
            await client.notification()
            told += 1
        # The first comes a second after that of the opening, and that was before `began`.
        assert 1 <= told <= 1 + loop.time() - began


async def test_a_list_that_was_never_declared_is_neither_asked_for_nor_told_of(tmp_path: Path) -> None:
    async with with_one_server(tmp_path, resources=["x://r"], resources_after=[]) as client:
        await client.text("dev", "a", "list_changed", of="prompts")
        assert await changed_otherwise(client, "resources") == [CHANGED["resources"]]
    assert received(tmp_path / "record", "prompts/list") == []


async def test_a_crash_is_not_told_as_a_change_while_the_server_comes_back_the_same(tmp_path: Path) -> None:
    async with with_one_server(tmp_path, **BEFORE, resources_after=[]) as client:
        await client.error("dev", "a", "die")
        assert await names(client, "prompts") == ["dev__a_p"]
        await client.text("dev", "a", "echo")
        assert await changed_otherwise(client, "resources") == [CHANGED["resources"]]


async def test_a_server_that_comes_back_with_others_is_told_of(tmp_path: Path) -> None:
    lives = [{}, {"prompts": ["q"]}]
    async with with_one_server(
        tmp_path, prompts=["p"], starts=str(tmp_path / "starts"), by_start=lives
    ) as client:
        await client.error("dev", "a", "die")
        assert (await client.notification())["method"] == CHANGED["prompts"]
        assert await names(client, "prompts") == ["dev__a_q"]


# What is not told -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        note("notifications/unknown", '{"x":1}'),
        note("vendor/event", "{}"),
        note("notifications/initialized", "{}"),
        note("notifications/roots/list_changed", "{}"),
        note("notifications/tasks/status", '{"taskId":"t"}'),
        note("notifications/cancelled", '{"requestId":"nobody\'s"}'),
        note("notifications/cancelled", "{}"),
        note("notifications/message", "[]"),
        note("notifications/message", "5"),
        note("notifications/resources/updated", "null"),
        note("notifications/elicitation/complete", "7"),
        '{"jsonrpc":"2.0","method":""}',
        '{"jsonrpc":"2.0","id":"ask-9","result":{}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
    ],
)
async def test_what_means_nothing_is_dropped_without_a_word_and_the_server_goes_on(
    line: str, tmp_path: Path
) -> None:
    async with with_one_server(tmp_path) as client:
        await say(client, line, line)
        assert client.heard() == []
        await client.text("dev", "a", "log", data="after")
        assert [message["data"] for message in logged(client)] == ["after"]
        assert client.stderr.count(b"Traceback") == 0
