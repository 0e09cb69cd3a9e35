"""Tier 1: arguments in which a model wrote text for something else, mended where that is plain."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from mcp_workbench.raw_json import Payload
from mcp_workbench.schemas.mending import Mender, mender_of

from .fake_link import dumped

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def schema_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def mended(arguments: Payload, schema: bytes) -> Payload:
    return Mender(schema).mended(arguments)


def mend(schema: dict[str, Any], arguments: str) -> str:
    return bytes(mended(arguments.encode(), dumped(schema))).decode()


INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
OBJECT = {"type": "object"}
ARRAY = {"type": "array"}
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("property_", "written", "meant"),
    [
        (INTEGER, '"5"', "5"),
        (INTEGER, '"-17"', "-17"),
        (INTEGER, '"0"', "0"),
        (INTEGER, '"9007199254740991"', "9007199254740991"),
        (NUMBER, '"5"', "5"),
        (NUMBER, '"-0.25"', "-0.25"),
        (NUMBER, '"2.50"', "2.50"),
        (BOOLEAN, '"true"', "true"),
        (BOOLEAN, '"false"', "false"),
        (BOOLEAN, r'"tr\u0075e"', "true"),
        (OBJECT, r'"{\"a\": 1}"', '{"a": 1}'),
        (OBJECT, r'" {\n  \"a\": \"\\n\"}\n"', r'{   "a": "\n"}'),
        (ARRAY, r'"[1,\"b\"]"', '[1,"b"]'),
        (ARRAY, '"[]"', "[]"),
        ({"type": ["integer", "null"]}, '"5"', "5"),
        ({"type": ["boolean", "number", "object"]}, '"true"', "true"),
        ({"type": ["boolean", "number", "object"]}, '"1.5"', "1.5"),
        ({"enum": [1, 2]}, '"2"', "2"),
        ({"const": True}, '"true"', "true"),
        ({"anyOf": [INTEGER, {"type": "null"}]}, '"5"', "5"),
        ({"oneOf": [BOOLEAN, ARRAY]}, '"[1]"', "[1]"),
        ({"allOf": [{"type": ["string", "integer"]}, NUMBER]}, '"5"', "5"),
    ],
)
def test_text_that_can_mean_one_thing_alone_is_mended(
    property_: dict[str, Any], written: str, meant: str
) -> None:
    assert mend(schema_of(x=property_), f'{{"x":{written}}}') == f'{{"x":{meant}}}'


@pytest.mark.parametrize(
    ("property_", "written"),
    [
        *(
            (INTEGER, f'"{text}"')
            for text in ("05", "1e5", " 5 ", "5.0", "+5", "-0", "5,000", "0x5", "٥", "")
        ),
        *((INTEGER, f'"{text}"') for text in ("9007199254740992", "9" * 5000, "yes", "null", "five")),
        *((NUMBER, f'"{text}"') for text in ("NaN", "Infinity", "1e5", ".5", "5.", "1.", "0.1234567890123")),
        *((BOOLEAN, f'"{text}"') for text in ("True", "yes", "1", " true", "on", "")),
        (OBJECT, '"{"'),
        (OBJECT, '"[1]"'),
        (OBJECT, r'"{\"a\": 1} and more"'),
        (OBJECT, "\"{'a': 1}\""),
        (OBJECT, '"dev"'),
        (OBJECT, r'"{\"a\": \"\ud800\"}"'),
        (ARRAY, '"{}"'),
        (ARRAY, '"a, b"'),
        (STRING, '"5"'),
        ({}, '"5"'),
        (True, '"5"'),
        ({"type": ["integer", "string"]}, '"5"'),
        ({"type": "int"}, '"5"'),
        ({"enum": [1, "2"]}, '"1"'),
        ({"anyOf": [INTEGER, STRING]}, '"5"'),
        ({"oneOf": [INTEGER, {"enum": ["a"]}]}, '"5"'),
        ({"anyOf": [INTEGER, {}]}, '"5"'),
        ({"anyOf": [INTEGER, {"$ref": "https://example.org/schema"}]}, '"5"'),
        ({"$ref": "#/$defs/missing"}, '"5"'),
        ({"$id": "https://example.org/x", "$ref": "#/properties/y"}, '"5"'),
        ({"minimum": 1}, '"5"'),
        ({"properties": {"a": INTEGER}}, r'"{\"a\": 1}"'),
    ],
)
def test_all_else_stays_the_same_object(property_: dict[str, Any], written: str) -> None:
    arguments = f'{{"x":{written}}}'.encode()
    assert mended(arguments, dumped(schema_of(x=property_, y=INTEGER))) is arguments


@pytest.mark.parametrize(
    ("property_", "written", "meant"),
    [
        (schema_of(a=INTEGER), '{"a":"5"}', '{"a":5}'),
        ({"type": "array", "items": INTEGER}, '["1", 2 ,"x"]', '[1,2,"x"]'),
        ({"type": "object", "additionalProperties": BOOLEAN}, '{"b":"true"}', '{"b":true}'),
        (schema_of(a=INTEGER), r'"{\"a\": \"5\"}"', '{"a":5}'),
        ({"anyOf": [schema_of(a=INTEGER), {"type": "null"}]}, '{"a":"5"}', '{"a":5}'),
        ({"allOf": [schema_of(a=INTEGER), schema_of(b=NUMBER)]}, '{"a":"5","b":"5"}', '{"a":5,"b":5}'),
    ],
)
def test_what_lies_deeper_is_mended_too(property_: dict[str, Any], written: str, meant: str) -> None:
    assert mend(schema_of(x=property_), f'{{"x":{written}}}') == f'{{"x":{meant}}}'


@pytest.mark.parametrize(
    ("property_", "written"),
    [
        ({"type": "array", "prefixItems": [STRING], "items": INTEGER}, '["1"]'),
        ({"type": "array", "items": [INTEGER]}, '["1"]'),
        ({"type": "object", "properties": {"q": STRING}, "additionalProperties": INTEGER}, '{"q":"1"}'),
        (
            {"type": "object", "patternProperties": {"s": STRING}, "additionalProperties": INTEGER},
            '{"s":"1"}',
        ),
        ({"anyOf": [schema_of(a=INTEGER), schema_of(b=INTEGER)]}, '{"a":"5"}'),
        ({"anyOf": [schema_of(a=INTEGER), schema_of(a=STRING)]}, '{"a":"5"}'),
    ],
)
def test_what_another_part_of_the_schema_may_admit_stays(property_: dict[str, Any], written: str) -> None:
    arguments = f'{{"x":{written}}}'.encode()
    assert mended(arguments, dumped(schema_of(x=property_))) is arguments


def test_local_references_are_followed_and_cycles_end() -> None:
    schema = {
        **schema_of(
            count={"$ref": "#/$defs/count"},
            tree={"$ref": "#/$defs/tree"},
            loop={"$ref": "#/$defs/loop"},
            odd={"$ref": "#/$defs/a~1b%20c"},
        ),
        "$defs": {
            "count": INTEGER,
            "a/b c": BOOLEAN,
            "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, INTEGER]},
            "tree": schema_of(size=INTEGER, below={"type": "array", "items": {"$ref": "#/$defs/tree"}}),
        },
    }
    assert mend(schema, '{"count":"5","odd":"true","loop":"5"}') == '{"count":5,"odd":true,"loop":"5"}'
    assert mend(schema, '{"tree":{"size":"1","below":[{"size":"2"}]}}') == (
        '{"tree":{"size":1,"below":[{"size":2}]}}'
    )


def test_the_bytes_of_what_is_not_mended_stay() -> None:
    schema = schema_of(a=INTEGER, b=OBJECT)
    arguments = (
        '{"a": "5", "b": {"c":  1.50, "d": "\\u00e9"}, "e": 1E2, "big": 123456789012345678901234567890}'
    )
    assert mend(schema, arguments) == (
        '{"a":5,"b":{"c":  1.50, "d": "\\u00e9"},"e":1E2,"big":123456789012345678901234567890}'
    )


def test_a_mender_knows_that_a_tool_of_text_alone_needs_none() -> None:
    assert Mender(dumped(schema_of(a=STRING, b={}))).is_idle
    assert not Mender(dumped(schema_of(a=STRING, b=INTEGER))).is_idle


DEEP = '{"allOf":[' * 5000 + "{}" + "]}" * 5000
WIDE = {**schema_of(x={"anyOf": [schema_of(**{f"p{n}": INTEGER}) for n in range(3000)]}), "a": 1}
BUSHY = {
    **schema_of(**{f"p{n}": {"$ref": "#"} for n in range(50)}),
}


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"null",
        b"[]",
        b"true",
        b'{"properties": 5}',
        b'{"type": {}, "properties": {"a": {"type": 5, "enum": 7, "anyOf": {}, "items": 3}}}',
        b'{"properties": {"a": {"const": 1e400}}}',
        b'{"$ref": "#"}',
        b'{"$ref": 5}',
        b'{"allOf": [{"$ref": "#"}]}',
        b'{"properties": {"a": "\\ud800"}}',
        b"\xff",
        DEEP.encode(),
        dumped(WIDE),
        dumped(BUSHY),
    ],
)
def test_a_schema_may_be_anything(schema: bytes) -> None:
    for arguments in (b'{"a":"5","x":{"p1":"5"}}', b"{}", b"", b"5", b'{"a":', b"\xff"):
        assert mended(arguments, schema) is arguments


def test_endless_schemas_are_mended_as_far_as_they_are_read() -> None:
    schema = {**schema_of(n=INTEGER, **{f"p{n}": {"$ref": "#"} for n in range(50)})}
    assert mend(schema, '{"n":"5"}') == '{"n":5}'


def test_a_mender_is_made_of_a_definition() -> None:
    definition = dumped({"name": "t", "inputSchema": schema_of(n=INTEGER)})
    assert mender_of(definition).mended(b'{"n":"5"}') == b'{"n":5}'
    assert mender_of(b'{"name":"t"}').is_idle


# Properties ---------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c"])
types = st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])
texts = st.sampled_from(
    ["5", "05", "1.5", "true", "x", "{}", "[]", '{"a":"5"}', '["1"]', '{"b":{"c":"true"}}']
)
numbers = st.integers(-3, 3) | st.sampled_from([1.5, 2.0])
values = st.recursive(
    st.one_of(texts, numbers, st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
            "properties": st.dictionaries(names, inner, max_size=3),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(names, inner, max_size=1),
            "items": inner,
            "prefixItems": branches,
            "anyOf": branches,
            "oneOf": branches,
            "allOf": branches,
            "not": inner,
            "enum": st.lists(values, min_size=1, max_size=3),
            "required": st.lists(names, max_size=2, unique=True),
        },
    )


leaves = st.one_of(
    st.fixed_dictionaries({"type": types}),
    st.fixed_dictionaries({"type": types}),
    st.booleans(),
    st.sampled_from([{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"$ref": "#"}]),
)
schemas = st.recursive(leaves, larger, max_leaves=12)
roots = st.builds(
    lambda root, a, b: {**(root if isinstance(root, dict) else {}), "$defs": {"a": a, "b": b}},
    schemas,
    schemas,
    schemas,
)
arguments_ = st.dictionaries(names, values, max_size=3)


def is_endless(root: Any, schema: Any, on_the_way: tuple[str, ...] = ()) -> bool:
    """Whether a schema leads back to itself at the same place: no validator ends then."""
    if not isinstance(schema, dict):
        return False
    if "$ref" in schema:
        ref = schema["$ref"]
        target = root if ref == "#" else root["$defs"][ref[-1]]
        if ref in on_the_way or is_endless(root, target, (*on_the_way, ref)):
            return True
    parts = [*schema.get("anyOf", []), *schema.get("oneOf", []), *schema.get("allOf", []), schema.get("not")]
    return any(is_endless(root, part, on_the_way) for part in parts)


def admits(schema: dict[str, Any], arguments: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(arguments))


@unhurried
@given(roots, arguments_)
@example(
    {"properties": {"a": {"oneOf": [{"type": "integer"}, {"not": {"type": "integer"}}]}}, "$defs": {}},
    {"a": "5"},
)
def test_arguments_that_the_schema_admits_stay_the_same_object(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    given_ = dumped(arguments)
    assume(not any(is_endless(schema, part, ("#",)) for part in (schema, *schema["$defs"].values())))
    if admits(schema, arguments):
        assert mended(given_, dumped(schema)) is given_


@unhurried
@given(roots, arguments_)
def test_mending_twice_mends_no_more(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    mender = Mender(dumped(schema))
    once = mender.mended(dumped(arguments))
    assert mender.mended(once) is once


@unhurried
@given(st.dictionaries(names, st.sampled_from([INTEGER, NUMBER, BOOLEAN, OBJECT, ARRAY])), arguments_)
def test_only_text_is_ever_changed(properties: dict[str, Any], arguments: dict[str, Any]) -> None:
    after = json.loads(bytes(mended(dumped(arguments), dumped(schema_of(**properties)))))
    assert after.keys() == arguments.keys()
    for name, value in arguments.items():
        if not isinstance(value, str):
            assert after[name] == value


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_nothing_raises(arguments: bytes, schema: bytes) -> None:
    mended(arguments, schema)
