"""The configuration: what it means, and what a person is told when it is wrong."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config import Config, Server, parse, schema, server_place, warnings_of_mode
from mcp_workbench.config_file import ConfigFile, RestartEntry, ServerEntry, ToolboxEntry
from mcp_workbench.errors import ConfigError, Problem, inside
from mcp_workbench.lifecycle import RestartPolicy

FS = "toolboxes.dev.mcpServers.fs"


def read(value: Any) -> Config:
    return parse(json.dumps(value).encode())


def with_server(entry: Any) -> dict[str, Any]:
    return {"toolboxes": {"dev": {"mcpServers": {"fs": entry}}}}


def server(**keys: Any) -> Server:
    return read(with_server({"command": "npx", **keys})).toolboxes["dev"].servers["fs"]


def refusal(data: bytes) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(data)
    return caught.value


def problems(value: Any) -> dict[str, str]:
    """What is wrong with `value`: message and hint, by place."""
    found = refusal(json.dumps(value).encode()).problems
    assert len({problem.place for problem in found}) == len(found), "each place is named once"
    return {problem.place: f"{problem.message} — {problem.hint}" for problem in found}


def warnings(value: Any) -> dict[str, str]:
    return {problem.place: f"{problem.message} — {problem.hint}" for problem in read(value).warnings}


# What a right file means


def test_the_example_of_the_documentation_is_understood() -> None:
    config = read(
        {
            "toolMode": "proxy",
            "toolboxes": {
                "dev": {
                    "description": "Development environment tools",
                    "mcpServers": {
                        "filesystem": {
                            "command": "npx",
                            "args": ["-y", "@modelcontextprotocol/server-filesystem", "${PROJECT}/data"],
                            "env": {"LOG_LEVEL": "${LOG_LEVEL:-info}"},
                            "toolFilters": ["read_*", "!read_secret"],
                            "transport": "stdio",
                        }
                    },
                }
            },
        }
    )
    assert config.warnings == ()
    assert config.tool_mode == "proxy"
    assert config.toolboxes["dev"].description == "Development environment tools"
    filesystem = config.toolboxes["dev"].servers["filesystem"]
    assert (filesystem.name, filesystem.command, filesystem.transport) == ("filesystem", "npx", "stdio")
    assert filesystem.args[2] == "${PROJECT}/data", "variables wait for the start of the server"
    assert filesystem.admits("read_file")
    assert not filesystem.admits("read_secret")


def test_everything_but_the_toolboxes_has_a_default() -> None:
    assert read({"toolboxes": {}}) == Config(
        tool_mode="proxy",
        meta_tool_prefix="",
        open_on_use=True,
        restart=RestartPolicy(crashes=5, within=180.0),
        toolboxes={},
        warnings=(),
    )


def test_the_settings_of_the_root_are_read() -> None:
    config = read(
        {
            "$schema": "./schema.json",
            "metaToolPrefix": "workbench_",
            "openOnUse": False,
            "restart": {"crashes": 2, "within": 0.5},
            "toolboxes": {},
        }
    )
    assert config == Config(
        meta_tool_prefix="workbench_", open_on_use=False, restart=RestartPolicy(2, 0.5), toolboxes={}
    )


def test_a_restart_limit_that_is_not_given_keeps_its_default() -> None:
    assert read({"toolboxes": {}, "restart": {"within": 60}}).restart == RestartPolicy(5, 60.0)


def test_a_description_may_be_missing() -> None:
    assert read(with_server({"command": "x"})).toolboxes["dev"].description is None


def test_toolboxes_and_servers_keep_the_order_of_the_file() -> None:
    names = ["zeta", "alpha", "mid", "10", "9"]
    servers = {name: {"command": "x"} for name in names}
    config = read({"toolboxes": {name: {"mcpServers": servers} for name in names}})
    assert list(config.toolboxes) == names
    assert all(list(toolbox.servers) == names for toolbox in config.toolboxes.values())


def test_a_server_keeps_what_its_entry_says() -> None:
    assert server(args=["a", ""], env={"A": "b", "E": ""}, cwd="/srv", envFile=".env") == Server(
        name="fs",
        transport="stdio",
        command="npx",
        args=("a", ""),
        env={"A": "b", "E": ""},
        cwd="/srv",
        env_file=".env",
    )


@pytest.mark.parametrize(
    "off", [{"disabled": True}, {"enabled": False}, {"enabled": False, "disabled": True}]
)
def test_a_disabled_server_is_left_out(off: dict[str, bool]) -> None:
    servers = {"on": {"command": "x"}, "off": {"command": "x", **off}}
    assert list(read({"toolboxes": {"dev": {"mcpServers": servers}}}).toolboxes["dev"].servers) == ["on"]


@pytest.mark.parametrize("on", [{"disabled": False}, {"enabled": True}, {"enabled": True, "disabled": False}])
def test_a_server_that_is_not_disabled_stays(on: dict[str, bool]) -> None:
    assert server(**on).name == "fs"


def test_a_toolbox_whose_servers_are_all_disabled_is_valid() -> None:
    config = read(with_server({"command": "x", "disabled": True}))
    assert config.toolboxes["dev"].servers == {}


def test_the_repr_of_a_server_shows_none_of_its_values() -> None:
    assert "s3cret" not in repr(server(args=["s3cret"], env={"TOKEN": "s3cret"}, headers={"A": "s3cret"}))


# Entries of other clients


@pytest.mark.parametrize(
    ("keys", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"command": "x", "type": "stdio"}, "stdio"),
        ({"command": "x", "transport": "stdio", "type": "stdio"}, "stdio"),
        ({"url": "u"}, "http"),
        ({"serverUrl": "u"}, "http"),
        ({"httpUrl": "u"}, "http"),
        ({"url": "u", "type": "http"}, "http"),
        ({"url": "u", "type": "streamable-http"}, "http"),
        ({"url": "u", "transport": "streamableHttp"}, "http"),
        ({"url": "u", "type": "http", "transport": "streamable-http"}, "http"),
        ({"url": "u", "type": "sse"}, "sse"),
    ],
)
def test_the_transport_is_what_the_entry_says_or_what_it_has(keys: dict[str, str], transport: str) -> None:
    only = read(with_server(keys)).toolboxes["dev"].servers["fs"]
    assert only.transport == transport
    assert only.url == (None if transport == "stdio" else "u")


@pytest.mark.parametrize("key", ["headers", "http_headers"])
def test_headers_have_two_names(key: str) -> None:
    config = read(with_server({"url": "u", key: {"Authorization": "Bearer ${T}"}}))
    assert config.toolboxes["dev"].servers["fs"].headers == {"Authorization": "Bearer ${T}"}


@pytest.mark.parametrize(
    ("keys", "start", "call"),
    [
        ({}, None, None),
        ({"timeout": 1500}, None, 1.5),
        ({"startup_timeout_sec": 20}, 20, None),
        ({"tool_timeout_sec": 0.25}, None, 0.25),
        ({"timeout": 1500, "startup_timeout_sec": 20}, 20, 1.5),
        ({"timeout": 1500, "tool_timeout_sec": 30}, None, 30),
        ({"timeout": 1500, "startup_timeout_sec": 20, "tool_timeout_sec": 30}, 20, 30),
    ],
)
def test_a_specific_timeout_wins_over_the_general_one(
    keys: dict[str, float], start: float | None, call: float | None
) -> None:
    assert (server(**keys).start_timeout, server(**keys).call_timeout) == (start, call)
    assert server(**keys).request_timeout == (1.5 if "timeout" in keys else None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"type": "stdio"}, {"transport": "sse"}),
        ({"url": "a"}, {"serverUrl": "b"}),
        ({"url": "a"}, {"httpUrl": "b"}),
        ({"headers": {"A": "a"}}, {"http_headers": {"A": "b"}}),
        ({"enabled": True}, {"disabled": True}),
        ({"enabled": False}, {"disabled": False}),
        ({"includeTools": ["a"]}, {"enabled_tools": []}),
        ({"excludeTools": ["a"]}, {"disabledTools": ["b"]}),
        ({"disabledTools": ["a"]}, {"disabled_tools": ["b"]}),
    ],
)
def test_two_names_of_one_thing_must_agree(one: dict[str, Any], other: dict[str, Any]) -> None:
    (kept,), (doubted,) = one, other
    entry = (
        {"command": "x", "type": "stdio", **one, **other}
        if "url" in one
        else {"command": "x", **one, **other}
    )
    (told,) = problems(with_server(entry)).items()
    assert told[0] == f"{FS}.{doubted}"
    assert f"'{kept}'" in told[1]


def test_two_names_of_one_thing_may_say_the_same() -> None:
    assert server(excludeTools=["a"], disabled_tools=["a"]).admits("b")


# Filters


@pytest.mark.parametrize(
    ("keys", "admitted"),
    [
        ({}, "read_file read_secret write"),
        ({"toolFilters": ["*"]}, "read_file read_secret write"),
        ({"toolFilters": []}, ""),
        ({"toolFilters": ["write"]}, "write"),
        ({"toolFilters": ["read_*"]}, "read_file read_secret"),
        ({"toolFilters": ["READ_*", "Write"]}, ""),
        ({"toolFilters": ["read_*", "!read_secret"]}, "read_file"),
        ({"toolFilters": ["!read_secret", "read_*"]}, "read_file"),
        ({"toolFilters": ["!*secret"]}, "read_file write"),
        ({"toolFilters": ["!*"]}, ""),
        ({"toolFilters": ["*", "!write"]}, "read_file read_secret"),
        ({"toolFilters": ["nothing"]}, ""),
        ({"includeTools": ["write"]}, "write"),
        ({"enabled_tools": ["read_*"]}, "read_file read_secret"),
        ({"includeTools": []}, ""),
        ({"excludeTools": ["write"]}, "read_file read_secret"),
        ({"disabledTools": ["write"]}, "read_file read_secret"),
        ({"disabled_tools": ["*"]}, ""),
        ({"excludeTools": []}, "read_file read_secret write"),
        ({"includeTools": ["write", "read_file"], "excludeTools": ["write"]}, "read_file"),
        ({"toolFilters": ["read_*"], "includeTools": ["write", "read_file"]}, "read_file"),
        ({"toolFilters": ["!write"], "excludeTools": ["read_file"]}, "read_secret"),
    ],
)
def test_filters_admit(keys: dict[str, Any], admitted: str) -> None:
    filtered = server(**keys)
    names = ["read_file", "read_secret", "write"]
    assert [name for name in names if filtered.admits(name)] == admitted.split()


tool_names = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8
)


@given(tool_names)
def test_a_tool_is_admitted_by_its_own_name_whatever_that_is(name: str) -> None:
    assert server(includeTools=[name]).admits(name)
    assert not server(excludeTools=[name]).admits(name)


@given(st.lists(tool_names), tool_names)
def test_an_exclusion_wins_wherever_it_stands(patterns: list[str], name: str) -> None:
    for filters in (["!" + name, *patterns], [*patterns, "!" + name]):
        assert not server(toolFilters=filters).admits(name)


# What a wrong file is told


def test_a_problem_reads_as_place_message_and_hint() -> None:
    told = str(refusal(json.dumps(with_server({"command": "x", "args": ["a", 1]})).encode()))
    assert told == f'{FS}.args[1]: expected a string, got a number — write "1"'


def test_a_problem_without_place_or_hint_reads_well_too() -> None:
    assert str(Problem("", "too deep")) == "too deep"


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("dev", "a.dev"),
        ("my-box_2", "a.my-box_2"),
        ("$schema", "a.$schema"),
        ("größe", "a.größe"),
        ("my box", 'a["my box"]'),
        ("a.b", 'a["a.b"]'),
        ('"', 'a["\\""]'),
        ("\x1b[31m", 'a["\\u001b[31m"]'),
        ("", 'a[""]'),
        (3, "a[3]"),
    ],
)
def test_a_place_quotes_what_is_not_a_plain_word(key: str | int, place: str) -> None:
    assert inside("a", key) == place


def test_the_place_of_a_server_is_where_its_entry_stands() -> None:
    assert server_place("my box", "fs") == 'toolboxes["my box"].mcpServers.fs'


def test_all_problems_are_told_at_once() -> None:
    wrong = {
        "toolMode": "magic",
        "openOnUse": "yes",
        "toolboxes": {
            "dev": {
                "mcpServers": {
                    "fs": {"command": "x", "args": [1, "b", None], "env": {"PORT": [8080], "OK": "1"}},
                    "neither": {},
                    "both": {"command": "x", "url": "u", "timeout": -1},
                    "a__b": {"command": ""},
                }
            },
            "empty": {"mcpServers": {}},
            "none": {},
            "": {"mcpServers": {"x": {"type": "carrier-pigeon"}}},
            "nothing": None,
        },
    }
    assert sorted(problems(wrong)) == sorted(
        [
            "toolMode",
            "openOnUse",
            f"{FS}.args[0]",
            f"{FS}.args[2]",
            f"{FS}.env.PORT",
            "toolboxes.dev.mcpServers.neither",
            "toolboxes.dev.mcpServers.both",
            "toolboxes.dev.mcpServers.both.timeout",
            "toolboxes.dev.mcpServers.a__b",
            "toolboxes.dev.mcpServers.a__b.command",
            "toolboxes.empty.mcpServers",
            "toolboxes.none.mcpServers",
            'toolboxes[""]',
            'toolboxes[""].mcpServers.x',
            'toolboxes[""].mcpServers.x.type',
            "toolboxes.nothing",
        ]
    )


@pytest.mark.parametrize(
    ("keys", "place", "told"),
    [
        ({"args": "-y"}, "args", 'expected a list, got a string — write ["one", "two"]'),
        ({"args": {"a": 1}}, "args", 'expected a list, got an object — write ["one", "two"]'),
        ({"args": [True]}, "args[0]", 'expected a string, got true — write "true"'),
        ({"args": [["a"]]}, "args[0]", 'expected a string, got a list — write "text"'),
        ({"env": {"A": [1]}}, "env.A", "expected a text, a number or null, got [1] — write it in quotes"),
        ({"env": {"A": False}}, "env.A", "expected a text, a number or null, got false — write it in quotes"),
        ({"env": ["A=b"]}, "env", 'expected an object, got a list — write {"name": …}'),
        ({"timeout": "30"}, "timeout", "expected a number, got a string — write 30, without quotes"),
        ({"timeout": "soon"}, "timeout", "expected a number, got a string — write 30"),
        ({"timeout": True}, "timeout", "expected a number, got true — write 30"),
        (
            {"disabled": "true"},
            "disabled",
            "expected true or false, got a string — write true, without quotes",
        ),
        ({"disabled": 1}, "disabled", "expected true or false, got a number — write true or false"),
        ({"command": 5}, "command", 'expected a string, got a number — write "5"'),
        ({"cwd": None}, "cwd", "expected a string, got null — remove it"),
        ({"toolFilters": "a"}, "toolFilters", 'expected a list, got a string — write ["one", "two"]'),
    ],
)
def test_a_value_of_the_wrong_type_is_told_what_to_be(keys: dict[str, Any], place: str, told: str) -> None:
    assert problems(with_server({"command": "x", **keys})) == {f"{FS}.{place}": told}


@pytest.mark.parametrize(
    ("keys", "place", "fragment"),
    [
        ({"command": ""}, "command", "not empty"),
        ({"command": " "}, "command", "not empty"),
        ({"cwd": ""}, "cwd", "not empty"),
        ({"type": "pigeon"}, "type", '"streamable-http", "streamableHttp", "sse", got "pigeon"'),
        ({"type": 5}, "type", "got 5"),
        ({"timeout": 0}, "timeout", "greater than 0, got 0"),
        ({"timeout": -1}, "timeout", "greater than 0, got -1"),
        ({"startup_timeout_sec": 0}, "startup_timeout_sec", "greater than 0"),
        ({"tool_timeout_sec": -0.5}, "tool_timeout_sec", "greater than 0"),
        ({"env": {"": "a"}}, 'env[""]', "name of a variable"),
        ({"env": {"A=B": "a"}}, 'env["A=B"]', "name of a variable"),
        ({"env": {"A\0": "a"}}, 'env["A\\u0000"]', "name of a variable"),
        ({"command": "a\0b"}, "command", "NUL"),
        ({"args": ["a", "\0"]}, "args[1]", "NUL"),
        ({"cwd": "/\0"}, "cwd", "NUL"),
        ({"env": {"A": "\0"}}, "env.A", "NUL"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(keys: dict[str, Any], place: str, fragment: str) -> None:
    (told,) = problems(with_server({"command": "x", **keys})).items()
    assert told[0] == f"{FS}.{place}"
    assert fragment in told[1]


@pytest.mark.parametrize(
    ("entry", "place", "fragment"),
    [
        ({}, FS, "neither a command nor a url"),
        ({"args": ["a"]}, FS, "neither a command nor a url"),
        ({"command": "x", "url": "u"}, FS, "both a command and a url"),
        ({"command": "x", "httpUrl": "u"}, FS, "both a command and a url"),
        ({"type": "stdio"}, f"{FS}.command", "missing"),
        ({"type": "stdio", "url": "u"}, f"{FS}.command", "missing"),
        ({"type": "http"}, f"{FS}.url", "missing"),
        ({"type": "sse", "command": "x"}, f"{FS}.url", "missing"),
        ("npx", FS, "expected an object, got a string"),
    ],
)
def test_a_server_needs_a_way_to_be_reached(entry: Any, place: str, fragment: str) -> None:
    (told,) = problems(with_server(entry)).items()
    assert told[0] == place
    assert fragment in told[1]


def test_a_misspelt_type_is_one_problem_and_not_two() -> None:
    entry = {"command": "x", "url": "u", "type": "htp"}
    assert list(problems(with_server(entry))) == [f"{FS}.type"]


@pytest.mark.parametrize("name", ["", "a__b", "__", "a\n", "\n", "a\x1bb", "\x00", "\x7f", "\x9b"])
def test_a_name_is_not_empty_and_has_no_double_underscore_or_control_character(name: str) -> None:
    toolbox = {"mcpServers": {"fs": {"command": "x"}}}
    assert list(problems({"toolboxes": {name: toolbox}})) == [inside("toolboxes", name)]
    assert list(problems({"toolboxes": {"dev": {"mcpServers": {name: {"command": "x"}}}}})) == [
        server_place("dev", name)
    ]


@pytest.mark.parametrize("name", ["a", "a_b", "_", "my box", "größe", "a.b/c", "💥", "a_", "with-dash"])
def test_any_other_name_will_do(name: str) -> None:
    config = read({"toolboxes": {name: {"mcpServers": {name: {"command": "x"}}}}})
    assert list(config.toolboxes[name].servers) == [name]


@pytest.mark.parametrize(
    ("root", "place", "fragment"),
    [
        ({"toolMode": "other"}, "toolMode", 'expected one of "proxy", "dynamic", got "other"'),
        ({"toolMode": 5}, "toolMode", 'expected one of "proxy", "dynamic", got 5'),
        ({"readOnlyTools": 1}, "readOnlyTools", "true or false"),
        ({"metaToolPrefix": "a b"}, "metaToolPrefix", 'got "a b"'),
        ({"metaToolPrefix": "a\n"}, "metaToolPrefix", "characters"),
        ({"metaToolPrefix": "x" * 33}, "metaToolPrefix", "at most 32"),
        ({"openOnUse": 1}, "openOnUse", "true or false"),
        ({"restart": {"crashes": 0}}, "restart.crashes", "at least 1"),
        ({"restart": {"crashes": 1.5}}, "restart.crashes", "whole number"),
        ({"restart": {"within": 0}}, "restart.within", "greater than 0"),
        ({"restart": 5}, "restart", "expected an object"),
        ({"toolboxes": []}, "toolboxes", "expected an object, got a list"),
        ({"toolboxes": {"dev": {}}}, "toolboxes.dev.mcpServers", 'is missing — add "mcpServers"'),
        ({"toolboxes": {"dev": {"servers": {}}}}, "toolboxes.dev.mcpServers", 'rename "servers"'),
        ({"toolboxes": {"dev": {"mcpServers": {}}}}, "toolboxes.dev.mcpServers", "at least one server"),
    ],
)
def test_the_root_and_its_toolboxes_are_checked(root: dict[str, Any], place: str, fragment: str) -> None:
    (told,) = problems({"toolboxes": {}, **root}).items()
    assert told[0] == place
    assert fragment in told[1]


def test_a_prefix_may_be_32_long() -> None:
    assert len(read({"toolboxes": {}, "metaToolPrefix": "a-Z_0" + "x" * 27}).meta_tool_prefix) == 32


def test_a_file_without_toolboxes_is_told_to_add_them() -> None:
    assert problems({}) == {"toolboxes": 'is missing — add "toolboxes": {…}'}


@pytest.mark.parametrize("key", ["mcpServers", "servers", "mcp_servers", "context_servers"])
def test_the_file_of_another_client_is_told_how_to_wrap_its_servers(key: str) -> None:
    hint = problems({key: {"fs": {"command": "x"}}})["toolboxes"]
    assert f'"{key}"' in hint
    assert '{"toolboxes": {"main": {"mcpServers": {…}}}}' in hint


@pytest.mark.parametrize(
    ("text", "noun"), [("[]", "a list"), ("1", "a number"), ("null", "null"), ('"a"', "a string")]
)
def test_a_file_that_is_no_object_is_refused(text: str, noun: str) -> None:
    (problem,) = refusal(text.encode()).problems
    assert problem.message == f"expected an object, got {noun}"


# Text that is no JSON


@pytest.mark.parametrize(
    ("text", "place", "fragment"),
    [
        ('{"a": 1,\n}', "line 1, column 8", "remove the comma"),
        ('{\n  "a": [1,\n  2, ]\n}', "line 3, column 4", "remove the comma"),
        ('{\n  // mine\n  "a": 1}', "line 2, column 3", "JSON has no comments"),
        ('{"a": /* b */ 1}', "line 1, column 7", "JSON has no comments"),
        ('# mine\n{"a": 1}', "line 1, column 1", "JSON has no comments"),
        ('{"a": 1} // end', "line 1, column 10", "JSON has no comments"),
        ("{'a': 1}", "line 1, column 2", "double quotes"),
        ("{\"a\": 'b'}", "line 1, column 7", "double quotes"),
        ("{a: 1}", "line 1, column 2", "a key without quotes"),
        ('{"a": True}', "line 1, column 7", "true, false or null"),
        ('{"a": undefined}', "line 1, column 7", "write a value"),
        ('{"a": http://x}', "line 1, column 7", "write a value"),
        ('{"a": 1\n "b": 2}', "line 2, column 2", "put a comma"),
        ('{"a" 1}', "line 1, column 6", 'write "key": value'),
        ('{"a": "b\nc"}', "line 1, column 9", "close the string"),
        ('{"a": "b}', "line 1, column 7", "close the string"),
        ('{"a": "C:\\qemu"}', "line 1, column 10", "one backslash"),
        ('{"a": 1', "line 1, column 8", "ends too early"),
        ('{"a": [', "line 1, column 8", "ends too early"),
        ("{} {}", "line 1, column 4", "remove what follows"),
    ],
)
def test_bad_json_is_reported_with_line_column_and_remedy(text: str, place: str, fragment: str) -> None:
    (problem,) = refusal(text.encode()).problems
    assert problem.place == place
    assert fragment in str(problem)


def test_a_trailing_comma_is_reported_with_its_line_and_column() -> None:
    (problem,) = refusal(b'{"toolboxes": {\n  "dev": {},\n}}').problems
    assert str(problem) == "line 2, column 12: a comma after the last entry — remove the comma"


@pytest.mark.parametrize("data", [b"", b"  \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_told_what_is_least(data: bytes) -> None:
    assert str(refusal(data)) == 'the file is empty — write {"toolboxes": {}}'


def test_a_byte_order_mark_is_tolerated() -> None:
    assert parse(b'\xef\xbb\xbf{"toolboxes": {}}').toolboxes == {}


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{\n"a": "\xc3\xa9\xff"}', "line 2, column 8"),
        (b"\xef\xbb\xbf\xff", "line 1, column 1"),
        ('{"a": 1}'.encode("utf-16"), "line 1, column 1"),
    ],
)
def test_what_is_not_utf_8_is_reported_where_it_begins(data: bytes, place: str) -> None:
    assert str(refusal(data)) == f"{place}: not UTF-8 — save the file as UTF-8"


@pytest.mark.parametrize(
    ("number", "what"),
    [
        ("NaN", "not a finite number"),
        ("Infinity", "not a finite number"),
        ("-Infinity", "not a finite number"),
        ("1e999", "a number that is too large"),
        ("-1e999", "a number that is too large"),
        ("9" * 10_000, "a number that is too large"),
    ],
)
def test_a_number_of_no_use_is_refused_where_it_stands(number: str, what: str) -> None:
    text = json.dumps(with_server({"command": "x", "timeout": "@"})).replace('"@"', number)
    (problem,) = refusal(text.encode()).problems
    assert (problem.place, problem.message) == (f"{FS}.timeout", what)


@pytest.mark.parametrize(
    ("value", "place", "told"),
    [
        (None, "", 'expected an object, got null — write {"toolboxes": {…}}'),
        ([], "", 'expected an object, got a list — write {"toolboxes": {…}}'),
        ({"toolboxes": None}, "toolboxes", 'expected an object, got null — write {"name": …}'),
        (
            {"toolboxes": {"dev": {"mcpServers": None}}},
            "toolboxes.dev.mcpServers",
            'expected an object, got null — write {"name": …}',
        ),
        ({"toolboxes": {}, "restart": None}, "restart", "expected an object, got null — remove it"),
    ],
)
def test_what_has_to_be_there_is_not_told_to_be_removed(value: Any, place: str, told: str) -> None:
    assert problems(value)[place] == told


@pytest.mark.parametrize("crashes", [2, 2.0])
def test_a_whole_number_may_be_written_with_a_fraction_of_zero(crashes: float) -> None:
    restart = read({"toolboxes": {}, "restart": {"crashes": crashes}}).restart
    assert restart == RestartPolicy(crashes=2)
    assert isinstance(restart.crashes, int)


@pytest.mark.parametrize("crashes", [0, 0.5, 2.5, -1])
def test_what_is_no_whole_number_of_crashes_is_refused(crashes: float) -> None:
    told = problems({"toolboxes": {}, "restart": {"crashes": crashes}})["restart.crashes"]
    assert told.startswith("expected a whole number of at least 1, got ")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_deep_nesting_is_a_problem_and_no_traceback(text: str) -> None:
    assert "nested" in str(refusal(text.encode()))


@pytest.mark.parametrize("depth", [100, 900])
def test_bearable_nesting_under_an_unknown_key_is_only_a_warning(depth: int) -> None:
    assert parse(b'{"toolboxes": {}, "x": ' + b"[" * depth + b"]" * depth + b"}").warnings[0].place == "x"


def test_a_key_that_is_written_twice_is_a_problem_at_its_place() -> None:
    servers = '{"fs": {"command": "a"}, "fs": {"command": "b", "command": "c"}}'
    found = refusal(('{"toolboxes": {"dev": {"mcpServers": ' + servers + "}}}").encode()).problems
    assert [problem.place for problem in found] == [FS, f"{FS}.command"]
    assert all("both count as one" in str(problem) for problem in found)


def test_a_doubled_key_does_not_hide_the_other_problems() -> None:
    found = refusal(b'{"toolboxes": {}, "toolboxes": {}, "openOnUse": 1}').problems
    assert [problem.place for problem in found] == ["toolboxes", "openOnUse"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"toolboxes": {}, "\\ud800": 1}', ""),
        ('{"toolboxes": {"\\udfff": {}}}', "toolboxes"),
        ('{"toolboxes": {"dev": {"description": "\\ud800"}}}', "toolboxes.dev.description"),
    ],
)
def test_half_a_surrogate_pair_is_a_problem_and_no_traceback(text: str, place: str) -> None:
    (problem,) = refusal(text.encode()).problems
    assert (problem.place, "surrogate" in problem.message) == (place, True)


# Warnings: what is not understood is named, never passed over


@pytest.mark.parametrize(
    ("value", "place", "hint"),
    [
        ({"toolboxes": {}, "tool_mode": "proxy"}, "tool_mode", "did you mean 'toolMode'?"),
        ({"toolboxes": {}, "inputs": []}, "inputs", "unknown key 'inputs'"),
        ({"toolboxes": {}, "restart": {"crash": 1}}, "restart.crash", "did you mean 'crashes'?"),
        (with_server({"command": "x", "comand": "y"}), f"{FS}.comand", "did you mean 'command'?"),
        (
            with_server({"command": "x", "toolfilters": []}),
            f"{FS}.toolfilters",
            "did you mean 'toolFilters'?",
        ),
        (with_server({"command": "x", "my key": 1}), f'{FS}["my key"]', "unknown key 'my key'"),
        (
            {"toolboxes": {"dev": {"mcpServers": {"fs": {"command": "x"}}, "descripton": ""}}},
            "toolboxes.dev.descripton",
            "did you mean 'description'?",
        ),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(value: Any, place: str, hint: str) -> None:
    (told,) = warnings(value).items()
    assert told[0] == place
    assert hint in told[1]


def test_warnings_are_told_beside_problems() -> None:
    refused = refusal(b'{"toolboxes": [], "colour": 1}')
    assert [problem.place for problem in refused.problems] == ["toolboxes"]
    assert [problem.place for problem in refused.warnings] == ["colour"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("${input:token}", "${input:token}"),
        ("a ${file:/etc/x} b", "${file:/etc/x}"),
        ("${VAR:?unset}", "${VAR:?unset}"),
        ("${}", "${}"),
        ("${1X}", "${1X}"),
        ("${A:-${B}}", "${A:-${B}"),
        ("${A", "${A"),
        ("$VAR", "$VAR"),
        ("Bearer $VAR!", "$VAR"),
    ],
)
def test_a_variable_that_is_not_understood_is_named(text: str, named: str) -> None:
    expected = f"'{named}' is not understood"
    assert expected in warnings(with_server({"command": "x", "env": {"T": text}}))[f"{FS}.env.T"]
    assert expected in warnings(with_server({"command": "x", "args": [text]}))[f"{FS}.args[0]"]


@pytest.mark.parametrize(
    "text", ["${VAR}", "${VAR:-}", "${VAR:-a:b}", "${env:VAR}", "${env:VAR:-x}", "pa$$word", "$(a)", "5$"]
)
def test_a_variable_that_is_understood_is_no_warning(text: str) -> None:
    assert warnings(with_server({"command": "x", "env": {"T": text}})) == {}


def test_what_has_no_effect_is_left_out() -> None:
    local = server(type="stdio", command="x", url="${NOPE}", headers={"A": "${NOPE}"})
    assert (local.command, local.url, local.headers) == ("x", None, {})
    config = read(with_server({"type": "http", "command": "${NOPE}", "args": ["a"], "url": "u", "cwd": "c"}))
    remote = config.toolboxes["dev"].servers["fs"]
    assert (remote.command, remote.args, remote.cwd, remote.url) == (None, (), None, "u")


@pytest.mark.parametrize("shell", ["sh", "/bin/bash", "zsh", "pwsh.exe", "C:\\Windows\\cmd.exe"])
def test_the_variables_of_a_shell_are_its_own(shell: str) -> None:
    assert warnings(with_server({"command": shell, "args": ["-c", "echo $HOME"]})) == {}


def test_a_variable_in_a_name_is_named() -> None:
    (told,) = warnings(with_server({"command": "x", "env": {"${A}": "b"}})).items()
    assert told == (f"{FS}.env", "'${A}' is taken as it is — write the name itself")


def test_numbers_and_null_in_env_are_taken_as_other_clients_take_them() -> None:
    assert server(env={"PORT": 8080, "RATIO": 1.5, "HOME": None}).env == {
        "PORT": "8080",
        "RATIO": "1.5",
        "HOME": None,
    }


def test_variables_in_the_path_of_an_env_file_are_warned_of() -> None:
    assert list(warnings(with_server({"command": "x", "envFile": "${HOME}/.env"}))) == [f"{FS}.envFile"]


@pytest.mark.parametrize("command", ["npx -y foo", "uvx foo", "/usr/bin/node -e 1"])
def test_a_whole_command_line_in_command_is_warned_of(command: str) -> None:
    told = warnings(with_server({"command": command}))[f"{FS}.command"]
    assert f'"command": "{command.split()[0]}"' in told


def test_flags_in_command_are_warned_of_beside_arguments_too() -> None:
    assert (
        "whole command line" in warnings(with_server({"command": "npx -y", "args": ["a"]}))[f"{FS}.command"]
    )


@pytest.mark.parametrize("key", ["command", "cwd"])
def test_a_tilde_is_warned_of(key: str) -> None:
    told = warnings(with_server({"command": "x", key: "~/it"}))[f"{FS}.{key}"]
    assert told == "'~' is not expanded — write ${HOME}/it"


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx"},
        {"command": "my tool", "args": ["a"]},
        {"command": "C:\\Program Files\\nodejs\\npx.cmd"},
        {"command": "/Applications/My App.app/Contents/MacOS/server"},
    ],
)
def test_a_program_with_spaces_in_its_path_is_not_warned_of(entry: dict[str, Any]) -> None:
    assert warnings(with_server(entry)) == {}


@pytest.mark.parametrize(("timeout", "more"), [(30, "30000"), (0.5, "500"), (999, "999000")])
def test_a_timeout_that_seems_to_be_in_seconds_is_warned_of(timeout: float, more: str) -> None:
    told = warnings(with_server({"command": "x", "timeout": timeout}))[f"{FS}.timeout"]
    assert told == (
        f"is in milliseconds, and {timeout:g} are very few — for {timeout:g} seconds write {more}"
    )


def test_a_timeout_of_a_second_is_not_warned_of() -> None:
    assert warnings(with_server({"command": "x", "timeout": 1000})) == {}


@pytest.mark.parametrize("entry", [{"url": "u"}, {"url": "u", "type": "sse"}])
def test_a_remote_server_is_valid(entry: dict[str, Any]) -> None:
    assert warnings(with_server(entry)) == {}


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"command": "x", "url": "u", "type": "stdio"}, "url"),
        ({"command": "x", "url": "u", "type": "http"}, "command"),
        ({"command": "x", "headers": {}}, "headers"),
        ({"url": "u", "args": []}, "args"),
    ],
)
def test_a_key_of_the_other_transport_is_warned_of(entry: dict[str, Any], key: str) -> None:
    assert "has no effect" in warnings(with_server(entry))[f"{FS}.{key}"]


@pytest.mark.parametrize(
    ("mode", "warned"), [(0o100644, False), (0o100664, False), (0o100646, True), (0o100777, True)]
)
def test_a_file_that_everybody_can_write_is_warned_of(mode: int, warned: bool) -> None:
    assert bool(warnings_of_mode(mode, "the file")) == warned


# Whatever comes


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def keys_of(struct: Any) -> st.SearchStrategy[str]:
    return st.sampled_from(struct.__struct_encode_fields__)


server_entries = st.dictionaries(
    keys_of(ServerEntry), json_values | st.just("stdio") | st.just(["a"]) | st.just({"A": "b"}) | st.just(1)
)
toolbox_entries = st.dictionaries(
    keys_of(ToolboxEntry), json_values | st.dictionaries(st.text(max_size=3), server_entries | json_values)
)
near_misses = st.dictionaries(
    keys_of(ConfigFile),
    json_values
    | st.dictionaries(st.text(max_size=3), toolbox_entries | json_values)
    | st.dictionaries(keys_of(RestartEntry), json_values),
)


def tells_or_parses(data: bytes) -> None:
    try:
        parse(data)
    except ConfigError as error:
        told = error.problems
    else:
        return
    assert told
    assert all(problem.message for problem in told)
    assert len(set(told)) == len(told), "nothing is told twice"


@given(near_misses | json_values)
def test_any_json_is_either_understood_or_explained(value: Any) -> None:
    tells_or_parses(json.dumps(value).encode())


@given(st.binary() | st.text().map(str.encode) | st.text('{}[]",:\\/0 ').map(str.encode))
def test_any_bytes_are_either_understood_or_explained(data: bytes) -> None:
    tells_or_parses(data)


@given(st.data())
def test_every_wrong_argument_is_a_problem_of_its_own(data: st.DataObject) -> None:
    args = data.draw(
        st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.integers(), max_size=6)
    )
    wrong = [f"{FS}.args[{at}]" for at, arg in enumerate(args) if isinstance(arg, int)]
    entry = with_server({"command": "x", "args": args})
    if wrong:
        assert list(problems(entry)) == wrong
    else:
        assert read(entry).toolboxes["dev"].servers["fs"].args == tuple(args)


# The schema


def test_the_schema_has_every_key_with_a_description() -> None:
    definitions = schema()["$defs"]
    for struct in (ConfigFile, ToolboxEntry, ServerEntry, RestartEntry):
        properties = definitions[struct.__name__]["properties"]
        assert set(properties) == set(struct.__struct_encode_fields__)
        assert all("description" in properties[key] for key in properties if key != "$schema")


def test_the_schema_says_what_it_is_and_allows_unknown_keys() -> None:
    found = schema()
    assert found["$schema"].startswith("https://json-schema.org/")
    assert found["title"] == "MCP Workbench configuration"
    assert '"additionalProperties": false' not in json.dumps(found)


def allowed_by_the_schema(value: Any) -> bool:
    jsonschema: Any = pytest.importorskip("jsonschema")
    return bool(jsonschema.Draft202012Validator(schema()).is_valid(value))


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"toolboxes": None},
        {"toolboxes": {"dev": {"mcpServers": None}}},
        {"toolboxes": {}, "restart": {"crashes": 2.5}},
        {"toolboxes": {}, "restart": {"crashes": 0}},
        {"toolboxes": {}, "restart": {"crashes": True}},
        with_server({}),
        with_server({"args": ["a"]}),
        with_server({"disabled": True}),
        with_server({"command": None}),
    ],
)
def test_what_the_schema_refuses_is_a_problem(value: Any) -> None:
    assert not allowed_by_the_schema(value)
    assert problems(value)


@pytest.mark.parametrize(
    "value",
    [
        {"toolboxes": {}, "restart": {"crashes": 2.0, "within": 1}},
        *(with_server({key: "x"}) for key in ("command", "url", "serverUrl", "httpUrl")),
        with_server({"command": "x", "disabled": True}),
    ],
)
def test_what_the_schema_allows_is_read(value: Any) -> None:
    assert allowed_by_the_schema(value)
    read(value)


@given(near_misses | json_values)
def test_whatever_is_read_is_allowed_by_the_schema(value: Any) -> None:
    try:
        read(value)
    except ConfigError:
        return
    assert allowed_by_the_schema(value)


def test_reading_a_configuration_imports_nothing_slow() -> None:
    heavy = {"asyncio", "dataclasses", "argparse", "difflib", "subprocess"}
    program = (
        "import msgspec, sys; before = set(sys.modules); import mcp_workbench.expansion; "
        f"print(sorted({heavy!r} & (set(sys.modules) - before)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
