"""A raw client: bytes and protocol callbacks on uvloop, so that it adds little to what it measures."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast

from bench import procs

clock = time.perf_counter

REQUEST_LIMIT = 60.0
GOODBYE = 7.0  # the workbench promises to be gone in six seconds
STDOUT = 1
HEAD = 64  # bytes of an answer within which its id stands

Frame = list[bytes]  # one line, in the pieces in which it came
Answered = TypeVar("Answered")
OnAnswer = Callable[[Frame, float], None]  # gets the answer and when its request was sent


class BenchError(Exception):
    """Something that makes the figures worthless."""


class Call(NamedTuple):
    """A tool call less its id, ready to be sent many times."""

    session: "Session"
    tail: bytes


class Session(asyncio.SubprocessProtocol):
    """One process spoken to over its stdio."""

    _transport: asyncio.SubprocessTransport
    _stdin: asyncio.WriteTransport

    def __init__(self, log: Path) -> None:
        self._log = log
        self._line: Frame = []
        self._waiting: dict[int, tuple[OnAnswer, float]] = {}
        self._last_id = 0
        self._ended = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(cls, command: Sequence[str], log: Path) -> Self:
        loop = asyncio.get_running_loop()
        with log.open("ab") as stderr:
            transport, session = await loop.subprocess_exec(lambda: cls(log), *command, stderr=stderr)
        session._transport = transport
        session._stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
        return session

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    # From the process

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != STDOUT:
            return
        if b"\n" not in data:  # the middle of a large line, which need not be copied
            self._line.append(data)
            return
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._line.append(end)
            frame, self._line = self._line, []
            self._take(frame)
        if rest:
            self._line.append(rest)

    def process_exited(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _take(self, frame: Frame) -> None:
        if len(frame[0]) < HEAD:  # may have been cut within the id
            frame = [b"".join(frame)]
        waiting = self._waiting.pop(answered_id(frame), None)
        if waiting is not None:
            on_answer, sent = waiting
            on_answer(frame, sent)

    # To the process

    def send(self, tail: bytes, on_answer: OnAnswer) -> None:
        self._last_id += 1
        self._waiting[self._last_id] = (on_answer, clock())
        self._stdin.write(b'{"jsonrpc":"2.0","id":%d,' % self._last_id + tail)

    async def request(self, method: str, params: object) -> Any:
        """The result, after a look at it: an error ends the benchmark."""
        answered: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self.send(request_tail(method, params), lambda frame, _sent: answered.set_result(frame))
        frame = await self.outcome(answered, REQUEST_LIMIT)
        answer = json.loads(b"".join(frame))
        if "result" not in answer or answer["result"].get("isError"):
            raise BenchError(f"{method} failed: {str(answer)[:2000]}")
        return answer["result"]

    async def outcome(self, answered: asyncio.Future[Answered], limit: float) -> Answered:
        """What is waited for, unless the process ends before it or the time is over."""
        both = {answered, self._ended}
        await asyncio.wait(both, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            raise BenchError(f"no answer any more; stderr: {self._log.read_text()[-2000:]}")
        return answered.result()

    async def initialize(self) -> None:
        client = {"name": "bench", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        await self.request("initialize", hello)
        self._stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    async def close(self) -> None:
        """Ends the process, then whatever it has left behind."""
        processes = procs.tree(self.pid)
        self._stdin.close()
        await asyncio.wait({self._ended}, timeout=GOODBYE)
        for process in processes:
            process.kill()
        await asyncio.wait({self._ended}, timeout=GOODBYE)
        self._transport.close()


class Load:
    """Keeps `width` of the same call in flight until `count` were answered, or the time is over."""

    def __init__(self, call: Call, count: int, *, width: int = 1, limit: float) -> None:
        self.seconds: list[float] = []
        self._call, self._width = call, width
        self._left_to_send = count
        self._in_flight = 0
        self._until = clock() + limit
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> list[float]:
        """How long each call took."""
        for _ in range(min(self._width, self._left_to_send)):
            self._send()
        await self._call.session.outcome(self._done, self._until - clock() + REQUEST_LIMIT)
        return self.seconds

    def stop(self) -> None:
        self._left_to_send = 0

    def _send(self) -> None:
        self._left_to_send -= 1
        self._in_flight += 1
        self._call.session.send(self._call.tail, self._answered)

    def _answered(self, frame: Frame, sent: float) -> None:
        now = clock()
        self.seconds.append(now - sent)
        self._in_flight -= 1
        if failed(frame):
            self._fail(frame)
        elif self._left_to_send > 0 and now < self._until:
            self._send()
        elif self._in_flight == 0 and not self._done.done():
            self._done.set_result(None)

    def _fail(self, frame: Frame) -> None:
        self._left_to_send = 0
        if not self._done.done():
            self._done.set_exception(BenchError(f"a call failed: {frame[0][:2000]!r}"))


def request_tail(method: str, params: object) -> bytes:
    return json.dumps({"method": method, "params": params}, separators=(",", ":")).encode()[1:] + b"\n"


def failed(frame: Frame) -> bool:
    """An error of either kind; echo servers and workbench say that of a tool at the end."""
    return b'"result":' not in frame[0] or b'"isError":true' in frame[-1][-HEAD:]


def answered_id(frame: Frame) -> int:
    """The id of an answer, which everything measured here writes near the front; 0 if there is none."""
    head = frame[0]
    start = head.find(b'"id":', 0, HEAD) + 5
    if start < 5:
        return 0
    end = head.find(b",", start)
    digits = head[start:end].strip()
    return int(digits) if digits.isdigit() else 0
