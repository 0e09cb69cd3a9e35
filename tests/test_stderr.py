"""Lines on a stderr that is read late, or by nobody: nothing here may ever wait."""

import os
import socket
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcp_workbench.stderr import Printer

Way = Callable[[], tuple[int, int]]
ROUNDS = 40_000  # lines, more than a pipe or a socket holds


def socket_pair() -> tuple[int, int]:
    reading, writing = socket.socketpair()
    return reading.detach(), writing.detach()


@contextmanager
def opened(way: Way) -> Iterator[tuple[int, int]]:
    reading, writing = way()
    os.set_blocking(reading, False)
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def read(reading: int) -> list[str]:
    """The lines that can be read now."""
    found = b""
    try:
        while chunk := os.read(reading, 65536):
            found += chunk
    except BlockingIOError:
        pass
    return found.decode().splitlines()


def lost(count: int) -> str:
    return f"mcp-workbench: {count} lines were lost, for nobody read them"


@pytest.mark.parametrize("way", [os.pipe, socket_pair])
def test_lines_that_nobody_reads_are_left_out_and_counted(way: Way) -> None:
    with opened(way) as (reading, writing):
        printer = Printer(writing)
        for number in range(ROUNDS):
            printer.say(f"line {number}")
        printed = read(reading)
        whole = [f"line {number}" for number in range(len(printed))]
        assert 0 < len(printed) < ROUNDS
        assert printed[:-1] == whole[:-1]
        assert whole[-1].startswith(printed[-1])  # it may have been broken off

        printer.say("read again")
        left_out = ROUNDS - len(printed) + (printed[-1] != whole[-1])
        assert [line for line in read(reading) if line] == [lost(left_out), "read again"]
        printer.say("and nothing more to tell")
        assert read(reading) == ["and nothing more to tell"]
        assert os.get_blocking(writing)


def test_a_line_that_is_longer_than_the_pipe_is_broken_off_and_the_next_one_stands_by_itself() -> None:
    with opened(os.pipe) as (reading, writing):
        printer = Printer(writing)
        printer.say("x" * 1_000_000)
        (begun,) = read(reading)
        assert begun == "x" * len(begun)
        printer.say("the next one")
        assert read(reading) == ["", lost(1), "the next one"]


def test_a_terminal_that_is_stopped_by_ctrl_s_is_not_waited_for() -> None:
    with opened(os.openpty) as (reading, writing):
        printer = Printer(writing)
        printer.say("a line")
        assert read(reading) == ["a line"]
        termios.tcflow(writing, termios.TCOOFF)
        printer.say("a line")
        termios.tcflow(writing, termios.TCOON)
        printer.say("another line")
        assert read(reading) == [lost(1), "another line"]


def test_a_long_line_into_a_file_is_whole(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        Printer(file.fileno()).say("ü" * 1_000_000)
    assert (tmp_path / "log").read_text() == "ü" * 1_000_000 + "\n"


@pytest.mark.parametrize("way", [os.pipe, socket_pair])
def test_nobody_at_the_other_end_is_no_disaster(way: Way) -> None:
    reading, writing = way()
    os.close(reading)
    printer = Printer(writing)
    printer.say("nobody")
    os.close(writing)
    printer.say("not even a descriptor")


def test_a_full_disk_is_no_disaster() -> None:
    with open("/dev/full", "wb", buffering=0) as disk:
        Printer(disk.fileno()).say("no room")


def test_half_a_surrogate_is_printed_as_its_escape() -> None:
    with opened(os.pipe) as (reading, writing):
        Printer(writing).say("\ud800")
        assert read(reading) == ["\\ud800"]
