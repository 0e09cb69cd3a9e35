"""An MCP server in memory, behind the `Connect` and `Link` of `downstream`, that can misbehave on request."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp_workbench import config
from mcp_workbench.catalogue import IN_MEMORY, Catalogue
from mcp_workbench.client import Client
from mcp_workbench.downstream import Downstream
from mcp_workbench.eras import Declared
from mcp_workbench.knowledge import Knowledge
from mcp_workbench.lifecycle import RestartPolicy
from mcp_workbench.link import Connect, Requests
from mcp_workbench.peer import Peer
from mcp_workbench.pins.canonical import definition_hash
from mcp_workbench.raw_json import Malformed, Payload
from mcp_workbench.wire import Answer

Json = dict[str, Any]
Behave = Callable[[Json], bytes | None]


def tool(name: str, **more: Any) -> Json:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def text_of(answer: Answer) -> str:
    """The text of a tool's result."""
    assert answer.member == "result", bytes(answer.body)
    text = json.loads(bytes(answer.body))["content"][0]["text"]
    assert isinstance(text, str)
    return text


class FakeServer:
    """Each connecting begins a life; what it is told to do wrong holds for all that follow."""

    def __init__(self, *tools: str | Json) -> None:
        self.tools = [tool(each) if isinstance(each, str) else each for each in tools]
        self.lives: list[FakeLink] = []
        self.messages: list[Json] = []
        self.attempts = 0
        self.ended = 0
        self.may_connect = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_connect.set()
        self.may_end.set()
        self._refusal: BaseException | None = None
        self._unsent = 0
        self._behave: dict[str, Behave | None] = {
            "initialize": lambda _: dumped({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}),
            "tools/list": lambda _: dumped({"tools": self.tools}),
            "tools/call": lambda params: dumped({"content": [{"type": "text", "text": params["name"]}]}),
        }

    async def __call__(self, receive: Callable[[bytes], None], requests: Requests) -> "FakeLink":
        self.attempts += 1
        await self.may_connect.wait()
        if self._refusal:
            raise self._refusal
        self.lives.append(FakeLink(self, receive))
        return self.lives[-1]

    @property
    def life(self) -> "FakeLink":
        return self.lives[-1]

    def asked(self, method: str) -> list[Json]:
        """Every message with this method that it was sent, in all its lives."""
        return [message for message in self.messages if message.get("method") == method]

    # Misbehaving ----------------------------------------------------------------------------------

    def refuse(self, error: BaseException) -> None:
        """Whoever connects from here on gets this error."""
        self._refusal = error

    def accept(self) -> None:
        self._refusal = None

    def hang(self, method: str) -> None:
        """Take such requests and never answer them."""
        self._behave[method] = None

    def behave(self, method: str, body: object) -> None:
        """Answer such requests with this result."""
        self._behave[method] = lambda _: dumped(body)

    def behave_as(self, method: str, behave: Behave) -> None:
        self._behave[method] = behave

    def crash(self, reason: str = "exited with code 1", last_words: str = "") -> None:
        self.life.words = last_words
        self.life.lose(reason)

    def list_changed(self, times: int = 1) -> None:
        for _ in range(times):
            self.say({"method": "notifications/tools/list_changed"})

    def clog(self, unsent: int) -> None:
        """So many bytes wait for it to read them."""
        self._unsent = unsent

    def say(self, message: Json | bytes) -> None:
        """Say something of its own accord, at once."""
        frame = message if isinstance(message, bytes) else dumped({"jsonrpc": "2.0", **message})
        self.life.receive(frame)

    def answer(self, request: Json, body: object) -> None:
        """Answer a request that it hung on."""
        self.say({"id": request["id"], "result": body})

    # For its links --------------------------------------------------------------------------------

    def take(self, message: Json) -> bytes | None:
        self.messages.append(message)
        if "id" not in message or "method" not in message:
            return None
        behave = self._behave[message["method"]]
        body = behave(message["params"]) if behave else None
        if body is None:
            return None
        member = b"error" if body.startswith(b'{"code"') else b"result"
        return b'{"jsonrpc":"2.0","id":%d,"%b":%b}' % (message["id"], member, body)

    def unsent(self) -> int:
        return self._unsent


class FakeLink:
    """One life of a fake server."""

    def __init__(self, server: FakeServer, receive: Callable[[bytes], None]) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[str] = self._loop.create_future()
        self.receive = receive
        self.words = ""
        self.printed: float | None = None

    @property
    def last_output(self) -> float | None:
        return self.printed

    def send(self, parts: Sequence[Payload]) -> None:
        line = b"".join(parts)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1, line
        if self.gone.done():
            return
        answer = self._server.take(json.loads(line))
        if answer is not None:
            self._loop.call_soon(self._deliver, answer)

    def _deliver(self, frame: bytes) -> None:
        if not self.gone.done():
            self.receive(frame)

    def unsent(self) -> int:
        return self._server.unsent()

    def mask(self, text: str) -> str:
        return text

    def last_words(self) -> str:
        return self.words

    def lose(self, reason: str) -> None:
        if not self.gone.done():
            self.gone.set_result(reason)

    async def end(self) -> None:
        self.lose("was ended")
        await self._server.may_end.wait()
        self._server.ended += 1


class Silent:
    """What a client does that asks and answers nothing."""

    async def answer(self, method: str, params: Payload) -> Answer:
        raise NotImplementedError

    def failure(self, method: str, error: BaseException) -> Answer | None:
        raise NotImplementedError

    def told(self, method: str, params: Payload) -> None:
        pass

    def garbled(self, frame: Payload, why: Malformed) -> None:
        pass


def silent_client(chain: str = "outer,ours") -> Client:
    """A client that declared nothing, takes what it is told, and says nothing."""
    return Client(Peer(lambda parts: None, Silent()), Declared(chain), lambda: None)


def knowledge_of(configuration: config.Config) -> Knowledge:
    return Knowledge(configuration, Catalogue.open(IN_MEMORY, definition_hash))


def server_entry(name: str = "files", **more: Any) -> config.Server:
    return config.Server(**{"name": name, "transport": "stdio", "command": "serve-files", **more})


def downstream(
    fake: FakeServer, *, toolbox: str = "dev", restart: RestartPolicy | None = None, **entry: Any
) -> Downstream:
    return downstream_of(server_entry(**entry), toolbox, fake, restart or RestartPolicy())


def downstream_of(
    server: config.Server, toolbox: str, connect: Connect, restart: RestartPolicy
) -> Downstream:
    box = config.Toolbox(toolbox, None, {server.name: server})
    known = knowledge_of(config.Config(toolboxes={toolbox: box}))
    return Downstream(server, toolbox, connect, restart, silent_client(), known)


@asynccontextmanager
async def running(server: Downstream) -> AsyncIterator[Downstream]:
    """The server with its owner at work, until the end of the block."""
    owner = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        owner.cancel()
        await asyncio.wait([owner])
    if not owner.cancelled():
        owner.result()


async def call(server: Downstream, name: str, arguments: bytes = b"{}") -> Answer:
    return await server.call(name, arguments, {}, None)
