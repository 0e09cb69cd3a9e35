"""Tier 1: what a client sees under native names, and where each name leads."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_workbench import pages, raw_json
from mcp_workbench.claims import Claims
from mcp_workbench.naming import NativeNames, Origin
from mcp_workbench.offers import KINDS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, Kind, Offer, Offers
from mcp_workbench.pages import BadCursor
from mcp_workbench.schemas.dialects import PLAIN
from mcp_workbench.view import Native, View

from .fake_link import dumped, tool
from .test_wire import values

FILES = Origin("dev", "files")
NOTES = Origin("dev", "notes")
PROD_FILES = Origin("prod", "files")
SERVERS = [FILES, NOTES, PROD_FILES]

# Each example is quick, but a machine may be busy with others.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

META_TOOLS = {name: dumped(tool(name)) for name in ("open_toolbox", "use_tool", "close_toolbox")}

Json = dict[str, Any]


def offers(
    tools: Iterable[Json | str] = (),
    prompts: Iterable[Json | str] = (),
    resources: Iterable[Json | str] = (),
    templates: Iterable[Json | str] = (),
) -> Offers:
    """What a server offers; a text stands for a definition that has no more than that."""

    def of(kind: Kind, definitions: Iterable[Json | str]) -> Mapping[str, Offer]:
        full = [{kind.key: each} if isinstance(each, str) else each for each in definitions]
        return {each[kind.key]: Offer(each[kind.key], dumped(each)) for each in full}

    return {
        TOOLS: of(TOOLS, tools),
        PROMPTS: of(PROMPTS, prompts),
        RESOURCES: of(RESOURCES, resources),
        TEMPLATES: of(TEMPLATES, templates),
    }


class Seen(NamedTuple):
    view: View
    claims: Claims


def view_of(
    offered: Iterable[tuple[Origin, Offers]] = (),
    native: Iterable[str] = ("dev", "prod"),
    servers: Iterable[Origin] = SERVERS,
    without_prefix: str = "",
) -> Seen:
    """A view that a client has seen."""
    claims = Claims()
    seen = View(
        NativeNames(servers, META_TOOLS, without_prefix), NativeNames(servers, (), without_prefix), claims
    )
    seen.present(META_TOOLS, PLAIN)
    seen.refresh(offered, native)
    for kind in KINDS:
        seen.page(kind, None)
    return Seen(seen, claims)


def listed(view: View, kind: Kind) -> list[Json]:
    """All of one kind, without the tools of the workbench."""
    page = json.loads(view.page(kind, None))
    assert "nextCursor" not in page
    found: list[Json] = page[kind.member]
    return found[len(META_TOOLS) :] if kind is TOOLS else found


def listed_under(view: View, kind: Kind) -> list[str]:
    return [each[kind.key] for each in listed(view, kind)]


# Native names -------------------------------------------------------------------------------------


def test_tools_and_prompts_have_native_names_that_lead_to_their_servers() -> None:
    view, _ = view_of([(FILES, offers(tools=["read"], prompts=["greet"]))])
    assert listed_under(view, TOOLS) == ["dev__files_read"]
    assert listed_under(view, PROMPTS) == ["dev__files_greet"]
    assert view.tools == {"dev__files_read": Native(FILES, "read")}
    assert view.prompts == {"dev__files_greet": Native(FILES, "greet")}


def test_a_name_that_no_client_would_take_leads_to_the_servers_own() -> None:
    view, _ = view_of([(FILES, offers(tools=["lösche alles", "x" * 500]))])
    first, second = listed_under(view, TOOLS)
    assert view.tools[first] == Native(FILES, "lösche alles")
    assert view.tools[second] == Native(FILES, "x" * 500)


def test_the_same_server_in_two_toolboxes_is_two() -> None:
    the_same = offers(["read"], ["greet"], ["file:///a"], ["file:///t/{x}"])
    view, _ = view_of([(FILES, the_same), (PROD_FILES, the_same)])
    assert listed_under(view, TOOLS) == ["dev__files_read", "prod__files_read"]
    assert listed_under(view, PROMPTS) == ["dev__files_greet", "prod__files_greet"]
    assert listed_under(view, RESOURCES) == ["file:///a", "workbench://prod/files/file:///a"]
    assert listed_under(view, TEMPLATES) == ["file:///t/{x}", "workbench://prod/files/file:///t/{x}"]
    assert view.tools["prod__files_read"] == Native(PROD_FILES, "read")
    assert view.prompts["prod__files_greet"] == Native(PROD_FILES, "greet")
    for origin, mark in ((FILES, ""), (PROD_FILES, "workbench://prod/files/")):
        assert view.resource(f"{mark}file:///a") == Native(origin, "file:///a")
        assert view.resource(f"{mark}file:///t/1") == Native(origin, "file:///t/1")


def test_one_toolbox_alone_needs_no_prefix() -> None:
    view, _ = view_of([(FILES, offers(["read"], ["greet"]))], without_prefix="dev")
    assert listed_under(view, TOOLS) == ["files_read"]
    assert listed_under(view, PROMPTS) == ["files_greet"]


def test_a_server_cannot_take_the_place_of_a_tool_of_the_workbench() -> None:
    servers = [Origin("dev", "open"), Origin("dev", "use")]
    offered = [(servers[0], offers(["toolbox"])), (servers[1], offers(["tool"]))]
    view, _ = view_of(offered, servers=servers, without_prefix="dev")
    everything = json.loads(view.page(TOOLS, None))["tools"]
    assert [each["name"] for each in everything[:3]] == list(META_TOOLS)
    assert len({each["name"] for each in everything}) == 5
    assert not view.tools.keys() & META_TOOLS.keys()


def test_a_prompt_may_be_named_as_the_tools_of_the_workbench_are() -> None:
    origin = Origin("dev", "open")
    view, _ = view_of([(origin, offers(prompts=["toolbox"]))], servers=[origin], without_prefix="dev")
    assert view.prompts == {"open_toolbox": Native(origin, "toolbox")}


# Which toolboxes ----------------------------------------------------------------------------------


def test_tools_are_listed_of_native_toolboxes_alone_and_all_else_of_each() -> None:
    everything = offers(["read"], ["greet"], ["file:///a"], ["file:///t/{x}"])
    view, _ = view_of([(FILES, everything), (PROD_FILES, everything)], native=["prod"])
    assert listed_under(view, TOOLS) == ["prod__files_read"]
    assert [*view.tools] == ["prod__files_read"]
    assert listed_under(view, PROMPTS) == ["dev__files_greet", "prod__files_greet"]
    assert len(listed(view, RESOURCES)) == len(listed(view, TEMPLATES)) == 2


def test_the_tools_of_a_toolbox_are_told_by_their_native_names() -> None:
    offered = [
        (FILES, offers(["read", "write"])),
        (PROD_FILES, offers(["read"])),
        (NOTES, offers(["add"])),
    ]
    view, _ = view_of(offered)
    assert view.tools_of("dev") == ["dev__files_read", "dev__files_write", "dev__notes_add"]
    assert view.tools_of("prod") == ["prod__files_read"]
    view.refresh(offered, ["prod"])
    assert view.tools_of("dev") == []


def test_what_is_not_offered_any_more_is_listed_no_more_and_its_uris_lead_to_nobody_else() -> None:
    view, claims = view_of([(FILES, offers(["read"], ["greet"], ["file:///a"], ["file:///t/{x}"]))])
    claims.release("dev")  # as closing does
    assert view.refresh([], ["dev", "prod"]) == {"tools", "prompts", "resources"}
    assert [listed(view, kind) for kind in KINDS] == [[], [], [], []]
    assert view.tools == {}
    assert view.prompts == {}
    view.refresh([(PROD_FILES, offers(resources=["file:///a"], templates=["file:///t/{x}"]))], ["prod"])
    assert listed_under(view, RESOURCES) == ["workbench://prod/files/file:///a"]
    for uri in ("file:///a", "file:///t/1"):
        assert view.resource(uri) == Native(FILES, uri)


def test_the_tools_of_the_workbench_come_first_whatever_is_open() -> None:
    view, _ = view_of()
    for offered in ([(FILES, offers(["a"]))], [], [(PROD_FILES, offers(["b", "c"]))]):
        view.refresh(offered, ["dev", "prod"])
        tools = json.loads(view.page(TOOLS, None))["tools"]
        assert tools[:3] == [json.loads(each) for each in META_TOOLS.values()]
        assert len(tools) == 3 + sum(len(each[TOOLS]) for _, each in offered)


def test_before_anything_is_offered_the_tools_of_the_workbench_are_there() -> None:
    view = View(NativeNames([]), NativeNames([]), Claims())
    view.present(META_TOOLS, PLAIN)
    assert view.page(TOOLS, None) == b'{"tools":[%b]}' % b",".join(META_TOOLS.values())
    assert view.page(PROMPTS, None) == b'{"prompts":[]}'
    assert view.page(RESOURCES, None) == b'{"resources":[]}'
    assert view.page(TEMPLATES, None) == b'{"resourceTemplates":[]}'
    assert view.refresh([], []) == set()


def test_a_cursor_leads_on_in_its_own_list_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_ON_A_PAGE", 2)
    view, _ = view_of([(FILES, offers(["a", "b"], ["c", "d", "e"]))])
    cursor = json.loads(view.page(PROMPTS, None))["nextCursor"]
    assert [each["name"] for each in json.loads(view.page(PROMPTS, cursor))["prompts"]] == ["dev__files_e"]
    with pytest.raises(BadCursor):
        view.page(TOOLS, cursor)


# What has changed ---------------------------------------------------------------------------------

CHANGES: list[tuple[Offers, set[str]]] = [
    (offers(tools=["read"]), set()),
    (offers(tools=["read", "write"]), {"tools"}),
    (offers(tools=[{"name": "read", "description": "Reads"}]), {"tools"}),
    (offers(tools=[]), {"tools"}),
    (offers(tools=["read"], prompts=["greet"]), {"prompts"}),
    (offers(tools=["read"], resources=["file:///a"]), {"resources"}),
    (offers(tools=["read"], templates=["file:///{x}"]), {"resources"}),
    (offers(tools=["read"], resources=["file:///a"], templates=["note:{x}"]), {"resources"}),
    (offers(prompts=["greet"], resources=["file:///a"]), {"tools", "prompts", "resources"}),
]


@pytest.mark.parametrize(("after", "changed"), CHANGES)
def test_exactly_the_capabilities_are_told_of_which_something_changed(
    after: Offers, changed: set[str]
) -> None:
    view, _ = view_of([(FILES, offers(tools=["read"]))])
    assert view.refresh([(FILES, after)], ["dev"]) == changed
    assert view.refresh([(FILES, after)], ["dev"]) == set()


def test_a_change_of_tools_that_a_client_does_not_see_is_none() -> None:
    view, _ = view_of([(FILES, offers(tools=["read"]))], native=[])
    assert view.refresh([(FILES, offers(tools=["read", "write"]))], []) == set()
    assert view.refresh([(FILES, offers(tools=["read", "write"]))], ["dev"]) == {"tools"}


def test_the_same_from_servers_in_another_order_is_no_change() -> None:
    offered = [(FILES, offers(["a", "b"], ["p"], ["file:///a"])), (NOTES, offers(["c"], ["q"], ["note:1"]))]
    view, _ = view_of(offered)
    assert view.refresh(offered[::-1], ["dev"]) == set()
    assert listed_under(view, TOOLS) == ["dev__files_a", "dev__files_b", "dev__notes_c"]


def test_what_comes_later_stands_behind_what_was_there() -> None:
    view, _ = view_of([(NOTES, offers(["z"]))])
    view.refresh([(FILES, offers(["a"])), (NOTES, offers(["a", "z"]))], ["dev"])
    assert listed_under(view, TOOLS) == ["dev__notes_z", "dev__files_a", "dev__notes_a"]


# Definitions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("description", "labelled"),
    [
        (b'"Reads a file"', b'"[dev/files] Reads a file"'),
        (b'"\\u0061 \\/ \\ud800 \\n \xc3\xa9"', b'"[dev/files] \\u0061 \\/ \\ud800 \\n \xc3\xa9"'),
        (b'"[prod/files] Reads"', b'"[dev/files] [prod/files] Reads"'),
        (b'""', b'"[dev/files]"'),
        (b"null", b'"[dev/files]"'),
        (b"5", b'"[dev/files]"'),
        (b'["a"]', b'"[dev/files]"'),
    ],
)
@pytest.mark.parametrize("kind", [TOOLS, PROMPTS])
def test_a_description_says_whose_it_is(kind: Kind, description: bytes, labelled: bytes) -> None:
    definition = b'{"name":"read","description":%b,"x":1}'
    view, _ = view_of([(FILES, {kind: {"read": Offer("read", definition % description)}})])
    seen = definition.replace(b'"read"', b'"dev__files_read"') % labelled
    assert view.page(kind, None).endswith(seen + b"]}")


def test_a_label_that_needs_escaping_is_escaped() -> None:
    origin = Origin('a"b', "c\\d")
    view, _ = view_of([(origin, offers([tool("read", description="x")]))], native=['a"b'], servers=[origin])
    assert listed(view, TOOLS)[0]["description"] == '[a"b/c\\d] x'


def test_a_tool_without_a_description_has_whose_it_is_behind_all_else() -> None:
    definition = b'{"inputSchema":{"type":"object"},"name":"read","x":1E400}'
    view, _ = view_of([(FILES, {TOOLS: {"read": Offer("read", definition)}})])
    seen = b'{"inputSchema":{"type":"object"},"name":"dev__files_read","x":1E400,"description":"[dev/files]"}'
    assert view.page(TOOLS, None).endswith(seen + b"]}")


known_fields = st.fixed_dictionaries(
    {},
    optional={
        key: values(surrogates=True)
        for key in ("title", "annotations", "inputSchema", "outputSchema", "icons", "execution", "arguments")
    },
)
unknown_fields = st.dictionaries(
    st.text(max_size=5).filter(lambda key: key not in ("name", "description", "uri", "_meta")),
    values(surrogates=True),
    max_size=3,
)


def written(members: Iterable[tuple[str, str]]) -> bytes:
    return raw_json.object_of((key, value.encode()) for key, value in members)


@unhurried
@given(known_fields, unknown_fields, st.data())
def test_all_of_a_definition_but_its_name_and_description_is_byte_for_byte_the_servers(
    known: dict[str, str], unknown: dict[str, str], data: st.DataObject
) -> None:
    own = {**known, **unknown, "name": '"read"', "description": '"Re\\u0061ds"'}
    ours = {"name": '"dev__files_read"', "description": '"[dev/files] Re\\u0061ds"'}
    order = data.draw(st.permutations([*own]))
    offer = Offer("read", written((key, own[key]) for key in order))
    view, _ = view_of([(FILES, {TOOLS: {"read": offer}, PROMPTS: {"read": offer}})])
    seen = written((key, {**own, **ours}[key]) for key in order)
    assert view.page(TOOLS, None) == b'{"tools":[%b]}' % b",".join([*META_TOOLS.values(), seen])
    assert view.page(PROMPTS, None) == b'{"prompts":[%b]}' % seen


@unhurried
@given(known_fields, unknown_fields, st.data(), st.sampled_from([RESOURCES, TEMPLATES]))
def test_a_resource_is_listed_as_its_server_wrote_it_and_where_it_is_marked_but_for_the_mark(
    known: dict[str, str], unknown: dict[str, str], data: st.DataObject, kind: Kind
) -> None:
    own = {
        "name": '"\\u0061"',
        "description": '"b"',
        "size": "1E400",
        **known,
        **unknown,
        kind.key: '"x:\\u0031"',
    }
    order = data.draw(st.permutations([*own]))
    definition = written((key, own[key]) for key in order)
    offered: Offers = {kind: {"x:1": Offer("x:1", definition)}}
    view, _ = view_of([(FILES, offered), (PROD_FILES, offered)])
    seen = {**own, kind.key: '"workbench://prod/files/x:1"'}
    both = definition + b"," + written((key, seen[key]) for key in order)
    assert view.page(kind, None) == b'{"%b":[%b]}' % (kind.member.encode(), both)


def test_the_page_of_a_tool_is_the_resource_that_the_client_sees() -> None:
    app = offers([tool("show", _meta={"ui": {"resourceUri": "ui://app"}})], resources=["ui://app"])
    view, _ = view_of([(FILES, app), (PROD_FILES, app)])
    for each, origin in zip(listed(view, TOOLS), (FILES, PROD_FILES), strict=True):
        assert view.resource(each["_meta"]["ui"]["resourceUri"]) == Native(origin, "ui://app")
    assert {each["_meta"]["ui"]["resourceUri"] for each in listed(view, TOOLS)} == {
        each["uri"] for each in listed(view, RESOURCES)
    }


def test_a_tool_that_is_not_native_has_the_page_that_the_client_sees_and_is_else_as_it_came() -> None:
    app = offers(
        [tool("show", _meta={"ui": {"resourceUri": "ui://app"}}), tool("plain")], resources=["ui://app"]
    )
    view, _ = view_of([(FILES, app), (PROD_FILES, app)], native=[])
    tools = app[TOOLS].values()
    assert view.with_shown_uris(FILES, tools) == [*tools]
    marked = offers(
        [tool("show", _meta={"ui": {"resourceUri": "workbench://prod/files/ui://app"}}), tool("plain")]
    )
    assert view.with_shown_uris(PROD_FILES, tools) == [*marked[TOOLS].values()]


# What is listed can be used -----------------------------------------------------------------------


def test_what_is_made_from_a_template_leads_to_its_server_also_where_anothers_would_fit() -> None:
    first, second = offers(templates=["file:///{path}"]), offers(templates=["file:///{+path}"])
    view, _ = view_of([(FILES, first), (NOTES, second)])
    from_first, from_second = listed_under(view, TEMPLATES)
    assert view.resource(from_first.replace("{path}", "a")) == Native(FILES, "file:///a")
    assert view.resource(from_second.replace("{+path}", "a")) == Native(NOTES, "file:///a")


AMBIGUOUS = [Origin(box, server) for box in ("b", "b_c", "b-c") for server in ("d", "d_e", "c_d")]


def told_by(origin: Origin, kind: Kind, own: str) -> Json:
    """A definition that says whose it is in truth, in a field that nobody reads."""
    return {kind.key: own, "truth": [*origin, own]}


@st.composite
def what_servers_offer(draw: st.DrawFn) -> list[tuple[Origin, Offers]]:
    """Of some toolboxes, all servers, as they are known while a toolbox is open."""
    own_names = st.lists(
        st.sampled_from(["d", "e", "e_f", "c_d_e", "é", "ö", "x" * 64]), unique=True, max_size=3
    )
    own_uris = st.lists(
        st.sampled_from(["a:1", "a:2", "a:ü", "workbench://b/d/a:1"]), unique=True, max_size=3
    )
    own_templates = st.lists(st.sampled_from(["t:{x}", "u:{x}"]), unique=True)
    open_boxes = draw(st.lists(st.sampled_from(["b", "b_c", "b-c"]), unique=True))
    offered = []
    for origin in [origin for box in open_boxes for origin in AMBIGUOUS if origin.toolbox == box]:
        drawn = {
            kind: draw(own)
            for kind, own in zip(KINDS, [own_names] * 2 + [own_uris, own_templates], strict=True)
        }
        found = [[told_by(origin, kind, own) for own in owns] for kind, owns in drawn.items()]
        offered.append((origin, offers(*found)))
    return offered


@unhurried
@given(
    st.lists(st.tuples(what_servers_offer(), st.sets(st.sampled_from(["b", "b_c", "b-c"]))), max_size=4),
    st.sampled_from(["", "b", "b_c"]),
)
def test_all_that_is_offered_is_listed_once_and_leads_to_whom_it_is_from(
    story: list[tuple[list[tuple[Origin, Offers]], set[str]]], without_prefix: str
) -> None:
    view, claims = view_of(servers=AMBIGUOUS, without_prefix=without_prefix)
    was_open: set[str] = set()
    for offered, native in story:
        now_open = {origin.toolbox for origin, _ in offered}
        for closed in was_open - now_open:
            claims.release(closed)
        was_open = now_open
        before = {kind: listed(view, kind) for kind in KINDS}
        changed = view.refresh(offered, native)
        after = {kind: listed(view, kind) for kind in KINDS}
        assert changed == {kind.capability for kind in KINDS if before[kind] != after[kind]}

        for kind in KINDS:
            expected = [
                [*origin, own]
                for origin, found in offered
                for own in found[kind]
                if kind is not TOOLS or origin.toolbox in native
            ]
            assert sorted(each["truth"] for each in after[kind]) == sorted(expected)
            addresses = [each[kind.key] for each in after[kind]]
            assert len({*addresses}) == len(addresses)
            for address, each in zip(addresses, after[kind], strict=True):
                toolbox, server, own = each["truth"]
                lead = {TOOLS: view.tool, PROMPTS: view.prompt}.get(kind, view.resource)
                assert lead(address) == Native(Origin(toolbox, server), own)
                made = Native(Origin(toolbox, server), own.replace("{x}", "1/2"))
                assert lead(address.replace("{x}", "1/2")) == made
        assert len(view.tools) == len(after[TOOLS])
        assert len(view.prompts) == len(after[PROMPTS])
