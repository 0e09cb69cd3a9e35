"""An MCP server that costs next to nothing, so that what is measured is what stands in front of it.

Requests are not parsed: their id and arguments are found by looking for the keys, which works because no
value in the benchmark's own calls contains them. Tools: echo(text), big(n), steps(n), which tells of n steps
before it answers. `--sleep-ms N` delays the start.
"""

import functools
import os
import sys
import time

CHUNK = 1 << 16

INITIALIZED = (
    b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}'
)
LISTED = (
    b'{"tools":['
    b'{"name":"echo","description":"Give back a text.","inputSchema":{"type":"object",'
    b'"properties":{"text":{"type":"string"}},"required":["text"]}},'
    b'{"name":"big","description":"Give n bytes of text.","inputSchema":{"type":"object",'
    b'"properties":{"n":{"type":"integer"}},"required":["n"]}},'
    b'{"name":"steps","description":"Tell of n steps.","inputSchema":{"type":"object",'
    b'"properties":{"n":{"type":"integer"}},"required":["n"]}}]}'
)


def value_after(key: bytes, line: bytes) -> bytes | None:
    """The number or plain string behind a key, as it stands there."""
    start = line.find(key)
    if start < 0:
        return None
    start += len(key)
    comma, brace = line.find(b",", start), line.find(b"}", start)
    return line[start : brace if comma < 0 else min(comma, brace)].strip()


@functools.cache
def big(size: int) -> bytes:
    return b'{"content":[{"type":"text","text":"' + b"x" * size + b'"}],"isError":false}'


def steps(line: bytes) -> bytes:
    """The notifications of progress that a call asks for."""
    token = value_after(b'"progressToken":', line)
    if token is None or b'"steps"' not in line:
        return b""
    count = int(value_after(b'"n":', line) or 0)
    return b"".join(
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,"progress":%d}}\n'
        % (token, step)
        for step in range(1, count + 1)
    )


def result_of(line: bytes) -> bytes:
    if b'"tools/call"' in line:
        if (text := value_after(b'"text":', line)) is not None:
            return b'{"content":[{"type":"text","text":' + text + b'}],"isError":false}'
        if b'"steps"' in line:
            return big(2)
        return big(int(value_after(b'"n":', line) or 0))
    if b'"tools/list"' in line:
        return LISTED
    return INITIALIZED if b'"initialize"' in line else b"{}"


def serve() -> None:
    """Answers all lines of a chunk in one write; a large result is written as it is, without a copy."""
    begun = b""
    while chunk := os.read(0, CHUNK):
        *lines, begun = (begun + chunk).split(b"\n")
        out = b""
        for line in lines:
            request_id = value_after(b'"id":', line)
            if request_id is None:
                continue
            out += steps(line) + b'{"jsonrpc":"2.0","id":' + request_id + b',"result":'
            result = result_of(line)
            if len(result) > CHUNK:
                write_fully(out)
                write_fully(result)
                out = b"}\n"
            else:
                out += result + b"}\n"
        write_fully(out)


def write_fully(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


def main() -> None:
    if sys.argv[1:2] == ["--sleep-ms"]:
        time.sleep(int(sys.argv[2]) / 1000)
    try:
        serve()
    except BrokenPipeError:
        pass


if __name__ == "__main__":
    main()
