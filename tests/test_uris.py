"""Tier 1: the URIs of resources in what servers say: how they are marked, and where they stand."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench import raw_json, uris
from mcp_workbench.claims import Claims
from mcp_workbench.naming import Origin
from mcp_workbench.uris import Show, in_definition, in_payload, marked, normal, unmarked

from .fake_link import dumped
from .test_wire import spaced, values

FILES = Origin("dev", "files")

# Each example is quick, but a machine may be busy with others.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Marking ------------------------------------------------------------------------------------------

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)  # as configurations may be
origins = st.builds(Origin, names, names)
own_uris = st.one_of(
    st.text(max_size=20),  # lone surrogates among them
    st.sampled_from(["", "/", "file:///a", "file:///a%2Fb?q#f", "file:///{path}", "x://{+a}{?b,c}"]),
    st.builds(marked, origins, st.text(max_size=5)),  # as a workbench behind this one shows them
)


@given(origins, own_uris)
@example(Origin("a/b", "c"), "d")
@example(Origin("a", "b/c"), "d")
@example(Origin("%2F", "%"), "%2F")
@example(Origin("workbench://", "{x}"), "workbench://a/b/c")
def test_a_marked_uri_leads_back_to_its_server_and_its_own_form(origin: Origin, uri: str) -> None:
    assert unmarked(marked(origin, uri)) == (origin, uri)


@given(origins, own_uris)
def test_the_own_form_stands_unchanged_behind_a_mark_that_is_a_uri_itself(origin: Origin, uri: str) -> None:
    mark = marked(origin, uri).removesuffix(uri)
    assert mark.startswith("workbench://")
    assert mark.endswith("/")
    assert mark.count("/") == 4
    assert mark.isascii()
    # So a template stays the template that it is: the mark has no variables in it.
    assert not {*mark} & {*' {}"<>\\^`|?#'}


@given(st.text() | st.text("workbench:/%2Fa", max_size=20))
@example("workbench://")
@example("workbench://dev")
@example("workbench://dev/files")
@example("Workbench://dev/files/x")
def test_what_is_not_marked_is_told_from_what_is(uri: str) -> None:
    found = unmarked(uri)
    assert (found is not None) is (uri.startswith("workbench://") and uri.count("/") >= 4)


def test_marks_look_as_they_always_did() -> None:
    """Clients may keep these: another form is a breaking change."""
    assert marked(FILES, "file:///a b?q#f") == "workbench://dev/files/file:///a b?q#f"
    assert marked(Origin("a/b", "é ü"), "x:1") == "workbench://a%2Fb/%C3%A9%20%C3%BC/x:1"


# Escapes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "same"),
    [
        ("file:///My File.md", "file:///My%20File.md"),
        ("file:///%7ea%2Db", "file:///~a-b"),
        ("x:é|^", "x:%c3%a9%7c%5E"),
        ("x:100%", "x:100%25"),
        ("x:%%341", "x:%25%341"),
    ],
)
def test_what_differs_in_escapes_that_mean_nothing_has_one_normal_form(uri: str, same: str) -> None:
    assert normal(uri) == normal(same)


@given(st.text(":/?#[]@!$&'()*+,;=az09-._~", max_size=20))
def test_what_needs_no_escapes_is_its_own_normal_form_and_not_that_of_its_escapes(uri: str) -> None:
    assert normal(uri) == uri
    for each in {*uri} & {*":/?#[]@!$&'()*+,;="}:
        assert normal(uri.replace(each, f"%{ord(each):02x}")) != uri


@given(own_uris)
def test_a_normal_form_is_its_own(uri: str) -> None:
    assert normal(normal(uri)) == normal(uri)


@given(origins, own_uris, own_uris)
def test_a_mark_takes_part_in_no_normal_form(origin: Origin, uri: str, other: str) -> None:
    same = normal(marked(origin, uri)) == normal(marked(origin, other))
    assert same is (normal(uri) == normal(other))


# Where URIs stand ---------------------------------------------------------------------------------


def shown(uri: str) -> str:
    return f"seen:{uri}"


def never(uri: str) -> str:
    raise AssertionError(f"{uri} is none that a client goes to")


LINK = '{"type":"resource_link","name":"a","uri":"%s"}'
EMBEDDED = '{"type":"resource","resource":{"mimeType":"text/plain","uri":"%s","text":"b"}}'
RESULT_IN_MESSAGE = '{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"c"},%s]}'

PLACES = [
    ("tools/call", f'{{"content":[{LINK}]}}'),
    ("tools/call", f'{{"content":[{{"type":"text","text":"x"}},{EMBEDDED}],"isError":true}}'),
    ("tools/call", '{"content":[],"_meta":{"ui":{"resourceUri":"%s","visibility":["app"]},"x":1}}'),
    ("tools/call", '{"content":[],"_meta":{"ui/resourceUri":"%s"}}'),
    ("prompts/get", f'{{"messages":[{{"role":"user","content":{LINK}}}],"description":"x"}}'),
    ("prompts/get", f'{{"messages":[{{"role":"user","content":{EMBEDDED}}}]}}'),
    ("resources/read", '{"contents":[{"text":"a","uri":"%s","_meta":{"x":1}}],"_meta":{"y":2}}'),
    ("sampling/createMessage", f'{{"messages":[{{"content":{LINK},"role":"user"}}],"maxTokens":9}}'),
    ("sampling/createMessage", f'{{"messages":[{{"content":[{EMBEDDED}]}}],"systemPrompt":"x"}}'),
    ("sampling/createMessage", f'{{"messages":[{{"content":[{RESULT_IN_MESSAGE % LINK}]}}]}}'),
    ("sampling/createMessage", f'{{"messages":[{{"content":{RESULT_IN_MESSAGE % EMBEDDED}}}]}}'),
]


@pytest.mark.parametrize(("method", "payload"), PLACES)
@pytest.mark.parametrize("kind", [bytes, Raw])
def test_a_uri_is_shown_at_each_place_where_one_stands(
    method: str, payload: str, kind: Callable[[bytes], raw_json.Payload]
) -> None:
    before = (payload % "file:///a").encode()
    assert uris.may_stand_in(before)
    assert bytes(in_payload(method, kind(before), shown)) == (payload % "seen:file:///a").encode()


@pytest.mark.parametrize(("method", "payload"), PLACES)
def test_what_is_shown_as_it_is_leaves_the_payload_the_very_same(method: str, payload: str) -> None:
    met: list[str] = []

    def as_it_is(uri: str) -> str:
        met.append(uri)
        return uri

    before = (payload % "file:///\\u0061").encode()
    assert in_payload(method, before, as_it_is) is before
    assert met == ["file:///a"]


def test_each_of_several_uris_is_shown_and_only_those_that_must_change_are_written_anew() -> None:
    blocks = [LINK % "a:\\u0031", EMBEDDED % "b:1", LINK % "a:\\/2", EMBEDDED % "b:2"]
    changed = [LINK % "a:\\u0031", EMBEDDED % "seen:b:1", LINK % "a:\\/2", EMBEDDED % "seen:b:2"]
    found = in_payload(
        "tools/call",
        f'{{"content":[{",".join(blocks)}]}}'.encode(),
        lambda uri: shown(uri) if uri.startswith("b") else uri,
    )
    assert bytes(found) == f'{{"content":[{",".join(changed)}]}}'.encode()


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        # What a model reads, and what the tool's own schema describes, is the tool's own matter.
        ("tools/call", {"content": [{"type": "text", "text": 'see {"uri":"file:///a"}'}]}),
        ("tools/call", {"content": [], "structuredContent": {"uri": "file:///a", "resourceUri": "ui://a"}}),
        ("tools/call", {"content": [], "structuredContent": {"type": "resource_link", "uri": "file:///a"}}),
        ("tools/call", {"content": [], "structuredContent": {"_meta": {"ui": {"resourceUri": "ui://a"}}}}),
        ("tools/call", {"content": [{"type": "text", "text": "x", "uri": "file:///a"}]}),
        ("tools/call", {"content": [{"type": "image", "data": "", "uri": "file:///a"}]}),
        ("tools/call", {"content": [{"type": "not_yet_invented", "uri": "file:///a"}]}),
        ("tools/call", {"content": [{"uri": "file:///a"}]}),
        ("tools/call", {"content": [{"type": "resource_link", "_meta": {"uri": "file:///a"}}]}),
        ("tools/call", {"content": [{"type": "resource", "uri": "file:///a", "resource": {"text": "x"}}]}),
        ("tools/call", {"content": [{"type": "resource", "resource": {"text": '"uri":"file:///a"'}}]}),
        ("tools/call", {"content": [], "uri": "file:///a", "resource": {"uri": "file:///a"}}),
        ("tools/call", {"content": [], "_meta": {"uri": "file:///a", "resourceUri": "ui://a"}}),
        ("tools/call", {"content": [], "_meta": {"vendor": {"ui": {"resourceUri": "ui://a"}}}}),
        ("resources/read", {"contents": [{"text": '{"uri":"file:///a"}', "_meta": {"uri": "file:///a"}}]}),
        ("resources/read", {"contents": [], "uri": "file:///a"}),
        ("prompts/get", {"messages": [{"content": {"type": "text", "text": "x"}}], "uri": "file:///a"}),
        ("prompts/get", {"content": [{"type": "resource_link", "uri": "file:///a"}]}),
        ("sampling/createMessage", {"messages": [], "systemPrompt": '"uri":"file:///a"'}),
        ("sampling/createMessage", {"messages": [{"content": {"type": "tool_use", "input": {"uri": "a"}}}]}),
        ("sampling/createMessage", {"messages": [], "metadata": {"uri": "file:///a"}}),
        ("sampling/createMessage", {"messages": [], "tools": [{"inputSchema": {"uri": "file:///a"}}]}),
        ("completion/complete", {"completion": {"values": ["file:///a"]}, "uri": "file:///a"}),
        ("resources/subscribe", {"uri": "file:///a"}),
        ("roots/list", {"uri": "file:///a"}),
        ("not/yet/invented", {"uri": "file:///a", "content": [{"type": "resource_link", "uri": "a"}]}),
    ],
)
def test_what_only_looks_like_a_uri_passes_and_is_not_even_looked_at(method: str, payload: object) -> None:
    before = dumped(payload)
    assert in_payload(method, before, never) is before


@pytest.mark.parametrize("uri", ["5", "true", '["a"]', '{"uri":"a"}', "null"])
@pytest.mark.parametrize(("method", "payload"), PLACES)
def test_a_uri_that_is_no_text_passes_as_it_came(method: str, payload: str, uri: str) -> None:
    before = payload.replace('"%s"', uri).encode()
    assert in_payload(method, before, never) is before


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"5",
        b'"uri"',
        b"[]",
        b'["uri"]',
        b"{",
        b'{"uri":',
        b'{"content":{"uri":"a"}',
        b'{"content":"uri","messages":"uri","contents":"uri","_meta":"uri"}',
        b'{"content":{"a":1},"messages":{"a":1},"contents":{"a":1},"_meta":[]}',
        b'{"content":[[]],"messages":[[]],"contents":[[]]}',
        b'{"content":[{"type":5,"uri":"a"}],"messages":[{"content":[{"type":[],"uri":"a"}]}]}',
        b'{"content":[{"type":"resource","resource":"uri"}]}',
        b'{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"content":[' + b'{"type":"tool_result","content":[' * 2_000 + b"]}" * 2_000 + b"]}",
    ],
)
@pytest.mark.parametrize("method", sorted({method for method, _ in PLACES}))
def test_what_is_not_of_the_shape_that_has_uris_passes_the_very_same(method: str, payload: bytes) -> None:
    assert in_payload(method, payload, never) is payload


def test_results_in_results_pass_the_very_same_however_many_there_are() -> None:
    for depth in range(60, 200):  # where the stack ends, depends on who calls
        payload = b'{"content":[' + b'{"type":"tool_result","content":[' * depth + b"]}" * depth + b"]}"
        assert in_payload("tools/call", payload, never) is payload


@pytest.mark.parametrize("padding", ["x" * 10_000, '\\"' * 1_000, '","' * 300])
@pytest.mark.parametrize("payload", [payload for _, payload in PLACES])
def test_a_uri_is_found_in_a_large_message_too(payload: str, padding: str) -> None:
    padded = f'{{"text":["{padding}"],"result":{payload % "a"},"more":["{padding}"]}}'
    assert json.loads(padded)
    assert uris.may_stand_in(padded.encode())
    assert not uris.may_stand_in(f'{{"uris":["{padding}"],"my uri":"\\"uri\\" "}}'.encode())


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        # As servers answer whose library writes what is not there.
        ("tools/call", f'{{"_meta":null,"content":[{LINK}]}}'),
        ("tools/call", f'{{"content":[{LINK}],"_meta":{{"ui":null}}}}'),
        ("tools/call", '{"content":null,"_meta":{"ui":{"resourceUri":"%s"}}}'),
        ("tools/call", '{"content":[],"_meta":{"ui":null,"ui/resourceUri":"%s"}}'),
        ("tools/call", f'{{"content":[null,{LINK}]}}'),
        ("tools/call", f'{{"content":[{{"type":5}},{LINK}]}}'),
        ("tools/call", f'{{"content":[{{"type":"resource","resource":null}},{LINK}]}}'),
        ("resources/read", '{"contents":["a",{"uri":"%s"}]}'),
        ("prompts/get", f'{{"messages":[{{"content":"a"}},{{"content":{LINK}}}]}}'),
        ("sampling/createMessage", f'{{"messages":[{{"content":"a"}},{{"content":{LINK}}}]}}'),
    ],
)
def test_what_is_odd_in_a_payload_does_not_keep_the_uri_beside_it_from_being_shown(
    method: str, payload: str
) -> None:
    """Else it would lead to the server whose own form it is."""
    before = (payload % "file:///a").encode()
    assert bytes(in_payload(method, before, shown)) == (payload % "seen:file:///a").encode()


# All else is exact --------------------------------------------------------------------------------


class Uri(NamedTuple):
    """Stands in a payload where a URI stands."""

    own: str


Text = str  # JSON as a server may have written it
Node = Any  # Uri, Text, or a dict or list of nodes: the objects and arrays in which URIs are looked for


def rendered(node: Node, show: Show) -> str:
    """The payload without white space where it is put together anew, and with all of it elsewhere."""
    if isinstance(node, Uri):
        return raw_json.encoded(show(node.own)).decode()
    if isinstance(node, dict):
        members = (f"{raw_json.encoded(key).decode()}:{rendered(value, show)}" for key, value in node.items())
        return f"{{{','.join(members)}}}"
    if isinstance(node, list):
        return f"[{','.join(rendered(each, show) for each in node)}]"
    assert isinstance(node, Text)
    return node


exact_texts = st.one_of(
    values(surrogates=True),
    st.sampled_from(['{ "uri" : "a:1" }', "1E400", "-0", '"\\u0061\\/\\ud800"', '{"a":1,"a":2}', "[ ]"]),
)
unknown_keys = st.text(max_size=5).filter(
    lambda key: key not in ("type", "uri", "resource", "content", "contents", "messages", "_meta", "ui")
)
uri_nodes = st.sampled_from(["a:1", "a:2", "b:1", "b:é\n", "b:\ud800", "a:\udfff"]).map(Uri)


def among_others(known: st.SearchStrategy[dict[str, Node]]) -> st.SearchStrategy[dict[str, Node]]:
    """Objects with these members among unknown ones, in any order."""

    def mixed(parts: tuple[dict[str, Node], dict[str, Text]]) -> st.SearchStrategy[dict[str, Node]]:
        return st.permutations([*{**parts[1], **parts[0]}.items()]).map(dict)

    return st.tuples(known, st.dictionaries(unknown_keys, exact_texts, max_size=3)).flatmap(mixed)


located = among_others(st.fixed_dictionaries({"uri": uri_nodes}))
blocks = st.one_of(
    among_others(st.fixed_dictionaries({"type": st.just('"resource_link"'), "uri": uri_nodes})),
    among_others(st.fixed_dictionaries({"type": st.just('"resource"'), "resource": located})),
    among_others(st.fixed_dictionaries({"type": st.sampled_from(['"text"', '"n\\u0065w"', "null"])})),
)
contents = blocks | st.lists(blocks, max_size=3)
in_messages = contents | st.lists(
    among_others(st.fixed_dictionaries({"type": st.just('"tool_result"'), "content": contents})), max_size=2
)
messages = among_others(
    st.fixed_dictionaries(
        {"messages": st.lists(among_others(st.fixed_dictionaries({"content": in_messages})), max_size=3)}
    )
)
pages_of_apps = among_others(
    st.fixed_dictionaries(
        {"ui": among_others(st.fixed_dictionaries({}, optional={"resourceUri": uri_nodes}))},
        optional={"ui/resourceUri": uri_nodes},
    )
)
results = among_others(st.fixed_dictionaries({"content": contents}, optional={"_meta": pages_of_apps}))
payloads: st.SearchStrategy[tuple[str, Node]] = st.one_of(
    st.tuples(st.just("tools/call"), results),
    st.tuples(st.sampled_from(["prompts/get", "sampling/createMessage"]), messages),
    st.tuples(
        st.just("resources/read"),
        among_others(st.fixed_dictionaries({"contents": st.lists(located, max_size=3)})),
    ),
)


def partly_shown(uri: str) -> str:
    return shown(uri) if uri.startswith("b") else uri


@unhurried
@given(payloads)
def test_where_a_uri_is_rewritten_all_else_stays_as_the_server_wrote_it(found: tuple[str, Node]) -> None:
    method, node = found
    before = rendered(node, lambda uri: uri).encode()
    after = rendered(node, partly_shown).encode()
    assert bytes(in_payload(method, before, partly_shown)) == after


@unhurried
@given(payloads)
def test_where_no_uri_is_to_be_rewritten_the_payload_is_the_very_same(found: tuple[str, Node]) -> None:
    method, node = found
    before = rendered(node, lambda uri: uri).encode()
    assume(before == rendered(node, partly_shown).encode())
    assert in_payload(method, before, partly_shown) is before
    raw = Raw(before)
    assert in_payload(method, raw, partly_shown) is raw


@unhurried
@given(payloads)
def test_a_payload_in_which_a_uri_stands_is_never_passed_over(found: tuple[str, Node]) -> None:
    method, node = found
    before = rendered(node, lambda uri: uri).encode()
    assume(in_payload(method, before, shown) is not before)
    assert uris.may_stand_in(before)


@unhurried
@given(st.sampled_from(sorted({method for method, _ in PLACES})), spaced(values(surrogates=True)))
def test_any_json_passes_the_very_same_where_every_uri_is_shown_as_it_is(method: str, payload: str) -> None:
    before = payload.encode()
    assert in_payload(method, before, lambda uri: uri) is before


@given(st.sampled_from(sorted({method for method, _ in PLACES})), st.binary())
def test_any_bytes_pass_the_very_same(method: str, payload: bytes) -> None:
    assert in_payload(method, payload, never) is payload


@unhurried
@given(payloads, origins, origins)
def test_what_was_rewritten_can_be_written_back(found: tuple[str, Node], taken: Origin, late: Origin) -> None:
    """So nothing is lost: each URI in what a client sees leads back to what the server said."""
    assume(taken != late)
    method, node = found
    before = rendered(node, lambda uri: uri).encode()
    claims = Claims()
    for uri in ("a:1", "b:1"):
        claims.shown(taken, uri)

    def back(uri: str) -> str:
        seen = claims.origin_of(uri)
        assert seen
        assert seen[0] == late
        return seen[1]

    after = in_payload(method, before, lambda uri: claims.shown(late, uri))
    assert bytes(in_payload(method, after, back)) == before


# The definitions of tools -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "seen"),
    [
        (
            b'{"name":"a","_meta":{"x":1E400,"ui":{"visibility":["model"],"resourceUri":"ui://a"}},"n":-0}',
            b'{"name":"a","_meta":{"x":1E400,"ui":{"visibility":["model"],"resourceUri":"seen:ui://a"}},"n":-0}',
        ),
        (b'{"_meta":{"ui/resourceUri":"ui://a"}}', b'{"_meta":{"ui/resourceUri":"seen:ui://a"}}'),
        (
            b'{"_meta":{"ui":{"resourceUri":"ui://a"},"ui/resourceUri":"ui://a"}}',
            b'{"_meta":{"ui":{"resourceUri":"seen:ui://a"},"ui/resourceUri":"seen:ui://a"}}',
        ),
    ],
)
def test_the_page_of_a_tool_is_shown_and_all_else_of_its_definition_stays(
    definition: bytes, seen: bytes
) -> None:
    assert in_definition(definition, shown) == seen
    assert in_definition(definition, lambda uri: uri) is definition


@pytest.mark.parametrize(
    "definition",
    [
        b'{"name":"a","uri":"file:///a","_meta":{"uri":"file:///a"}}',
        b'{"name":"a","inputSchema":{"properties":{"resourceUri":{"type":"string","default":"ui://a"}}}}',
        b'{"name":"a","resourceUri":"ui://a","_meta":{"resourceUri":"ui://a"}}',
        b'{"name":"a","annotations":{"ui":{"resourceUri":"ui://a"}}}',
        b'{"name":"a","_meta":{"ui":{"resourceUri":5}}}',
        b'{"name":"a","_meta":{"ui":"resourceUri"}}',
        b'{"name":"a","_meta":"resourceUri"}',
        b'"resourceUri"',
        b'{"resourceUri"',
    ],
)
def test_a_definition_without_a_page_passes_the_very_same(definition: bytes) -> None:
    assert in_definition(definition, never) is definition
