"""What a server is started with: variables, env files, the environment of its process, and masking."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config import Server
from mcp_workbench.errors import MissingEnv, UnusableValue
from mcp_workbench.expansion import Launch, expand, mask, parse_env_file

FS = "toolboxes.dev.mcpServers.fs"


def launch(
    environment: dict[str, str] | None = None,
    env_file: str | None = None,
    *,
    windows: bool = False,
    **keys: Any,
) -> Launch:
    server = Server(name="fs", transport="stdio", **{"command": "x", **keys})
    return expand(server, environment or {}, FS, env_file, windows=windows)


def expanded(text: str, **environment: str) -> str:
    return launch(environment, args=(text,)).args[0]


# Variables


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "one"),
        ("${env:A}", "one"),
        ("<${A}-${B}>", "<one-two>"),
        ("${A:-other}", "one"),
        ("${NONE:-other}", "other"),
        ("${env:NONE:-other}", "other"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b $A $(c)}", "a:-b $A $(c)"),
        ("${NONE:-${A}}", "${A}"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", ""),
        ("${NESTED}", "${A}"),
        ("$A $$ ${ } $(A) `A` %A% {A}", "$A $$ ${ } $(A) `A` %A% {A}"),
        ("${input:x}", "${input:x}"),
    ],
)
def test_a_variable_becomes(text: str, value: str) -> None:
    assert expanded(text, A="one", B="two", EMPTY="", NESTED="${A}") == value


def test_variables_are_expanded_in_command_args_env_cwd_url_and_headers() -> None:
    found = launch(
        {"V": "v"},
        command="${V}/c",
        args=("${V}1", "b"),
        env={"E": "${V}2"},
        cwd="/${V}",
        url="http://${V}",
        headers={"H": "Bearer ${V}"},
    )
    assert (found.command, found.args, found.env, found.cwd) == ("v/c", ("v1", "b"), {"E": "v2"}, "/v")
    assert (found.url, found.headers) == ("http://v", {"H": "Bearer v"})


def test_keys_are_not_expanded() -> None:
    found = launch({"V": "v"}, env={"${V}": "a"}, headers={"${V}": "b"})
    assert (found.env, found.headers) == ({"${V}": "a"}, {"${V}": "b"})


def test_variables_are_looked_up_anew_at_each_start() -> None:
    assert [expanded("${A}", A=value) for value in ("1", "2")] == ["1", "2"]


def test_a_value_with_the_syntax_of_a_shell_stays_one_argument() -> None:
    nasty = "; rm -rf / && $(touch x) `y` | z\n"
    assert launch({"A": nasty}, args=("${A}", nasty)).args == (nasty, nasty)


@given(st.text(), st.text(st.characters(exclude_characters="\0")))
def test_what_is_expanded_is_not_expanded_again(around: str, value: str) -> None:
    around = around.replace("$", "").replace("\0", "")
    assert expanded(f"{around}${{A}}{around}", A=value, B="wrong") == f"{around}{value}{around}"


@given(st.text(st.characters(exclude_characters="$\0")))
def test_text_without_variables_is_left_alone(text: str) -> None:
    assert expanded(text) == text


# Variables that are not set


def test_all_unset_variables_are_told_with_place_and_remedy() -> None:
    with pytest.raises(MissingEnv) as caught:
        launch(
            {"SET": ""},
            args=("${SET}", "${ONE}${SET}"),
            env={"TOKEN": "${TWO}", "b c": "${ONE}"},
            cwd="${THREE:-x}",
        )
    assert caught.value.unset == (
        ("ONE", f"{FS}.args[1]"),
        ("TWO", f"{FS}.env.TOKEN"),
        ("ONE", f'{FS}.env["b c"]'),
    )


def test_the_message_of_an_unset_variable_says_what_to_type() -> None:
    with pytest.raises(MissingEnv) as caught:
        launch(env={"TOKEN": "${MY_TOKEN}"})
    assert str(caught.value) == (
        f"missing_env: MY_TOKEN is not set (at {FS}.env.TOKEN): "
        "export MY_TOKEN=…, or set it under `env` in the client's entry of the workbench"
    )


# Values that no process can be given


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"command": "a${NUL}"}, "command"),
        ({"args": ("a", "${NUL}")}, "args[1]"),
        ({"env": {"E": "${NUL}"}}, "env.E"),
        ({"cwd": "${NUL}"}, "cwd"),
        ({"headers": {"H": "${NUL}"}}, "headers.H"),
        ({"env_file": "F='a\0b'"}, "envFile.F"),
    ],
)
def test_a_nul_that_a_variable_brings_in_is_refused_without_showing_the_value(
    keys: dict[str, Any], place: str
) -> None:
    with pytest.raises(UnusableValue) as caught:
        launch({"NUL": "s3cret\0"}, **keys)
    (problem,) = caught.value.problems
    assert problem.place == f"{FS}.{place}"
    assert "NUL" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("keys", [{"command": "${EMPTY}"}, {"cwd": "${EMPTY}"}, {"url": " ${EMPTY}"}])
def test_what_becomes_empty_and_must_not_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(UnusableValue) as caught:
        launch({"EMPTY": ""}, **keys)
    assert [problem.place for problem in caught.value.problems] == [f"{FS}.{key}" for key in keys]


# The environment of the process


NEEDED = """
    PATH HOME LANG LANGUAGE LC_ALL LC_TIME USER LOGNAME SHELL TERM TMPDIR TZ XDG_CONFIG_HOME XDG_RUNTIME_DIR
    NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
"""
INHERITED = dict.fromkeys(NEEDED.split(), "x")


def test_a_process_inherits_what_programs_need() -> None:
    assert launch(INHERITED).env == INHERITED


def test_a_process_inherits_no_secrets() -> None:
    secrets = {f"SECRET_{at}": f"canary-{at}" for at in range(200)}
    assert launch({**INHERITED, **secrets, "LD_PRELOAD": "a.so", "path": "x"}).env == INHERITED


def test_a_process_gets_what_its_entry_names() -> None:
    assert launch({"TOKEN": "t"}, env={"MINE": "${TOKEN}", "FIXED": "1"}).env == {"MINE": "t", "FIXED": "1"}


def test_a_value_that_old_shells_would_run_is_not_inherited() -> None:
    assert launch({"TERM": "() { :;}; echo x", "LC_ALL": "()", "LANG": "C"}).env == {"LANG": "C"}


def test_the_env_file_wins_over_what_is_inherited_and_the_entry_over_both() -> None:
    found = launch({"PATH": "1", "HOME": "1", "TZ": "1"}, "HOME=2\nTZ=2\nX=2", env={"TZ": "3"})
    assert found.env == {"PATH": "1", "HOME": "2", "TZ": "3", "X": "2"}


def test_windows_has_its_own_list_and_does_not_tell_case_apart() -> None:
    environment = {"Path": "p", "SystemRoot": "r", "PATHEXT": ".EXE", "Secret": "s", "LC_ALL": "C"}
    assert launch(environment, windows=True).env == {"Path": "p", "SystemRoot": "r", "PATHEXT": ".EXE"}
    assert launch(environment, windows=True, env={"PATH": "q"}).env["PATH"] == "q"
    assert "Path" not in launch(environment, windows=True, env={"PATH": "q"}).env
    assert launch(environment).env == {"LC_ALL": "C"}


# Env files


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        ("\n  \n# only a comment\n  # another", {}),
        ("A=1", {"A": "1"}),
        ("A=1\nB=2\n", {"A": "1", "B": "2"}),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("\ufeffA=1", {"A": "1"}),
        ("export A=1", {"A": "1"}),
        ("  A = 1  ", {"A": "1"}),
        ("A=", {"A": ""}),
        ("A=''", {"A": ""}),
        ("A=b=c", {"A": "b=c"}),
        ("A=b c", {"A": "b c"}),
        ("A=b # comment", {"A": "b"}),
        ("A=b#c", {"A": "b#c"}),
        ("A=#c", {"A": "#c"}),
        ("A= # comment", {"A": ""}),
        ("A='b # c' # d", {"A": "b # c"}),
        ("A='b\\n\"c'", {"A": 'b\\n"c'}),
        ('A="b\\n\\"c\\\\ \\x"', {"A": 'b\n"c\\ \\x'}),
        ('A="one\ntwo"\nB=3', {"A": "one\ntwo", "B": "3"}),
        ("A=it's", {"A": "it's"}),
        ("A=${B}", {"A": "${B}"}),
        ("A=1\nA=2", {"A": "2"}),
        ("a.b-c=1", {"a.b-c": "1"}),
    ],
)
def test_an_env_file_has(text: str, settings: dict[str, str]) -> None:
    assert parse_env_file(text, "p") == (settings, [])


@pytest.mark.parametrize("line", ["nonsense", "=1", "1A=2", "A B=1", "A='open", 'A="a" b', "export A"])
def test_a_bad_line_of_an_env_file_is_skipped_and_reported_without_its_text(line: str) -> None:
    settings, problems = parse_env_file(f"X=1\n{line}\nY=2", "p")
    assert settings == {"X": "1", "Y": "2"}
    (problem,) = problems
    assert "line 2" in problem.message
    assert line not in str(problem)


def test_bad_lines_are_reported_with_the_launch() -> None:
    found = launch(env_file="A=1\nwhat?\n")
    assert [problem.place for problem in found.warnings] == [f"{FS}.envFile"]
    assert found.env == {"A": "1"}


@given(st.text() | st.text("AB=\"'\\#\n \t").map(str))
def test_any_text_can_be_an_env_file(text: str) -> None:
    settings, problems = parse_env_file(text, "p")
    assert all(re.fullmatch(r"[A-Za-z_][\w.-]*", name) for name in settings)
    assert len(settings) + len(problems) <= text.count("\n") + 1


# Secrets


def test_secrets_are_what_variables_and_the_env_file_brought_in() -> None:
    found = launch(
        {"TOKEN": "t0ken", "EMPTY": "", "PATH": "/bin", "USER_ID": "u"},
        "FILE=f1le\nNOTHING=",
        args=("${TOKEN}", "${USER_ID}", "${EMPTY}", "${NONE:-default}", "literal", "${TOKEN}"),
    )
    assert found.secrets == ("t0ken", "u", "f1le")


def test_the_repr_of_a_launch_shows_no_secret() -> None:
    shown = repr(
        launch({"TOKEN": "s3cret"}, command="run-${TOKEN}", args=("${TOKEN}",), env={"A": "${TOKEN}"})
    )
    assert "s3cret" not in shown
    assert "run-***" in shown


@pytest.mark.parametrize(
    ("text", "secrets", "masked"),
    [
        ("nothing here", ["token"], "nothing here"),
        ("a token b token", ["token"], "a *** b ***"),
        ("abc", ["abc"], "abc"),
        ("abcd", ["abcd"], "***"),
        ("", ["token"], ""),
        ("a.cd", ["a.cd"], "***"),
        ("abcd", ["a.cd"], "abcd"),
        ("longest-token", ["token", "longest-token"], "***"),
        ("abcdefgh", ["abcdef", "defgh"], "***"),
        ("xaaaaax", ["aaaa"], "x***x"),
        ("see line-number-1!", ["short\nline-number-1\n"], "see ***!"),
        ("short", ["short\nline-number-1\n"], "short"),
        ("short\nline-number-1\n", ["short\nline-number-1\n"], "***"),
        ("line-number-1", ["short\r\n line-number-1\r\n"], "***"),
    ],
)
def test_masking(text: str, secrets: list[str], masked: str) -> None:
    assert mask(text, secrets) == masked


@given(st.text("ab "), st.lists(st.text("ab", min_size=4, max_size=6), max_size=4))
def test_no_secret_is_left_and_nothing_else_is_lost(text: str, secrets: list[str]) -> None:
    masked = mask(text, secrets)
    assert not any(secret in masked for secret in secrets)
    pieces = [re.escape(piece) for piece in masked.split("***")]
    assert re.fullmatch(".+".join(pieces), text, re.DOTALL)


def test_what_is_null_is_not_set_even_where_it_would_be_inherited() -> None:
    found = launch({"HOME": "/home/me", "PATH": "/bin"}, env={"HOME": None, "A": "b"})
    assert found.env == {"PATH": "/bin", "A": "b"}
