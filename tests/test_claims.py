"""Tier 1: whose the URIs of resources are that clients see in their servers' own form."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_workbench import claims as module
from mcp_workbench.claims import Claims
from mcp_workbench.naming import Origin
from mcp_workbench.uris import marked

FILES = Origin("dev", "files")
NOTES = Origin("dev", "notes")
OTHER = Origin("prod", "files")

# Each example is quick, but a machine may be busy with others.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Claims -------------------------------------------------------------------------------------------


def test_a_uri_keeps_its_own_form_while_only_one_server_has_it() -> None:
    claims = Claims()
    assert claims.listed(FILES, "file:///a") == "file:///a"
    assert claims.listed(OTHER, "file:///b") == "file:///b"
    assert claims.origin_of("file:///a") == (FILES, "file:///a")
    assert claims.origin_of("file:///b") == (OTHER, "file:///b")


@pytest.mark.parametrize("listed", [True, False])
def test_who_showed_it_first_keeps_the_own_form_and_others_have_theirs_marked(listed: bool) -> None:
    claims = Claims()
    assert (claims.listed if listed else claims.shown)(FILES, "file:///a") == "file:///a"
    for second in (True, False):
        assert (claims.listed if second else claims.shown)(
            OTHER, "file:///a"
        ) == "workbench://prod/files/file:///a"
        assert (claims.listed if second else claims.shown)(FILES, "file:///a") == "file:///a"
    assert claims.origin_of("file:///a") == (FILES, "file:///a")
    assert claims.origin_of("workbench://prod/files/file:///a") == (OTHER, "file:///a")


def test_what_nobody_showed_leads_nowhere_in_its_own_form_and_by_its_mark_to_its_server() -> None:
    claims = Claims()
    assert claims.origin_of("file:///a") is None
    assert claims.origin_of("workbench://dev/files/file:///a") == (FILES, "file:///a")


def test_what_a_workbench_behind_this_one_marked_is_marked_once_more() -> None:
    inner = marked(Origin("inner", "files"), "file:///a")
    claims = Claims()
    shown = claims.listed(FILES, inner)
    assert shown == "workbench://dev/files/workbench://inner/files/file:///a"
    assert claims.origin_of(shown) == (FILES, inner)


def test_what_a_server_showed_stays_its_own_when_its_toolbox_closes() -> None:
    claims = Claims()
    claims.listed(FILES, "file:///a")
    claims.shown(NOTES, "note:1")
    claims.template(FILES, "file:///t/{x}")
    second = [claims.listed(OTHER, "file:///a"), claims.template(OTHER, "file:///t/{x}")]
    claims.release("dev")
    assert [claims.listed(OTHER, "file:///a"), claims.template(OTHER, "file:///t/{x}")] == second
    assert claims.shown(OTHER, "note:1") == "workbench://prod/files/note:1"
    assert claims.shown(OTHER, "file:///t/1") == "workbench://prod/files/file:///t/1"
    for whose, uri in ((FILES, "file:///a"), (NOTES, "note:1"), (FILES, "file:///t/1")):
        assert claims.origin_of(uri) == (whose, uri)
    assert claims.listed(FILES, "file:///a") == "file:///a"
    assert claims.template(FILES, "file:///t/{x}") == "file:///t/{x}"


def test_of_what_a_closed_toolbox_showed_the_oldest_is_forgotten_of_each_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_UNLISTED", 2)
    claims = Claims()
    shown = [f"file:///{number}" for number in range(4)]
    for uri in shown:
        claims.listed(FILES, uri)
    claims.listed(NOTES, "note:1")
    claims.listed(OTHER, "other:1")
    claims.only_listed([*shown, "note:1", "other:1"])
    claims.release("dev")
    claims.only_listed(["other:1"])
    assert [uri for uri in shown if claims.origin_of(uri)] == shown[2:]
    assert claims.origin_of("note:1") == (NOTES, "note:1")
    assert claims.listed(OTHER, "file:///0") == "file:///0"
    assert claims.listed(OTHER, "file:///3") == "workbench://prod/files/file:///3"


def test_of_the_templates_of_closed_toolboxes_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_TEMPLATES", 2)
    claims = Claims()
    for origin, schemes in ((FILES, "ab"), (OTHER, "cd")):
        for scheme in schemes:
            assert claims.template(origin, f"{scheme}:{{x}}") == f"{scheme}:{{x}}"
        claims.release(origin.toolbox)
    assert [claims.origin_of(f"{scheme}:1") for scheme in "abcd"] == [
        None,
        None,
        (OTHER, "c:1"),
        (OTHER, "d:1"),
    ]


def test_closing_a_toolbox_makes_room_for_new_templates_and_changes_none_that_was_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_TEMPLATES", 1)
    claims = Claims()
    claims.template(FILES, "a:{x}")
    late = claims.template(OTHER, "b:{x}")
    assert late == "workbench://prod/files/b:{x}"
    claims.release("dev")
    assert claims.template(OTHER, "b:{x}") == late
    assert claims.template(OTHER, "c:{x}") == "c:{x}"
    assert claims.template(FILES, "a:{x}") == "a:{x}"


# Other escapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "asked"),
    [
        ("file:///My File.md", "file:///My%20File.md"),
        ("file:///My%20File.md", "file:///My File.md"),
        ("file:///é", "file:///%c3%a9"),
        ("file:///a-b", "file:///a%2Db"),
        ("file:///a%2fb", "file:///a%2Fb"),
        ("file:///100%", "file:///100%25"),
    ],
)
def test_a_uri_leads_to_whoever_showed_it_with_other_escapes(own: str, asked: str) -> None:
    claims = Claims()
    claims.template(NOTES, "file:///{x}")
    for origin in (FILES, OTHER):
        shown = claims.listed(origin, own)
        claims.only_listed([own, shown])
        assert claims.origin_of(shown.replace(own, asked)) == (origin, own)
    claims.release("dev")
    assert claims.origin_of(asked) == (FILES, own)


def test_what_differs_from_anothers_in_escapes_alone_is_marked() -> None:
    claims = Claims()
    assert claims.listed(FILES, "file:///a b") == "file:///a b"
    assert claims.listed(OTHER, "file:///a%20b") == "workbench://prod/files/file:///a%20b"
    assert claims.listed(FILES, "file:///a%20b") == "file:///a%20b"
    assert claims.listed(OTHER, "file:///a-b") == "file:///a-b"
    assert claims.shown(FILES, "file:///%61-b") == "workbench://dev/files/file:///%61-b"


def test_which_of_two_forms_of_a_servers_is_meant_by_a_third_is_left_to_it() -> None:
    claims = Claims()
    claims.listed(FILES, "file:///a b~")
    claims.listed(FILES, "file:///a%20b~")
    for uri in ("file:///a b~", "file:///a%20b~", "file:///a b%7E"):
        assert claims.origin_of(uri) == (FILES, uri)


def test_a_reserved_character_is_another_than_its_escape() -> None:
    claims = Claims()
    claims.listed(FILES, "file:///a/b")
    assert claims.origin_of("file:///a%2Fb") is None
    assert claims.listed(OTHER, "file:///a%2Fb") == "file:///a%2Fb"


def test_what_would_be_a_mark_without_escapes_is_marked() -> None:
    claims = Claims()
    uri = "%77orkbench://prod/files/file:///a"
    assert claims.listed(FILES, uri) == marked(FILES, uri)
    assert claims.origin_of("workbench://prod/files/file:///a") == (OTHER, "file:///a")


def test_a_uri_that_is_listed_no_more_and_was_forgotten_leads_nowhere_with_other_escapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_UNLISTED", 0)
    claims = Claims()
    claims.listed(FILES, "file:///a b")
    claims.only_listed(["file:///a b"])
    claims.only_listed([])
    assert claims.origin_of("file:///a%20b") is None
    assert claims.listed(OTHER, "file:///a%20b") == "file:///a%20b"


# Stories ------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """One thing that happens to claims: a URI is shown, or the origin's toolbox is closed."""

    origin: Origin
    uri: str | None
    listed: bool


steps = st.builds(
    Step,
    st.builds(Origin, st.sampled_from(["dev", "prod"]), st.sampled_from(["files", "notes"])),
    st.sampled_from(["a:1", "a:2", "a:%31", "b:1", "", "workbench://prod/files/a:1", None]),
    st.booleans(),
)


@unhurried
@given(st.lists(steps, max_size=30), st.sampled_from([0, 1, 4, 7]))
def test_each_form_that_a_client_saw_leads_to_who_showed_it(story: list[Step], most_unlisted: int) -> None:
    claims = Claims()
    claims.template(NOTES, "a:{x}")
    seen: dict[str, tuple[Origin, str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_UNLISTED", most_unlisted)
        for origin, uri, listed in story:
            if uri is None:
                claims.release(origin.toolbox)
                if most_unlisted < 7:  # as many as there are
                    seen = {form: it for form, it in seen.items() if it[0].toolbox != origin.toolbox}
                continue
            form = (claims.listed if listed else claims.shown)(origin, uri)
            assert form in (uri, marked(origin, uri))
            assert seen.setdefault(form, (origin, uri)) == (origin, uri)
            for known, found in seen.items():
                assert claims.origin_of(known) == found


# What is not listed -------------------------------------------------------------------------------


def test_so_many_unlisted_uris_are_remembered_of_a_server_and_further_ones_are_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_UNLISTED", 2)
    claims = Claims()
    shown = [claims.shown(FILES, f"file:///{number}") for number in range(4)]
    assert shown[:2] == ["file:///0", "file:///1"]
    assert shown[2:] == ["workbench://dev/files/file:///2", "workbench://dev/files/file:///3"]
    assert [claims.shown(FILES, f"file:///{number}") for number in range(4)] == shown
    assert claims.origin_of("file:///3") is None
    # Each server has its own share, and what is listed needs none.
    assert claims.shown(NOTES, "note:1") == "note:1"
    assert claims.listed(FILES, "file:///3") == "file:///3"
    assert [claims.listed(FILES, f"file:///listed/{number}") for number in range(5)] == [
        f"file:///listed/{number}" for number in range(5)
    ]


def test_a_toolbox_that_opens_again_has_its_whole_share_of_unlisted_uris(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_UNLISTED", 1)
    claims = Claims()
    for origin, uri in ((FILES, "file:///a"), (OTHER, "other:a")):
        assert claims.shown(origin, uri) == uri
    claims.release("dev")
    assert claims.shown(FILES, "file:///b") == "file:///b"
    assert claims.shown(OTHER, "other:b") == "workbench://prod/files/other:b"


def test_what_was_shown_and_is_then_listed_stays_as_it_is() -> None:
    claims = Claims()
    assert claims.shown(FILES, "file:///a") == claims.listed(FILES, "file:///a") == "file:///a"


# Templates ----------------------------------------------------------------------------------------


def test_what_is_made_from_a_template_belongs_to_its_server() -> None:
    claims = Claims()
    claims.template(FILES, "file:///{path}")
    claims.template(OTHER, "note:{id}")
    assert claims.origin_of("file:///a/b") == (FILES, "file:///a/b")
    assert claims.origin_of("note:7") == (OTHER, "note:7")
    assert claims.origin_of("mail:7") is None


def test_a_uri_that_looks_made_from_anothers_template_is_marked() -> None:
    claims = Claims()
    claims.template(FILES, "file:///{path}")
    assert claims.shown(OTHER, "file:///a") == "workbench://prod/files/file:///a"
    assert claims.origin_of("file:///a") == (FILES, "file:///a")
    assert claims.shown(FILES, "file:///a") == "file:///a"


def test_a_template_keeps_its_own_form_and_another_servers_is_marked() -> None:
    claims = Claims()
    for _ in range(2):
        assert claims.template(FILES, "file:///{path}") == "file:///{path}"
        assert claims.template(OTHER, "file:///{path}") == "workbench://prod/files/file:///{path}"
    assert claims.origin_of("file:///{path}") == (FILES, "file:///{path}")


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        ("file:///{path}", "file:///{+path}", True),
        ("file:///{path}", "file:///a/{name}", True),
        ("file:///a/{name}", "file:///{path}", True),
        ("{all}", "note:{id}", True),
        ("note:{id}", "mail:{id}", False),
        ("file:///a/{name}", "file:///b/{name}", False),
    ],
)
def test_templates_that_could_make_the_same_are_not_both_in_their_own_form(
    first: str, second: str, meet: bool
) -> None:
    claims = Claims()
    assert claims.template(FILES, first) == first
    assert claims.template(FILES, first + "/more") == first + "/more"  # its own hinder no server
    assert claims.template(OTHER, second) == (marked(OTHER, second) if meet else second)


def test_more_templates_than_can_be_tried_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TEMPLATES", 2)
    claims = Claims()
    shown = [claims.template(FILES, f"{scheme}:{{x}}") for scheme in "abc"]
    assert shown == ["a:{x}", "b:{x}", "workbench://dev/files/c:{x}"]


def test_what_is_listed_no_more_is_remembered_like_what_never_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNLISTED", 1)
    claims = Claims()
    for number in range(4):
        claims.listed(FILES, f"file:///{number}")
    claims.only_listed(f"file:///{number}" for number in range(4))
    claims.only_listed(["file:///0"])
    remembered = [number for number in range(4) if claims.origin_of(f"file:///{number}")]
    assert len(remembered) == 2
    assert 0 in remembered


def test_what_comes_and_goes_in_a_list_is_remembered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNLISTED", 2)
    claims = Claims()
    for _ in range(4):
        claims.only_listed([claims.listed(FILES, "file:///a")])
        claims.only_listed([])
    assert claims.origin_of("file:///a") == (FILES, "file:///a")
    assert claims.shown(FILES, "file:///b") == "file:///b"


# How much there is to do --------------------------------------------------------------------------


def lines_run(act: Callable[[], object]) -> int:
    """How many lines of Python run."""
    count = 0

    def counting(_frame: FrameType, _event: str, _arg: object) -> Any:
        nonlocal count
        count += 1
        return counting

    before = sys.gettrace()
    sys.settrace(counting)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def in_another_toolbox(
    templates: Callable[[int], list[str]], uris: Callable[[int], list[str]]
) -> list[float]:
    """How much more each takes to be shown beside many templates of another server's than beside few: a
    template, the same once more, a URI.
    """

    def show(number: int) -> Iterator[int]:
        claims = Claims()
        for template in templates(number):
            claims.template(FILES, template)
        for _ in range(2):
            yield lines_run(lambda: [claims.template(OTHER, uri) for uri in uris(number)])
        yield lines_run(lambda: [claims.shown(OTHER, uri) for uri in uris(number)])

    few, many = 20, 900
    return [most / many / (least / few) for least, most in zip(show(few), show(many), strict=True)]


@pytest.mark.parametrize(
    ("templates", "uris"),
    [
        (
            lambda n: [f"a{it}://x/{{id}}" for it in range(n)],
            lambda n: [f"b://x/{{id}}/{it}" for it in range(n)],
        ),
        (
            lambda n: [f"a{it}://x/{{id}}" for it in range(n)],
            lambda n: [f"a{n - 1}://x/{{id}}/{it}" for it in range(n)],
        ),
        (
            lambda n: [f"x://{{id}}/{it}" for it in range(n)],
            lambda n: [f"x://y{it}/{{id}}" for it in range(n)],
        ),
        (
            lambda n: [f"{'x' * (n - it)}{{id}}" for it in range(n)],
            lambda n: ["x" * it + "{id}" for it in range(n)],
        ),
        (lambda n: [f"y{it}{{id}}" for it in range(n)], lambda n: [f"{{id}}{it}" for it in range(n)]),
    ],
    ids=["apart", "of the last", "alike", "nested", "of all"],
)
def test_whose_one_is_takes_as_long_among_many_templates_as_among_few(
    templates: Callable[[int], list[str]], uris: Callable[[int], list[str]]
) -> None:
    """One server's templates would stop the calls to all."""
    assert max(in_another_toolbox(templates, uris)) < 8
