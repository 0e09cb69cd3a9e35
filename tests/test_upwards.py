"""Tier 1: what servers ask and tell of their own accord, named for its server."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench import upwards
from mcp_workbench.naming import Origin
from mcp_workbench.raw_json import Malformed, Payload

from .fake_link import dumped
from .test_wire import values

FILES = Origin("dev", "files")


# Each example is quick, but a machine may be busy with others.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def shown(uri: str) -> str:
    return f"seen:{uri}"


def asked(method: str, params: Payload, origin: Origin = FILES) -> bytes:
    return bytes(upwards.question(method, params, origin, shown))


def read(payload: Payload) -> Any:
    return json.loads(bytes(payload))


# Elicitation --------------------------------------------------------------------------------------


def test_a_form_says_whose_it_is_and_all_else_in_it_passes_as_it_came() -> None:
    form = (
        b'{"mode":"form","message":"%bYour \\u0061ge?","requestedSchema":{ "type": "object", "n": 1E400 },'
        b'"_meta":{"progressToken":7},"notYetInvented":[-0]}'
    )
    assert asked("elicitation/create", form % b"") == (form % b"[dev/files] ").replace(b"\\u0061", b"a")


def test_a_page_to_visit_says_whose_it_is_and_its_address_is_not_touched() -> None:
    params = {"mode": "url", "elicitationId": "e1", "url": "https://example.com/?uri=a", "message": "Log in"}
    assert read(asked("elicitation/create", dumped(params))) == {
        **params,
        "elicitationId": "dev/files/e1",
        "message": "[dev/files] Log in",
    }


def test_a_message_that_pretends_to_be_anothers_still_begins_with_whose_it_is() -> None:
    message = read(asked("elicitation/create", dumped({"message": "[dev/bank] Your PIN?"})))["message"]
    assert message == "[dev/files] [dev/bank] Your PIN?"


@pytest.mark.parametrize("params", [{"message": None}, {"message": ""}, {}, {"mode": "form"}])
def test_a_form_without_a_message_says_whose_it_is_too(params: object) -> None:
    assert read(asked("elicitation/create", dumped(params)))["message"].rstrip() == "[dev/files]"


def test_a_message_that_is_written_twice_says_whose_it_is_whichever_is_read() -> None:
    params = asked("elicitation/create", b'{"message":"a","x":1,"message":"b"}')
    assert params.count(b'"message"') == params.count(b"[dev/files]") == 1


@given(st.text(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_whatever_the_message_and_the_names_are_they_stand_there_unchanged(message: str, name: str) -> None:
    params = asked("elicitation/create", dumped({"message": message}), Origin(name, "files"))
    assert read(params)["message"] == f"[{name}/files] {message}"


@pytest.mark.parametrize(
    "params",
    [
        b"[]",
        b"null",
        b"5",
        b'{"message":5}',
        b'{"message":["a"]}',
        b'{"message":{"text":"a"}}',
        b'{"message":"a","elicitationId":5}',
        b'{"message":"a","elicitationId":{}}',
    ],
)
def test_an_elicitation_of_the_wrong_shape_is_refused(params: bytes) -> None:
    """Nobody could say whose it is."""
    with pytest.raises(Malformed):
        asked("elicitation/create", params)


@pytest.mark.parametrize(
    "params", [{"elicitationId": "e1"}, {"elicitationId": "é\ud800"}, {"elicitationId": ""}]
)
def test_the_word_that_an_elicitation_is_complete_has_the_id_that_the_client_knows(params: Any) -> None:
    known = read(asked("elicitation/create", dumped({"message": "a", **params})))
    told = read(upwards.elicited(dumped({**params, "x": 1}), FILES))
    assert told == {"elicitationId": known["elicitationId"], "x": 1}
    assert told["elicitationId"] == f"dev/files/{params['elicitationId']}"


names = st.text("ab/%é ", min_size=1, max_size=4)


@given(names, names, names, names, names, names)
@example("a", "b/c", "1", "a/b", "c", "1")
@example("a", "b/c", "1", "a", "b", "c/1")
def test_no_two_servers_have_an_elicitation_of_the_same_id(
    toolbox: str, server: str, own: str, another_toolbox: str, another_server: str, another: str
) -> None:
    """Else one server could tell the client that another's is complete."""
    here, there = Origin(toolbox, server), Origin(another_toolbox, another_server)
    assume((here, own) != (there, another))
    told = upwards.elicited(dumped({"elicitationId": own}), here)
    told_there = upwards.elicited(dumped({"elicitationId": another}), there)
    assert read(told) != read(told_there)


@pytest.mark.parametrize("params", [b'{"elicitationId":null,"a":1}', b'{"a":1}', b"{}"])
def test_a_completion_without_an_id_passes_the_very_same(params: bytes) -> None:
    assert upwards.elicited(params, FILES) is params
    raw = Raw(params)
    assert upwards.elicited(raw, FILES) is raw


@pytest.mark.parametrize("params", [b"[]", b"null", b'{"elicitationId":5}', b'{"elicitationId":["e"]}'])
def test_a_completion_of_the_wrong_shape_is_refused(params: bytes) -> None:
    with pytest.raises(Malformed):
        upwards.elicited(params, FILES)


# Errors -------------------------------------------------------------------------------------------


def required(*elicitations: object, code: object = -32042) -> bytes:
    return dumped(
        {"code": code, "message": "Log in first", "data": {"elicitations": [*elicitations], "x": 1}}
    )


def test_each_elicitation_that_a_call_needs_first_says_whose_it_is() -> None:
    error = required(
        {"mode": "url", "elicitationId": "e1", "url": "https://a.example/", "message": "Log in to A"},
        {"mode": "url", "elicitationId": "e2", "url": "https://b.example/", "message": "Log in to B", "y": 2},
    )
    assert read(upwards.failure(error, FILES)) == {
        "code": -32042,
        "message": "Log in first",
        "data": {
            "elicitations": [
                {
                    "mode": "url",
                    "elicitationId": "dev/files/e1",
                    "url": "https://a.example/",
                    "message": "[dev/files] Log in to A",
                },
                {
                    "mode": "url",
                    "elicitationId": "dev/files/e2",
                    "url": "https://b.example/",
                    "message": "[dev/files] Log in to B",
                    "y": 2,
                },
            ],
            "x": 1,
        },
    }


def test_white_space_and_order_do_not_hide_which_error_it_is() -> None:
    error = b'{ "data" : { "elicitations" : [ { "message" : "a" } ] } , "code" :\t-32042 , "message" : "b" }'
    assert read(upwards.failure(Raw(error), FILES))["data"]["elicitations"][0]["message"] == "[dev/files] a"


def test_all_else_in_such_an_error_passes_as_it_came() -> None:
    error = (
        b'{"code":-32042,"message":"\\u0061","n":1E400,'
        b'"data":{"a":-0,"elicitations":[{"url":"\\/","message":"%ba","k":[ 1 ]}],"z":"\\ud800"}}'
    )
    assert bytes(upwards.failure(error % b"", FILES)) == error % b"[dev/files] "


@pytest.mark.parametrize("code", ["-32042.0", "-3.2042e4"])
def test_the_code_is_known_however_it_is_written(code: str) -> None:
    error = b'{"code":%b,"data":{"elicitations":[{"message":"a"}]}}' % code.encode()
    assert b"[dev/files] a" in upwards.failure(error, FILES)


@pytest.mark.parametrize(
    "error",
    [
        required({"message": "a"}, code=-32041),
        required({"message": "a"}, code="-32042"),
        required({"message": "a"}, code=None),
        dumped(
            {"code": -32603, "message": "it failed with -32042", "data": {"elicitations": [{"message": 1}]}}
        ),
        required(),
        b'{"code":-32042,"message":"Log in first"}',
        b'{"code":-32042,"message":"Log in first","data":null}',
        b'{"code":-32042,"message":"Log in first","data":{"url":"https://a.example/"}}',
        b'{"code":-32042,"message":"Log in first","data":{"elicitations":null}}',
        b'{"code":-32042,"message":"Log in first","data":{"elicitations":{"message":"a"}}}',
        b'{"message":"-32042"}',
        b'"-32042"',
        b"[-32042]",
        b"-32042",
        b"-32042,",
    ],
)
@pytest.mark.parametrize("kind", [bytes, Raw])
def test_any_other_error_passes_the_very_same(error: bytes, kind: Callable[[bytes], Payload]) -> None:
    before = kind(error)
    assert upwards.failure(before, FILES) is before


@unhurried
@given(values(surrogates=True))
def test_an_error_of_any_shape_passes_the_very_same_where_no_elicitation_is_in_it(data: str) -> None:
    error = f'{{"code":-32042,"data":{data}}}'.encode()
    assert upwards.failure(error, FILES) is error


@pytest.mark.parametrize("odd", [5, None, "a", [], {"message": 5}, {"message": "b", "elicitationId": 5}])
def test_what_is_odd_beside_an_elicitation_does_not_hide_whose_that_is(odd: object) -> None:
    error = required({"message": "a", "elicitationId": "e1"}, odd)
    named = read(upwards.failure(error, FILES))["data"]["elicitations"][0]
    assert named == {"message": "[dev/files] a", "elicitationId": "dev/files/e1"}


# Logs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "logger"),
    [
        ({"logger": "db"}, "dev/files/db"),
        ({"logger": "a/b"}, "dev/files/a/b"),
        ({"logger": "é\ud800"}, "dev/files/é\ud800"),
        ({"logger": ""}, "dev/files"),
        ({"logger": None}, "dev/files"),
        ({}, "dev/files"),
    ],
)
def test_the_logger_of_a_message_says_whose_it_is(told: Any, logger: str) -> None:
    message = {"level": "info", **told, "data": {"logger": "mine"}}
    assert read(upwards.log_message(dumped(message), FILES)) == {**message, "logger": logger}


@unhurried
@given(values(surrogates=True), values(surrogates=True))
def test_all_else_in_a_log_message_passes_as_it_came(data: str, other: str) -> None:
    def message(logger: str) -> bytes:
        return f'{{"data":{data},"logger":{logger},"level":"info","_meta":{other}}}'.encode()

    assert bytes(upwards.log_message(message('"db"'), FILES)) == message('"dev/files/db"')


@pytest.mark.parametrize("params", [b"[]", b"null", b'"text"', b'{"logger":5}', b'{"logger":["a"]}', b"{"])
def test_a_log_message_of_the_wrong_shape_is_refused(params: bytes) -> None:
    with pytest.raises(Malformed):
        upwards.log_message(params, FILES)


GRAVER_AND_GRAVER = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


@pytest.mark.parametrize("wanted", GRAVER_AND_GRAVER)
def test_a_client_is_told_of_its_level_and_of_graver_ones(wanted: str) -> None:
    told = [level for level in GRAVER_AND_GRAVER if upwards.is_as_grave_as(wanted, dumped({"level": level}))]
    assert told == GRAVER_AND_GRAVER[GRAVER_AND_GRAVER.index(wanted) :]


@pytest.mark.parametrize(
    "params", [{"level": "fatal"}, {"level": "ERROR"}, {"level": ""}, {"level": None}, {}]
)
def test_a_message_of_a_level_that_nobody_knows_is_told(params: object) -> None:
    assert upwards.is_as_grave_as("emergency", dumped(params))


@pytest.mark.parametrize("params", [b"[]", b"null", b'{"level":5}', b'{"level":["info"]}', b"{"])
def test_a_level_of_the_wrong_shape_is_refused(params: bytes) -> None:
    with pytest.raises(Malformed):
        upwards.is_as_grave_as("debug", params)


# Sampling and roots -------------------------------------------------------------------------------


def test_the_uris_in_what_is_to_be_sampled_are_those_that_the_client_knows() -> None:
    link = '{"type":"resource_link","uri":"%s","name":"a"}'
    result = f'{{"type":"tool_result","toolUseId":"t","content":[{link}]}}'
    request = (
        f'{{"messages":[{{"role":"user","content":{link}}},{{"role":"user","content":[{result}]}}],'
        '"systemPrompt":"{\\"uri\\":\\"a:1\\"}","maxTokens":1E400,"_meta":{"uri":"a:1"}}'
    )
    before, after = request.replace("%s", "a:1"), request.replace("%s", "seen:a:1")
    assert asked("sampling/createMessage", before.encode()) == after.encode()


@unhurried
@given(values(surrogates=True))
def test_a_sampling_of_any_shape_without_uris_passes_the_very_same(params: str) -> None:
    before = params.encode()
    assert upwards.question("sampling/createMessage", before, FILES, lambda uri: uri) is before


@unhurried
@given(values(surrogates=True))
def test_a_question_for_roots_passes_the_very_same(params: str) -> None:
    before = params.encode()
    assert upwards.question("roots/list", before, FILES, shown) is before
