"""Tier 1: definitions in the form that a client can read."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mcp_workbench import raw_json
from mcp_workbench.schemas.dialects import PLAIN, Dialect, dialect_of, in_dialect

from .fake_link import dumped

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

FLAT = Dialect(plain_root=True)
NO_REFS = Dialect(no_refs=True)
BOTH = Dialect(plain_root=True, no_refs=True)


def written(schema: Any, dialect: Dialect) -> Any:
    """The inputSchema as the client of a dialect gets it."""
    definition = dumped({"name": "t", "inputSchema": schema})
    return json.loads(in_dialect(definition, dialect))["inputSchema"]


# Clients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("claude-code", FLAT),
        ("claude-ai", replace(FLAT, hides_instructions=True)),
        ("codex-mcp-client", replace(BOTH, hides_instructions=True)),
        ("gemini-cli-mcp-client", BOTH),
        ("gemini-cli-mcp-client-workbench", BOTH),
        ("opencode", BOTH),
        ("Visual Studio Code", NO_REFS),
        ("Visual Studio Code - Insiders", NO_REFS),
        ("Visual-Studio-Code", NO_REFS),
        ("github-copilot-developer", NO_REFS),
        ("Zed", replace(NO_REFS, hides_instructions=True)),
        ("cursor-vscode", Dialect(hides_instructions=True)),
        ("my client", PLAIN),
        ("", PLAIN),
    ],
)
def test_a_client_is_known_by_its_name(name: str, dialect: Dialect) -> None:
    assert dialect_of(name) == dialect


# What stays ---------------------------------------------------------------------------------------

NESTED_UNION = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
WITH_REF = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A", "description": "which"}},
    "$defs": {"A": {"type": "string", "enum": ["x"]}},
}
WITH_UNION = {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}]}


@pytest.mark.parametrize(
    ("schema", "dialect"),
    [
        ({"type": "object"}, BOTH),
        (NESTED_UNION, BOTH),
        (WITH_REF, FLAT),
        (WITH_UNION, NO_REFS),
        (WITH_REF, PLAIN),
        (WITH_UNION, PLAIN),
        ({"type": "object", "properties": {"$ref": {"type": "string"}}}, BOTH),
        ({"type": "object", "properties": {"anyOf": {"type": "string"}}}, BOTH),
        ({"type": "object", "properties": {"a": {"default": {"$ref": "#/a"}}}}, BOTH),
        ([], BOTH),
        (5, BOTH),
        (True, BOTH),
    ],
)
def test_what_a_client_can_read_stays_the_same_object(schema: Any, dialect: Dialect) -> None:
    definition = dumped({"name": "t", "inputSchema": schema})
    assert in_dialect(definition, dialect) is definition


@pytest.mark.parametrize(
    "definition",
    [
        b"",
        b"5",
        b"{}",
        b'{"name":"t"}',
        b'{"inputSchema":{"anyOf":["\\ud800"]}}',
        b"\xff",
        b'{"inputSchema":',
    ],
)
def test_what_is_no_definition_stays_the_same_object(definition: bytes) -> None:
    assert in_dialect(definition, BOTH) is definition


def test_the_other_fields_stay_as_they_are() -> None:
    definition = b'{"name":"t","_meta":{"n": 1.50, "u":"\\u00e9"},"inputSchema":%b,"annotations": {}}'
    before = raw_json.members(definition % dumped(WITH_UNION))
    after = raw_json.members(in_dialect(definition % dumped(WITH_UNION), BOTH))
    assert list(after) == list(before)
    for name in ("name", "_meta", "annotations"):
        assert bytes(after[name]) == bytes(before[name])


# Unions at the root -------------------------------------------------------------------------------

A, B = {"type": "string"}, {"type": "integer"}
EITHER = "give either a, or b"
DEPENDS = "which values go together is checked by the server"


@pytest.mark.parametrize(
    ("schema", "flat"),
    [
        (
            {"properties": {"a": A, "b": B}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"properties": {"a": A, "b": B}, "description": f"({EITHER})"},
        ),
        (
            {
                "description": "Finds.",
                "required": ["q"],
                "oneOf": [
                    {"properties": {"a": A, "q": A}, "required": ["a"]},
                    {"properties": {"b": B}, "required": ["b"]},
                ],
            },
            {
                "description": f"Finds. ({EITHER})",
                "properties": {"a": A, "q": A, "b": B},
                "required": ["q"],
            },
        ),
        (
            {
                "properties": {"a": A},
                "required": ["a"],
                "allOf": [{"properties": {"b": B}, "required": ["b"]}],
            },
            {"properties": {"a": A, "b": B}, "required": ["a", "b"]},
        ),
        (
            {
                "oneOf": [
                    {"properties": {"do": {"const": "add"}, "a": A}, "required": ["do", "a"]},
                    {"properties": {"do": {"const": "drop"}, "b": B}, "required": ["do", "b"]},
                ]
            },
            {
                "properties": {"do": {"enum": ["add", "drop"]}, "a": A, "b": B},
                "required": ["do"],
                "description": "(give either do=add and a, or do=drop and b)",
            },
        ),
        (
            {"anyOf": [{"properties": {"a": A}, "required": ["a"]}, {"properties": {"a": B}}]},
            {"properties": {"a": {"anyOf": [A, B]}}, "description": "(give either a, or none of these)"},
        ),
        (
            {
                "properties": {"a": A},
                "oneOf": [{"properties": {"a": {"const": "x"}}}, {"properties": {"b": B}}],
            },
            {"properties": {"a": A, "b": B}, "description": f"({DEPENDS})"},
        ),
        (
            {"allOf": [{"properties": {"a": A}}, {"properties": {"a": {"minLength": 2}}}]},
            {"properties": {"a": {"allOf": [A, {"minLength": 2}]}}},
        ),
        (
            {"anyOf": [{"properties": {"a": A}, "required": ["a"]}, {"type": "null"}, False]},
            {"properties": {"a": A}, "required": ["a"]},
        ),
        (
            {"properties": {"a": A}, "anyOf": [{"required": ["a"]}, True]},
            {"properties": {"a": A}, "description": "(give either a, or none of these)"},
        ),
        (
            {
                "properties": {"a": A},
                "if": {"properties": {"a": {"const": "x"}}},
                "then": {"properties": {"b": B}, "required": ["b"]},
                "not": {"required": ["c"]},
            },
            {
                "properties": {"a": A, "b": B},
                "description": f"({DEPENDS})",
            },
        ),
        (
            {"$ref": "#/$defs/In", "$defs": {"In": {"type": "object", "properties": {"a": A}}}},
            {"properties": {"a": A}, "$defs": {"In": {"type": "object", "properties": {"a": A}}}},
        ),
        (
            {"additionalProperties": False, "properties": {"a": A, "b": B}, "anyOf": [{"required": ["a"]}]},
            {"additionalProperties": False, "properties": {"a": A, "b": B}, "required": ["a"]},
        ),
    ],
)
def test_a_union_at_the_root_becomes_one_object(schema: dict[str, Any], flat: dict[str, Any]) -> None:
    assert written({"type": "object", **schema}, FLAT) == {"type": "object", **flat}


def test_a_reference_into_the_root_is_written_out_when_the_root_is_flattened() -> None:
    schema = {
        "type": "object",
        "anyOf": [{"properties": {"a": A}}],
        "properties": {"b": {"$ref": "#/anyOf/0/properties/a"}},
    }
    assert written(schema, FLAT) == {"type": "object", "properties": {"b": A, "a": A}}


# References ---------------------------------------------------------------------------------------


def test_references_are_written_out_where_they_stand() -> None:
    assert written(WITH_REF, NO_REFS) == {
        "type": "object",
        "properties": {"a": {"type": "string", "enum": ["x"], "description": "which"}},
    }


def test_a_cycle_is_cut_with_a_word() -> None:
    tree = {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
    schema = {"type": "object", "properties": {"t": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}}
    inner = written(schema, NO_REFS)["properties"]["t"]["properties"]["below"]["items"]
    assert inner == {"type": "object", "description": "(another Tree, as above)"}


@pytest.mark.parametrize("ref", ["#/$defs/none", "https://example.org/a", "#anchor", 5, "#/properties/x/y"])
def test_a_reference_that_leads_nowhere_is_said_to(ref: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": ref}}}
    assert written(schema, NO_REFS)["properties"]["a"] == {
        "description": "(it is not said here what this may be)"
    }


def test_a_schema_that_would_grow_without_bound_is_cut() -> None:
    doubling = {
        f"L{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/L{n + 1}"} for k in "ab"}}
        for n in range(30)
    }
    bulky = {"L30": {"description": "x" * 50_000}}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/L0"}}, "$defs": {**doubling, **bulky}}
    after = in_dialect(dumped({"name": "t", "inputSchema": schema}), BOTH)
    assert b"too large to be shown here" in after
    assert b'"$ref"' not in after
    assert len(after) < 1_000_000


@pytest.mark.parametrize(
    "root",
    [
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}]},
        {"$ref": "#"},
        {"allOf": 5, "anyOf": {"a": 1}, "properties": [], "required": "a", "if": 3},
        {"anyOf": [{"properties": 5, "required": [[]]}, "x", None]},
    ],
)
def test_a_root_may_be_anything(root: dict[str, Any]) -> None:
    for dialect in (FLAT, NO_REFS, BOTH):
        after = written({"type": "object", **root}, dialect)
        if dialect != NO_REFS:
            assert not after.keys() & {"anyOf", "oneOf", "allOf", "$ref", "if"}


def test_a_root_that_branches_without_end_is_cut() -> None:
    doubling = {
        f"L{n}": {"allOf": [{"$ref": f"#/$defs/L{n + 1}"}, {"$ref": f"#/$defs/L{n + 1}"}]} for n in range(30)
    }
    schema = {"type": "object", "allOf": [{"$ref": "#/$defs/L0"}], "$defs": doubling}
    assert "allOf" not in written(schema, FLAT)


# Properties ---------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "d"])
leaf = st.sampled_from(
    [A, B, {}, True, {"$ref": "#/$defs/X"}, {"$ref": "#/$defs/Y"}, {"$ref": "#"}, {"const": "k"}]
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": st.booleans(),
            "items": inner,
            "anyOf": branches,
            "oneOf": branches,
            "allOf": branches,
        },
    )


schemas = st.recursive(leaf, larger, max_leaves=10)
roots = st.builds(
    lambda root, x, y: {**root, "type": "object", "$defs": {"X": x, "Y": y}},
    schemas.filter(lambda it: isinstance(it, dict)),
    schemas,
    schemas,
)


def own_names(schema: Any) -> set[str]:
    """The properties that a root names, in itself or in its branches, not following any `$ref`."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return set()
    found = set(schema.get("properties", {}))
    for key in ("anyOf", "oneOf", "allOf"):
        for branch in schema.get(key, []):
            found |= own_names(branch)
    return found


@unhurried
@given(roots)
@example({"type": "object", "anyOf": [{"oneOf": [{"properties": {"a": A}}]}], "$defs": {}})
def test_no_name_of_a_property_is_lost(root: dict[str, Any]) -> None:
    for dialect in (FLAT, NO_REFS, BOTH):
        after = written(root, dialect)
        assert own_names(root) <= own_names(after)


@unhurried
@given(roots)
def test_a_client_gets_nothing_that_it_cannot_read(root: dict[str, Any]) -> None:
    definition = dumped({"name": "t", "inputSchema": root})
    flat = in_dialect(definition, BOTH)
    assert b'"$ref"' not in flat
    assert not json.loads(flat)["inputSchema"].keys() & {"anyOf", "oneOf", "allOf"}
    assert in_dialect(flat, BOTH) is flat


@unhurried
@given(roots)
def test_what_a_flat_root_requires_every_way_requires(root: dict[str, Any]) -> None:
    closed = {**root, "anyOf": [{"required": ["a", "b"]}, {"required": ["b"]}], "required": []}
    for key in ("oneOf", "allOf", "$ref"):
        closed.pop(key, None)
    assert written(closed, FLAT).get("required", []) == ["b"]
