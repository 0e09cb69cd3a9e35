"""How frames travel to a server that runs here: over the pipes of the process that is started for it."""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from . import chains, expansion, wire
from .expansion import Launch
from .large_messages import LARGE, keep_large_blocks, write
from .link import CannotConnect, Link
from .processes import Child, Spawner, SpawnError
from .raw_json import Payload
from .wire import Lines, TooLong

# Many small lines in one chunk are taken in pieces of so many bytes, so that a flood holds nobody else up.
_PIECE: Final = 1024
_MANY_LINES: Final = 64
_LAST_LINES: Final = 10
_LAST_CHARACTERS: Final = 2000
# The exit of a process and the ends of its stdin and stdout come in any order, the one soon after the other.
_ALL_ENDS_WITHIN: Final = 0.25
_CLOSED_STDOUT: Final = "closed its stdout"


class Pipes:
    """Starts servers; what they need to know of this run is kept here."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._spawner = Spawner()
        self._paused = False

    async def link(self, launch: Launch, chain: str, receive: Callable[[bytes], None]) -> Link:
        assert launch.command is not None
        link = ChildLink(launch.secrets, receive, lambda: not self._paused)
        cwd = os.path.join(self._folder, launch.cwd) if launch.cwd else None
        env = {**launch.env, chains.VARIABLE: chain}
        try:
            child = await self._spawner.spawn(
                launch.command, launch.args, env=env, cwd=cwd, on_stdout=link.heard
            )
        except SpawnError as error:
            raise CannotConnect(expansion.mask(str(error), launch.secrets)) from None
        link.own(child)
        if self._paused:
            link.child.pause_reading()
        return link

    def pause(self) -> None:
        self._paused = True
        for child in self._spawner.children:
            child.pause_reading()

    def resume(self) -> None:
        self._paused = False
        for child in self._spawner.children:
            child.resume_reading()

    async def close(self) -> None:
        await self._spawner.close()


class ChildLink:
    """A `Link` to a server over the pipes of its process."""

    def __init__(
        self,
        secrets: Sequence[str],
        receive: Callable[[bytes], None],
        may_read: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_read`: whether the client takes what it gets."""
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[str] = self._loop.create_future()
        self.child: Child
        self._secrets = secrets
        self._receive = receive
        self._may_read = may_read
        self._lines = Lines()
        self._untaken: deque[bytes] = deque()  # what was read and waits for its turn
        self._owned = False
        self._stdout_ended = False
        self._exit = ""  # how the process exited, once it has

    def own(self, child: Child) -> None:
        self.child = child
        self._owned = True
        if self._untaken:
            child.pause_reading()
        child.exited.add_done_callback(self._exited)
        child.stdin_closed.add_done_callback(self._stdin_closed)

    @property
    def last_output(self) -> float | None:
        return self.child.stderr.last_at

    def send(self, parts: Sequence[Payload]) -> None:
        if not self.child.stdin.is_closing():
            write(self.child.stdin, parts)

    def unsent(self) -> int:
        return self.child.stdin.get_write_buffer_size()

    def last_words(self) -> str:
        """The end of its stderr, for an error's text."""
        words = self.mask(self.child.stderr.text()).strip()
        lines = words[-_LAST_CHARACTERS:].splitlines()[-_LAST_LINES:]
        return "\nThe last of its stderr:\n" + "\n".join(lines) if lines else ""

    def mask(self, text: str) -> str:
        return expansion.mask(text, self._secrets)

    async def end(self) -> None:
        self._lose("was ended")
        await self.child.end()

    def heard(self, data: bytes) -> None:
        """What the child wrote on its stdout; `b""` is its end."""
        if self._untaken or (len(data) > _PIECE and data.count(b"\n") > _MANY_LINES):
            self._take_in_turns(data)
        else:
            self._take(data)

    def _take_in_turns(self, data: bytes) -> None:
        if not self._untaken:
            self._loop.call_soon(self._take_a_piece)
        self._untaken.append(data)
        if self._owned:  # before that it is a matter of a few turns
            self.child.pause_reading()

    def _take_a_piece(self) -> None:
        """Take some of what was read; all else that goes on has a turn before the next piece."""
        data = self._untaken.popleft()
        if len(data) > _PIECE:
            self._untaken.appendleft(data[_PIECE:])
        if self._untaken:
            self._loop.call_soon(self._take_a_piece)
        elif self._owned and self._may_read():
            self.child.resume_reading()
        self._take(data[:_PIECE])

    def _take(self, data: bytes) -> None:
        if self.gone.done():
            return
        if not data:
            self._stdout_ended = True
            self._ended(_CLOSED_STDOUT)
            return
        for line in self._lines.feed(data):
            if isinstance(line, TooLong):
                self._lose_too_long()
                return
            if len(line) > LARGE:
                keep_large_blocks()
            self._receive(line)
        if self._lines.overflow:  # at once: its end may never come
            self._lose_too_long()

    def _exited(self, exited: "asyncio.Future[int]") -> None:
        self._exit = _how_it_exited(exited.result())
        self._ended(self._exit)

    def _stdin_closed(self, _: "asyncio.Future[None]") -> None:
        if not self.child.is_ending:
            self._ended("closed its stdin")

    def _ended(self, how: str) -> None:
        """One of the ends has come; the others follow soon, if at all."""
        if self._stdout_ended and self._exit:
            self._lose(self._exit)
        else:
            self._loop.call_later(_ALL_ENDS_WITHIN, self._lose_after_all, how)

    def _lose_after_all(self, how: str) -> None:
        """`how` came first; what came with it may tell more."""
        self._lose(self._exit or (_CLOSED_STDOUT if self._stdout_ended else how))

    def _lose_too_long(self) -> None:
        self._lose(f"sent a line longer than {wire.LONGEST_LINE >> 20} MiB")

    def _lose(self, reason: str) -> None:
        if not self.gone.done():
            self.gone.set_result(reason)


def _how_it_exited(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
