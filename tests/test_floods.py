"""What a child writes, in chunks of any kind: how much of it a turn of the loop takes. No process needed."""

import asyncio

from mcp_workbench.pipes import ChildLink

from .clock import a_few_turns, on_a_clock, until

CHUNK = 65_536


class Child:
    """A child as far as its reading goes."""

    def __init__(self) -> None:
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.stdin_closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_ending = False
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Heard:
    """A link, and the lines that came through it."""

    def __init__(self, *, owned: bool = True) -> None:
        self.lines: list[bytes] = []
        self.may_read = True
        self.child = Child()
        self.link = ChildLink((), self.lines.append, lambda: self.may_read)
        if owned:
            self.own()

    def own(self) -> None:
        self.link.own(self.child)  # type: ignore[arg-type]


def flood(line: bytes) -> bytes:
    return (line + b"\n") * (CHUNK // (len(line) + 1))


@on_a_clock
async def test_a_chunk_of_many_small_lines_is_taken_in_pieces_and_the_loop_has_turns_between() -> None:
    heard = Heard()
    data = flood(b"{}")
    heard.link.heard(data)
    longest, before, turns = 0, 0, 0
    while not heard.child.reading or not turns:
        await asyncio.sleep(0)
        longest, before, turns = max(longest, len(heard.lines) - before), len(heard.lines), turns + 1
    assert longest <= 512
    assert heard.lines == data.splitlines()


@on_a_clock
async def test_while_pieces_wait_nothing_more_is_read_from_that_child() -> None:
    heard = Heard()
    heard.link.heard(flood(b"a line"))
    assert not heard.child.reading
    await until(lambda: heard.child.reading)
    assert len(heard.lines) == CHUNK // 7


@on_a_clock
async def test_what_comes_behind_pieces_stays_behind_them() -> None:
    heard = Heard()
    data = flood(b"first")
    heard.link.heard(data + b"be")
    heard.link.heard(b"hind\n")
    heard.link.heard(b"")
    await until(lambda: len(heard.lines) > CHUNK // 6)
    assert heard.lines == [*data.splitlines(), b"behind"]
    assert not heard.link.gone.done()
    await asyncio.wait([heard.link.gone])
    assert heard.link.gone.result() == "closed its stdout"


@on_a_clock
async def test_after_pieces_nothing_is_read_while_the_client_takes_nothing() -> None:
    heard = Heard()
    heard.link.heard(flood(b"a line"))
    heard.may_read = False
    await until(lambda: len(heard.lines) == CHUNK // 7)
    await a_few_turns()
    assert not heard.child.reading


@on_a_clock
async def test_pieces_that_are_there_before_the_child_is_owned_keep_it_from_being_read() -> None:
    heard = Heard(owned=False)
    heard.link.heard(flood(b"a line"))
    heard.own()
    assert not heard.child.reading
    await until(lambda: heard.child.reading)
    assert len(heard.lines) == CHUNK // 7


@on_a_clock
async def test_a_server_that_is_gone_in_the_middle_of_pieces_is_heard_no_more_and_read_to_its_end() -> None:
    heard = Heard()
    heard.link.heard(flood(b"a line"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    heard.link.gone.set_result("was ended")
    taken = len(heard.lines)
    assert 0 < taken < CHUNK // 7
    await until(lambda: heard.child.reading)
    assert len(heard.lines) == taken


@on_a_clock
async def test_one_message_in_a_chunk_and_a_few_large_ones_are_taken_at_once() -> None:
    heard = Heard()
    for data in (b"one line\n", b"x" * CHUNK + b"\n", (b"y" * 2000 + b"\n") * 30, b"a\n" * 100):
        heard.lines.clear()
        heard.link.heard(data)
        assert heard.lines == data.splitlines()
        assert heard.child.reading
