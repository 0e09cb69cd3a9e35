"""How many descriptors we may have open, of which a child takes about four. Nothing of this is on Windows."""

import os
import sys
from typing import Final

ENOUGH: Final = 4096
"""For a thousand children. Not as many as there may be, which can be a thousand million: some programs go
through all numbers up to the limit, and where nobody can tell another process its limit they inherit ours.
"""

# What a start takes for a moment. Four of them stay free then, to look for those who are to be ended.
_ROOM: Final = 8

_limits_before: tuple[int, int] | None = None


def raise_limit() -> None:
    """Allow ourselves enough of them, where the system lets us. What is started has the limit from before."""
    global _limits_before
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
        _limits_before = soft, hard


def give_limit_back(pid: int) -> None:
    """Let a child have the limit that we had. Not in the child itself: that would be a slow way to start."""
    if sys.platform == "linux" and _limits_before:
        import resource

        try:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _limits_before)
        except OSError:
            pass  # it runs as another user, or has ended


def refuse_without_room() -> None:
    """Raise an `OSError` where a start would use up the last descriptors.

    `Popen` of Python 3.11.2 and its like loses those that it has opened already where it fails in the middle.
    """
    if sys.platform == "win32":
        return
    opened: list[int] = []
    try:
        for _ in range(_ROOM):
            opened.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401 - those before the one that fails
    finally:
        for descriptor in opened:
            os.close(descriptor)
