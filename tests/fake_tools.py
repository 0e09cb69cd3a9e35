"""The tools of `fake_server`, which says what they do, and the frames that it and they write."""

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from tests.fake_server import FakeServer

CHUNK = 1 << 16

RESULTS = {
    "unknown_fields": b'{"futureField":{"number":12345678901234567890, "float":1.50,"none":null},'
    b'"content":[{"type":"hologram","data":"\\u0041","x-vendor":[ ]}],"structuredContent":{"b":1,"a":2},'
    b'"_meta":{"vendor/key":"kept"},"isError":false}',
    "nan": b'{"content":[{"type":"text","text":"nan"}],"structuredContent":{"value":NaN}}',
    "lone_surrogate": b'{"content":[{"type":"text","text":"lone \\ud800 surrogate"}]}',
    "invalid_utf8": b'{"content":[{"type":"text","text":"bad \xff\xfe byte"}]}',
}


class ReaderGoneError(Exception):
    """Nobody reads our stdout any more."""


class Call(NamedTuple):
    server: "FakeServer"
    id: Any
    args: dict[str, Any]
    token: Any


class Ask:
    """A request to the client, and what came for it."""

    def __init__(self, number: int, options: dict[str, Any], answers: list[Any]) -> None:
        self.id = f"ask-{number}"
        self.token = f"progress-of-{self.id}" if options.get("with_progress") else None
        self.progress: list[Any] = []
        self.response: Any = None
        self.then: Callable[[], None] = lambda: answers.append(self.outcome())
        request = {"jsonrpc": "2.0", "id": self.id, "method": options["method"]}
        if "params" in options:
            request["params"] = options["params"]
        if self.token:
            params = options.get("params", {})
            meta = {**params.get("_meta", {}), "progressToken": self.token}
            request["params"] = {**params, "_meta": meta}
        self.frame = dumped(request)

    def outcome(self) -> Any:
        return {"response": self.response, "progress": self.progress} if self.token else self.response


# A behaviour gives the result as JSON bytes, or None where it answers by itself, later or never.
Behaviour = Callable[[Call], bytes | None]


def dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def text_result(text: str, **more: object) -> bytes:
    return dumped({"content": [{"type": "text", "text": text}], **more})


def json_result(value: object) -> bytes:
    return text_result(json.dumps(value))


def notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    return dumped({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})


def answer_frame(request_id: object, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":' + dumped(request_id) + b',"result":' + result + b"}"


def error_frame(request_id: object, error: object) -> bytes:
    return dumped({"jsonrpc": "2.0", "id": request_id, "error": error})


def last_part(uri: str) -> str:
    return uri.rpartition("/")[2]


def append_line(path: str, line: bytes) -> None:
    """Opened each time, so that no descriptor stays for the tool `fds` to find."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, line + b"\n")
    os.close(file)


def write_fully(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(file, left) :]
        except BrokenPipeError:
            raise ReaderGoneError from None


def stay_for_ever() -> NoReturn:
    while True:
        signal.pause()


# Tools


def echo(call: Call) -> bytes:
    text = call.args.get("text")
    return text_result(text) if isinstance(text, str) else json_result(call.args)


def big(call: Call) -> bytes:
    size: int = call.args["n"]
    return b'{"content":[{"type":"text","text":"' + b"x" * size + b'"}]}'


def env(_call: Call) -> bytes:
    return json_result(dict(os.environ))


def pid(_call: Call) -> bytes:
    return json_result(os.getpid())


def fds(_call: Call) -> bytes:
    listed = os.listdir("/proc/self/fd")
    # The descriptor of the listing itself is among them, and closed by now.
    return json_result(sorted(int(fd) for fd in listed if os.path.exists(f"/proc/self/fd/{fd}")))


def args(_call: Call) -> bytes:
    return json_result(sys.argv[2:])


def cwd(_call: Call) -> bytes:
    return json_result(os.getcwd())


def hang(_call: Call) -> None:
    return None


def slow(call: Call) -> None:
    if until := call.args.get("until"):
        call.server.when_there(until, lambda: call.server.answer(call.id, text_result("done")))
    else:
        call.server.held[call.id] = call.args.get("key")


def release(call: Call) -> None:
    key, held = call.args.get("key"), call.server.held
    released = [request_id for request_id, its_key in held.items() if key in (None, its_key)]
    for request_id in released:
        del held[request_id]
    answers = [answer_frame(request_id, text_result("released")) for request_id in released]
    call.server.send(*answers, answer_frame(call.id, json_result(len(released))))


def die(call: Call) -> NoReturn:
    call.server.write(call.args.get("partial", "").encode())
    write_fully(2, call.args.get("stderr", "").encode())
    os._exit(call.args.get("code", 1))


def crash_signal(call: Call) -> None:
    os.kill(os.getpid(), call.args.get("number", signal.SIGKILL))


def progress(call: Call) -> None:
    count, after = call.args.get("n", 3), call.args.get("after", 0)
    values = call.args.get("values", range(1, count + 1)) if call.token is not None else ()
    notes = [
        notification(
            "notifications/progress", {"progressToken": call.token, "progress": value, "total": count}
        )
        for value in values
    ]
    before = max(0, len(notes) - after)
    call.server.send(*notes[:before], answer_frame(call.id, text_result("done")), *notes[before:])


def error(call: Call) -> None:
    problem = {
        "code": call.args.get("code", -32602),
        "message": call.args.get("message", "refused by the fake"),
    }
    if "data" in call.args:
        problem["data"] = call.args["data"]
    call.server.send(error_frame(call.id, problem))


def is_error(call: Call) -> bytes:
    return text_result(call.args.get("text", "it did not work"), isError=True)


def result(call: Call) -> bytes:
    raw_json: str = call.args["json"]
    return raw_json.encode()


def unknown_fields(_call: Call) -> bytes:
    return RESULTS["unknown_fields"]


def nan(_call: Call) -> bytes:
    return RESULTS["nan"]


def lone_surrogate(_call: Call) -> bytes:
    return RESULTS["lone_surrogate"]


def invalid_utf8(_call: Call) -> bytes:
    return RESULTS["invalid_utf8"]


def raw(call: Call) -> None:
    line = bytes.fromhex(call.args["hex"]) if "hex" in call.args else call.args["line"].encode()
    call.server.send(*[line] * call.args.get("times", 1), answer_frame(call.id, text_result("done")))


def stderr(call: Call) -> bytes:
    line = b"e" * 79 + (b"\n" if call.args.get("newlines", True) else b"e")
    left: int = call.args["n"]
    block = line * 1000
    while left > 0:
        write_fully(2, block[:left])
        left -= len(block)
    return text_result("done")


def endless_line(call: Call) -> None:
    left = call.args.get("n", float("inf"))
    while left > 0:
        call.server.write(b"x" * int(min(left, CHUNK)))
        left -= CHUNK


def list_changed(call: Call) -> None:
    of = call.args.get("of", "tools")
    notes = [notification(f"notifications/{of}/list_changed")] * call.args.get("n", 1)
    call.server.send(*notes, answer_frame(call.id, text_result("done")))


def change_tools(call: Call) -> bytes:
    call.server.use_tools(call.server.script["tools_after"])
    if not call.args.get("quiet"):
        call.server.send(notification("notifications/tools/list_changed"))
    return text_result("done")


def change(call: Call) -> None:
    changed: list[str] = call.args.get("kinds", call.server.kinds_that_change())
    for kind in changed:
        call.server.change(kind)
    quiet = call.args.get("quiet")
    notes = [] if quiet else [notification(f"notifications/{kind}/list_changed") for kind in changed]
    call.server.send(*notes, answer_frame(call.id, text_result("done")))


def touch(call: Call) -> None:
    note = notification("notifications/resources/updated", {"uri": call.args["uri"]})
    call.server.send(note, answer_frame(call.id, text_result("done")))


def subscriptions(call: Call) -> bytes:
    return json_result(call.server.offers.subscribed)


def log(call: Call) -> None:
    params = {"level": "info", "data": "logged by the fake"}
    params |= {name: call.args[name] for name in ("level", "logger", "data") if name in call.args}
    notes = [notification("notifications/message", params)] * call.args.get("n", 1)
    call.server.send(*notes, answer_frame(call.id, text_result("done")))


def log_level(call: Call) -> bytes:
    return json_result(call.server.offers.log_level)


def notify(call: Call) -> None:
    note = notification(call.args["method"], call.args.get("params"))
    call.server.send(note, answer_frame(call.id, text_result("done")))


def heard(call: Call) -> bytes:
    return json_result(call.server.heard)


def link(call: Call) -> bytes:
    uri = call.args["uri"]
    text = call.args.get("text", f"contents of {uri}")
    content = [
        {"type": "resource_link", "uri": uri, "name": last_part(uri)},
        {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": text}},
    ]
    return dumped({"content": content, "structuredContent": {"uri": uri}})


def url_needed(call: Call) -> None:
    needed = {"mode": "url", "elicitationId": call.args["id"], "url": call.args["url"]}
    data = {"elicitations": [{**needed, "message": "Please sign in"}]}
    problem = {"code": -32042, "message": "URL elicitation required", "data": data}
    call.server.send(error_frame(call.id, problem))


def ask(call: Call) -> None:
    server, options = call.server, call.args
    asks = [server.new_ask(options) for _ in range(options.get("times", 1))]
    frames = [each.frame for each in asks]
    if options.get("cancel"):
        frames += [notification("notifications/cancelled", {"requestId": each.id}) for each in asks]

    def answer_when_all_are_in() -> None:
        if all(each.response is not None for each in asks):
            outcomes = [each.outcome() for each in asks]
            server.answer(call.id, json_result(outcomes if "times" in options else outcomes[0]))

    at_once = answer_frame(call.id, text_result("asked"))
    if options.get("later"):
        frames.insert(0, at_once)
    elif options.get("cancel"):
        frames.append(at_once)
    else:
        for each in asks:
            each.then = answer_when_all_are_in
    server.send(*frames)
    if options.get("die"):
        os._exit(1)


def answers(call: Call) -> bytes:
    return json_result(call.server.answers)


def spawn_child(call: Call) -> bytes:
    settled, settle = os.pipe()
    lifeline = call.server.lifeline()
    child = os.fork()
    if child == 0:
        be_the_child(call.args, settle, lifeline, call.server.lifetime)
    os.close(settle)
    os.read(settled, 1)  # it has set itself up once this is closed
    os.close(settled)
    return json_result(child)


def be_the_child(options: dict[str, Any], settle: int, lifeline: tuple[int, int], lifetime: int) -> NoReturn:
    """The lifeline ends when the server does, which alone keeps its other end open."""
    signal.alarm(lifetime)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if options.get("ignore_sigterm") else signal.SIG_DFL)
    if options.get("setsid"):
        os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2) if options.get("quiet") else (0,):
        os.dup2(nothing, file)
    until_server_ends, held_by_server = lifeline
    os.close(held_by_server)
    os.close(settle)
    if options.get("ignore_eof"):
        stay_for_ever()
    os.read(until_server_ends, 1)
    os._exit(0)


BEHAVIOURS: dict[str, Behaviour] = {
    behaviour.__name__: behaviour
    for behaviour in (
        echo,
        big,
        env,
        pid,
        fds,
        args,
        cwd,
        hang,
        slow,
        release,
        die,
        crash_signal,
        progress,
        error,
        is_error,
        result,
        unknown_fields,
        nan,
        lone_surrogate,
        invalid_utf8,
        raw,
        stderr,
        endless_line,
        list_changed,
        change_tools,
        change,
        touch,
        subscriptions,
        log,
        log_level,
        notify,
        heard,
        link,
        url_needed,
        ask,
        answers,
        spawn_child,
    )
}
