"""The front door for one client on stdin and stdout, until the last process started for it is gone."""

import asyncio
import os
import select
import signal
import socket
import stat
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

from . import lifecycle, raw_json, wire
from .config import Config
from .eras import Declared
from .knowledge import Knowledge
from .large_messages import write
from .raw_json import Malformed, Payload
from .results import Results
from .session import Session
from .transports import Transports
from .wire import Lines, TooLong

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2

# What the client has not read yet, before nothing more is read from it and from the servers.
_MOST_UNREAD: Final = 8 * 1024 * 1024
_FLUSH_WITHIN: Final = 0.5
# While nothing is read from the client, its end is looked for.
_LOOK_EVERY: Final = 0.5


class Begun(msgspec.Struct, frozen=True):
    """How far a conversation has come: which workbenches lead here, what was read of the client's words and
    not dealt with, and what it declared, if it was greeted.
    """

    chain: str
    unread: bytes
    declared: Declared | None


def serve(
    config: Config,
    knowledge: Knowledge,
    transports: Transports,
    begun: Begun,
    fixed: Sequence[str] = (),
) -> None:
    """Serve the client that is there; the toolboxes in `fixed` are open from the start."""
    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(_serve(config, knowledge, transports, begun, fixed))
    knowledge.close()


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(
    config: Config, knowledge: Knowledge, transports: Transports, begun: Begun, fixed: Sequence[str]
) -> None:
    leaving = asyncio.Event()
    _leave_on_signals(leaving)
    output = await _Output.open(leaving)
    declared = begun.declared or Declared(begun.chain)
    results = Results(config, os.environ, fixed)
    session = Session(config, transports.reach, output.send, declared, knowledge, results, fixed)
    async with session.workbench as workbench:
        if begun.declared:
            session.greeted(begun.declared)
        client = await _Input.open(session, leaving, begun.unread + output.read_early)
        output.paces(client, transports)
        await leaving.wait()
        client.pause()
        await session.peer.finish(lifecycle.REQUESTS_FINISH_WITHIN)
        workbench.close_all()
        await session.peer.finish(_FLUSH_WITHIN)
        await session.peer.refuse_the_rest("The workbench is shutting down")
        await output.close()
    results.close()
    await transports.close()


def _leave_on_signals(leaving: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if number := getattr(signal, name, None):
            try:
                loop.add_signal_handler(number, leaving.set)
            except NotImplementedError:  # Windows
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(leaving.set))


class _Input(asyncio.Protocol):
    """stdin: what the client says."""

    @classmethod
    async def open(cls, session: Session, leaving: asyncio.Event, begun: bytes) -> "_Input":
        descriptor = _STDIN if _is_stream(_STDIN) else _read_by_a_thread(_STDIN)
        pipe = os.fdopen(descriptor, "rb", buffering=0)
        _, protocol = await asyncio.get_running_loop().connect_read_pipe(
            lambda: cls(session, leaving, begun), pipe
        )
        return protocol

    def __init__(self, session: Session, leaving: asyncio.Event, begun: bytes) -> None:
        self._session = session
        self._leaving = leaving
        self._begun = begun
        self._lines = Lines()
        self._loop = asyncio.get_running_loop()
        self._looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)
        # Here, before anything more can be read: these bytes come first.
        self.data_received(self._begun)

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if isinstance(line, TooLong):
                why = Malformed(f"a line longer than {wire.LONGEST_LINE >> 20} MiB", raw_json.INVALID_REQUEST)
                self._session.peer.take_damaged(line, why)
            elif (repaired := wire.repaired(line)) is not line:
                self._session.peer.take_damaged(repaired, Malformed("not valid UTF-8"))
            elif not line.isspace():
                self._session.peer.receive(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self.data_received(b"\n")  # the last line may have come without its end
        self._leaving.set()

    def pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()
            self._look()

    def resume(self) -> None:
        if self._looking:
            self._looking.cancel()
        if not self._transport.is_closing() and not self._leaving.is_set():
            self._transport.resume_reading()

    def _look(self) -> None:
        """A client that has gone without reading what it was told is not to be waited for."""
        if _hung_up(self._transport.get_extra_info("pipe")):
            self._leaving.set()
        elif not self._leaving.is_set():
            self._looking = self._loop.call_later(_LOOK_EVERY, self._look)


class _Output(asyncio.Protocol):
    """stdout: what the client is told."""

    @classmethod
    async def open(cls, leaving: asyncio.Event) -> "_Output":
        descriptor, writer = os.dup(_STDOUT), None
        # From here on a stray print goes to stderr: stdout carries MCP and nothing else.
        os.dup2(_STDERR, _STDOUT)
        if not _is_stream(descriptor):
            descriptor, writer = _written_by_a_thread(descriptor)
        output = cls(leaving, writer)
        if _is_socket(descriptor):
            await output._write_to_socket(descriptor)
        else:
            pipe = os.fdopen(descriptor, "wb", buffering=0)
            await asyncio.get_running_loop().connect_write_pipe(lambda: output, pipe)
        return output

    async def _write_to_socket(self, descriptor: int) -> None:
        """Not as to a pipe: the loop reads from one, too, and takes it for closed when a client has said only
        that it will write nothing (Bun does) — or takes what is meant for `_Input`.
        """
        is_stdin = os.path.samestat(os.fstat(descriptor), os.fstat(_STDIN))
        end = socket.socket(fileno=descriptor)
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: self, end)
        if not transport.is_closing():
            transport.pause_reading()  # for good
        if not is_stdin:
            self.read_early = b""

    def __init__(self, leaving: asyncio.Event, writer: threading.Thread | None) -> None:
        self.read_early = b""  # from a socket that is stdin, too, before that is left to `_Input`
        self._leaving = leaving
        self._writer = writer
        self._closed = asyncio.Event()
        self._paced: list[_Input | Transports] = []
        self._is_full = False

    def paces(self, *paced: _Input | Transports) -> None:
        """Nobody is read from while the client does not read."""
        self._paced += paced
        if self._is_full:
            self.pause_writing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._transport.set_write_buffer_limits(high=_MOST_UNREAD)

    def data_received(self, data: bytes) -> None:
        self.read_early += data

    def eof_received(self) -> bool:
        return True  # a client that says nothing more may still be told something

    def pause_writing(self) -> None:
        self._is_full = True
        for paced in self._paced:
            paced.pause()

    def resume_writing(self) -> None:
        self._is_full = False
        for paced in self._paced:
            paced.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leaving.set()
        self._closed.set()

    def send(self, parts: Sequence[Payload]) -> None:
        if not self._transport.is_closing():
            write(self._transport, parts)

    async def close(self) -> None:
        """Give the client what is left for it, if it reads."""
        self._transport.close()
        try:
            async with asyncio.timeout(_FLUSH_WITHIN):
                await self._closed.wait()
        except TimeoutError:
            self._transport.abort()
        if self._writer:
            self._writer.join(_FLUSH_WITHIN)


def _hung_up(pipe: Any) -> bool:
    """Whether the other end of a pipe or socket is closed, also where it has more to be read."""
    if not hasattr(select, "poll"):  # Windows
        return False
    look = select.poll()
    look.register(pipe.fileno(), getattr(select, "POLLRDHUP", 0))
    return bool(look.poll(0))


def _is_stream(descriptor: int) -> bool:
    """Whether every event loop can wait for it."""
    return stat.S_ISFIFO(os.fstat(descriptor).st_mode) or _is_socket(descriptor)


def _is_socket(descriptor: int) -> bool:
    """Whether it is a socket of a kind that event loops know."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return False
    with socket.socket(fileno=os.dup(descriptor)) as it:
        return it.type == socket.SOCK_STREAM and it.family in (
            socket.AF_UNIX,
            socket.AF_INET,
            socket.AF_INET6,
        )


# A file, a terminal or a rare socket can't be waited for by every event loop; a thread carries its bytes to
# or from a pipe.


def _read_by_a_thread(source: int) -> int:
    end, begin = os.pipe()
    threading.Thread(target=_carry, args=(source, begin), daemon=True).start()
    return end


def _written_by_a_thread(target: int) -> tuple[int, threading.Thread]:
    end, begin = os.pipe()
    writer = threading.Thread(target=_carry, args=(end, target), daemon=True)
    writer.start()
    return begin, writer


def _carry(source: int, target: int) -> None:
    try:
        while chunk := os.read(source, 65536):
            while chunk:
                chunk = chunk[os.write(target, chunk) :]
    except OSError:
        pass
    finally:
        os.close(target)
