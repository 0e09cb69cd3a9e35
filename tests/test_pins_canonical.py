"""Tier 1: when two definitions or entries are the same."""

import copy
import json
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcp_workbench.config import Server
from mcp_workbench.pins.canonical import canonical, definition_hash, written
from mcp_workbench.pins.entries import catalogue_key, entry_hash, entry_identity
from mcp_workbench.pins.tree import leaves, parsed
from mcp_workbench.raw_json import Malformed

TOOL: dict[str, Any] = {
    "name": "read_file",
    "title": "Read",
    "description": "Reads a file.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where", "default": "a.txt", "pattern": "^[a-z]+$"},
            "mode": {"enum": ["text", "binary", 3, None, True]},
            "lines": {"type": "array", "items": {"type": "integer", "minimum": 1, "multipleOf": 0.5}},
        },
        "required": ["path", "mode"],
        "additionalProperties": False,
        "$defs": {"x": {"anyOf": [{"type": "null"}, {"const": {}}, {"const": []}]}},
    },
    "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "annotations": {"readOnlyHint": True, "title": "Reads"},
    "icons": [{"src": "https://example.org/a.png", "sizes": ["48x48"]}],
    "execution": {"taskSupport": "forbidden"},
    "_meta": {"example.org/rank": 10**400, "nested": {"a": [[1], [2, 3]]}},
    "notYetInvented": {"deep": [{"er": "x"}]},
}

numbers = st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.floats(-1e9, 1e9).map(repr)
texts = st.text(st.characters(exclude_categories=[]), max_size=8)  # lone surrogates, too
values = st.recursive(
    st.none() | st.booleans() | numbers.map(lambda number: Decimal(str(number))) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def in_some_way(value: Any, random: Random) -> str:
    """The value as JSON, in one of the ways in which it can be written."""
    space = "".join(random.choices(" \t\r\n", k=random.choice([0, 0, 1, 3])))
    if isinstance(value, dict):
        members = [
            f"{in_some_way(key, random)}:{in_some_way(member, random)}" for key, member in value.items()
        ]
        random.shuffle(members)
        text = "{" + space + ",".join(members) + space + "}"
    elif isinstance(value, list):
        text = "[" + ",".join(in_some_way(element, random) for element in value) + space + "]"
    elif isinstance(value, str):
        text = '"' + "".join(character_in_some_way(character, random) for character in value) + '"'
    elif isinstance(value, Decimal):
        text = number_in_some_way(value, random)
    else:
        text = json.dumps(value)
    return space + text + space


def character_in_some_way(character: str, random: Random) -> str:
    must = character in '"\\' or character < " " or "\ud800" <= character <= "\udfff"
    if character == "/" and random.random() < 0.5:
        return "\\/"
    if must or random.random() < 0.3:
        escaped = json.dumps(character)[1:-1]
        return escaped if len(escaped) != 1 else f"\\u{ord(character):04{random.choice('xX')}}"
    return character


def number_in_some_way(value: Decimal, random: Random) -> str:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    mantissa = "".join(map(str, digits)).lstrip("0") or "0"
    shift = random.randint(0, 3) if mantissa != "0" else 0
    ways = [
        f"{mantissa}e{exponent}",
        f"{mantissa}{'0' * shift}E{exponent - shift:+}",
        f"{mantissa}.00e{exponent}",
    ]
    if abs(exponent) < 500:
        ways.append(f"{value.copy_abs():f}")
    if len(mantissa) > 1:
        ways.append(f"{mantissa[0]}.{mantissa[1:]}e{exponent + len(mantissa) - 1}")
    return ("-" if sign else "") + random.choice(ways)


def joined(value: Any) -> Any:
    """The value with halves of a surrogate pair that stand side by side made one, as JSON reads them."""
    if isinstance(value, dict):
        return {joined(key): joined(member) for key, member in value.items()}
    if isinstance(value, list):
        return [joined(element) for element in value]
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return value


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@given(values, st.randoms(use_true_random=False))
def test_no_order_space_escape_or_way_of_writing_a_number_makes_a_difference(
    value: Any, random: Random
) -> None:
    value = joined(value)
    one, other = in_some_way(value, random).encode(), in_some_way(value, random).encode()
    assert definition_hash(one) == definition_hash(other)


@given(values, values, st.randoms(use_true_random=False))
def test_two_values_that_differ_never_have_the_same_hash(one: Any, other: Any, random: Random) -> None:
    one, other = joined(one), joined(other)
    # In Python 1 == True.
    assume(repr(one) != repr(other) and normal(one) != normal(other))
    assert definition_hash(in_some_way(one, random).encode()) != definition_hash(
        in_some_way(other, random).encode()
    )


def normal(value: Any) -> Any:
    """The value in a form that is equal for equal JSON alone."""
    if isinstance(value, dict):
        return ("object", sorted((key, normal(member)) for key, member in value.items()).__repr__())
    if isinstance(value, list):
        return ("array", [normal(element) for element in value].__repr__())
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        significant = "".join(map(str, digits)).strip("0")
        left = "".join(map(str, digits)).lstrip("0")
        if not left:
            return ("number", "0")
        assert isinstance(exponent, int)
        return ("number", f"{sign}{significant}e{exponent + len(left) - len(left.rstrip('0'))}")
    return (type(value).__name__, repr(value))


@given(values, st.randoms(use_true_random=False))
def test_the_quick_and_the_slow_way_agree(value: Any, random: Random) -> None:
    definition = in_some_way(joined(value), random).encode()
    assert canonical(definition) == written(parsed(definition))
    assert canonical(canonical(definition)) == canonical(definition)


def mutations(value: Any) -> Iterator[Any]:
    """The value with one thing in it changed, for each thing that is in it."""
    if isinstance(value, dict):
        for key, member in value.items():
            rest = {name: other for name, other in value.items() if name != key}
            yield rest
            yield {**rest, key + "x": member}
            yield from ({**value, key: changed} for changed in mutations(member))
        yield {**value, "added": None}
    elif isinstance(value, list):
        for at, element in enumerate(value):
            yield value[:at] + value[at + 1 :]
            yield from ([*value[:at], changed, *value[at + 1 :]] for changed in mutations(element))
        yield [*value, None]
        if len(value) > 1 and value[0] != value[-1]:
            yield value[::-1]
    elif isinstance(value, bool):
        yield from (not value, int(value), str(value).lower(), None)
    elif isinstance(value, (int, float)):
        yield from (value + 1, -value, str(value), [value], value == 1)
    elif isinstance(value, str):
        yield from (value + " ", value + "\u200b", value.swapcase() + "'", value[1:], [value], None)
        yield from (value + "\U000e0041", "\ufeff" + value)
    else:
        yield from (False, 0, "", "null", {}, [])


def test_each_mutation_of_each_field_of_a_definition_is_another_hash() -> None:
    seen = {definition_hash(dumped(TOOL)): "the tool itself"}
    for changed in mutations(TOOL):
        told = seen.setdefault(definition_hash(dumped(changed)), repr(changed))
        assert told == repr(changed)
    assert len(seen) > 300


def test_no_reordering_of_a_definition_is_another_hash() -> None:
    def backwards(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: backwards(member) for key, member in reversed(value.items())}
        return [backwards(element) for element in value] if isinstance(value, list) else value

    expected = definition_hash(dumped(TOOL))
    assert expected.startswith("sha256:")
    assert len(expected) == 71
    assert definition_hash(dumped(backwards(copy.deepcopy(TOOL)))) == expected
    assert definition_hash(json.dumps(TOOL, indent=4).encode()) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("1", "1e0"),
        ("1", "10E-1"),
        ("0", "-0"),
        ("0", "-0.00e7"),
        ("100", "1e2"),
        ("1e400", "1" + "0" * 400),
        ("123456789012345678", "1.23456789012345678e17"),
        ("0.1", "1e-1"),
        ("1e-400", "0.1e-399"),
        ('"A"', '"\\u0041"'),
        ('"/"', '"\\/"'),
        ('"😀"', '"\\ud83d\\ude00"'),
        ('"\\ud800"', '"\\uD800"'),
        ('{"b":1,"a":2}', ' {"a" : 2,\n"b": 1} '),
    ],
)
def test_what_means_the_same_is_the_same(one: str, other: str) -> None:
    assert definition_hash(one.encode()) == definition_hash(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1" + "0" * 400, "1" + "0" * 399 + "1"),
        ("1e400", "1e401"),
        ("9007199254740992", "9007199254740993"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ("1e" + "9" * 5000, "2e" + "9" * 5000),
        ("1", '"1"'),
        ("1", "true"),
        ("0", "false"),
        ("null", '"null"'),
        ("{}", "[]"),
        ("[1,2]", "[2,1]"),
        ('{"required":["a","b"]}', '{"required":["b","a"]}'),
        ('{"a":null}', "{}"),
        ('"\\ud800"', '"\\ud801"'),
        ('"\\ud800"', '"\ufffd"'),
        ('"é"', '"e\u0301"'),
        ('"a"', '"A"'),
        ('"a"', '"a\u200b"'),
    ],
)
def test_what_differs_is_not_the_same(one: str, other: str) -> None:
    assert definition_hash(one.encode()) != definition_hash(other.encode())


def test_a_definition_with_a_doubled_key_is_like_none_of_its_readings() -> None:
    ways = [
        '{"name":"a","x":{"d":1,"d":2}}',
        '{"name":"a","x":{"d":2,"d":1}}',
        '{"name":"a","x":{"d":1}}',
        '{"name":"a","x":{"d":2}}',
        '{"name":"a","x":{"d":2,"d":2}}',
    ]
    assert len({definition_hash(way.encode()) for way in ways}) == len(ways)
    assert definition_hash(b'{"d":1,"c":0,"d":2}') == definition_hash(b'{"c": 0, "d": 1, "d": 2}')


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_nesting_of_any_depth_is_hashed(opening: str) -> None:
    def nested(depth: int, inside: str) -> bytes:
        closing = "]" if opening == "[" else "}"
        return (opening * depth + inside + closing * depth).encode()

    for depth in (2_000, 10_000, 100_000):
        assert definition_hash(nested(depth, "1")) != definition_hash(nested(depth, "2"))
    assert definition_hash(nested(2_000, "1")) == definition_hash(nested(2_000, " 1.0 "))
    assert [leaf.value for leaf in leaves(parsed(nested(50_000, '"end"')))][-1] == "end"


def test_a_megabyte_with_odd_things_in_it_is_hashed_as_it_stands() -> None:
    long = b'{"a":1,"a":[' + b",".join([b"1"] * 500_000) + b"]}"
    assert canonical(long) == long


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1", "[1,]", "{,}", "[}", "{]", "]", "[1 2]", "1 2"),
        *('{"a"}', '{"a":}', '{"a":1,}', '{"a":1]', "{1:2}", '"a', '"\\x"', '"\n"'),
        *("NaN", "[NaN]", "01", "+1", ".5", "1.", "-", "tru", "nul", "\ufeff1"),
    ],
)
def test_what_is_no_json_is_no_tree_and_hashed_as_it_stands(text: str) -> None:
    with pytest.raises(Malformed):
        parsed(text.encode())
    assert canonical(text.encode()) == text.encode()


def test_bytes_that_are_no_text_are_hashed_as_they_stand() -> None:
    assert definition_hash(b'"\xff"') != definition_hash('"\ufffd"'.encode())
    with pytest.raises(Malformed):
        parsed(b'"\xff"')


@given(values, st.randoms(use_true_random=False), st.integers(0, 200), st.characters())
def test_the_tree_is_read_where_a_decoder_of_the_library_reads_it_too(
    value: Any, random: Random, at: int, character: str
) -> None:
    text = in_some_way(joined(value), random)
    text = text[:at] + character + text[at:]
    assume("NaN" not in text and "Infinity" not in text)
    try:
        json.loads(text)
    except ValueError:
        with pytest.raises(Malformed):
            parsed(text.encode("utf-8", "replace"))
    else:
        parsed(text.encode())


# Entries ----------------------------------------------------------------------------------------

LOCAL = Server(
    name="files",
    transport="stdio",
    command="npx",
    args=("-y", "files@1", "${ROOT}"),
    env={"TOKEN": "s3cret-value", "LEVEL": "${LEVEL:-info}", "HOME": None},
    cwd="/srv",
    env_file=".env",
)
REMOTE = Server(
    name="files",
    transport="http",
    url="https://me:pa55@example.org/mcp?key=${KEY}",
    headers={"Authorization": "Bearer s3cret-value", "X-Team": "a"},
)


def with_(server: Server, **changes: Any) -> Server:
    from msgspec.structs import replace

    return replace(server, **changes)


@pytest.mark.parametrize(
    "changed",
    [
        with_(LOCAL, command="npm"),
        with_(LOCAL, args=("-y", "files@2", "${ROOT}")),
        with_(LOCAL, args=("files@1", "-y", "${ROOT}")),
        with_(LOCAL, args=("-y", "files@1 ${ROOT}")),
        with_(LOCAL, env={**LOCAL.env, "NODE_OPTIONS": ""}),
        with_(LOCAL, env={"TOKEN": "", "LEVEL": ""}),
        with_(LOCAL, env={**LOCAL.env, "HOME": "/"}),
        with_(LOCAL, cwd="/tmp"),
        with_(LOCAL, cwd=None),
        with_(LOCAL, env_file="other"),
        REMOTE,
        with_(REMOTE, transport="sse"),
        with_(REMOTE, url="https://me:pa55@example.com/mcp?key=${KEY}"),
        with_(REMOTE, url="https://me:pa55@example.org/mcp?key=${OTHER}"),
        with_(REMOTE, url="https://you:pa55@example.org/mcp?key=${KEY}"),
        with_(REMOTE, url="https://me:pa55@example.org\\@example.net/mcp?key=${KEY}"),
        with_(REMOTE, headers={"Authorization": ""}),
    ],
)
def test_an_entry_that_runs_or_reaches_something_else_is_another(changed: Server) -> None:
    assert entry_hash(changed) != entry_hash(LOCAL)
    assert changed == REMOTE or entry_hash(changed) != entry_hash(REMOTE)
    assert catalogue_key("dev", changed) != catalogue_key("dev", LOCAL)


def test_all_those_entries_are_different_ones() -> None:
    hosts = [with_(REMOTE, url=f"https://a:{host}") for host in ("b\\@c/", "d\\@c/", "b/@c/", "d#@c", "d?@c")]
    assert len({entry_hash(server) for server in hosts}) == len(hosts)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LOCAL, with_(LOCAL, env={"HOME": None, "LEVEL": "debug", "TOKEN": "another"})),
        (LOCAL, with_(LOCAL, start_timeout=1.0, call_timeout=2.0, trust_annotations=True)),
        (REMOTE, with_(REMOTE, headers={"X-Team": "b", "Authorization": "other"})),
        (REMOTE, with_(REMOTE, url="https://me:other@example.org/mcp?key=${KEY}")),
    ],
)
def test_values_of_variables_and_headers_and_passwords_do_not_count(one: Server, other: Server) -> None:
    assert entry_hash(one) == entry_hash(other)
    assert catalogue_key("dev", one) == catalogue_key("dev", other)


def test_no_secret_is_in_what_is_kept_of_an_entry() -> None:
    for server in (LOCAL, REMOTE):
        assert b"s3cret" not in entry_identity(server)
        assert b"pa55" not in entry_identity(server)
    assert b"${ROOT}" in entry_identity(LOCAL)


def test_toolboxes_and_servers_have_keys_of_their_own() -> None:
    keys = {
        catalogue_key("dev", LOCAL),
        catalogue_key("prod", LOCAL),
        catalogue_key("dev", with_(LOCAL, name="other")),
        catalogue_key("de", with_(LOCAL, name="vfiles")),
    }
    assert len(keys) == 4
    assert entry_hash(LOCAL) == entry_hash(with_(LOCAL, name="other"))
