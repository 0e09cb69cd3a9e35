"""Tier 1: which failures are refusals of arguments, and what is put beside these."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench import wire
from mcp_workbench.metatools.complaints import is_of_arguments
from mcp_workbench.metatools.refusals import with_schema
from mcp_workbench.offers import Offer
from mcp_workbench.schemas.misfits import breaks
from mcp_workbench.wire import Answer

from .fake_link import dumped

Json = dict[str, Any]

SCHEMA = (
    b'{"type":"object", "properties":{"path":{"type":"string"},"depth":{"type":"integer"}},'
    b'"required":["path"],"\\u0078":1.50}'
)
READ = Offer("read", b'{"name":"read","inputSchema":%b}' % SCHEMA)
BESIDE = f"Input schema of read: {SCHEMA.decode()}"
FINE = b'{"path":"a"}'


def failed(*texts: str, **more: Any) -> Answer:
    blocks = [{"type": "text", "text": text} for text in texts]
    return wire.result(dumped({"content": blocks, "isError": True, **more}))


def error(code: int, message: str, **more: Any) -> Answer:
    return Answer("error", dumped({"code": code, "message": message, **more}))


def is_refused(answer: Answer, arguments: bytes = FINE, tool: Offer = READ) -> bool:
    seen = with_schema(answer, tool, arguments)
    assert seen is answer or b"Input schema of" in bytes(seen.body)
    return seen is not answer


# The words ----------------------------------------------------------------------------------------

# As SDKs, validators and tools of their own word it.
REFUSALS = [
    "MCP error -32602: Input validation error: Invalid arguments for tool x: Invalid input: expected string, "
    "received undefined at path",
    'MCP error -32602: Invalid arguments for tool echo: [\n  {\n    "code": "invalid_type"\n  }\n]',
    "Error executing tool add: 1 validation error for addArguments\na\n  Field required [type=missing]",
    "2 validation errors for call[greet]\nname\n  Missing required argument [type=missing_argument]",
    "1 validation error for SearchRequest\npath\n  Field required [type=missing, input_value={}]",
    "Input validation error: 'path' is a required property",
    "Input validation error: 5 is not of type 'string'",
    "'3' is not valid under any of the given schemas",
    "Additional properties are not allowed ('x' was unexpected); it must NOT have additional properties",
    "data must have required property 'path'",
    "data/depth must be integer",
    'validating "arguments": validating root: required: missing properties: ["path"]',
    'invalid params: validating root: unexpected additional properties ["x"]',
    "failed to deserialize parameters: missing field `path`",
    "missing field `path`",
    "unknown field `pth`, expected `path` or `depth`",
    'invalid type: string "x", expected i64',
    "The arguments dictionary is missing a value for the required parameter 'path'. (Parameter 'arguments')",
    "The following arguments were passed but were not found in the method: [other].",
    "$.depth: string found, integer expected",
    "$.path: is missing but it is required",
    "Missing required arguments: path",
    "missing keyword: :path",
    "missing required parameter: path",
    'required argument "path" not found',
    "read() missing 1 required positional argument: 'path'",
    "read() got an unexpected keyword argument 'file'",
    "Tool 'read' parameter validation failed: path: Required.",
    "Expected string, received number",
    "Invalid type: Expected string but received 5",
    "Unrecognized key(s) in object: 'pth'",
    '[{"code": "unrecognized_keys", "keys": ["x"], "path": []}]',
    "Invalid parameters: depth",
    "Invalid argument: depth has to be positive",
    "The path field is required.",
    "path is required",
    "'path' is required",
    "path: Required",
    "depth must be a number",
    "Please provide 'path'",
    "Parameter depth is required",
    "Missing or invalid parameter",
    'The "path" argument must be of type string. Received undefined',
    "unknown parameter(s) ['mode']; accepted are: path, depth",
]

# That something is required, missing, unknown or invalid says nothing of arguments by itself.
OTHERS = [
    "",
    "ENOENT: no such file or directory, open '/tmp/none'",
    "File not found: path",
    "Access denied - path outside allowed directories: /etc not in /tmp",
    "permission required",
    "login required",
    "Authentication required: run login first",
    "401 Unauthorized: Missing API key",
    "Missing credentials in config",
    "OSError: [Errno 22] Invalid argument: '/tmp/\\x00'",
    "EINVAL: invalid argument, read",
    "mount: /mnt: invalid argument",
    "expected 200, got 404",
    "expected status 200 but received 500",
    "expected string or bytes-like object, got 'NoneType'",
    "SSL: CERTIFICATE_VERIFY_FAILED: certificate validation failed",
    "422 Validation Failed",
    "XML validation error in line 3",
    "5 validation errors for CallToolResult\ncontent.0\n  Field required",
    "1 validation error for Issue\ntitle\n  Field required",
    "error decoding response body: missing field `id` at line 1 column 20",
    "invalid type: null, expected a string at line 1 column 20",
    "Unknown column 'x' in 'field list'",
    "unknown host example.org",
    "Unknown tool: read",
    "MCP error -32602: Tool read not found",
    "MCP error -32602: Tool read disabled",
    "MCP error -32602: Output validation error: Invalid structured content for tool read: expected string, "
    "received undefined",
    "Merge conflict: both branches must be up to date",
    "The disk must have additional space",
    "A reviewer is required to merge",
    "Invalid JSON in response",
    "Invalid date",
    "Entity with name none not found",
    "Rate limit exceeded",
    "It timed out; unexpected end of file",
    "This operation requires Node 20",
    "Unknown host in connection properties",
    "Missing credentials in connection parameters",
    "The properties file is missing",
    "Invalid connection parameters",
]


@pytest.mark.parametrize("said", REFUSALS)
def test_the_words_of_sdks_validators_and_tools_for_wrong_arguments_are_understood(said: str) -> None:
    assert is_refused(failed(said))
    assert is_refused(error(-32603, said))
    assert is_refused(error(-32603, "Internal error", data=said))


@pytest.mark.parametrize("said", OTHERS)
def test_an_ordinary_failure_is_none_whatever_it_has_in_common_with_a_refusal(said: str) -> None:
    assert not is_refused(failed(said))
    assert not is_refused(error(-32603, said))
    assert not is_refused(error(-32000, "Server error", data={"why": said}))


def test_a_parameter_is_known_by_its_name_whatever_that_is() -> None:
    for name in ("a.b*", "x y", "Größe", "(", "["):
        schema = dumped({"properties": {name: {"type": "string"}}})
        tool = Offer("t", b'{"name":"t","inputSchema":%b}' % schema)
        assert is_refused(failed(f"{name} is required"), tool=tool)
        assert not is_refused(failed("other is required"), tool=tool)


def test_only_the_beginning_of_a_long_failure_is_read() -> None:
    assert not is_refused(failed("x" * 100_000 + " -32602"))


@given(said=st.text(), parameters=st.lists(st.text(), max_size=3))
def test_any_text_and_any_names_can_be_judged(said: str, parameters: list[str]) -> None:
    assert is_of_arguments(said, parameters) in (True, False)


# The arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "arguments", "broken"),
    [
        ({"required": ["a"]}, "{}", True),
        ({"required": ["a"]}, '{"a":null}', False),
        ({"required": "a"}, "{}", False),
        ({"properties": {"a": {}}}, '{"b":1}', False),
        ({"properties": {"a": {}}, "additionalProperties": False}, '{"b":1}', True),
        ({"properties": {"a": {}}, "additionalProperties": False}, '{"a":1}', False),
        ({"additionalProperties": False, "patternProperties": {"^b": {}}}, '{"b":1}', False),
        ({"properties": {"a": {"type": "string"}}}, '{"a":5}', True),
        ({"properties": {"a": {"type": "string"}}}, '{"a":"5"}', False),
        ({"properties": {"a": {"type": "integer"}}}, '{"a":5.0}', False),
        ({"properties": {"a": {"type": "integer"}}}, '{"a":5.5}', True),
        ({"properties": {"a": {"type": "integer"}}}, '{"a":true}', True),
        ({"properties": {"a": {"type": "number"}}}, '{"a":false}', True),
        ({"properties": {"a": {"type": ["string", "null"]}}}, '{"a":null}', False),
        ({"properties": {"a": {"type": ["string", "null"]}}}, '{"a":[]}', True),
        ({"properties": {"a": {"type": "file"}}}, '{"a":5}', False),
        ({"properties": {"a": {"enum": ["x", "y"]}}}, '{"a":"z"}', True),
        ({"properties": {"a": {"enum": ["x", "y"]}}}, '{"a":"y"}', False),
        ({"properties": {"a": False}}, '{"a":1}', True),
        ({"properties": {"a": True}}, '{"a":1}', False),
        ({"properties": {"a": {"items": {"type": "string"}}}}, '{"a":["x",5]}', True),
        ({"properties": {"a": {"items": {"required": ["b"]}}}}, '{"a":[{"b":1},{}]}', True),
        ({"properties": {"a": {"prefixItems": [{}], "items": {"type": "string"}}}}, '{"a":[5]}', False),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}, '{"a":5}', True),
        (
            {"properties": {"a": {"$ref": "#/$defs/A", "type": "string"}}, "$defs": {"A": {}}},
            '{"a":5}',
            False,
        ),
        ({"properties": {"a": {"$ref": "other.json"}}}, '{"a":5}', False),
        ({"$ref": "#"}, "{}", False),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "{}", False),
        ({}, "null", True),
        ({}, "[]", True),
        ({}, "{", False),
        ([], "{}", False),
    ],
)
def test_arguments_break_a_schema_where_that_is_plain(schema: Any, arguments: str, broken: bool) -> None:
    assert breaks(arguments.encode(), dumped(schema)) is broken


@pytest.mark.parametrize("schema", [b"", b"null", b'"\\ud800"', b'{"a":' * 5000])
def test_what_is_no_schema_is_not_broken(schema: bytes) -> None:
    assert not breaks(b'{"a":1}', schema)


@pytest.mark.parametrize("arguments", [b"{}", b'{"path":5}', b'{"path":"a","depth":[]}', b"null"])
def test_a_failure_of_arguments_that_break_the_schema_is_a_refusal_whatever_it_says(arguments: bytes) -> None:
    assert is_refused(failed("An error occurred invoking 'read'."), arguments)
    assert is_refused(failed(), arguments)
    assert is_refused(wire.result(b'{"isError":true}'), arguments)
    assert is_refused(error(-32000, "Internal tool error"), arguments)
    assert not is_refused(failed("Unknown tool: read"), arguments)
    assert not is_refused(error(-32602, "Tool read not found"), arguments)
    assert not is_refused(wire.result(b'{"content":[]}'), arguments)


def test_what_was_mended_before_it_was_sent_did_not_break_the_schema() -> None:
    assert not is_refused(failed("it rains"), b'{"path":"a","depth":"5"}')
    assert is_refused(failed("it rains"), b'{"path":"a","depth":"five"}')


# What stands beside -------------------------------------------------------------------------------


def test_an_error_keeps_its_code_and_data_and_has_the_schema_behind_its_message() -> None:
    body = (
        b'{"code":-32602, "message":"Bad \\u0041","data":{"x": 1.50,"big":12345678901234567890},"more":[ ]}'
    )
    seen = with_schema(Answer("error", body), READ, FINE)
    assert seen.member == "error"
    assert bytes(seen.body) == (
        b'{"code":-32602,"message":%b,"data":{"x": 1.50,"big":12345678901234567890},"more":[ ]}'
        % dumped(f"Bad A\n{BESIDE}")
    )


def test_a_result_keeps_all_its_blocks_and_fields_and_has_the_schema_as_one_more() -> None:
    blocks = b'{"type":"text","text":"-32602 \\u0041"}, {"type":"image","data":"AA==","n":1.50}'
    body = b'{"_meta":{"k":1e400},"content":[%b],"isError":true,"structuredContent":{"b":1,"a":2}}' % blocks
    seen = with_schema(wire.result(body), READ, FINE)
    first, image = blocks.split(b", ")
    beside = dumped({"type": "text", "text": BESIDE})
    expected = body.replace(blocks, b",".join((first, image, beside)))
    assert bytes(seen.body) == expected


@pytest.mark.parametrize(
    "answer",
    [
        wire.result(b'{"content":[{"type":"text","text":"-32602: isError"}]}'),
        wire.result(b'{"content":[{"type":"text","text":"-32602"}],"isError":false}'),
        wire.result(b'{"content":[{"type":"text","text":"-32602"}],"isError":"true"}'),
        wire.result(b'{"content":5,"isError":true}'),
        wire.result(b'{"content":[5,{"type":"image"},{"text":7}],"isError":true}'),
        wire.result(b'["isError"]'),
        Answer("error", b'{"code":-32602,"message":{"a":1}}'),
        Answer("error", b'"-32602"'),
        error(-32601, "Method not found"),
    ],
)
def test_all_else_stays_the_same_object(answer: Answer) -> None:
    assert with_schema(answer, READ, FINE) is answer


def test_lone_surrogates_are_no_obstacle() -> None:
    body = b'{"content":[{"type":"text","text":"-32602 \\ud800"}],"isError":true}'
    seen = bytes(with_schema(wire.result(body), READ, b'{"path":"\\udfff"}').body)
    assert b'"-32602 \\ud800"' in seen
    assert json.loads(seen)["content"][1]["text"] == BESIDE


@given(
    body=st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["isError", "content", "code"]), inner)
        ),
    ).map(dumped),
    arguments=st.binary(),
    member=st.sampled_from(["result", "error"]),
)
def test_nothing_raises(body: bytes, arguments: bytes, member: str) -> None:
    assert with_schema(Answer(member, body), READ, arguments).member == member
