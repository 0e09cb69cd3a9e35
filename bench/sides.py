"""The two sides of each comparison: echo servers called directly, and the same behind a workbench."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from bench import procs
from bench.client import Call, Session, request_tail

ECHO_SERVER = Path(__file__).with_name("echo_server.py")
LEAST_RELAY = Path(__file__).with_name("least_relay.py")
TOOLBOX = "bench"


@dataclass(frozen=True)
class Ground:
    """Where and on what is measured."""

    folder: Path
    command: Sequence[str]

    @property
    def log(self) -> Path:
        return self.folder / "stderr.log"


class ToolCall(NamedTuple):
    """What is called, whichever way."""

    tool: str
    arguments: dict[str, Any]
    progress_token: int | None = None

    def under(self, name: str, arguments: dict[str, Any]) -> bytes:
        """The request less its id, by the name and with the arguments that this way needs."""
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if self.progress_token is not None:
            params["_meta"] = {"progressToken": self.progress_token}
        return request_tail("tools/call", params)


@dataclass(frozen=True)
class Direct:
    sessions: Sequence[Session]

    def call(self, server: int, what: ToolCall) -> Call:
        return Call(self.sessions[server], what.under(what.tool, what.arguments))


@dataclass(frozen=True)
class Workbench:
    session: Session
    native: bool = False

    def call(self, server: int, what: ToolCall) -> Call:
        if self.native:
            tail = what.under(f"{TOOLBOX}__s{server}_{what.tool}", what.arguments)
        else:
            identifier = {"toolbox": TOOLBOX, "server": f"s{server}", "tool": what.tool}
            tail = what.under("use_tool", {"tool": identifier, "arguments": what.arguments})
        return Call(self.session, tail)

    def processes(self) -> list[procs.Process]:
        """Its own, less the echo servers."""
        return procs.tree(self.session.pid, without=ECHO_SERVER.name)


Side = Direct | Workbench


def least(ground: Ground) -> Ground:
    """The same with the least relay in the workbench's place; it knows one server."""
    return replace(ground, command=[sys.executable, str(LEAST_RELAY)])


def echo_command(sleep_ms: int = 0) -> list[str]:
    return [sys.executable, "-I", "-S", str(ECHO_SERVER), "--sleep-ms", str(sleep_ms)]


@asynccontextmanager
async def direct(ground: Ground, servers: int, *, sleep_ms: int = 0) -> AsyncIterator[Direct]:
    """Starts all of them in parallel, as a client without a gateway does."""
    command = echo_command(sleep_ms)
    sessions: list[Session] = []
    try:
        for _ in range(servers):
            session = await Session.start(command, ground.log)
            sessions.append(session)  # at once, so that all that were started are ended
        await asyncio.gather(*(session.initialize() for session in sessions))
        await asyncio.gather(*(session.request("tools/list", {}) for session in sessions))
        yield Direct(sessions)
    finally:
        await asyncio.gather(*(session.close() for session in sessions))


@asynccontextmanager
async def greeted(
    ground: Ground, servers: int, *, sleep_ms: int = 0, native: bool = False
) -> AsyncIterator[Workbench]:
    """A workbench that has answered `initialize`, with no toolbox open; `native` in dynamic mode."""
    config = configured(ground, servers, sleep_ms, "dynamic" if native else "proxy")
    session = await Session.start([*ground.command, "--config", str(config)], ground.log)
    try:
        await session.initialize()
        yield Workbench(session, native)
    finally:
        await session.close()


@asynccontextmanager
async def opened(
    ground: Ground, servers: int, *, sleep_ms: int = 0, native: bool = False
) -> AsyncIterator[Workbench]:
    async with greeted(ground, servers, sleep_ms=sleep_ms, native=native) as workbench:
        opening = {"name": "open_toolbox", "arguments": {"toolbox_name": TOOLBOX}}
        await workbench.session.request("tools/call", opening)
        yield workbench


def configured(ground: Ground, servers: int, sleep_ms: int, mode: str) -> Path:
    program, *args = echo_command(sleep_ms)
    entries = {f"s{index}": {"command": program, "args": args} for index in range(servers)}
    toolboxes = {TOOLBOX: {"description": "Echoes", "mcpServers": entries}}
    config = ground.folder / f"{mode}-{servers}-servers-{sleep_ms}.json"
    config.write_text(json.dumps({"toolMode": mode, "toolboxes": toolboxes}))
    return config
