"""Arguments with text where the schema wants something else: mended where that can mean one thing alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workbench import Client, Json, fake, serving, toolboxes

PROPERTIES: Json = {
    "n": {"type": "integer"},
    "x": {"type": "number"},
    "yes": {"type": "boolean"},
    "o": {"type": "object"},
    "a": {"type": "array", "items": {"$ref": "#/$defs/Id"}},
    "point": {"$ref": "#/$defs/Point"},
    "text": {"type": "string"},
    "any": {},
    "either": {"type": ["string", "integer"]},
    "or_none": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
}
SCHEMA: Json = {
    "type": "object",
    "properties": PROPERTIES,
    "$defs": {
        "Id": {"type": "integer"},
        "Point": {"type": "object", "properties": {"x": {"type": "number"}, "name": {"type": "string"}}},
    },
}


def taking(schema: Json, *more: str | Json, **script: Any) -> Json:
    """A server with a tool `t` that takes this, and answers with what it got."""
    return fake(tools=[{"name": "t", "inputSchema": schema}, *more], **script)


def sent(record: Path) -> list[str]:
    """The arguments of the calls that a server got, to the byte."""
    calls = [line for line in record.read_text().splitlines() if '"tools/call"' in line]
    return [line.partition('"arguments":')[2].removesuffix("}}") for line in calls]


async def passed(client: Client, arguments: str, tool: str = "use_tool") -> None:
    """Have these arguments, to the byte, come to the tool."""
    given = f'{{"tool":{{"toolbox":"dev","server":"a","tool":"t"}},"arguments":{arguments}}}'
    if tool not in ("use_tool", "use_readonly_tool"):
        given = arguments
    answer = client.expect("hand")
    client.write(
        b'{"jsonrpc":"2.0","id":"hand","method":"tools/call","params":{"name":"%b","arguments":%b}}\n'
        % (tool.encode(), given.encode())
    )
    assert "result" in await answer


MENDED = [
    ('{"n":"5"}', '{"n":5}'),
    ('{"n":"-12","x":"1.5"}', '{"n":-12,"x":1.5}'),
    ('{"yes":"true"}', '{"yes":true}'),
    ('{"yes":"false"}', '{"yes":false}'),
    (r'{"o":"{\"k\": [1, \"5\"]}"}', '{"o":{"k": [1, "5"]}}'),
    (r'{"o":"{\n  \"k\": 1\n}"}', '{"o":{   "k": 1 }}'),
    (r'{"a":"[1, 2]"}', '{"a":[1, 2]}'),
    ('{"a":["1",2]}', '{"a":[1,2]}'),
    (r'{"point":"{\"x\": \"1.5\", \"name\": \"5\"}"}', '{"point":{"x":1.5,"name":"5"}}'),
    ('{"point":{"x":"2"}}', '{"point":{"x":2}}'),
    ('{"or_none":"5"}', '{"or_none":5}'),
    ('{"text": "5", "n":"5", "more": 1.50}', '{"text":"5","n":5,"more":1.50}'),
]

# What the schema admits as text, what could mean something else, and what breaks the schema without a remedy.
LEFT = [
    "{}",
    '{ "n" : 5, "x": 1.50 , "x": 1E+2 }',
    '{"text":"5","any":"true","either":"5","unknown":"5"}',
    '{"n":"five"}',
    '{"n":"5.0"}',
    '{"n":"05"}',
    '{"n":" 5"}',
    '{"n":"99999999999999999999"}',
    '{"x":"NaN"}',
    '{"yes":"yes"}',
    '{"yes":"1"}',
    '{"o":"[1]"}',
    '{"o":"{"}',
    '{"a":"1, 2"}',
    '{"or_none":"null"}',
    '{"n":null,"yes":[true],"o":5,"text":7}',
    '{"n":"\\u0035\\ud800"}',
]


async def test_text_that_can_mean_one_thing_alone_is_mended(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": taking(SCHEMA, record=str(record))}), tmp_path) as client:
        for given, _ in MENDED:
            await passed(client, given)
    assert sent(record) == [meant for _, meant in MENDED]


async def test_all_else_is_sent_to_the_byte_also_where_it_breaks_the_schema(tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": taking(SCHEMA, record=str(record))}), tmp_path) as client:
        for given in LEFT:
            await passed(client, given)
    assert sent(record) == LEFT


@pytest.mark.parametrize("detail", ["full", "names"])
async def test_it_is_mended_whichever_way_a_tool_is_called(detail: str, tmp_path: Path) -> None:
    record = tmp_path / "record"
    tool = {"name": "t", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
    entry = fake(tools=[tool], record=str(record)) | {"trustAnnotations": True}
    config = toolboxes(dev={"a": entry}) | {"toolMode": "dynamic", "readOnlyTools": True, "detail": detail}
    async with serving(config, tmp_path) as client:
        await client.open("dev")
        for name in ("use_tool", "use_readonly_tool", "dev__a_t"):
            await passed(client, '{"n":"5","more":1.50}', name)
        # The whole of the arguments as text, too, as some models write them.
        await passed(client, json.dumps('{"n": "5"}'))
    assert sent(record) == ['{"n":5,"more":1.50}'] * 3 + ['{"n":5}']


async def test_it_is_mended_by_the_schema_that_is_in_force(tmp_path: Path) -> None:
    record = tmp_path / "record"
    integer, text = ({"type": "object", "properties": {"n": {"type": it}}} for it in ("integer", "string"))
    after = [{"name": "t", "inputSchema": text}, "echo"]
    entry = taking(integer, "change", tools_after=after, record=str(record))
    async with serving(toolboxes(dev={"a": entry}), tmp_path) as client:
        await passed(client, '{"n":"5"}')
        await client.text("dev", "a", "change")
        await client.text("dev", "a", "echo")  # it is listed anew by now
        await passed(client, '{"n":"5"}')
    calls = sent(record)
    assert (calls[0], calls[-1]) == ('{"n":5}', '{"n":"5"}')


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"n": True}},
        {"type": "object", "properties": {"n": {"type": "int"}}},
        {"type": "object", "properties": {"n": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"n": {"$ref": "#/properties/n"}}},
        {"type": "object", "properties": ["n"]},
    ],
    ids=json.dumps,
)
async def test_a_schema_that_says_nothing_mends_nothing(schema: Json, tmp_path: Path) -> None:
    record = tmp_path / "record"
    async with serving(toolboxes(dev={"a": taking(schema, record=str(record))}), tmp_path) as client:
        await passed(client, '{ "n":"5" }')
    assert sent(record) == ['{ "n":"5" }']


async def test_meta_and_progress_stay_with_mended_arguments(tmp_path: Path) -> None:
    record = tmp_path / "record"
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [{"name": "progress", "inputSchema": schema}]
    async with serving(toolboxes(dev={"a": fake(tools=tools, record=str(record))}), tmp_path) as client:
        meta = {"progressToken": "mine", "vendor/k": 1}
        await client.begin_use("dev", "a", "progress", meta=meta, n="2")
        told = [json.loads(line)["params"] for line in client.lines if b"notifications/progress" in line]
    assert [(it["progressToken"], it["progress"], it["total"]) for it in told] == [
        ("mine", 1, 2),
        ("mine", 2, 2),
    ]
    call = next(line for line in record.read_text().splitlines() if '"tools/call"' in line)
    assert json.loads(call)["params"]["_meta"]["vendor/k"] == 1
