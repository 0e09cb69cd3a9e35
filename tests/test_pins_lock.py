"""Tier 1: the file `workbench.lock`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.errors import ConfigError
from mcp_workbench.naming import Origin
from mcp_workbench.pins.lock_file import Lock, Pins, read, written

A, B, C = (f"sha256:{digit * 64}" for digit in "abc")
LOCK = Lock(
    {
        "prod": {"db": Pins(entry=C)},
        "dev": {
            "web": Pins(entry=A, instructions=B, tools={"write": A, "read": B}),
            "files": Pins(entry=B, tools={"zip": C}),
        },
    }
)
FILE = f"""\
{{
  "version": 1,
  "toolboxes": {{
    "dev": {{
      "files": {{
        "entry": "{B}",
        "tools": {{
          "zip": "{C}"
        }}
      }},
      "web": {{
        "entry": "{A}",
        "instructions": "{B}",
        "tools": {{
          "read": "{B}",
          "write": "{A}"
        }}
      }}
    }},
    "prod": {{
      "db": {{
        "entry": "{C}",
        "tools": {{}}
      }}
    }}
  }}
}}
"""

hashes = st.sampled_from([A, B, C])
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(
    lambda name: "__" not in name
)
tool_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
pins = st.builds(
    lambda entry, tools, said: Pins(entry=entry, tools=tools, **said),
    hashes,
    st.dictionaries(tool_names, hashes, max_size=4),
    st.just({}) | hashes.map(lambda said: {"instructions": said}),
)
locks = st.dictionaries(names, st.dictionaries(names, pins, min_size=1, max_size=3), max_size=3).map(Lock)


def problems(data: bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(data)
    return [str(problem) for problem in caught.value.problems]


def test_the_file_is_sorted_and_has_a_line_for_each_tool() -> None:
    assert written(LOCK).decode() == FILE
    assert read(FILE.encode()) == LOCK


@given(locks)
def test_what_is_written_is_read_again(lock: Lock) -> None:
    assert read(written(lock)) == lock
    assert written(read(written(lock))) == written(lock)
    assert written(lock).isascii()


@given(locks)
def test_white_space_and_order_do_not_matter_to_who_reads_it(lock: Lock) -> None:
    tree = json.loads(written(lock))
    assert read(json.dumps(dict(reversed(tree.items()))).encode()) == lock
    assert read(b"\xef\xbb\xbf" + written(lock).replace(b"\n", b"\r\n")) == lock


def test_a_tool_more_is_a_line_more() -> None:
    before = written(Lock({"dev": {"web": Pins(entry=A, tools={"a": A, "c": C})}})).splitlines()
    after = written(Lock({"dev": {"web": Pins(entry=A, tools={"a": A, "b": B, "c": C})}})).splitlines()
    assert [line for line in after if line not in before] == [f'          "b": "{B}",'.encode()]
    assert [line for line in before if line not in after] == []


def test_no_name_can_look_like_another_in_a_review() -> None:
    text = written(Lock({"dev": {"web": Pins(entry=A, tools={"re\u0430d\u202e\U000e0041": A})}}))
    assert b"re\\u0430d\\u202e\\udb40\\udc41" in text


def test_the_pins_of_a_server_are_found_by_its_names() -> None:
    assert LOCK.pins(Origin("dev", "files")) == Pins(entry=B, tools={"zip": C})
    assert LOCK.pins(Origin("dev", "db")) is None
    assert LOCK.pins(Origin("other", "db")) is None
    assert LOCK.origins() == [("prod", "db"), ("dev", "web"), ("dev", "files")]


def test_an_empty_lock_is_a_lock_and_an_empty_file_is_none() -> None:
    assert read(b'{"version":1,"toolboxes":{}}') == Lock()
    assert written(Lock({"dev": {}})) == written(Lock())
    assert problems(b" \n") == ["the file is empty — take it from version control, or remove it"]


@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "||||||| 1234", "=======", ">>>>>>> theirs"])
def test_a_merge_that_was_not_finished_is_named_with_its_line(marker: str) -> None:
    lines = FILE.splitlines()
    for ending in ("\n", "\r\n"):
        data = ending.join([*lines[:7], marker, *lines[7:]]).encode()
        assert problems(data) == [
            "line 8: a merge left a conflict here — keep the lines of one side, then run mcp-workbench diff"
        ]


def test_a_newer_file_is_not_read_whatever_is_in_it() -> None:
    assert problems(b'{"version":2,"toolboxes":[]}') == [
        "version: is 2, and this mcp-workbench knows 1 — update mcp-workbench"
    ]


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (b"{", ["line 1, column 2"]),
        (b"\xff", ["line 1, column 1"]),
        (b"[]", [""]),
        (b"{}", ["version", "toolboxes"]),
        (b'{"version":"1","toolboxes":{}}', ["version"]),
        (b'{"version":true,"toolboxes":{}}', ["version"]),
        (b'{"version":0,"toolboxes":{}}', ["version"]),
        (b'{"version":1.5,"toolboxes":{}}', ["version"]),
        (b'{"version":1,"toolboxes":{},"more":1}', ["more"]),
        (b'{"version":1,"toolboxes":{"dev":{"web":{}}}}', ["toolboxes.dev.web.entry"]),
        (b'{"version":1,"toolboxes":{"dev":{"web":[]}}}', ["toolboxes.dev.web"]),
        (b'{"version":1,"toolboxes":{"d__v":{}}}', ["toolboxes.d__v"]),
    ],
)
def test_a_broken_file_is_refused_with_the_places_of_all_that_is_wrong(
    data: bytes, places: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(data)
    assert [problem.place for problem in caught.value.problems] == places
    assert all(problem.hint for problem in caught.value.problems)


@pytest.mark.parametrize("bad", ["", "sha256:", A[:-1], A + "0", A + "\n", A.upper(), "md5" + A[6:]])
def test_what_is_no_hash_is_refused_where_it_stands(bad: str) -> None:
    file = {"version": 1, "toolboxes": {"dev": {"web": {"entry": A, "tools": {"read": bad, "write": A}}}}}
    assert [told.split(":")[0] for told in problems(json.dumps(file).encode())] == [
        "toolboxes.dev.web.tools.read"
    ]


def test_a_line_that_a_merge_doubled_is_refused() -> None:
    data = FILE.replace(f'"read": "{B}",', f'"read": "{B}",\n"read": "{A}",').encode()
    assert problems(data) == [
        "toolboxes.dev.web.tools.read: the key is written twice — both count as one: remove one of them"
    ]


def test_an_unknown_key_of_a_server_is_refused() -> None:
    data = FILE.replace('"tools": {}', '"tools": {}, "tool": {}').encode()
    assert problems(data) == ["toolboxes.prod.db.tool: unknown key 'tool' — remove it"]
