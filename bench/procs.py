"""CPU time and memory of a tree of processes, from /proc."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """An id may be used again; an id with the time of its start is not."""

    pid: int
    started: str

    def still_runs(self) -> bool:
        stat = _stat(self.pid)
        return stat is not None and stat[19] == self.started and stat[0] != "Z"

    def kill(self) -> None:
        if self.still_runs():
            os.kill(self.pid, signal.SIGKILL)


def tree(root: int, without: str = "") -> list[Process]:
    """The process and all below it; less those, and what is below them, whose command line has this word."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    found: list[Process] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        stat = _stat(pid)
        if stat is None or (without and without.encode() in _command_line(pid)):
            continue
        found.append(Process(pid, stat[19]))
        waiting += children.get(pid, [])
    return found


def cpu_seconds(processes: Iterable[Process]) -> float:
    """User and system time: to the nanosecond where the kernel keeps that, else as accounted in ticks."""
    return sum(_scheduled(process.pid) or _ticks(process.pid) for process in processes)


def _scheduled(pid: int) -> float:
    try:
        return sum(int(file.read_text().split()[0]) for file in PROC.glob(f"{pid}/task/*/schedstat")) / 1e9
    except OSError:
        return 0.0


def _ticks(pid: int) -> float:
    stat = _stat(pid)
    return (int(stat[11]) + int(stat[12])) / TICKS_PER_SECOND if stat else 0.0


def rss_mb(processes: Iterable[Process]) -> float:
    statm = (PROC / str(process.pid) / "statm" for process in processes)
    return sum(int(file.read_text().split()[1]) for file in statm) * PAGE_BYTES / 1e6


def _stat(pid: int) -> list[str] | None:
    """The fields from the third on: the second, the name, may contain anything."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None


def _command_line(pid: int) -> bytes:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""
