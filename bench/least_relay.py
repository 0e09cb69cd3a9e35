"""The least that a relay can do, as the floor under the figures; what it leaves out is most of a relay.

One decode of each envelope, one write for each message; no errors, limits, cancellation or second server.
Speaks enough for `opened` and small calls: started with `--config FILE`, like the workbench.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop

INITIALIZED = (
    b'{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"least","version":"1"}}'
)


class Envelope(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"")
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"{}")


class Identifier(msgspec.Struct):
    tool: str


class Use(msgspec.Struct):
    tool: Identifier | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class Call(msgspec.Struct):
    arguments: Use


read_envelope = msgspec.json.Decoder(Envelope).decode
read_call = msgspec.json.Decoder(Call).decode


class Lines(asyncio.Protocol):
    def __init__(self, take: Callable[[Envelope], None], ended: Callable[[], None]) -> None:
        self._take, self._ended = take, ended
        self._begun = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._take(read_envelope(line))

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()


class Relay:
    def __init__(self, client: asyncio.WriteTransport, server: asyncio.WriteTransport) -> None:
        self._client, self._server = client, server
        self._waiting: dict[bytes, msgspec.Raw] = {}
        self._last_id = 0

    def asked(self, message: Envelope) -> None:
        if message.method != "tools/call":
            if bytes(message.id):
                self._answer(message.id, INITIALIZED)
            return
        use = read_call(message.params).arguments
        if not use.tool:
            self._answer(message.id, b"{}")
            return
        self._last_id += 1
        key = b"%d" % self._last_id
        self._waiting[key] = message.id
        self._server.write(
            b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"%b","arguments":%b}}\n'
            % (key, use.tool.tool.encode(), use.arguments)
        )

    def answered(self, message: Envelope) -> None:
        self._answer(self._waiting.pop(bytes(message.id)), message.result)

    def _answer(self, key: msgspec.Raw, result: bytes | msgspec.Raw) -> None:
        self._client.write(b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (key, result))


def server_of(config: Path) -> "subprocess.Popen[bytes]":
    (toolbox,) = json.loads(config.read_text())["toolboxes"].values()
    (entry,) = toolbox["mcpServers"].values()
    command = [entry["command"], *entry["args"]]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


async def relay(server: "subprocess.Popen[bytes]") -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    to_server, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, server.stdin)
    to_client, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(1, "wb", buffering=0))
    between = Relay(to_client, to_server)
    await loop.connect_read_pipe(lambda: Lines(between.answered, ended.set), server.stdout)
    await loop.connect_read_pipe(lambda: Lines(between.asked, ended.set), os.fdopen(0, "rb", buffering=0))
    await ended.wait()
    to_server.close()


if __name__ == "__main__":
    uvloop.run(relay(server_of(Path(sys.argv[-1]))))
