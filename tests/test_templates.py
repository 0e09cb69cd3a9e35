"""Tier 1: templates of URIs: whose each is, and which one a URI may have been made from."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.naming import Origin
from mcp_workbench.templates import MOST_TRIED, Templates

ONE, TWO, THREE = (Origin("dev", name) for name in ("one", "two", "three"))

# Which URIs fit -----------------------------------------------------------------------------------


def fits(template: str, uri: str) -> bool:
    templates = Templates()
    templates.take(ONE, template)
    return templates.maker(uri) == ONE


@pytest.mark.parametrize(
    ("template", "uri", "fitting"),
    [
        ("file:///{path}", "file:///a", True),
        ("file:///{path}", "file:///", True),
        ("file:///{path}", "file:///a/b?c#d", True),
        ("file:///{path}", "file:///a\nb", True),
        ("file:///{path}", "file://a", False),
        ("file:///{path}", "xfile:///a", False),
        ("repo://{owner}/{repo}/contents{/path*}{?ref}", "repo://a/b/contents/c/d?ref=e", True),
        ("repo://{owner}/{repo}/contents{/path*}{?ref}", "repo://a/b/tree/c", False),
        ("a{x}b{y}c", "abc", True),
        ("a{x}b{y}c", "a1b2b3c", True),
        ("a{x}b{y}c", "abb", False),
        ("a{x}b{y}c", "acb", False),
        ("a{x}a", "a", False),
        ("ab{x}ba", "aba", False),
        ("a.c{x}", "abc", False),
        ("a.c{x}", "a.c", True),
        ("(a+)+{x}[b]$", "(a+)+1[b]$", True),
        ("(a+)+{x}[b]$", "aab", False),
        ("plain", "plain", True),
        ("plain", "plain\n", False),
        ("plain", "plainer", False),
        ("", "", True),
        ("", "a", False),
        ("{x}", "", True),
        ("{x}", "anything", True),
        ("{}{x}", "anything", True),
        ("a{b", "a{b", True),
        ("a}b", "a}b", True),
        ("a}b", "ab", False),
    ],
)
def test_a_template_is_fitted_by_what_may_have_come_from_it(template: str, uri: str, fitting: bool) -> None:
    assert fits(template, uri) is fitting


literals = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}"), max_size=4)
variables = st.from_regex(r"\{[+#./;?&]?[a-c]{1,2}(\*|:3)?\}", fullmatch=True)


@given(st.lists(st.tuples(literals, variables, st.text(max_size=4)), max_size=4), literals)
def test_whatever_a_variable_stands_for_the_uri_fits_its_template(
    parts: list[tuple[str, str, str]], ending: str
) -> None:
    template = "".join(literal + variable for literal, variable, _ in parts) + ending
    made = "".join(literal + value for literal, _, value in parts) + ending
    assert fits(template, made)


@given(st.lists(st.sampled_from(["a", "b", "{x}"]), max_size=8), st.text("ab", max_size=8))
def test_a_template_is_fitted_by_nothing_else(parts: list[str], uri: str) -> None:
    # By the number of characters that are read: after which parts may that be?
    reached = {0}
    for part in parts:
        if part == "{x}":
            reached = {*range(min(reached), len(uri) + 1)} if reached else reached
        else:
            reached = {at + 1 for at in reached if uri[at : at + 1] == part}
    assert fits("".join(parts), uri) is (len(uri) in reached)


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    """For what takes a moment, or else longer than anybody waits."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_no_template_makes_looking_whose_a_uri_is_take_forever() -> None:
    """One server's template would stop the calls to all."""
    with no_longer_than(5):
        assert not fits("x://" + "-".join(f"{{v{at}}}" for at in range(12)) + "!", "x://" + "-" * 400)


# Whose they are -----------------------------------------------------------------------------------

beginnings = st.text("ab", max_size=3)


def taken(offered: list[tuple[Origin, str]]) -> tuple[Templates, list[tuple[Origin, str]]]:
    """The templates, in this order, that may be taken."""
    templates, those = Templates(), []
    for origin, template in offered:
        if templates.may_take(origin, template):
            templates.take(origin, template)
            those.append((origin, template))
    return templates, those


@given(st.lists(st.tuples(st.sampled_from([ONE, TWO, THREE]), beginnings)), st.text("ab", max_size=4))
def test_a_template_may_be_taken_if_none_of_anothers_begins_as_it_does_or_it_as_that(
    offered: list[tuple[Origin, str]], uri: str
) -> None:
    templates, those = taken([(origin, begins + "{x}") for origin, begins in offered])
    expected: list[tuple[Origin, str]] = []
    for origin, begins in offered:
        others = [other for whose, other in expected if whose != origin]
        if not any(begins.startswith(other) or other.startswith(begins) for other in others):
            expected.append((origin, begins))
    assert those == [(origin, begins + "{x}") for origin, begins in expected]
    makers = {origin for origin, begins in expected if uri.startswith(begins)}
    assert {templates.maker(uri)} - {None} == makers
    for origin in (ONE, TWO, THREE):
        assert templates.made_by_another(origin, uri) is bool(makers - {origin})


def test_templates_that_begin_alike_are_each_tried_up_to_a_limit() -> None:
    templates, _ = taken([(ONE, f"x:{{a}}/{number}") for number in range(MOST_TRIED)])
    assert templates.maker(f"x:y/{MOST_TRIED - 1}") == ONE
    assert templates.maker("x:y/more") is None
    assert not templates.made_by_another(TWO, "x:y/more")
    templates.take(ONE, "x:{a}/more/{b}")
    assert templates.maker("x:y/and more") == ONE
    assert templates.made_by_another(TWO, "x:y/and more")
