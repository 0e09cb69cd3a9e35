"""Tier 1: which name was probably meant, and the native names of tools and prompts."""

import hashlib
import re
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_workbench.hashing import sha256
from mcp_workbench.naming import NativeNames, nearest

names = st.text(max_size=12)


@pytest.mark.parametrize(
    ("name", "candidates", "found"),
    [
        ("filesystm", ["database", "filesystem"], "filesystem"),
        ("FileSystem", ["database", "filesystem"], "filesystem"),
        ("read-file", ["read_file", "write_file"], "read_file"),
        ("READ_FILE", ["Read_File"], "Read_File"),
        ("production", ["dev", "test"], None),
        ("", ["dev"], None),
        ("dev", [], None),
        ("x" * 1_000_000, ["dev"], None),
    ],
)
def test_the_nearest_name_is_offered_where_one_is_near(
    name: str, candidates: list[str], found: str | None
) -> None:
    assert nearest(name, candidates) == found


@given(names, st.lists(names, max_size=6))
def test_what_is_offered_is_always_one_of_the_names_as_it_is_written(
    name: str, candidates: list[str]
) -> None:
    assert nearest(name, candidates) in (None, *candidates)


@given(st.text(min_size=1, max_size=12), st.lists(names, max_size=6))
def test_a_name_that_differs_in_case_alone_is_found(name: str, others: list[str]) -> None:
    found = nearest(name.swapcase(), [*others, name])
    assert found is not None


def test_not_more_is_compared_than_takes_a_moment() -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield f"{taken}_" + "x" * 10_000

    assert nearest("5_" + "x" * 20_000, endless()) is not None
    assert taken <= 300


# Native names -------------------------------------------------------------------------------------

RESERVED = ("open_toolbox", "use_tool", "close_toolbox", "use_readonly_tool", "workbench_use_tool")

Address = tuple[str, str, str]  # a toolbox, a server, and a name that the server gave

# Names that are written alike, or are alike once they are made legal or shorter.
awkward = st.one_of(
    st.text("b_cd-", max_size=6),
    st.text("aé. /:\n\0\ud800\udc00😀_", max_size=5),
    st.sampled_from(["open", "toolbox", "use", "tool", "_tool", "x" * 64, "x" * 65 + "y", "x" * 5000]),
    st.from_regex(r"[a-c]_[0-9a-f]{12}", fullmatch=True),
    st.text(max_size=70),
)
addresses = st.lists(st.tuples(awkward, awkward, awkward), min_size=1, max_size=12, unique=True)


def servers_of(found: list[Address]) -> list[tuple[str, str]]:
    """The configuration in which these addresses are; each server once."""
    return list(dict.fromkeys((toolbox, server) for toolbox, server, _ in found))


def named(found: list[Address], without_prefix: str = "") -> dict[Address, str]:
    names = NativeNames(servers_of(found), RESERVED, without_prefix)
    return {address: names.name(*address) for address in found}


@st.composite
def configurations(draw: st.DrawFn) -> tuple[list[Address], str]:
    """Addresses, and the toolbox that is shown without a prefix, if one is."""
    found = draw(addresses)
    return found, draw(st.sampled_from(["", *(toolbox for toolbox, _, _ in found)]))


@given(configurations())
def test_a_native_name_is_legal_and_short_and_never_reserved(
    configuration: tuple[list[Address], str],
) -> None:
    for name in named(*configuration).values():
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
        assert name not in RESERVED


@given(configurations())
@example(([("dev", "b_c", "d"), ("dev", "b", "c_d")], ""))
@example(([("dev", "x", "_y_z"), ("x", "y", "z")], "dev"))
@example(([("a", "b", "é"), ("a", "b", "è"), ("a", "b", "_")], ""))
@example(([("a", "é", "x"), ("a", "è", "x"), ("a", "_", "x")], ""))
@example(([("a", "b", "x" * 64), ("a", "b", "x" * 65), ("a", "b" * 64, "x"), ("a", "b" * 65, "x")], ""))
@example(([("a", "b", "\ud83d\ude00"), ("a", "b", "😀"), ("a", "b", "\ud83d")], ""))
def test_no_two_things_of_a_configuration_have_one_name(configuration: tuple[list[Address], str]) -> None:
    found = named(*configuration)
    assert len({*found.values()}) == len(found)


@given(configurations())
def test_a_server_cannot_take_the_name_of_another_by_calling_its_own_thing_so(
    configuration: tuple[list[Address], str],
) -> None:
    found, bare = configuration
    taken = named(found, bare)
    beginnings = [
        (toolbox, server, f"{server}_" if toolbox == bare else f"{toolbox}__{server}_")
        for toolbox, server in servers_of(found)
    ]
    forged = [
        (toolbox, server, name.removeprefix(beginning))
        for name in taken.values()
        for toolbox, server, beginning in beginnings
        if name.startswith(beginning)
    ]
    everything = named(list(dict.fromkeys([*found, *forged])), bare)
    assert len({*everything.values()}) == len(everything)


@given(configurations(), st.randoms(use_true_random=False))
def test_names_are_the_same_in_whichever_order_servers_stand_and_are_asked_for(
    configuration: tuple[list[Address], str], random: Random
) -> None:
    found, bare = configuration
    otherwise = random.sample(found, len(found))
    assert named(otherwise, bare) == named(found, bare)


@given(configurations())
def test_a_name_does_not_depend_on_what_else_is_there_to_be_named(
    configuration: tuple[list[Address], str],
) -> None:
    found, bare = configuration
    together = named(found, bare)
    for address in found:
        alone = NativeNames(servers_of(found), RESERVED, bare)
        assert alone.name(*address) == together[address]


@given(configurations())
def test_a_name_is_plain_where_it_is_legal_and_no_other_server_could_mean_it(
    configuration: tuple[list[Address], str],
) -> None:
    found, bare = configuration

    def plain(toolbox: str, server: str, own: str) -> str:
        return f"{server}_{own}" if toolbox == bare else f"{toolbox}__{server}_{own}"

    for address, name in named(found, bare).items():
        wanted = plain(*address)
        others = [other for other in servers_of(found) if other != address[:2]]
        if (
            re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wanted)
            and wanted not in RESERVED
            and not re.fullmatch(r".*_[0-9a-f]{12}", wanted)  # as names with a hash end
            and not any(wanted.startswith(plain(*other, "")) for other in others)
        ):
            assert name == wanted
        elif name != wanted:
            assert re.fullmatch(r".*_[0-9a-f]{12}", name)


words = st.text("abcXYZ019-", min_size=1, max_size=20)


@given(words, words, words)
def test_short_words_make_names_that_can_be_read(toolbox: str, server: str, own: str) -> None:
    servers = [(toolbox, server), (toolbox, server + "x"), ("x" + toolbox, server)]
    assert NativeNames(servers).name(toolbox, server, own) == f"{toolbox}__{server}_{own}"
    assert NativeNames(servers, without_prefix=toolbox).name(toolbox, server, own) == f"{server}_{own}"


def test_a_name_as_long_as_clients_take_is_plain_and_one_character_more_is_not() -> None:
    names = NativeNames([("dev", "files")])
    longest = "x" * (64 - len("dev__files_"))
    assert names.name("dev", "files", longest) == f"dev__files_{longest}"
    shortened = names.name("dev", "files", longest + "x")
    assert len(shortened) == 64
    assert shortened.startswith("dev__files_xxx")


@pytest.mark.parametrize("own", RESERVED)
def test_a_tool_that_would_be_named_like_a_tool_of_the_workbench_stays_callable_under_another_name(
    own: str,
) -> None:
    server, _, rest = own.partition("_")
    names = NativeNames([("dev", server)], RESERVED, without_prefix="dev")
    assert names.name("dev", server, rest).startswith(f"{own}_")
    unreserved = NativeNames([("dev", server)], without_prefix="dev")
    assert unreserved.name("dev", server, rest) == own


def test_the_names_that_clients_know_stay_what_they_are() -> None:
    """Clients keep permissions by these names: another scheme is a breaking change."""
    servers = [
        ("dev", "filesystem"),
        ("dev", "b"),
        ("dev", "b_c"),
        ("d v", "s"),
        ("same", "x_"),
        ("same_", "x"),
        ("same__x", "y"),
        ("same", "x__y"),
    ]
    names = NativeNames(servers, RESERVED)
    pinned = {
        ("dev", "filesystem", "read_file"): "dev__filesystem_read_file",
        ("dev", "filesystem", "Read-File"): "dev__filesystem_Read-File",
        ("dev", "b_c", "d"): "dev__b_c_d",
        ("dev", "b", "c_d"): "dev__b_c_d_dcaf41e073dd",
        ("dev", "filesystem", "read.file"): "dev__filesystem_read_file_c99ab95adeb6",
        ("dev", "filesystem", "lösche"): "dev__filesystem_l_sche_d15a6ca7ddae",
        ("dev", "filesystem", "x" * 60): f"dev__filesystem_{'x' * 35}_73d9767c3913",
        ("dev", "filesystem", "x_0123456789ab"): "dev__filesystem_x_0123456789ab_b76a61bc4eb2",
        ("dev", "filesystem", "\ud800"): "dev__filesystem___3f74f9879b0b",
        ("d v", "s", "x"): "d_v__s_x_488623d77a4a",
    }
    assert {address: names.name(*address) for address in pinned} == pinned
    assert names.name("same__x", "y", "z") != names.name("same", "x__y", "z")
    fixed = NativeNames(servers, RESERVED, without_prefix="dev")
    assert fixed.name("dev", "filesystem", "read_file") == "filesystem_read_file"
    assert fixed.name("dev", "b", "c_d") == "b_c_d_dcaf41e073dd"
    assert fixed.name("d v", "s", "x") == "d_v__s_x_488623d77a4a"


@given(st.binary())
def test_hashes_are_those_of_sha_256(data: bytes) -> None:
    assert sha256(data) == hashlib.sha256(data).hexdigest()
