"""Just enough of an MCP server over stdio for the demo's servers: one line in, at most one line out."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

PROTOCOL_VERSION = "2025-11-25"

Arguments = Mapping[str, Any]


class Tool(NamedTuple):
    """`run` says with a ValueError what is wrong with the arguments."""

    name: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...]
    run: Callable[[Arguments], object]

    def definition(self) -> dict[str, Any]:
        schema = {"type": "object", "properties": self.properties, "required": self.required}
        return {"name": self.name, "description": self.description, "inputSchema": schema}


def serve(name: str, tools: Sequence[Tool]) -> None:
    by_name = {tool.name: tool for tool in tools}
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request and "method" in request:
            answer = _answer(name, by_name, request["method"], request.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)


def _answer(name: str, tools: Mapping[str, Tool], method: str, params: Arguments) -> dict[str, Any]:
    match method:
        case "initialize":
            return {"result": _greeting(name)}
        case "ping":
            return {"result": {}}
        case "tools/list":
            return {"result": {"tools": [tool.definition() for tool in tools.values()]}}
        case "tools/call" if params.get("name") in tools:
            return {"result": _called(tools[params["name"]], params.get("arguments") or {})}
        case "tools/call":
            return {"error": {"code": -32602, "message": f"Unknown tool: {params.get('name')}"}}
    return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


def _greeting(name: str) -> dict[str, Any]:
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": name, "version": "1.0"},
    }


def _called(tool: Tool, arguments: Arguments) -> dict[str, Any]:
    missing = [name for name in tool.required if name not in arguments]
    try:
        if missing:
            raise ValueError(f"missing: {', '.join(missing)}")
        text = json.dumps(tool.run(arguments))
    except ValueError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"content": [{"type": "text", "text": text}]}
