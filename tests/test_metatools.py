"""Tier 1: the words of the contract: the listing, the definitions, the arguments and the answers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config import Config, Toolbox
from mcp_workbench.errors import CallError, InvalidParameters
from mcp_workbench.metatools import answers
from mcp_workbench.metatools.answers import Connected
from mcp_workbench.metatools.definitions import instructions, meta_tools
from mcp_workbench.metatools.requests import Address, read_closing, read_opening, tool_and_arguments
from mcp_workbench.offers import TOOLS, Listing, Offer
from mcp_workbench.wire import Answer

from .fake_link import dumped, server_entry, text_of, tool


def toolbox(name: str, description: str | None = None, servers: int = 1) -> Toolbox:
    return Toolbox(name, description, {f"s{at}": server_entry(f"s{at}") for at in range(servers)})


DEV = toolbox("dev", "Development environment tools", 3)
PROD = toolbox("prod", None, 2)


# The listing --------------------------------------------------------------------------------------


def test_the_listing_is_to_the_letter() -> None:
    assert (
        instructions([DEV, PROD], {})
        == """\
Available Toolboxes:

dev (3 servers)
  Description: Development environment tools

prod (2 servers)
  Description: No description provided

To access tools from a toolbox, use open_toolbox with the toolbox name."""
    )


def test_without_toolboxes_the_listing_says_how_to_get_some() -> None:
    assert (
        instructions([], {}, "workbench_")
        == """\
No toolboxes configured.

To configure toolboxes, add them to your workbench-config.json file.
See documentation for configuration format."""
    )


def test_the_number_of_servers_is_not_inflected() -> None:
    assert "one (1 servers)\n" in instructions([toolbox("one", servers=1)], {})
    assert "none (0 servers)\n" in instructions([toolbox("none", servers=0)], {})


def test_the_listing_names_the_opener_with_its_prefix() -> None:
    text = instructions([DEV], {}, "workbench_")
    assert text.endswith("To access tools from a toolbox, use workbench_open_toolbox with the toolbox name.")


def test_descriptions_in_the_listing_are_never_cut() -> None:
    long = "ä" * 5000
    assert f"  Description: {long}\n" in instructions([toolbox("dev", long)], {})


def test_an_empty_description_is_none() -> None:
    assert "  Description: No description provided\n" in instructions([toolbox("dev", "")], {})


# The definitions ----------------------------------------------------------------------------------


def configured(*toolboxes: Toolbox, **more: Any) -> Config:
    return Config(toolboxes={toolbox.name: toolbox for toolbox in toolboxes}, **more)


def defined(*toolboxes: Toolbox, **more: Any) -> dict[str, Any]:
    """The definitions of the meta-tools, by the names under which they are listed."""
    found = meta_tools(configured(*toolboxes, **more))
    read = [json.loads(definition) for definition in found.values()]
    return {each["name"]: each for each in read}


def described(*toolboxes: Toolbox) -> str:
    """The description of open_toolbox for a client that does not show instructions."""
    found = json.loads(meta_tools(configured(*toolboxes), describes=True)["open_toolbox"])
    text: str = found["description"]
    return text


def test_there_are_three_meta_tools_and_no_listing_among_them() -> None:
    assert list(defined(DEV)) == ["open_toolbox", "use_tool", "close_toolbox"]


def test_the_prefix_stands_before_their_names_and_where_they_are_spoken_of() -> None:
    found = defined(DEV, meta_tool_prefix="workbench_")
    assert list(found) == ["workbench_open_toolbox", "workbench_use_tool", "workbench_close_toolbox"]
    lean = defined(DEV, meta_tool_prefix="workbench_", detail="names")
    assert "workbench_use_tool" in json.dumps(lean["workbench_describe_tools"])


def test_our_own_definitions_pass_our_own_reading_of_definitions() -> None:
    definitions = meta_tools(configured(DEV, PROD, read_only_tools=True))
    listing = Listing(TOOLS)
    assert listing.take(b'{"tools":[%b]}' % b",".join(definitions.values())) is None
    assert listing.left_out == []
    assert list(listing.offers) == list(definitions)


def test_the_parameter_of_open_toolbox_lists_the_toolboxes() -> None:
    schema = defined(DEV, PROD)["open_toolbox"]["inputSchema"]
    assert schema["properties"]["toolbox_name"]["enum"] == ["dev", "prod"]
    assert schema["required"] == ["toolbox_name"]
    assert schema["properties"]["detail"]["enum"] == ["full", "signatures", "names"]


def test_without_toolboxes_there_is_no_list_of_them() -> None:
    found = defined()["open_toolbox"]
    assert "enum" not in found["inputSchema"]["properties"]["toolbox_name"]
    assert "No toolboxes are configured" in found["description"]


def test_the_description_of_open_toolbox_names_the_toolboxes() -> None:
    assert "Toolboxes: dev, prod" in defined(DEV, PROD)["open_toolbox"]["description"]
    text = described(DEV, PROD)
    assert "dev: Development environment tools" in text
    assert "prod: No description provided" in text


@given(
    st.lists(
        st.builds(toolbox, st.text(min_size=1, max_size=40), st.none() | st.text(max_size=300)), max_size=80
    )
)
def test_the_description_of_open_toolbox_stays_below_two_kilobytes(toolboxes: list[Toolbox]) -> None:
    assert len(defined(*toolboxes)["open_toolbox"]["description"].encode()) <= 2048
    assert len(described(*toolboxes).encode()) <= 2048


def test_where_descriptions_do_not_fit_the_names_do_and_of_these_as_many_as_fit() -> None:
    assert "box0, box1," in described(*(toolbox(f"box{at}", "x" * 300) for at in range(10)))
    many = [toolbox(f"a_rather_long_name_{at}") for at in range(200)]
    text = described(*many)
    named, _, more = text.partition(", and ")
    shown = named.count("a_rather_long_name_")
    assert more == f"{200 - shown} more, which its parameter lists"
    assert len(text.encode()) > 1900
    assert len(defined(*many)["open_toolbox"]["description"].encode()) < 300
    assert len(defined(*many)["open_toolbox"]["inputSchema"]["properties"]["toolbox_name"]["enum"]) == 200


def test_the_schema_of_use_tool_asks_for_the_three_names() -> None:
    schema = defined(DEV)["use_tool"]["inputSchema"]
    assert schema["required"] == ["tool"]
    assert list(schema["properties"]) == ["tool", "arguments"]
    assert schema["properties"]["tool"]["required"] == ["toolbox", "server", "tool"]
    assert schema["properties"]["arguments"]["type"] == "object"


# The arguments ------------------------------------------------------------------------------------

ADDRESS = '"tool":{"toolbox":"dev","server":"files","tool":"read"}'


def complaint(text: str) -> str:
    with pytest.raises(InvalidParameters) as caught:
        tool_and_arguments(text.encode())
    assert isinstance(caught.value, CallError)
    return str(caught.value)


def given_arguments(text: str) -> bytes:
    address, arguments = tool_and_arguments(f'{{{ADDRESS},"arguments":{text}}}'.encode())
    assert address == Address("dev", "files", "read")
    return bytes(arguments)


@pytest.mark.parametrize("text", ["{}", '{"a": 1E400}', '{"b" : [ ] , "a":"\\ud800"}', '{"a":1,"a":2}'])
def test_arguments_are_handed_on_as_they_came(text: str) -> None:
    assert given_arguments(text) == text.encode()


def test_missing_arguments_are_none() -> None:
    _, arguments = tool_and_arguments(f"{{{ADDRESS}}}".encode())
    assert bytes(arguments) == b"{}"


def test_arguments_may_stand_before_the_tool() -> None:
    _, arguments = tool_and_arguments(f'{{"arguments":{{"a":1}},{ADDRESS}}}'.encode())
    assert bytes(arguments) == b'{"a":1}'


@pytest.mark.parametrize("text", ["{}", '{"a":1}', '{"a":"ä😀\\n"}', '{"a":{"b":[1E400,-0]}}'])
def test_arguments_written_as_the_text_of_an_object_are_taken_too(text: str) -> None:
    assert given_arguments(json.dumps(text)) == text.encode()


@pytest.mark.parametrize("text", ['{\n  "a": 1\n}', '{\r\n\t"a":\r[\n]}\n', ' \n{"a":"\\n"}'])
def test_a_text_of_many_lines_is_handed_on_in_one(text: str) -> None:
    found = given_arguments(json.dumps(text))
    assert b"\n" not in found
    assert json.loads(found) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("null", "null"),
        ("[]", "array"),
        ("5", "number"),
        ("-5", "number"),
        ("true", "boolean"),
        ("false", "boolean"),
        ('""', "text that is not an object's"),
        ('"[1]"', "text that is not an object's"),
        ('"null"', "text that is not an object's"),
        ('"{"', "text that is not an object's"),
        ('"{} {}"', "text that is not an object's"),
        ('"{\\"a\\":NaN}"', "text that is not an object's"),
        ('"\\ud800"', "text that is not an object's"),
    ],
)
def test_arguments_that_are_no_object_are_refused(text: str, kind: str) -> None:
    told = complaint(f'{{{ADDRESS},"arguments":{text}}}')
    assert told == f"Invalid parameters: arguments: expected object, received {kind}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'{{{ADDRESS},"extra":1}}', "Invalid parameters: Unrecognized key: 'extra'"),
        (
            '{"tool":{"toolbox":"dev","server":"files","tool":"read","extra":1}}',
            "Invalid parameters: Unrecognized key: 'extra' in tool",
        ),
        ("{}", "Invalid parameters: tool: required"),
        ('{"tool":"read"}', "Invalid parameters: tool: expected object, received string"),
        ('{"tool":null}', "Invalid parameters: tool: expected object, received null"),
        (
            '{"tool":{"toolbox":"dev","tool":"read"}}',
            "Invalid parameters: tool.server: required",
        ),
        (
            '{"tool":{"toolbox":"dev","server":5,"tool":"read"}}',
            "Invalid parameters: tool.server: expected string, received number",
        ),
        (
            '{"tool":{"x":1,"toolbox":[]}}',
            "Invalid parameters: Unrecognized key: 'x' in tool; tool.server: required; tool.tool: required; "
            "tool.toolbox: expected string, received array",
        ),
        ("null", "Invalid parameters: expected object, received null"),
        ("[]", "Invalid parameters: expected object, received array"),
        ('"text"', "Invalid parameters: expected object, received string"),
        (
            '{"tool":{"toolbox":"","server":"files","tool":"read"}}',
            "Invalid tool identifier: toolbox cannot be empty",
        ),
        (
            '{"tool":{"toolbox":"dev","server":"","tool":"read"}}',
            "Invalid tool identifier: server cannot be empty",
        ),
        (
            '{"tool":{"toolbox":"dev","server":"files","tool":""}}',
            "Invalid tool identifier: tool cannot be empty",
        ),
    ],
)
def test_what_is_wrong_with_the_arguments_of_use_tool_is_said_to_the_letter(text: str, told: str) -> None:
    assert complaint(text) == told


@pytest.mark.parametrize(
    "text",
    [
        f'{{{ADDRESS},"extra":"\\ud800"}}',
        f'{{{ADDRESS},"\\ud800":1}}',
        '{"tool":{"toolbox":"dev","server":"files","tool":"read","\\ud800":1}}',
        '{"tool":{"toolbox":"\\ud800","server":"files","tool":"read"}}',
    ],
)
def test_a_lone_surrogate_makes_the_arguments_no_less_strict_and_no_complaint_empty(text: str) -> None:
    told = complaint(text)
    assert told.startswith("Invalid parameters: ")
    assert len(told) > len("Invalid parameters: ")
    assert answers.text_result(told, is_error=True).member == "result"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "Invalid parameters: toolbox_name: required"),
        ('{"toolbox_name":5}', "Invalid parameters: toolbox_name: expected string, received number"),
        ('{"toolbox_name":"dev","extra":1}', "Invalid parameters: Unrecognized key: 'extra'"),
        (
            '{"toolbox":"dev"}',
            "Invalid parameters: Unrecognized key: 'toolbox'; toolbox_name: required",
        ),
        ("null", "Invalid parameters: expected object, received null"),
        ('"dev"', "Invalid parameters: expected object, received string"),
    ],
)
def test_what_is_wrong_with_the_name_of_a_toolbox_is_said_to_the_letter(text: str, told: str) -> None:
    with pytest.raises(InvalidParameters) as caught:
        read_closing(text.encode())
    assert str(caught.value) == told


def test_a_name_with_a_lone_surrogate_is_complained_of() -> None:
    with pytest.raises(InvalidParameters) as caught:
        read_opening(b'{"toolbox_name":"\\ud800"}')
    assert "toolbox_name" in str(caught.value)


def test_the_name_of_a_toolbox_is_read() -> None:
    assert read_opening(b'{"toolbox_name" : "d\\u0065v"}').toolbox_name == "dev"


@given(st.text(), st.text(), st.text())
def test_names_are_never_taken_apart(box: str, server: str, name: str) -> None:
    frame = dumped({"tool": {"toolbox": box, "server": server, "tool": name}})
    if box and server and name:
        address, _ = tool_and_arguments(frame)
        assert (address.toolbox, address.server, address.tool) == (box, server, name)


# The answers --------------------------------------------------------------------------------------


def read_tools(*definitions: Any) -> list[Offer]:
    listing = Listing(TOOLS)
    listing.take(dumped({"tools": list(definitions)}))
    return list(listing.offers.values())


def serving(server: str, *definitions: Any, instructions: bytes = b"null") -> Connected:
    return Connected(server, instructions, read_tools(*definitions))


def error_of(answer: Answer) -> bool:
    return bool(json.loads(bytes(answer.body)).get("isError", False))


def test_the_answer_of_an_opening_is_to_the_letter() -> None:
    found = answers.opened(
        DEV,
        [serving("s0", tool("read", description="Reads", title="R")), serving("s1", tool("write"))],
        ["Failed to connect to server 's2' in toolbox 'dev': exited with code 1"],
    )
    assert found == (
        '{"toolbox":"dev","description":"Development environment tools","servers_connected":2,"tools":['
        '{"name":"read","toolbox_name":"dev","source_server":"s0",'
        '"inputSchema":{"type":"object"},"description":"Reads","title":"R"},'
        '{"name":"write","toolbox_name":"dev","source_server":"s1","inputSchema":{"type":"object"}}],'
        "\"_errors\":[\"Failed to connect to server 's2' in toolbox 'dev': exited with code 1\"]}"
    )


def test_errors_are_there_only_when_something_failed() -> None:
    found = json.loads(answers.opened(DEV, [serving("s0")], []))
    assert list(found) == ["toolbox", "description", "servers_connected", "tools"]


def test_a_toolbox_without_a_description_says_so_in_the_answer_too() -> None:
    found = json.loads(answers.opened(PROD, [], []))
    assert found["description"] == "No description provided"
    assert found["servers_connected"] == 0


def test_a_server_without_tools_still_counts_as_connected() -> None:
    found = answers.opened(DEV, [serving("s0")], ["tool 'x' is left out"])
    assert json.loads(found)["servers_connected"] == 1


def test_the_answer_has_no_space_between_tokens_and_no_other_field() -> None:
    found = answers.opened(DEV, [serving("s0", tool("a", annotations={"x": [1, {}]}))], [])
    text = found
    assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)


def test_a_field_of_a_tool_that_is_named_like_ours_does_not_lead_astray() -> None:
    evil = tool("a", toolbox_name="prod", source_server="other", toolbox="x")
    (found,) = json.loads(answers.opened(DEV, [serving("s0", evil)], []))["tools"]
    assert (found["name"], found["toolbox_name"], found["source_server"]) == ("a", "dev", "s0")
    assert found["toolbox"] == "x"


def test_values_of_a_definition_pass_as_they_are_written() -> None:
    listing = Listing(TOOLS)
    listing.take(
        b'{"tools":[{"name":"a", "x": 1E400, "\\ud800": "\\udfff", "y": "\\u0061\\/",'
        b'"inputSchema":{"type":"object"}}]}'
    )
    text = answers.opened(DEV, [Connected("s0", b"null", [*listing.offers.values()])], [])
    for part in ('"x":1E400', '"\\udfff"', '"\\ud800":', '"\\u0061\\/"'):
        assert part in text


def test_names_with_control_and_bidi_characters_pass_as_json() -> None:
    strange = 'a"\\\n\x1b\u202e'
    found = json.loads(answers.opened(DEV, [serving("s0", tool(strange))], []))
    assert found["tools"][0]["name"] == strange


def test_a_closing_answers_what_went() -> None:
    assert text_of(answers.closed("dev", 2, 7)) == (
        '{"toolbox":"dev","servers_disconnected":2,"tools_unregistered":7}'
    )


@given(st.text(), st.booleans())
def test_any_text_makes_a_sound_result(text: str, is_error: bool) -> None:
    found = json.loads(bytes(answers.text_result(text, is_error=is_error).body))
    assert found["content"] == [{"type": "text", "text": text}]
    assert found.get("isError", False) is is_error


def test_text_with_a_lone_surrogate_makes_a_sound_result_too() -> None:
    assert text_of(answers.text_result("a\ud800")) == "a\ud800"
