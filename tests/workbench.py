"""A client of the command, for tests: starts `mcp-workbench` as users' clients do; speaks raw JSON-RPC."""

import asyncio
import json
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

FAKE = Path(__file__).with_name("fake_server.py")
COMMAND = (sys.executable, "-m", "mcp_workbench")
LONGEST_LINE = 64 * 1024 * 1024
PATIENCE = 60.0  # for what must happen; nothing waits for it to pass

Json = dict[str, Any]


def fake(*, script_args: tuple[str, ...] = (), **script: Any) -> Json:
    """The entry of a fake server that does what the script says."""
    return {"command": sys.executable, "args": ["-I", "-S", str(FAKE), json.dumps(script), *script_args]}


def toolboxes(**servers_by_toolbox: Mapping[str, Json]) -> Json:
    return {
        "toolboxes": {name: {"mcpServers": dict(servers)} for name, servers in servers_by_toolbox.items()}
    }


def tagged(toolbox: str, server: str, *tools: str) -> Json:
    """A server whose tools answer with their whole address."""
    return fake(
        tools=[
            {
                "name": tool,
                "does": "echo",
                "with": {"text": f"{toolbox}|{server}|{tool}"},
                "inputSchema": {"type": "object"},
            }
            for tool in tools
        ]
    )


class Client:
    """One running workbench and what it said.

    `notifications` holds every message that neither answers nor asks. What is asked of the client is kept in
    `asked`, and answered by `answers`: for each method, the result for the parameters. None leaves the
    question open; for a method that is not there the answer is an error.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.notifications: asyncio.Queue[Json] = asyncio.Queue()
        self.answers: dict[str, Callable[[Json], Json | None]] = {}
        self.asked: list[Json] = []
        self.lines: list[bytes] = []
        self.stderr = b""
        self._last_id = 0
        self._waiting: dict[Any, asyncio.Future[Json]] = {}
        self._reading = asyncio.create_task(self._read())
        self._draining = asyncio.create_task(self._drain())

    async def _read(self) -> None:
        assert self.process.stdout
        async for line in self.process.stdout:
            if not line.endswith(b"\n"):
                continue  # cut off by the end of the workbench
            self.lines.append(line)
            message = json.loads(line)
            if isinstance(message, dict) and message.get("id") in self._waiting and "method" not in message:
                answered = self._waiting.pop(message["id"])
                if not answered.done():  # whoever asked may have stopped waiting
                    answered.set_result(message)
            elif isinstance(message, dict) and "method" in message and "id" in message:
                self._answer(message)
            else:
                self.notifications.put_nowait(message)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(EOFError("the workbench ended its stdout"))

    def _answer(self, question: Json) -> None:
        self.asked.append(question)
        if not (answer := self.answers.get(question["method"])):
            error = {"code": -32601, "message": "Method not found"}
            self.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
        elif (result := answer(question.get("params", {}))) is not None:
            self.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

    async def _drain(self) -> None:
        while self.process.stderr and (chunk := await self.process.stderr.read(65536)):
            self.stderr += chunk

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)

    def send(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def tell(self, method: str, params: Json | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def expect(self, request_id: Any) -> "asyncio.Future[Json]":
        """The answer to a request that is written by hand."""
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        answer.request_id = request_id  # type: ignore[attr-defined]
        self._waiting[request_id] = answer
        return answer

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Read nothing of what the workbench says meanwhile."""
        transport = self.process._transport  # type: ignore[attr-defined]
        stdout = cast(asyncio.ReadTransport, transport.get_pipe_transport(1))
        stdout.pause_reading()
        try:
            yield
        finally:
            stdout.resume_reading()

    def begin(
        self, method: str, params: Json | None = None, request_id: Any = None
    ) -> "asyncio.Future[Json]":
        """Send a request; its whole answer is the future's result. `future.request_id` names it."""
        if request_id is None:
            self._last_id += 1
            request_id = self._last_id
        answer = self.expect(request_id)
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}})
        return answer

    async def line(self, answer: "asyncio.Future[Json]") -> bytes:
        """An answer as it came, byte for byte."""
        async with asyncio.timeout(PATIENCE):
            message = await answer
        return next(line for line in self.lines if json.loads(line) == message)

    async def ask(self, method: str, params: Json | None = None) -> Json:
        async with asyncio.timeout(PATIENCE):
            return await self.begin(method, params)

    async def initialize(self, revision: str = "2025-11-25", **more: Any) -> Json:
        hello = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        answer = await self.ask("initialize", hello | more)
        self.tell("notifications/initialized")
        return cast(Json, answer["result"])

    async def result(self, tool: str, arguments: Json, **params: Any) -> Json:
        """The result of a tool call."""
        answer = await self.ask("tools/call", {"name": tool, "arguments": arguments, **params})
        assert "result" in answer, answer
        return cast(Json, answer["result"])

    async def open(self, toolbox: str) -> Json:
        """The parsed answer of an opening that succeeds."""
        result = await self.result("open_toolbox", {"toolbox_name": toolbox})
        assert not result.get("isError"), result
        return cast(Json, json.loads(result["content"][0]["text"]))

    async def close(self, toolbox: str) -> Json:
        result = await self.result("close_toolbox", {"toolbox_name": toolbox})
        return cast(Json, json.loads(result["content"][0]["text"]))

    def begin_use(
        self, toolbox: str, server: str, tool: str, meta: Json | None = None, **arguments: Any
    ) -> "asyncio.Future[Json]":
        params: Json = {"name": "use_tool", "arguments": use(toolbox, server, tool, **arguments)}
        return self.begin("tools/call", params | ({"_meta": meta} if meta else {}))

    async def use(self, toolbox: str, server: str, tool: str, **arguments: Any) -> Json:
        """The result of `use_tool`."""
        return await self.result("use_tool", use(toolbox, server, tool, **arguments))

    async def text(self, toolbox: str, server: str, tool: str, **arguments: Any) -> str:
        """The text of a call that succeeds."""
        result = await self.use(toolbox, server, tool, **arguments)
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])

    async def error(self, toolbox: str, server: str, tool: str, **arguments: Any) -> str:
        """The text of a call that fails."""
        result = await self.use(toolbox, server, tool, **arguments)
        assert result.get("isError"), result
        return str(result["content"][0]["text"])

    async def notification(self) -> Json:
        async with asyncio.timeout(PATIENCE):
            return await self.notifications.get()

    def heard(self) -> list[Json]:
        """The notifications that have come since the last look."""
        return [self.notifications.get_nowait() for _ in range(self.notifications.qsize())]

    async def end(self) -> int:
        """End its stdin, and wait until it is gone and has said everything."""
        if self.process.stdin:
            self.process.stdin.close()
        return await self.gone()

    async def gone(self) -> int:
        async with asyncio.timeout(PATIENCE):
            await self._reading
            await self._draining
            return await self.process.wait()


def use(toolbox: str, server: str, tool: str, **arguments: Any) -> Json:
    return {"tool": {"toolbox": toolbox, "server": server, "tool": tool}, "arguments": arguments}


@asynccontextmanager
async def started(
    config: Json | str,
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    arguments: tuple[str, ...] = (),
    pass_fds: Sequence[int] = (),
    stderr: int = asyncio.subprocess.PIPE,
) -> AsyncIterator[Client]:
    """A workbench with this configuration that no client has greeted yet."""
    file = folder / "workbench-config.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    command = (*COMMAND, *arguments)
    async with talking_to(*command, folder=folder, env=env, pass_fds=pass_fds, stderr=stderr) as client:
        yield client


@asynccontextmanager
async def talking_to(
    *command: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    stderr: int = asyncio.subprocess.PIPE,
) -> AsyncIterator[Client]:
    """Any server on stdio that no client has greeted yet."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, **(env or {})},
        pass_fds=pass_fds,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        limit=LONGEST_LINE,
    )
    client = Client(process)
    try:
        yield client
    finally:
        try:
            await client.end()
        finally:
            if process.returncode is None:
                process.kill()


@asynccontextmanager
async def serving(
    config: Json | str, folder: Path, *, capabilities: Json | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A workbench that has been greeted, by a client with these capabilities."""
    async with started(config, folder, **options) as client:
        await client.initialize(capabilities=capabilities or {})
        yield client


@asynccontextmanager
async def with_one_server(folder: Path, mode: str = "proxy", **script: Any) -> AsyncIterator[Client]:
    """A client of a server `a` in the toolbox `dev`, which is open and keeps a record."""
    config = toolboxes(dev={"a": fake(record=str(folder / "record"), **script)}) | {"toolMode": mode}
    async with serving(config, folder) as client:
        await client.open("dev")
        client.heard()
        yield client


async def until(condition: Callable[[], object]) -> None:
    """Wait for what nobody tells us of, such as the end of a process that is not our child."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Held:
    """A process held by a descriptor: its end is seen whoever reaps it, and its number can't mislead."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def __del__(self) -> None:
        os.close(self._handle)

    @property
    def gone(self) -> bool:
        return bool(select.select([self._handle], [], [], 0)[0])

    async def leaves(self) -> None:
        """Wait for its end; how long that may take is the caller's to say."""
        loop, left = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._handle, left.set)
        try:
            await left.wait()
        finally:
            loop.remove_reader(self._handle)


def _stats() -> dict[int, list[str]]:
    stats: dict[int, list[str]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            pass  # gone meanwhile
    return stats


def descendants(pid: int) -> dict[int, str]:
    """Every process that descends from this one now, with its state: "Z" is a zombie."""
    stats, found = _stats(), {pid}
    while more := {it for it, stat in stats.items() if int(stat[1]) in found} - found:
        found |= more
    return {it: stats[it][0] for it in found - {pid}}


def memory(pid: int, of: str = "VmHWM") -> int:
    """Bytes of a process: what it has at most had (VmHWM), or has (VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(of + ":"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
