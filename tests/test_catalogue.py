"""Tier 1 and 3: what servers were seen to offer, in a file that can be shared, damaged, full or not there."""

import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_workbench.catalogue import IN_MEMORY, Catalogue, Seen, database, default_place, store
from mcp_workbench.offers import Offer

KEY = "sha256:of-a-server"
OTHER = "sha256:of-another"
DAY = 24 * 3600.0
AS_ROOT = os.geteuid() == 0

# Other descriptors of the file must be closed before the catalogue is open: closing one releases its locks.


def hash_of(definition: bytes) -> str:
    return "sha256:" + hashlib.sha256(definition).hexdigest()


def offer(name: str, says: str = "", padding: int = 0) -> Offer:
    return Offer(name, f'{{"name":"{name}","description":"{says}{"." * padding}"}}'.encode())


def offers(*names: str, says: str = "") -> tuple[Offer, ...]:
    return tuple(offer(name, says) for name in names)


@contextmanager
def opened(place: Path | str = IN_MEMORY, hash_of: Callable[[bytes], str] = hash_of) -> Iterator[Catalogue]:
    with closing(Catalogue.open(str(place), hash_of)) as catalogue:
        yield catalogue


def record(
    catalogue: Catalogue, key: str, *tools: Offer, instructions: bytes = b'"Read me"', at: float = 1000.0
) -> None:
    catalogue.record(key, tools, instructions, "2025-11-25", at)


def tools_of(catalogue: Catalogue, key: str = KEY) -> tuple[Offer, ...] | None:
    seen = catalogue.seen([key])
    return seen[key].tools if key in seen else None


def is_kept_in(place: Path, key: str, *tools: Offer) -> bool:
    """Whether the next workbench knows it."""
    with opened(place) as catalogue:
        return tools_of(catalogue, key) == tools


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "catalogue.sqlite3"


def edit(place: Path, *statements: str) -> None:
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def put_aside(place: Path) -> list[Path]:
    return sorted(path for path in place.parent.glob("*.broken-*") if path.name[-1].isdigit())


# What is kept


def test_what_a_server_was_seen_to_offer_is_known_in_the_next_run(place: Path) -> None:
    tools = offers("write", "read")
    with opened(place) as catalogue:
        catalogue.record(KEY, tools, b'"Be kind"', "2025-06-18", 1000.0)
    with opened(place) as catalogue:
        assert catalogue.names([KEY, OTHER]) == {KEY: ("write", "read")}
        assert catalogue.seen([KEY, OTHER]) == {KEY: Seen(tools, b'"Be kind"', "2025-06-18", 1000.0, 1000.0)}


@pytest.mark.parametrize(
    "name", ["a\x00b", "\x00", "naïve", "工具", "\U0001f527", "a'b\"c\\", "\u202eback", "\ufffe"]
)
def test_names_and_definitions_of_any_kind_come_back_as_they_were(place: Path, name: str) -> None:
    tools = (Offer(name, rb'{"d":"\ud800 \u0000"}'), Offer("raw", b"\xff\x00not even JSON"), Offer("b", b""))
    with opened(place) as catalogue:
        record(catalogue, KEY, *tools, instructions=b"\xff\x00")
    with opened(place) as catalogue:
        assert catalogue.names([KEY]) == {KEY: (name, "raw", "b")}
        assert catalogue.seen([KEY])[KEY].tools == tools
        assert catalogue.seen([KEY])[KEY].instructions == b"\xff\x00"


def test_a_server_without_tools_is_known_to_have_none(place: Path) -> None:
    with opened(place) as catalogue:
        record(catalogue, KEY)
    with opened(place) as catalogue:
        assert catalogue.names([KEY]) == {KEY: ()}
        assert tools_of(catalogue) == ()


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
listings = st.dictionaries(names, st.binary(max_size=40), max_size=6).map(
    lambda found: tuple(Offer(name, definition) for name, definition in found.items())
)
sightings = st.tuples(
    st.sampled_from(["a", "b", "c"]), listings, st.binary(max_size=9), st.text("25-", max_size=3)
)


@settings(deadline=None, max_examples=60)
@given(st.lists(sightings, max_size=12), st.integers(1, 400))
def test_the_last_sighting_of_each_server_is_what_is_known(told: list[Any], apart: int) -> None:
    expected: dict[str, Seen] = {}
    with opened() as catalogue:
        for at, (key, tools, instructions, revision) in enumerate(told):
            catalogue.record(key, tools, instructions, revision, 1000.0 + at * apart)
            first = expected[key].first_seen if key in expected else 1000.0 + at * apart
            expected[key] = Seen(tools, instructions, revision, first, 1000.0 + at * apart)
            for definition in (tool.definition for tool in tools):
                assert catalogue.earlier(hash_of(definition)) == definition
        found = catalogue.seen(["a", "b", "c", "d"])
        assert catalogue.names("abcd") == {
            key: tuple(t.name for t in expected[key].tools) for key in expected
        }
    assert found.keys() == expected.keys()
    for key, seen in found.items():
        assert (seen.tools, seen.instructions, seen.revision, seen.first_seen) == (
            expected[key].tools,
            expected[key].instructions,
            expected[key].revision,
            expected[key].first_seen,
        )
        assert 0 <= expected[key].last_seen - seen.last_seen < store.SECONDS_BETWEEN_SIGHTINGS


def commits_while(place: Path, act: Callable[[], None]) -> bool:
    """Whether something was written to the file meanwhile."""
    with closing(sqlite3.connect(place)) as db:
        before = db.execute("PRAGMA data_version").fetchone()
        act()
        return bool(db.execute("PRAGMA data_version").fetchone() != before)


def test_an_unchanged_listing_is_written_once_a_minute(place: Path) -> None:
    tools = offers("read", "write")
    with opened(place) as catalogue:
        record(catalogue, KEY, *tools, at=1000.0)
        assert not commits_while(place, lambda: record(catalogue, KEY, *tools, at=1059.0))
        assert catalogue.seen([KEY])[KEY].last_seen == 1000.0
        assert commits_while(place, lambda: record(catalogue, KEY, *tools, at=1060.0))
        seen = catalogue.seen([KEY])[KEY]
        assert (seen.first_seen, seen.last_seen) == (1000.0, 1060.0)


@pytest.mark.parametrize(
    ("tools", "instructions", "revision"),
    [
        (offers("write", "read"), b"1", "2025"),
        (offers("read"), b"1", "2025"),
        (offers("read", "write", says="other"), b"1", "2025"),
        (offers("read", "write"), b"2", "2025"),
        (offers("read", "write"), b"1", "2026"),
    ],
)
def test_whatever_has_changed_is_written_at_once(
    tools: tuple[Offer, ...], instructions: bytes, revision: str
) -> None:
    with opened() as catalogue:
        catalogue.record(KEY, offers("read", "write"), b"1", "2025", 1000.0)
        catalogue.record(KEY, tools, instructions, revision, 1000.5)
        assert catalogue.seen([KEY])[KEY] == Seen(tools, instructions, revision, 1000.0, 1000.5)


def test_a_clock_that_was_put_back_is_believed() -> None:
    with opened() as catalogue:
        record(catalogue, KEY, *offers("read"), at=9000.0)
        record(catalogue, KEY, *offers("read"), at=1000.0)
        assert catalogue.seen([KEY])[KEY].last_seen == 1000.0


def test_only_definitions_that_are_new_are_hashed() -> None:
    hashed = []

    def noting(definition: bytes) -> str:
        hashed.append(definition)
        return hash_of(definition)

    with opened(hash_of=noting) as catalogue:
        record(catalogue, KEY, *offers("read", "write"))
        hashed.clear()
        record(catalogue, KEY, *offers("read", "write"), offer("new"))
        assert hashed == [offer("new").definition]


def test_a_tool_that_is_named_twice_counts_once() -> None:
    with opened() as catalogue:
        record(catalogue, KEY, offer("read"), offer("read", "again"))
        assert tools_of(catalogue) == (offer("read", "again"),)


# What tools said before


def earlier(catalogue: Catalogue, tool: Offer) -> bytes | None:
    return catalogue.earlier(hash_of(tool.definition))


def test_what_a_changed_tool_said_before_can_be_shown(place: Path) -> None:
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read", "reads"), offer("write"))
        record(catalogue, KEY, offer("read", "reads, and mails it"), offer("write"))
    with opened(place) as catalogue:
        assert earlier(catalogue, offer("read", "reads")) == offer("read", "reads").definition
        assert earlier(catalogue, offer("read", "never said")) is None


def test_what_a_tool_said_that_is_gone_can_be_shown() -> None:
    with opened() as catalogue:
        record(catalogue, KEY, offer("read", "reads"))
        record(catalogue, KEY)
        record(catalogue, KEY, offer("read", "mails"))
        assert earlier(catalogue, offer("read", "reads")) == offer("read", "reads").definition


def test_the_last_five_of_each_tool_are_kept() -> None:
    with opened() as catalogue:
        for at in range(8):
            record(catalogue, KEY, offer("read", str(at)), offer("write", str(at % 2)))
        kept = [at for at in range(8) if earlier(catalogue, offer("read", str(at)))]
        assert kept == [2, 3, 4, 5, 6, 7]  # the last is what it says now
        assert earlier(catalogue, offer("write", "0"))


def test_a_definition_that_comes_back_is_among_the_last_again() -> None:
    with opened() as catalogue:
        for says in ["back", "1", "2", "3", "back", "4", "5", "6", "7"]:
            record(catalogue, KEY, offer("read", says))
        kept = [says for says in ["back", *"1234567"] if earlier(catalogue, offer("read", says))]
        assert kept == ["back", "3", "4", "5", "6", "7"]


def test_large_definitions_are_not_kept_when_they_have_changed() -> None:
    large = offer("read", padding=store.LARGEST_EARLIER)
    with opened() as catalogue:
        record(catalogue, KEY, large)
        assert earlier(catalogue, large) == large.definition
        record(catalogue, KEY, offer("read"))
        assert earlier(catalogue, large) is None


def test_what_a_server_said_before_takes_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_BYTES_OF_EARLIER", 1000)
    with opened() as catalogue:
        for at in range(100):  # a name of its own each time
            record(catalogue, KEY, offer(f"tool-{at}", padding=200))
        kept = [at for at in range(99) if earlier(catalogue, offer(f"tool-{at}", padding=200))]
        assert kept == [95, 96, 97, 98]


def test_the_same_definition_in_another_order_is_no_change() -> None:
    def unordered(definition: bytes) -> str:
        return hash_of(bytes(sorted(definition)))

    with opened(hash_of=unordered) as catalogue:
        for definition in (b"1", b"2", b"3", b"4", b"5", b"ab", b"ba"):
            catalogue.record(KEY, [Offer("read", definition)], b"", "", 1.0)
        assert tools_of(catalogue) == (Offer("read", b"ba"),)
        assert catalogue.earlier(unordered(b"ab")) == b"ba"
        assert catalogue.earlier(unordered(b"1")) == b"1"  # one of the last five


# It stays small


def test_servers_that_were_not_seen_for_long_are_forgotten(place: Path) -> None:
    with opened(place) as catalogue:
        record(catalogue, OTHER, offer("read", "first"), at=0.0)
        record(catalogue, OTHER, offer("read", "then"), at=0.0)
        record(catalogue, KEY, offer("write"), at=180 * DAY)
        assert catalogue.names([OTHER])
        record(catalogue, KEY, offer("write"), at=181 * DAY)
        assert catalogue.names([OTHER, KEY]) == {KEY: ("write",)}
        assert earlier(catalogue, offer("read", "first")) is None
        assert earlier(catalogue, offer("read", "then")) is None


def test_the_file_stays_small_by_forgetting_what_was_seen_longest_ago(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_BYTES", 100_000)
    with opened(place) as catalogue:
        for at in range(60):
            record(catalogue, str(at), offer("read", padding=10_000), at=1000.0 + at)
        assert list(catalogue.names([str(at) for at in range(60)])) == [str(at) for at in range(51, 60)]
        record(catalogue, "late", offer("read", padding=10_000), at=0.0)  # its clock is wrong
        assert catalogue.names(["late"]) == {"late": ("read",)}
    assert place.stat().st_size < 400_000


def test_a_server_that_offers_too_much_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "MOST_BYTES_OF_A_SERVER", 10_000)
    with opened() as catalogue:
        record(catalogue, KEY, offer("read"))
        record(catalogue, KEY, offer("read", padding=10_000))
        record(catalogue, OTHER, offer("read"))
        assert tools_of(catalogue) == (offer("read"),)
        assert catalogue.names([OTHER])
    assert "offers more than" in caplog.text


# Where it is


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"HOME": "/home/me"}, "/home/me/.cache/mcp-workbench/catalogue.sqlite3"),
        ("linux", {"HOME": "/home/me", "XDG_CACHE_HOME": "/c"}, "/c/mcp-workbench/catalogue.sqlite3"),
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/mcp-workbench/catalogue.sqlite3"),
        (
            "linux",
            {"HOME": "/home/me", "XDG_CACHE_HOME": ""},
            "/home/me/.cache/mcp-workbench/catalogue.sqlite3",
        ),
        (
            "linux",
            {"HOME": "/home/me", "XDG_CACHE_HOME": "c"},
            "/home/me/.cache/mcp-workbench/catalogue.sqlite3",
        ),
        ("freebsd14", {"HOME": "/home/me"}, "/home/me/.cache/mcp-workbench/catalogue.sqlite3"),
        ("linux", {}, IN_MEMORY),
        ("linux", {"HOME": ""}, IN_MEMORY),
        ("linux", {"HOME": "relative"}, IN_MEMORY),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Caches/mcp-workbench/catalogue.sqlite3"),
        ("darwin", {}, IN_MEMORY),
        ("win32", {"LOCALAPPDATA": r"C:\Users\me\L"}, r"C:\Users\me\L\mcp-workbench\catalogue.sqlite3"),
        ("win32", {"HOME": "/home/me"}, IN_MEMORY),
    ],
)
def test_the_default_place_is_the_users_cache_directory(
    platform: str, environment: dict[str, str], expected: str
) -> None:
    assert default_place(environment, platform) == expected


def test_nobody_else_can_read_it(place: Path) -> None:
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.parent.iterdir()}
        assert len(modes) == 3
        assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


def test_what_others_could_read_they_cannot_any_more(place: Path) -> None:
    with opened(place):
        pass
    place.chmod(0o666)
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert is_kept_in(place, KEY, offer("read"))


def test_a_link_of_the_users_own_is_followed(place: Path, tmp_path: Path) -> None:
    place.parent.mkdir()
    place.symlink_to(tmp_path / "elsewhere")
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
    assert is_kept_in(tmp_path / "elsewhere", KEY, offer("read"))


# Where it cannot be


def a_directory(place: Path) -> None:
    place.mkdir()


def a_pipe(place: Path) -> None:
    os.mkfifo(place)


def a_link_to_a_directory(place: Path) -> None:
    place.symlink_to(place.parent)


def a_link_to_itself(place: Path) -> None:
    place.symlink_to(place)


def a_pipe_beside_it(place: Path) -> None:
    os.mkfifo(f"{place}-wal")


def a_link_beside_it(place: Path) -> None:
    Path(f"{place}-wal").symlink_to(place.parent / "precious")


def a_directory_that_all_can_write(place: Path) -> None:
    place.parent.chmod(0o777)


def a_file_of_another_user(place: Path) -> None:
    place.touch()
    os.chown(place, 12345, 12345)


def a_link_of_another_user(place: Path) -> None:
    precious = place.parent / "precious"
    precious.write_text("not to be put aside")
    place.symlink_to(precious)
    os.lchown(place, 12345, 12345)


def a_directory_that_is_read_only(place: Path) -> None:
    place.parent.chmod(0o500)


def a_file_that_is_read_only(place: Path) -> None:
    with opened(place):
        pass
    place.chmod(0o400)


def a_file_that_is_unreadable(place: Path) -> None:
    with opened(place):
        pass
    place.chmod(0o200)


only_as_root = pytest.mark.skipif(not AS_ROOT, reason="only root can give files away")
never_as_root = pytest.mark.skipif(AS_ROOT, reason="root may write everywhere")


@pytest.mark.parametrize(
    "prepare",
    [
        a_directory,
        a_pipe,
        a_link_to_a_directory,
        a_link_to_itself,
        a_pipe_beside_it,
        a_link_beside_it,
        a_directory_that_all_can_write,
        pytest.param(a_file_of_another_user, marks=only_as_root),
        pytest.param(a_link_of_another_user, marks=only_as_root),
        pytest.param(a_directory_that_is_read_only, marks=never_as_root),
        pytest.param(a_file_that_is_read_only, marks=never_as_root),
        pytest.param(a_file_that_is_unreadable, marks=never_as_root),
    ],
)
def test_where_there_can_be_no_file_it_is_kept_in_memory(
    place: Path, prepare: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    place.parent.mkdir()
    prepare(place)
    before = sorted(path.name for path in place.parent.iterdir())
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
        assert tools_of(catalogue) == (offer("read"),)
    assert "kept in memory" in caplog.text
    left = sorted(path.name for path in place.parent.iterdir())
    assert [name for name in left if name != place.name] == [name for name in before if name != place.name]
    place.parent.chmod(0o700)


@pytest.mark.parametrize(
    "place", ["", "/dev/null/catalogue", "/proc/nowhere/catalogue", "a\x00b", "x" * 5000]
)
def test_a_place_that_cannot_be_is_no_reason_not_to_start(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
        assert tools_of(catalogue) == (offer("read"),)
    assert len(caplog.records) == 1


def test_a_directory_that_all_can_write_but_not_take_away_from_is_no_obstacle(place: Path) -> None:
    place.parent.mkdir()
    place.parent.chmod(0o1777)
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
    assert is_kept_in(place, KEY, offer("read"))


def test_without_sqlite_nothing_is_kept_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_workbench.catalogue.store", None)
    with opened() as catalogue:
        record(catalogue, KEY, offer("read"))
        assert catalogue.names([KEY]) == {}
        assert catalogue.earlier("sha256:x") is None
    assert "is not kept" in caplog.text


# Others have it


def test_a_file_that_others_do_not_let_go_is_no_reason_to_wait_for_long(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_PATIENCE_AT_OPENING", 0.05)
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        with opened(place) as catalogue:
            record(catalogue, OTHER, offer("write"))
            assert catalogue.names([KEY, OTHER]) == {OTHER: ("write",)}
    assert "locked" in caplog.text
    assert is_kept_in(place, KEY, offer("read"))
    assert put_aside(place) == []


def test_a_file_that_is_locked_while_it_is_new_is_waited_for_as_long(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_PATIENCE_AT_OPENING", 0.05)
    place.parent.mkdir()
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with opened(place) as catalogue:
            record(catalogue, KEY, offer("read"))
            assert catalogue.names([KEY])
    assert "locked" in caplog.text


def test_what_cannot_be_written_for_now_is_dropped_and_said_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "_PATIENCE", 0.02)
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
        with closing(sqlite3.connect(place, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            record(catalogue, KEY, offer("write"))
            record(catalogue, KEY, offer("write"))
            assert catalogue.names([KEY]) == {KEY: ("read",)}
            db.execute("ROLLBACK")
        assert len(caplog.records) == 1
        assert "locked" in caplog.text
        record(catalogue, KEY, offer("write"))
        assert catalogue.names([KEY]) == {KEY: ("write",)}


def test_a_full_disk_drops_what_is_new_and_keeps_what_is_known(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def on_a_small_disk(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*arguments, **options)
        db.execute("PRAGMA max_page_count = 20")
        return db

    monkeypatch.setattr(sqlite3, "connect", on_a_small_disk)
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
        record(catalogue, KEY, offer("read", padding=200_000))
        assert tools_of(catalogue) == (offer("read"),)
        record(catalogue, OTHER, offer("write"))
    assert "full" in caplog.text
    monkeypatch.undo()
    assert is_kept_in(place, OTHER, offer("write"))
    assert put_aside(place) == []


ON_A_DISK_THAT_FAILS = """
import resource, sys
from mcp_workbench.catalogue import Catalogue
from mcp_workbench.offers import Offer
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
catalogue = Catalogue.open(sys.argv[1], lambda definition: "h")
for at in range(40):
    catalogue.record(str(at), [Offer("read", b"x" * 5000)], b"", "", 1.0)
known = catalogue.names([str(at) for at in range(40)])
catalogue.close()
print(len(known), set(known.values()))
"""


@pytest.mark.parametrize("most", [0, 100, 4096, 5000, 9000, 33_000, 60_000, 100_000])
@pytest.mark.parametrize("is_new", [False, True])
def test_a_disk_that_takes_no_more_is_survived(place: Path, most: int, is_new: bool) -> None:
    if not is_new:
        with opened(place) as catalogue:
            record(catalogue, KEY, offer("read"))
    found = run(ON_A_DISK_THAT_FAILS, place, most)
    assert found.endswith("{('read',)}") or found == "0 set()"
    assert put_aside(place) == []
    if not is_new:
        assert is_kept_in(place, KEY, offer("read"))
    with opened(place) as catalogue:
        record(catalogue, OTHER, offer("write"))
    assert is_kept_in(place, OTHER, offer("write"))


def test_a_file_that_was_removed_is_begun_again(place: Path) -> None:
    with opened(place) as catalogue:
        record(catalogue, OTHER, offer("read"))
        shutil.rmtree(place.parent)
        record(catalogue, KEY, offer("read"))
        assert catalogue.names([KEY, OTHER]) == {KEY: ("read",)}
    assert is_kept_in(place, KEY, offer("read"))


def test_after_closing_nothing_is_known_and_nothing_fails(place: Path) -> None:
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
    record(catalogue, KEY, offer("write"))
    catalogue.close()
    assert catalogue.names([KEY]) == {}
    assert catalogue.seen([KEY]) == {}
    assert is_kept_in(place, KEY, offer("read"))


# Damage


def as_it_was(place: Path, tools: int = 30) -> None:
    """A file with some pages in it."""
    with opened(place) as catalogue:
        record(catalogue, KEY, *(offer(f"tool-{at}", padding=500) for at in range(tools)))
        record(catalogue, KEY, *(offer(f"tool-{at}", "new", padding=500) for at in range(tools)))


def overwritten(place: Path, at: int, what: bytes) -> None:
    with place.open("r+b") as file:
        file.seek(at)
        file.write(what)


OURS = f"PRAGMA application_id = {0x4D435057}"
DAMAGES: dict[str, Callable[[Path], object]] = {
    "text": lambda place: overwritten(place, 0, b"This is no database. " * 10),
    "zeros": lambda place: overwritten(place, 0, bytes(place.stat().st_size)),
    "cut": lambda place: os.truncate(place, place.stat().st_size // 2),
    "cut within its head": lambda place: os.truncate(place, 50),
    "zeros at its beginning": lambda place: overwritten(place, 0, bytes(4096)),
    "noise in its middle": lambda place: overwritten(place, 4096, b"\xa5" * 40_000),
    "no version": lambda place: edit(place, "PRAGMA user_version = 0"),
    "a version that never was": lambda place: edit(place, "PRAGMA user_version = -3"),
    "an older version than it is": lambda place: edit(place, "PRAGMA user_version = 1"),
    "no tables": lambda place: edit(place, "PRAGMA foreign_keys = OFF", "DROP TABLE server"),
    "no table of tools": lambda place: edit(place, "DROP TABLE tool"),
    "other columns": lambda place: edit(place, "ALTER TABLE server RENAME COLUMN names TO renamed"),
    "a table's name that is no text": lambda place: place.write_bytes(
        place.read_bytes().replace(b"tableearlierearlier", b"table\x80arlierearlier")
    ),
    "names of another type": lambda place: edit(place, "UPDATE server SET names = 7"),
    "names that are none": lambda place: edit(place, "UPDATE server SET names = x'5b31'"),
    "a tool without a name": lambda place: edit(place, "UPDATE server SET names = x'5b5d'"),
    "a definition of another type": lambda place: edit(place, "UPDATE tool SET definition = 'text'"),
    "a name that is no text": lambda place: edit(
        place, "UPDATE tool SET name = CAST(x'ff' AS TEXT) WHERE name = 'tool-3'"
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_broken_file_is_put_aside_and_begun_again(
    place: Path, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    as_it_was(place)
    damage(place)
    with opened(place) as catalogue:
        catalogue.names([KEY])
        assert tools_of(catalogue) is None
        record(catalogue, KEY, offer("read"))
        assert tools_of(catalogue) == (offer("read"),)
    assert put_aside(place) == [place.with_name("catalogue.sqlite3.broken-1")]
    assert len(caplog.records) == 1
    assert "broken-1" in caplog.text
    assert is_kept_in(place, KEY, offer("read"))


IN_MID_RUN = ["no tables", "names of another type", "a tool without a name", "a name that is no text"]


@pytest.mark.parametrize("damage", [DAMAGES[name] for name in IN_MID_RUN], ids=IN_MID_RUN)
@pytest.mark.parametrize("first", ["names", "seen", "record", "earlier"])
def test_a_file_that_breaks_in_mid_run_is_begun_again(
    place: Path, damage: Callable[[Path], object], first: str
) -> None:
    with opened(place) as catalogue:
        record(catalogue, KEY, *(offer(f"tool-{at}") for at in range(9)))
        damage(place)
        if first == "record":
            record(catalogue, KEY, offer("read"))
        elif first == "earlier":
            catalogue.earlier("sha256:none")
        else:
            getattr(catalogue, first)([KEY])
        record(catalogue, KEY, offer("read"))
        assert tools_of(catalogue) == (offer("read"),)
    assert len(put_aside(place)) == 1
    assert is_kept_in(place, KEY, offer("read"))


def test_a_file_that_breaks_again_is_left_for_memory(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(place) as catalogue:
        for says in "ab":
            record(catalogue, KEY, offer("read", says))
            edit(place, "UPDATE server SET names = 7")
            assert catalogue.names([KEY]) == {}
        record(catalogue, KEY, offer("read", "c"))
        assert tools_of(catalogue) == (offer("read", "c"),)
    assert len(put_aside(place)) == 1
    assert "again" in caplog.text


def test_a_few_broken_files_are_kept(place: Path) -> None:
    for at in range(6):
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"broken {at}" * 100)
        os.utime(place, (1000 + at, 1000 + at))
        with opened(place) as catalogue:
            record(catalogue, KEY, offer("read"))
        place.unlink()
    assert {path.read_text()[:8] for path in put_aside(place)} == {"broken 3", "broken 4", "broken 5"}


def test_what_another_workbench_has_begun_again_is_not_put_aside(place: Path) -> None:
    with opened(place) as one, opened(place) as another:
        record(one, KEY, offer("read", "old"))
        edit(place, "UPDATE server SET names = 7")
        assert one.names([KEY]) == {}
        record(one, KEY, offer("read", "new"))
        assert another.names([KEY]) in ({}, {KEY: ("read",)})
        record(another, OTHER, offer("write"))
        assert one.names([KEY, OTHER]) == {KEY: ("read",), OTHER: ("write",)}
    assert len(put_aside(place)) == 1


def test_a_broken_file_that_cannot_be_put_aside_is_left_for_memory(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.parent.mkdir()
    place.write_text("broken" * 100)

    def refuse(*_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
        assert tools_of(catalogue) == (offer("read"),)
    assert "cannot be put aside" in caplog.text


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    place = tmp_path_factory.mktemp("sound") / "catalogue.sqlite3"
    as_it_was(place, tools=4)
    return place.read_bytes()


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_damaged_nothing_fails_and_what_is_recorded_is_known(
    tmp_path: Path, sound: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(sound)
    somewhere = st.integers(0, len(sound) - 1) | st.integers(0, 4095)
    for at, value in data.draw(st.lists(st.tuples(somewhere, st.integers(0, 255)), min_size=1, max_size=30)):
        damaged[at] = value
    for path in tmp_path.iterdir():
        path.unlink()
    place = tmp_path / "catalogue.sqlite3"
    place.write_bytes(damaged)
    with opened(place) as catalogue:
        catalogue.names([KEY, OTHER])
        catalogue.seen([KEY, OTHER])
        catalogue.earlier("sha256:none")
        record(catalogue, KEY, offer("read"))
        record(catalogue, OTHER, offer("write"))
        assert tools_of(catalogue, OTHER) in ((offer("write"),), None)  # it may break in being read


# Versions


VERSION_1 = [
    "PRAGMA journal_mode = WAL",
    OURS,
    "PRAGMA user_version = 1",
    "CREATE TABLE server (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, names BLOB NOT NULL,"
    " instructions BLOB NOT NULL, revision TEXT NOT NULL, first_seen REAL NOT NULL, last_seen REAL NOT NULL,"
    " size INTEGER NOT NULL)",
    "CREATE TABLE tool (server INTEGER NOT NULL REFERENCES server ON DELETE CASCADE, name TEXT NOT NULL,"
    " hash TEXT NOT NULL, definition BLOB NOT NULL, PRIMARY KEY (server, name))",
    "CREATE INDEX tool_by_hash ON tool (hash)",
    f"INSERT INTO server VALUES (1, '{KEY}', CAST('[\"read\"]' AS BLOB), x'2222', '2025-06-18', 10, 20, 300)",
    "INSERT INTO tool VALUES (1, 'read', 'sha256:1', x'7b7d')",
]


def test_a_file_of_version_1_is_brought_to_this_version(place: Path) -> None:
    place.parent.mkdir()
    edit(place, *VERSION_1)
    with opened(place) as catalogue:
        assert catalogue.names([KEY]) == {KEY: ("read",)}
        assert catalogue.seen([KEY]) == {KEY: Seen((Offer("read", b"{}"),), b'""', "2025-06-18", 10.0, 20.0)}
        record(catalogue, KEY, offer("read"), at=30.0)
        assert catalogue.earlier("sha256:1") == b"{}"
        assert catalogue.seen([KEY])[KEY].first_seen == 10.0
    with closing(sqlite3.connect(place)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (database.VERSION,)
    assert put_aside(place) == []


def test_what_was_approved_is_kept_by_its_hash_as_long_as_there_is_room(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_APPROVED", 2)
    with opened(place) as catalogue:
        catalogue.keep_approved({"sha256:1": b"one", "sha256:2": b"two"})
        catalogue.keep_approved({"sha256:3": b"three", "sha256:1": b"one"})
        assert [catalogue.earlier(f"sha256:{n}") for n in (1, 2, 3)] == [None, b"two", b"three"]
    with opened(place) as catalogue:
        assert catalogue.earlier("sha256:3") == b"three"


def test_a_file_of_a_newer_version_is_left_alone(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    as_it_was(place)
    edit(place, f"PRAGMA user_version = {database.VERSION + 1}")
    before = place.read_bytes()
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
        assert tools_of(catalogue) == (offer("read"),)
    assert place.read_bytes() == before
    assert put_aside(place) == []
    assert "newer version" in caplog.text


@pytest.mark.parametrize(
    "statements",
    [["CREATE TABLE bookmark (url)"], ["PRAGMA user_version = 2"], ["PRAGMA application_id = 5"]],
)
def test_the_database_of_another_program_is_left_alone(
    place: Path, statements: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    place.parent.mkdir()
    edit(place, *statements)
    before = place.read_bytes()
    with opened(place) as catalogue:
        record(catalogue, KEY, offer("read"))
        assert tools_of(catalogue) == (offer("read"),)
    assert place.read_bytes() == before
    assert put_aside(place) == []
    assert "another program" in caplog.text


# Power cuts


OLD = tuple(offer(f"tool-{at}", "old", padding=700) for at in range(12))
NEW = tuple(offer(f"tool-{at}", "new", padding=700) for at in range(3, 15))


class PowerCut(NamedTuple):
    """Around the second record: the file and its log, how long that was before, and the file in the end."""

    content: bytes
    log: bytes
    length: int
    carried_over: bytes


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> PowerCut:
    place = tmp_path_factory.mktemp("power") / "catalogue.sqlite3"
    with opened(place) as catalogue:
        record(catalogue, KEY, *OLD, instructions=b"old", at=1.0)
    with opened(place) as catalogue:
        record(catalogue, OTHER, offer("still"), at=1.0)
        log = Path(f"{place}-wal")
        length = log.stat().st_size
        record(catalogue, KEY, *NEW, instructions=b"new", at=2.0)
        content, written = copied(place), copied(log)
    return PowerCut(content, written, length, place.read_bytes())


def copied(path: Path) -> bytes:
    # By another process: to close the file here would release the locks that SQLite has.
    return subprocess.run(["cat", path], capture_output=True, check=True).stdout


def is_whole(catalogue: Catalogue) -> str:
    seen = catalogue.seen([KEY])[KEY]
    for says, tools, at in (("old", OLD, 1.0), ("new", NEW, 2.0)):
        if seen == Seen(tools, says.encode(), "2025-11-25", 1.0, at):
            assert catalogue.names([KEY]) == {KEY: tuple(tool.name for tool in tools)}
            return says
    raise AssertionError(seen)


def restored(place: Path, content: bytes, log: bytes) -> str:
    place.parent.mkdir(exist_ok=True)
    for path in place.parent.iterdir():
        path.unlink()
    place.write_bytes(content)
    Path(f"{place}-wal").write_bytes(log)
    with opened(place) as catalogue:
        said = is_whole(catalogue)
        record(catalogue, "next", offer("goes on"))
    assert is_kept_in(place, "next", offer("goes on"))
    assert put_aside(place) == []
    return said


def test_a_log_that_was_cut_at_any_frame_leaves_the_old_record_or_the_new(
    place: Path, cut: PowerCut, caplog: pytest.LogCaptureFixture
) -> None:
    frames = range(32, len(cut.log) + 1, 24 + 4096)
    assert len(frames) > 10
    said = [restored(place, cut.content, cut.log[:end]) for end in (0, *frames)]
    assert said == ["old"] * (len(said) - 1) + ["new"]
    assert caplog.records == []


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_log_that_was_cut_or_spoilt_anywhere_leaves_the_old_record_or_the_new(
    place: Path, cut: PowerCut, data: st.DataObject
) -> None:
    end = data.draw(st.integers(0, len(cut.log)) | st.integers(cut.length, len(cut.log)))
    # Pages reach the disk in any order: what was not written yet is zeros, or from another time.
    rest = data.draw(st.sampled_from([b"", b"\x00", b"\xa5"])) * (len(cut.log) - end)
    written = cut.log[:end] + rest
    assert restored(place, cut.content, written) == ("new" if written == cut.log else "old")


def test_a_log_that_was_carried_over_in_part_leaves_the_new_record(place: Path, cut: PowerCut) -> None:
    for end in range(0, len(cut.carried_over) + 1, 4096):
        mixed = cut.carried_over[:end] + cut.content[end:]
        assert restored(place, mixed, cut.log) == "new"


WRITER_WITHOUT_END = """
import sys
from mcp_workbench.catalogue import Catalogue
from mcp_workbench.offers import Offer
catalogue = Catalogue.open(sys.argv[1], lambda definition: "h%d" % hash(definition))
at = 0
while True:
    at += 1
    says = b"%d" % at
    tools = [Offer("tool-%d" % name, says + b"." * 900) for name in range(20)]
    catalogue.record("a", tools, says, "", float(at))
    print(at, flush=True)
"""


@pytest.mark.parametrize("lives", [1, 2, 13, 60])
def test_a_workbench_that_was_killed_leaves_whole_records(place: Path, lives: int) -> None:
    with started(WRITER_WITHOUT_END, place) as writer:
        for _ in range(lives):
            assert writer.stdout
            last = int(writer.stdout.readline())
        writer.kill()
        writer.wait()
    with opened(place) as catalogue:
        seen = catalogue.seen(["a"])["a"]
        assert float(seen.instructions) == seen.last_seen >= last
        assert {tool.definition for tool in seen.tools} == {seen.instructions + b"." * 900}
        assert len(seen.tools) == 20
    assert put_aside(place) == []


# Several at once


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(script: str, *arguments: object) -> str:
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment(),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    ).stdout.strip()


@contextmanager
def started(script: str, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


WRITER = """
import sys
from mcp_workbench.catalogue import Catalogue
from mcp_workbench.offers import Offer
_, place, who, records = sys.argv
print("ready", flush=True)
sys.stdin.readline()
catalogue = Catalogue.open(place, lambda definition: "h%d" % hash(definition))
for at in range(int(records)):
    tools = [Offer("tool-%d" % name, b"%d" % at * 100) for name in range(10)]
    catalogue.record("%s-%d" % (who, at), tools, who.encode(), "", 1.0)
    catalogue.record("shared", tools, who.encode(), "", 1.0 + at)
catalogue.close()
"""


def all_at_once(place: Path, writers: int, records: int) -> list[str]:
    """What the writers complain of."""
    begun = [started(WRITER, place, who, records) for who in range(writers)]
    processes = [each.__enter__() for each in begun]
    try:
        for process in processes:
            assert process.stdout
            process.stdout.readline()
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        return [line for process in processes for line in process.communicate(timeout=60)[1].splitlines()]
    finally:
        for each in begun:
            each.__exit__(None, None, None)


def all_were_kept(place: Path, writers: int, records: int) -> bool:
    keys = [f"{who}-{at}" for who in range(writers) for at in range(records)]
    with opened(place) as catalogue:
        seen = catalogue.seen([*keys, "shared"])
    mixed = [key for key, each in seen.items() if len({tool.definition for tool in each.tools}) != 1]
    return not mixed and seen.keys() == {*keys, "shared"}


def test_two_workbenches_that_write_at_once_lose_nothing(place: Path) -> None:
    assert all_at_once(place, writers=2, records=300) == []
    assert all_were_kept(place, writers=2, records=300)


def test_several_workbenches_can_begin_the_file_at_the_same_moment(place: Path) -> None:
    for _ in range(3):
        shutil.rmtree(place.parent, ignore_errors=True)
        assert all_at_once(place, writers=8, records=3) == []
        assert all_were_kept(place, writers=8, records=3)
        assert put_aside(place) == []


def test_several_threads_can_use_it_at_once(place: Path) -> None:
    def write(at: int) -> None:
        record(catalogue, str(at), *offers("read", "write", says=str(at)))
        assert catalogue.names([str(at)]) == {str(at): ("read", "write")}

    with opened(place) as catalogue, ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))
        seen = catalogue.seen([str(at) for at in range(200)])
        assert all(seen[str(at)].tools == offers("read", "write", says=str(at)) for at in range(200))


def test_what_it_does_not_need_before_the_first_answer_is_not_loaded(place: Path) -> None:
    script = """
import sys
from mcp_workbench.catalogue import Catalogue
before = "sqlite3" in sys.modules
catalogue = Catalogue.open(sys.argv[1], str)
catalogue.names(["a"])
heavy = {"asyncio", "logging", "threading", "pathlib", "hashlib", "uvloop"}
print(before, sorted(heavy & sys.modules.keys()))
"""
    assert run(script, place) == "False []"
