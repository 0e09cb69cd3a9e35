"""Tier 1: no workbench is started through itself."""

import json

import pytest

from mcp_workbench import chains
from mcp_workbench.chains import Ring
from mcp_workbench.raw_json import Malformed


@pytest.mark.parametrize(
    ("chain", "own", "extended"),
    [
        ("", "a", "a"),
        ("a", "b", "a,b"),
        ("a,b", "c", "a,b,c"),
        ("ab", "a", "ab,a"),
        (",".join("abcdefg"), "h", "a,b,c,d,e,f,g,h"),
    ],
)
def test_a_chain_ends_with_us(chain: str, own: str, extended: str) -> None:
    assert chains.extended(chain, own) == extended


@pytest.mark.parametrize(("chain", "own"), [("a,b", "a"), ("a,b", "b"), ("a", "a")])
def test_a_chain_that_comes_back_to_us_is_a_ring(chain: str, own: str) -> None:
    with pytest.raises(Ring, match="listed in itself"):
        chains.extended(chain, own)


def test_a_chain_without_end_is_refused_in_its_own_words() -> None:
    with pytest.raises(Ring, match="more than 8 workbenches"):
        chains.extended(",".join("abcdefgh"), "i")


@pytest.mark.parametrize(
    ("ours", "told", "known"),
    [
        ("us", "", "us"),
        ("us", "outer", "outer,us"),
        ("outer,us", "outer", "outer,us"),
        ("near,us", "far,near", "far,near,us"),
    ],
)
def test_links_that_only_the_client_knows_come_before_ours(ours: str, told: str, known: str) -> None:
    meta = json.dumps({chains.META: told, "other": 1}).encode()
    assert chains.as_the_client_knows(ours, meta) == known


def test_a_client_that_came_through_us_closes_a_ring() -> None:
    with pytest.raises(Ring):
        chains.as_the_client_knows("first,us", json.dumps({chains.META: "outer,us,inner"}).encode())


def test_a_chain_that_is_no_text_is_malformed() -> None:
    with pytest.raises(Malformed, match=chains.META):
        chains.as_the_client_knows("us", json.dumps({chains.META: ["a"]}).encode())
