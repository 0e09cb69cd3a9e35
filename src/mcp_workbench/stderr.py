"""Lines for stderr, where nobody may be reading: what would have to wait is left out, and told of later."""

import os
import select
import sys
from typing import Final

_STDERR: Final = 2
# What is there to be waited for takes so much without waiting.
_AT_ONCE: Final = getattr(select, "PIPE_BUF", 512)


class Printer:
    """Prints to a descriptor that others may have, too: it is not to be made non-blocking."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lost = 0
        self._broken_off = False  # in the middle of a line

    def say(self, line: str) -> None:
        """Print a line, without its end, now or never."""
        if not hasattr(select, "poll"):  # Windows
            print(line, file=sys.stderr)
            return
        if self._lost and self._print(f"mcp-workbench: {self._lost} lines were lost, for nobody read them"):
            self._lost = 0
        if self._lost or not self._print(line):
            self._lost += 1

    def _print(self, line: str) -> bool:
        """Whether all of it could be printed."""
        left = b"\n" * self._broken_off + line.encode(errors="backslashreplace") + b"\n"
        try:
            while left and self._takes_more():
                written = os.write(self._descriptor, left[:_AT_ONCE])
                self._broken_off = left[written - 1 : written] != b"\n"
                left = left[written:]
        except OSError:  # closed, or its disk is full
            return False
        return not left

    def _takes_more(self) -> bool:
        look = select.poll()
        look.register(self._descriptor, select.POLLOUT)
        return bool(look.poll(0))


stderr: Final = Printer(_STDERR)
