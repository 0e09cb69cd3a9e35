"""Tier 1: the handshakes, on both sides."""

import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench import __version__, eras, raw_json
from mcp_workbench.eras import Declared, Greeting
from mcp_workbench.raw_json import Malformed


def greeted(
    params: object, chain: str = "ours", *, tools_change: bool = False
) -> tuple[dict[str, Any], Declared | None]:
    """The result or the error that a client's `initialize` is answered with, and what it declared."""
    greeting = Greeting("read me", tools_change)
    answer, declared = eras.greeted(json.dumps(params).encode(), greeting, chain)
    found = json.loads(bytes(answer.body))
    assert isinstance(found, dict)
    assert answer.failed is ("code" in found) is (declared is None)
    return found, declared


def answered(params: object, chain: str = "ours") -> dict[str, Any]:
    return greeted(params, chain)[0]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_client_of_a_known_revision_is_answered_in_it(revision: str) -> None:
    assert answered({"protocolVersion": revision})["protocolVersion"] == revision


@pytest.mark.parametrize("params", [{"protocolVersion": "1999-01-01"}, {"protocolVersion": ""}, {}])
def test_a_client_of_another_revision_is_offered_the_latest(params: object) -> None:
    assert answered(params)["protocolVersion"] == "2025-11-25"


def test_the_answer_says_who_we_are_what_we_can_and_what_there_is() -> None:
    found = answered({"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "new": [1]})
    assert found["serverInfo"]["name"] == "mcp-workbench"
    assert found["serverInfo"]["version"] == __version__
    assert found["capabilities"] == {
        "tools": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "logging": {},
    }
    assert found["instructions"] == "read me"


def test_a_list_of_tools_that_changes_is_declared_as_such() -> None:
    found, _ = greeted({"protocolVersion": "2025-06-18"}, tools_change=True)
    assert found["capabilities"]["tools"] == {"listChanged": True}


def test_what_a_client_declares_is_kept_with_its_revision_and_the_chain() -> None:
    capabilities = {"sampling": {"tools": {}}, "x": [1]}
    _, declared = greeted({"protocolVersion": "2025-03-26", "capabilities": capabilities})
    assert declared
    assert (declared.chain, declared.revision) == ("ours", "2025-03-26")
    assert {name: json.loads(bytes(value)) for name, value in declared.capabilities.items()} == capabilities


@pytest.mark.parametrize("params", [{"protocolVersion": 7}, [], None, {"_meta": 3}])
def test_an_initialize_of_the_wrong_shape_is_refused_with_the_reason(params: object) -> None:
    found = answered(params)
    assert found["code"] == raw_json.INVALID_PARAMS
    assert found["message"].startswith("Invalid initialize: ")


def test_a_client_that_came_through_this_workbench_is_refused() -> None:
    found = answered({"_meta": {"mcp-workbench/chain": "outer,ours,inner"}}, chain="first,ours")
    assert found["code"] == raw_json.INVALID_REQUEST
    assert "listed in itself" in found["message"]


def test_a_client_that_came_through_other_workbenches_is_welcome() -> None:
    assert "protocolVersion" in answered({"_meta": {"mcp-workbench/chain": "outer,ourselves"}})
    assert "protocolVersion" in answered({"_meta": {"other": 1}})


def test_a_chain_of_the_wrong_type_is_refused_with_its_name() -> None:
    found = answered({"_meta": {"mcp-workbench/chain": ["a"]}})
    assert found["code"] == raw_json.INVALID_PARAMS
    assert "mcp-workbench/chain" in found["message"]


def test_a_server_is_greeted_with_what_its_client_can_and_the_workbench_relays() -> None:
    lent = {"roots": Raw(b'{"listChanged":true}'), "elicitation": Raw(b'{"form":{},"url":{},"new":1}')}
    client = Declared("outer,ours", "2025-06-18", {**lent, "tasks": Raw(b"{}"), "experimental": Raw(b"{}")})
    assert json.loads(eras.initialize_params(client)) == {
        "protocolVersion": "2025-06-18",
        "capabilities": {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}, "new": 1}},
        "clientInfo": {"name": "mcp-workbench", "version": __version__},
        "_meta": {"mcp-workbench/chain": "outer,ours"},
    }


def test_a_server_is_greeted_in_the_latest_revision_where_its_client_said_none() -> None:
    greeting = json.loads(eras.initialize_params(Declared("ours")))
    assert greeting["protocolVersion"] == "2025-11-25"
    assert greeting["capabilities"] == {}


@pytest.mark.parametrize("revision", eras.REVISIONS)
def test_what_a_server_says_of_itself_is_read(revision: str) -> None:
    told = {
        "protocolVersion": revision,
        "capabilities": {"tools": {"listChanged": True}, "prompts": {}},
        "serverInfo": {},
        "x": 1,
    }
    hello = eras.read_hello(json.dumps(told).encode())
    assert hello.protocolVersion == revision
    assert list(hello.capabilities) == ["tools", "prompts"]
    assert bytes(hello.instructions) == b"null"


def test_a_greeting_with_a_lone_surrogate_in_it_is_understood() -> None:
    hello = b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"instructions":"\\ud800"}'
    assert bytes(eras.read_hello(hello).instructions) == b'"\\ud800"'


def test_a_server_need_not_have_capabilities() -> None:
    assert not eras.read_hello(b'{"protocolVersion":"2024-11-05"}').capabilities


def test_a_server_of_an_unknown_revision_is_refused_by_name() -> None:
    with pytest.raises(Malformed, match=r"'2031-01-01'; known here are 2024-11-05, .*2025-11-25"):
        eras.read_hello(b'{"protocolVersion":"2031-01-01","capabilities":{}}')


@pytest.mark.parametrize("hello", [b"[]", b"null", b"{}", b'{"protocolVersion":1}', b'{"capabilities":[]}'])
def test_a_greeting_of_the_wrong_shape_is_malformed(hello: bytes) -> None:
    with pytest.raises(Malformed):
        eras.read_hello(hello)
