"""Tier 1: a tool's definition as one line, and what that line must not hide."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.legible import visible
from mcp_workbench.schemas.signatures import Room, Signature, signature

from .signature_reader import read, told_wrongly

Json = Any


def signed(schema: Json, description: str = "", name: str = "t", room: Room | None = None) -> Signature:
    definition = json.dumps({"name": name, "description": description, "inputSchema": schema}).encode()
    return signature(definition, room) if room else signature(definition)


def takes(**properties: Json) -> Json:
    """Properties that must be there, unless their names end with an underscore."""
    return {
        "type": "object",
        "properties": {name.removesuffix("_"): schema for name, schema in properties.items()},
        "required": [name for name in properties if not name.endswith("_")],
    }


TEXT = {"type": "string"}
NUMBER = {"type": "number"}
NULL = {"type": "null"}


def test_a_signature_is_as_people_write_it() -> None:
    schema = takes(path=TEXT, head_={"type": "integer"})
    assert signed(schema, "Reads a file. Slowly.", "read_file") == Signature(
        "read_file(path: string, head?: integer) — Reads a file", lossy=False
    )


FAITHFUL = [
    ({}, ""),
    ({"type": "object"}, ""),
    (takes(a=NUMBER, b_={"type": "boolean"}), "a: number, b?: boolean"),
    (takes(mode_={"type": "string", "enum": ["r", "w"]}), 'mode?: "r"|"w"'),
    (takes(mode={"enum": ["r", 1, 2.5, True, None]}), 'mode: "r"|1|2.5|true|null'),
    (takes(kind={"const": "file"}), 'kind: "file"'),
    (takes(a={}), "a: any"),
    (takes(a=True), "a: any"),
    (takes(a_=False), "a?: never"),
    (takes(o={"type": "object"}), "o: object"),
    (
        takes(edits={"type": "array", "items": takes(oldText=TEXT, newText_=TEXT)}),
        "edits: {oldText: string, newText?: string}[]",
    ),
    (takes(options_=takes(depth_={"type": "integer"})), "options?: {depth?: integer}"),
    (takes(a={"properties": {"b": TEXT}}), "a: {b?: string}"),
    (takes(a={"items": TEXT}), "a: string[]"),
    (takes(a={"type": "array"}), "a: any[]"),
    (takes(a={"type": "array", "items": {"type": "array", "items": NUMBER}}), "a: number[][]"),
    (takes(a={"type": ["string", "null"]}), "a: string|null"),
    (takes(a={"type": "string", "nullable": True}), "a: string|null"),
    (takes(a={"anyOf": [TEXT, NULL]}), "a: string|null"),
    (takes(a={"oneOf": [TEXT, {"type": "array", "items": TEXT}]}), "a: string|string[]"),
    (takes(a={"type": "array", "items": {"anyOf": [TEXT, NUMBER]}}), "a: (string|number)[]"),
    (takes(a={"anyOf": [{"const": "x"}, {"const": "y"}]}), 'a: "x"|"y"'),
    (takes(a={"anyOf": [{"properties": {"b": TEXT}}], "type": "object"}), "a: {b?: string}"),
    (takes(a={"type": "object", "additionalProperties": NUMBER}), "a: {[key]: number}"),
    (takes(a={"type": "object", "additionalProperties": True}), "a: object"),
    (takes(a={"type": "array", "prefixItems": [TEXT, NUMBER]}), "a: [string, number]"),
    (takes(a={"type": "array", "items": [TEXT, NUMBER]}), "a: [string, number]"),
    (takes(n_={"type": "integer", "default": 10}), "n?: integer = 10"),
    (takes(n_={"type": "integer", "default": 0}), "n?: integer = 0"),
    (takes(s_={"type": "string", "default": "utf-8"}), 's?: string = "utf-8"'),
    (takes(s_={"type": "string", "default": ""}), "s?: string"),
    (takes(s_={"type": "boolean", "default": False}), "s?: boolean"),
    (takes(s_={"type": "string", "default": "x" * 40}), "s?: string"),
    (takes(d={"type": "string", "format": "date-time"}), "d: string(date-time)"),
    (takes(n={"type": "integer", "minimum": 1, "maximum": 100}), "n: integer(1..100)"),
    (takes(n={"type": "number", "minimum": -1.5}), "n: number(-1.5..)"),
    (takes(n={"type": "integer", "minimum": 0}), "n: integer"),
    (takes(n={"type": "integer", "minimum": -(2**53) + 1, "maximum": 2**53 - 1}), "n: integer"),
    (takes(s={"type": "string", "minLength": 1, "maxLength": 255}), "s: string"),
    (takes(l={"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True}), "l: string[]"),
    ({"properties": {"x-y": TEXT, "1": TEXT, "é": TEXT}}, '"x-y"?: string, "1"?: string, "é"?: string'),
    ({"properties": {}, "required": ["a"]}, "a: any"),
    ({"type": "object", "additionalProperties": TEXT}, "[key]: string"),
    ({"type": "object", "anyOf": [takes(a=TEXT), takes(b=TEXT)]}, "{a: string}|{b: string}"),
    (takes(s={"type": "string", "description": "Where the file is, below the root."}), "s: string"),
]


@pytest.mark.parametrize(("schema", "parameters"), FAITHFUL)
def test_what_a_line_can_hold_is_in_it(schema: Json, parameters: str) -> None:
    assert signed(schema) == Signature(f"t({parameters})", lossy=False)


def test_local_references_are_followed_and_merged() -> None:
    schema = takes(
        a={"$ref": "#/$defs/Point"},
        b_={"allOf": [{"$ref": "#/definitions/Mode"}], "default": "r"},
        c={"allOf": [{"$ref": "#/$defs/Point"}, takes(z=NUMBER)]},
        d={"$ref": "#/$defs/with~1slash%20and~0"},
    )
    schema["$defs"] = {"Point": takes(x=NUMBER), "with/slash and~": {"type": "boolean"}}
    schema["definitions"] = {"Mode": {"enum": ["r", "w"]}}
    assert signed(schema) == Signature(
        't(a: {x: number}, b?: "r"|"w" = "r", c: {x: number, z: number}, d: boolean)', lossy=False
    )


LOSSY = [
    (takes(s={"type": "string", "pattern": "^[a-z]+$"}), "s: string…"),
    (takes(s={"type": "string", "format": "what (ever)"}), "s: string…"),
    (takes(s={"type": "string", "description": "It says a lot. " * 20}), "s: string…"),
    (takes(o={"type": "object", "description": "as the API has it"}), "o: object…"),
    (takes(o={"type": "array", "items": {}, "description": "rows"}), "o: any[]…"),
    (takes(x={"type": "whatever"}), "x: any…"),
    (takes(x={"$ref": "https://example.com/schema.json"}), "x: any…"),
    (takes(x={"$ref": "#/$defs/missing"}), "x: any…"),
    (takes(x={"type": "array", "items": {"$dynamicRef": "#node"}}), "x: any…[]"),
    (takes(x={"enum": [{"a": 1}, "b"]}), 'x: …|"b"'),
    (takes(x={"type": "array", "items": {"enum": ["x" * 100]}}), "x: any…[]"),
    (takes(x={"enum": [*"abcdefghijklmnop"]}), 'x: "a"|"b"|"c"|…'),
    (takes(x={"allOf": [TEXT, NUMBER]}), "x: string…"),
    (takes(x={"type": "object", "patternProperties": {"^x": TEXT}}), "x: object…"),
    (
        {**takes(a_=TEXT, b_=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "a?: string, b?: string, …",
    ),
    ({**takes(a=TEXT), "if": {}, "then": {"required": ["b"]}}, "a: string, …"),
    ({**takes(a=TEXT), "dependentRequired": {"a": ["b"]}}, "a: string, …"),
    ({"type": "string"}, "…"),
    (None, "…"),
]


@pytest.mark.parametrize(("schema", "parameters"), LOSSY)
def test_what_a_line_cannot_hold_marks_it(schema: Json, parameters: str) -> None:
    assert signed(schema) == Signature(f"t({parameters})", lossy=True)


def test_a_recursive_type_is_cut_where_it_begins_anew() -> None:
    schema = takes(tree={"$ref": "#/$defs/Node"})
    schema["$defs"] = {"Node": takes(v=TEXT, kids_={"type": "array", "items": {"$ref": "#/$defs/Node"}})}
    assert signed(schema) == Signature("t(tree: {v: string, kids?: any…[]})", lossy=True)


def test_deep_nesting_is_cut_and_marked() -> None:
    schema: Json = TEXT
    for _ in range(10):
        schema = takes(a=schema)
    told = signed(schema)
    assert told.lossy
    assert told.text.endswith("{…}}}}}})")


def test_an_object_that_only_the_manual_explains_sends_to_the_manual() -> None:
    schema = takes(rows={"type": "array", "items": {"type": "object"}})
    assert not signed(schema, "Adds rows.").lossy
    assert signed(schema, "Adds rows.\n\nArgs:\n  rows: objects with `x` and `y`").lossy


def test_a_long_list_of_parameters_loses_detail_before_names_and_optional_ones_first() -> None:
    many = {f"optional_parameter_{at}_": TEXT for at in range(6)}
    schema = takes(**many, first=takes(a=takes(b=TEXT)), last={"enum": ["x", "y"]})
    assert not signed(schema).lossy
    names = ", ".join(f"optional_parameter_{at}?" for at in range(6))
    assert signed(schema, room=Room(190, 60)).text == f't({names}, first: {{…}}, last: "x"|"y", …)'
    assert signed(schema, room=Room(60, 60)).text == 't(optional_parameter_0?, first: {…}, last: "x"|"y", …)'


def test_defaults_go_first_and_losing_them_is_no_loss() -> None:
    schema = takes(n_={"type": "integer", "default": 1000})
    assert signed(schema, room=Room(12, 60)) == Signature("t(n?: integer)", lossy=False)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ns.read-file", "ns.read-file()"),
        ("my tool", '"my tool"()'),
        ("a(b", '"a(b"()'),
        ("a\nb", '"a\\nb"()'),
        ("a\u202eb", '"a\\u202eb"()'),
        ("x" * 1000, "x" * 200 + "…()"),
    ],
)
def test_a_tool_has_its_name_as_a_call_takes_it(name: str, told: str) -> None:
    assert signed({}, name=name).text == told


def test_nothing_that_acts_on_a_screen_or_hides_gets_into_a_line() -> None:
    hidden = "a\u202eb\u200bc\x1b[0m\U000e0041\ufe01"
    schema = takes(x={"enum": [hidden]}, y_={"type": "string", "default": hidden[:4]})
    schema["properties"][hidden] = TEXT
    told = signed(schema, hidden, hidden).text
    assert visible(told) == told
    line = read(told)
    assert line.name == hidden


# The round trip -----------------------------------------------------------------------------------

words = st.one_of(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(min_size=1, max_size=8))
literals = st.one_of(
    st.text(max_size=70),
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
)
annotations = st.fixed_dictionaries(
    {},
    optional={
        "title": st.text(max_size=5),
        "description": st.sampled_from(["", "short", "long " * 40]),
        "default": literals,
    },
)


def described(schemas: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.builds(lambda schema, said: {**said, **schema}, schemas, annotations)


simple = described(
    st.one_of(
        st.sampled_from([{"type": kind} for kind in ("string", "number", "integer", "boolean", "null")]),
        st.builds(lambda values: {"enum": values}, st.lists(literals, min_size=1, max_size=14)),
        st.builds(lambda value: {"const": value}, literals),
        st.builds(
            lambda low, high: {"type": "integer", "minimum": low, "maximum": high},
            st.integers(),
            st.integers(),
        ),
        st.sampled_from([{"type": "string", "format": "date"}, {"type": "string", "pattern": "x"}, {}]),
        st.builds(
            lambda kinds: {"type": kinds},
            st.lists(
                st.sampled_from(["string", "number", "boolean", "null", "object", "array"]),
                min_size=1,
                unique=True,
            ),
        ),
    )
)


@st.composite
def objects(draw: st.DrawFn, parts: st.SearchStrategy[Json], without: tuple[str, ...] = ()) -> Json:
    properties = draw(st.dictionaries(words.filter(lambda word: word not in without), parts, max_size=3))
    required = draw(st.lists(st.sampled_from([*properties]), unique=True)) if properties else []
    return {"type": "object", "properties": properties, "required": required}


@st.composite
def merged(draw: st.DrawFn, parts: st.SearchStrategy[Json]) -> Json:
    one = draw(objects(parts))
    return {"allOf": [one, draw(objects(simple, without=tuple(one["properties"])))]}


@st.composite
def maps(draw: st.DrawFn, parts: st.SearchStrategy[Json]) -> Json:
    return {**draw(objects(parts)), "additionalProperties": draw(st.one_of(st.booleans(), parts))}


def larger(parts: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    some = st.lists(parts, min_size=1, max_size=3)
    return described(
        st.one_of(
            objects(parts),
            st.builds(lambda items: {"type": "array", "items": items}, parts),
            st.builds(lambda items: {"type": "array", "prefixItems": items}, some),
            st.builds(lambda key, options: {key: options}, st.sampled_from(["anyOf", "oneOf"]), some),
            merged(parts),
            maps(parts),
            st.builds(lambda part: {**part, "nullable": True}, parts),
        )
    )


kinds = st.recursive(simple, larger, max_leaves=3)
references = st.sampled_from([{"$ref": "#/$defs/A"}, {"$ref": "#/definitions/b~1c~0d"}])
# What tools take, with references into definitions that have none.
documents = st.builds(
    lambda schema, one, other: {**schema, "$defs": {"A": one}, "definitions": {"b/c~d": other}},
    objects(st.recursive(st.one_of(simple, references), larger, max_leaves=6)),
    *(kinds, kinds),
)
ROOMS = [Room(480, 160), Room(200, 60, defaults=False), Room(40, 60)]


@given(documents, st.sampled_from(ROOMS), words)
def test_a_signature_tells_what_its_schema_says_or_that_it_does_not(
    schema: Json, room: Room, name: str
) -> None:
    definition = {"name": name, "description": name, "inputSchema": schema}
    told = signature(json.dumps(definition).encode(), room)
    assert told_wrongly(told.text, definition) == []
    assert read(told.text).lossy == told.lossy


REAL = {
    "name": "edit",
    "inputSchema": takes(
        path=TEXT, mode_={"enum": ["r", "w"]}, edits=takes(old=TEXT, new_={"type": ["string", "null"]})
    ),
}


@pytest.mark.parametrize(
    ("was", "is_now"),
    [
        ("edit(", "edits("),
        ("path: string", "path?: string"),
        ("path: string", "path: integer"),
        ("path: string", "paths: string"),
        ("path: string, ", ""),
        ('"r"|"w"', '"r"'),
        ('"w"', '"x"'),
        ("mode?", "mode"),
        ("{old: string, ", "{"),
        ("old: string", "old: any"),
        ("string|null", "string"),
        ("}", "}[]"),
    ],
)
def test_the_reader_of_these_tests_sees_what_is_not_so(was: str, is_now: str) -> None:
    told = signature(json.dumps(REAL).encode()).text
    assert told_wrongly(told, REAL) == []
    assert was in told
    assert told_wrongly(told.replace(was, is_now), REAL) != []


# Whatever comes -------------------------------------------------------------------------------------

KEYWORDS = [
    *("type", "properties", "required", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "allOf"),
    *("$ref", "$defs", "not", "if", "additionalProperties", "default", "description", "nullable", "format"),
    *("minimum", "maximum", "pattern"),
]
VALUES = ["object", "array", "string", "#", "#/properties", "#/$defs/a"]
junk = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(
                st.text(max_size=4),
                st.sampled_from(KEYWORDS),
            ),
            st.one_of(inner, st.sampled_from(VALUES)),
            max_size=5,
        ),
    ),
    max_leaves=30,
)


@given(junk, junk, junk)
def test_no_definition_is_too_strange_for_a_line(name: Json, description: Json, schema: Json) -> None:
    definition = {"name": name, "description": description, "inputSchema": schema}
    told = signature(json.dumps(definition).encode())
    assert visible(told.text) == told.text
    assert read(told.text).lossy == told.lossy


@given(st.binary())
def test_no_bytes_are_too_strange_for_a_line(definition: bytes) -> None:
    assert signature(definition) == Signature("?…(…)", lossy=True)


def nested(opening: str, closing: str, times: int) -> bytes:
    return b'{"name":"t","inputSchema":%b}' % (opening * times + "{}" + closing * times).encode()


def chained(link: Any, last: Json) -> Json:
    """Definitions each of which has the next one more than once."""
    return {**{f"d{at}": link({"$ref": f"#/$defs/d{at + 1}"}) for at in range(40)}, "d40": last}


def starting_at(definitions: Json) -> bytes:
    schema = {**takes(a={"$ref": "#/$defs/d0"}), "$defs": definitions}
    return json.dumps({"name": "t", "inputSchema": schema}).encode()


BOMBS = {
    "many properties": json.dumps(
        {"name": "t", "inputSchema": takes(**{f"p{at}": TEXT for at in range(100_000)})}
    ).encode(),
    "many values": json.dumps(
        {"name": "t", "inputSchema": takes(p={"enum": [[at] for at in range(100_000)]})}
    ).encode(),
    "deep beyond reading": nested('{"properties":{"a":', "}}", 10_000),
    "deep properties": nested('{"properties":{"a":', "}}", 200),
    "deep items": nested('{"properties":{"a":{"items":', "}}}", 150),
    "deep unions": nested('{"anyOf":[', "]}", 400),
    "deep intersections": nested('{"allOf":[', "]}", 400),
    "doubling intersections": starting_at(chained(lambda ref: {"allOf": [ref, ref]}, TEXT)),
    "doubling unions": starting_at(chained(lambda ref: {"anyOf": [ref, TEXT, ref]}, TEXT)),
    "doubling properties": starting_at(chained(lambda ref: {"properties": {"x": ref, "y": ref}}, TEXT)),
    "a circle": json.dumps({"name": "t", "inputSchema": {"$ref": "#"}}).encode(),
    "a circle of two": starting_at({"d0": {"$ref": "#/$defs/d1"}, "d1": {"$ref": "#/$defs/d0"}}),
}


@pytest.mark.parametrize("definition", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_cut_and_marked(definition: bytes) -> None:
    told = signature(definition)
    assert told.lossy
    assert len(told.text) <= 500
    assert read(told.text).lossy


def test_long_words_are_cut() -> None:
    long = "x" * 1_000_000
    part = {"description": long, "default": long, "enum": [long], "format": long}
    told = signed({"properties": {long: part, "short": part}}, long, long)
    assert told.lossy
    assert len(told.text) <= 400


def test_half_a_surrogate_pair_is_escaped() -> None:
    schema = b'{"properties":{"\\udfff":{"enum":["\\ud800"]}}}'
    definition = b'{"name":"t","description":"a \\ud800.","inputSchema":%b}' % schema
    assert signature(definition).text == 't("\\udfff"?: "\\ud800") — a \\ud800'
