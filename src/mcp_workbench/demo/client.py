"""Just enough of an MCP client over stdio for the demo: one request at a time, answered or ended."""

import json
import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

PROTOCOL_VERSION = "2025-11-25"
SESSION_LIMIT = 60.0  # seconds, after which the server is ended so that nobody waits for ever
GOODBYE = 10.0


class SessionError(Exception):
    """The server is gone, or answered a request with an error."""


class ToolAnswer(NamedTuple):
    text: str
    is_error: bool


class Client:
    """A session with a server of its own, which it starts on entering and ends on leaving."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._last_id = 0

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._watchdog = threading.Timer(SESSION_LIMIT, self._server.kill)
        self._watchdog.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._server.communicate(timeout=GOODBYE)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.communicate()
        finally:
            self._watchdog.cancel()

    def initialize(self) -> dict[str, Any]:
        hello = {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "mcp-workbench-demo", "version": "1.0"},
        }
        result = self.request("initialize", hello)
        self._send({"method": "notifications/initialized"})
        return result

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolAnswer:
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        return ToolAnswer(result["content"][0]["text"], result.get("isError", False))

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        answer = self._answer_to(self._last_id)
        if "error" in answer:
            raise SessionError(answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result

    def _answer_to(self, request_id: int) -> dict[str, Any]:
        assert self._server.stdout
        for line in self._server.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == request_id and "method" not in message:
                return message
        raise SessionError(f"{self._command[0]} ended without an answer")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin
        try:
            self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._server.stdin.flush()
        except BrokenPipeError:
            raise SessionError(f"{self._command[0]} has ended") from None
