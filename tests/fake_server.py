"""A downstream MCP server that does what a JSON script says, for tests with real child processes.

    python -I -S tests/fake_server.py '{"tools": ["echo", "die"], "record": "/tmp/received"}' [argument ...]

It speaks newline-delimited JSON-RPC over stdio, in one thread, and never sleeps for timing: where it waits,
it waits for a file to appear, for a line, for a signal or for a call of the tool `release`. Whatever a test
forgets, it is gone after `lifetime` seconds, and so are its children. Its tools are in `fake_tools.py`.

Keys of the script, all optional, in any combination:

    name            serverInfo.name, default "fake"
    initialize      fields laid over the result of `initialize`: protocolVersion, capabilities, ...
    tools           what `tools/list` shows: a name from *Tools* below, or a definition sent as it is, less
                    "does": the behaviour behind it (default: its own name, else echo), and
                    "with": arguments it always gets. Default: every tool below, except `change_tools`
    many_tools      n more tools, tool_0 and so on, that echo
    invalid_tools   entries put into `tools/list` verbatim, whatever they are
    tools_after     like `tools`, in force once `change_tools` or `change` was called
    page_size       entries per page of every list, default all
    cursors         "endless" (a new cursor for ever, on empty pages after the last), "repeated" (the same
                    cursor and page for ever), "empty" (the cursor of the second page is ""); of every list
    record          file to which every line received is appended as it came, and {"eof":true} at the end
    on_later        like `on`, in force once a tool was called
    starts          file to which every start appends a line: the process id
    by_start        list of scripts laid over this one at the first, second, ... start (needs `starts`)
    unless          {file: script}: laid over this one if the file is not there when the process starts
    script          file with a script that is laid over this one, as it is when the process starts
    on              {"start" or a method: reaction}, see below
    noise           lines written to stdout before every frame, each time
    writes          "one_byte": each byte of stdout is a write of its own
    ignore_eof      the end of stdin does not end it
    ignore_sigterm  nor does SIGTERM
    answer_cancelled  a held call is answered when it is cancelled; otherwise it is dropped
    lifetime        seconds until SIGALRM ends it, default 120

Further keys. `prompts`, `resources` or `templates`, `completions` and `logging` make it declare the
capability and serve its methods, which are "method not found" without them. A list has names or URIs, or
definitions that are sent as they are, less the one key named here.

    prompts         what `prompts/list` shows. `prompts/get` gives one message of the user, the JSON of
                    {"prompt": name, "arguments": arguments}, or the "messages" of the definition
    resources       what `resources/list` shows. `resources/read` gives {"uri", "mimeType": "text/plain",
                    "text": "contents of <uri>"}, or the "contents" of the definition. A resource that is
                    given as a URI has its last part as its name
    templates       what `resources/templates/list` shows; every URI that fits one can be read, likewise.
                    {name} stands for one or more characters other than "/", {+name} and the like for any
    prompts_after, resources_after, templates_after   in force once `change` was called
    completions     true: the values for an argument are "<name or uri of ref>:<argument>:<value>" and, if a
                    context came along, its JSON
    logging         true: `logging/setLevel` is taken, and changes nothing about what is sent
    ask_on_initialized  methods, or arguments of the tool `ask`: what it asks right after
                    `notifications/initialized`; the responses are among the `answers`

A reaction has any of these, carried out in this order (`initialize`, `tools/list` and the like; an exit on
`server/discover` is what some servers do):

    wait            file that must appear first; a request waits alone, "start" holds up everything
    installing      with `wait` on "start": a line written to stderr again and again while it waits
    stderr, stdout  text written as it is
    close_stdin     true: it hears nothing more, and does not end for that
    exit            exit code
    signal          number of a signal that it sends itself
    hang            true: nothing more happens; on "start", stdin is never read
    error           JSON-RPC error object, instead of the result
    result          raw JSON text, instead of the result

Tools, with their arguments:

    echo text               the text; without one, the arguments as JSON
    big n                   n times "x"
    env, pid, fds, args, cwd  the environment, process id, open descriptors, argv after the script, folder
    hang                    no answer
    slow [key] [until]      held until `release` is called with this key, or the file `until` appears
    release [key]           answers the held calls, all of them without a key, in one write; their number
    die [code] [stderr] [partial]   exits in mid-call, after writing `partial` (bytes without a newline)
    crash_signal [number]   ends by a signal, default SIGKILL
    progress [n] [after] [values]   n notifications with the call's token, `after` of them after the answer
    error [code] [message] [data]   a JSON-RPC error, default -32602
    is_error [text]         a result with isError
    result json             a result that is this raw JSON text
    unknown_fields, nan, lone_surrogate, invalid_utf8   the results named so in RESULTS, byte for byte
    raw line|hex [times]    that line, `times` times, in one write with the answer that follows
    stderr n [newlines]     n bytes on stderr before the answer; in one line if `newlines` is false
    endless_line [n]        n bytes without a newline, by default until the reader is gone; then no answer
    list_changed [n] [of]   n notifications, of "tools" (the default), "prompts" or "resources"
    change_tools [quiet]    switches to `tools_after`, with a notification unless quiet
    change [kinds] [quiet]  switches "tools", "prompts" and "resources" (templates are among these) to what
                            comes after, with a notification for each kind unless quiet. Default: the kinds
                            with an `_after` in the script; any other kind stays, and is told of all the same
    touch uri               a notification that this resource was updated, whoever subscribed to it
    subscriptions           the URIs that are subscribed to
    log [level] [logger] [data] [n]   n log messages, whatever level was set
    log_level               the level that was set, or null
    notify method [params]  sends that notification
    heard                   the methods of all notifications that came since the start
    link uri [text]         a resource_link and an embedded resource of this URI, with that text, and
                            structuredContent {"uri": uri}, which is data and not a link
    url_needed url id       a JSON-RPC error -32042 that asks for an elicitation by URL
    ask method [params]     sends the client a request; the response as it came, as JSON. Further arguments:
        with_progress           with a progress token; {"response": it, "progress": [params of each
                                notification that came for the token]}
        times                   asks n times in one write; the list of the responses, in the order of asking
        later                   answers the call with "asked", and asks then; the responses go to `answers`
        cancel                  asks, cancels, and answers the call with "asked", in one write; a response
                                that comes all the same goes to `answers`
        die                     exits right after asking
    answers                 the responses for which no call waited, as they came
    spawn_child [ignore_eof] [ignore_sigterm] [setsid] [quiet]   the id of a child that holds stdout and
                            stderr (not if quiet) and ends with this process, unless it ignores that
"""

import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __name__ != "__main__":
    from tests import fake_tools
else:  # with -I, a script's own folder is on no path
    sys.path.append(os.path.dirname(__file__))
    import fake_tools

# os.path and open() throughout: pathlib would add to the time of every start.
POLL = 0.005  # seconds between looks for a file
RESULTS = fake_tools.RESULTS

# What the kinds that are told of consist of, in the script.
KINDS = {"tools": ("tools",), "prompts": ("prompts",), "resources": ("resources", "templates")}
# Methods that list, the key in the script, and the member of the result.
LISTS = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"),
}
# What names an entry, and the key of its definition that is not listed.
ENTRIES = {
    "prompts": ("name", "messages"),
    "resources": ("uri", "contents"),
    "templates": ("uriTemplate", "contents"),
}


class RefusedError(Exception):
    """Code, message and data of a JSON-RPC error."""


def fits(uri: str, template: str) -> bool:
    parts = re.split(r"(\{[^}]*\})", template)
    patterns = (
        re.escape(part) if not part.startswith("{") else "[^/]+" if part[1:2].isalnum() else ".*"
        for part in parts
    )
    return re.fullmatch("".join(patterns), uri, re.DOTALL) is not None


class Offers:
    """What it has besides tools, and what the client said about it."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.listed: dict[str, list[Any]] = {}
        self.own: dict[str, dict[str, Any]] = {}  # by name or URI: messages or contents, if there are any
        self.subscribed: list[str] = []
        self.log_level: str | None = None
        self.capabilities: dict[str, Any] = {}
        self.serves: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        for key in ENTRIES:
            self.use(key, script.get(key, []))
        if "prompts" in script:
            self.capabilities["prompts"] = {"listChanged": True}
            self.serves["prompts/get"] = self.prompt
        if "resources" in script or "templates" in script:
            self.capabilities["resources"] = {"subscribe": True, "listChanged": True}
            self.serves["resources/read"] = self.read
            self.serves["resources/subscribe"] = self.subscribe
            self.serves["resources/unsubscribe"] = self.unsubscribe
        if script.get("completions"):
            self.capabilities["completions"] = {}
            self.serves["completion/complete"] = self.complete
        if script.get("logging"):
            self.capabilities["logging"] = {}
            self.serves["logging/setLevel"] = self.set_level

    def use(self, key: str, entries: list[Any]) -> None:
        name, hidden = ENTRIES[key]
        self.listed[key], self.own[key] = [], {}
        for entry in entries:
            plain = isinstance(entry, str)
            definition = {"name": fake_tools.last_part(entry), name: entry} if plain else dict(entry)
            self.own[key][definition[name]] = definition.pop(hidden, None)
            self.listed[key].append(definition)

    def prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params.get("name")
        if name not in self.own["prompts"]:
            raise RefusedError(-32602, f"Unknown prompt: {name}")
        given = {"prompt": name, "arguments": params.get("arguments") or {}}
        plain = [{"role": "user", "content": {"type": "text", "text": json.dumps(given)}}]
        own = self.own["prompts"][name]
        return {"messages": plain if own is None else own}

    def read(self, params: dict[str, Any]) -> dict[str, Any]:
        uri = params["uri"]
        fitting = [own for template, own in self.own["templates"].items() if fits(uri, template)]
        if uri not in self.own["resources"] and not fitting:
            raise RefusedError(-32002, "Resource not found", {"uri": uri})
        own = self.own["resources"][uri] if uri in self.own["resources"] else fitting[0]
        plain = [{"uri": uri, "mimeType": "text/plain", "text": f"contents of {uri}"}]
        return {"contents": plain if own is None else own}

    def subscribe(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["uri"] not in self.subscribed:
            self.subscribed.append(params["uri"])
        return {}

    def unsubscribe(self, params: dict[str, Any]) -> dict[str, Any]:
        self.subscribed = [uri for uri in self.subscribed if uri != params["uri"]]
        return {}

    def complete(self, params: dict[str, Any]) -> dict[str, Any]:
        ref, argument = params["ref"], params["argument"]
        values = [f"{ref.get('name', ref.get('uri'))}:{argument['name']}:{argument['value']}"]
        if "context" in params:
            values.append(json.dumps(params["context"]))
        return {"completion": {"values": values, "hasMore": False}}

    def set_level(self, params: dict[str, Any]) -> dict[str, Any]:
        self.log_level = params["level"]
        return {}


class FakeServer:
    def __init__(self, script: dict[str, Any]) -> None:
        self.script = script
        self.lifetime: int = script.get("lifetime", 120)
        self.reactions: dict[str, dict[str, Any]] = script.get("on", {})
        self.noise = [line.encode() for line in script.get("noise", [])]
        self.held: dict[Any, Any] = {}  # calls of `slow`: their id and key
        self.asked: dict[Any, fake_tools.Ask] = {}  # our requests, by their ids
        self.answers: list[Any] = []  # what came for those that no call waits for
        self.heard: list[str] = []
        self.gates: list[tuple[str, Callable[[], None]]] = []
        self._lifeline: tuple[int, int] | None = None
        self.offers = Offers(script)
        self.capabilities = {"tools": {"listChanged": True}, **self.offers.capabilities}
        default = [name for name in fake_tools.BEHAVIOURS if name != "change_tools"]
        self.use_tools(script.get("tools", default))

    def lifeline(self) -> tuple[int, int]:
        """A pipe whose writing end this process keeps open as long as it lives."""
        if self._lifeline is None:
            self._lifeline = os.pipe()
        return self._lifeline

    def use_tools(self, entries: list[Any]) -> None:
        self.listed: list[Any] = []
        self.tools: dict[str, tuple[fake_tools.Behaviour, dict[str, Any]]] = {}
        many = [f"tool_{index}" for index in range(self.script.get("many_tools", 0))]
        for entry in [*entries, *many]:
            tool: dict[str, Any] = {"name": entry, "inputSchema": {"type": "object"}}
            if not isinstance(entry, str):
                tool = dict(entry)
            does = tool.pop("does", tool["name"])
            self.tools[tool["name"]] = (
                fake_tools.BEHAVIOURS.get(does, fake_tools.echo),
                tool.pop("with", {}),
            )
            self.listed.append(tool)
        self.listed += self.script.get("invalid_tools", [])

    def kinds_that_change(self) -> list[str]:
        return [kind for kind, keys in KINDS.items() if any(f"{key}_after" in self.script for key in keys)]

    def change(self, kind: str) -> None:
        for key in KINDS[kind]:
            if (entries := self.script.get(f"{key}_after")) is None:
                continue
            if key == "tools":
                self.use_tools(entries)
            else:
                self.offers.use(key, entries)

    def new_ask(self, options: dict[str, Any]) -> fake_tools.Ask:
        """One that is yet to be sent."""
        ask = fake_tools.Ask(len(self.asked) + 1, options, self.answers)
        self.asked[ask.id] = ask
        return ask

    # Writing

    def send(self, *frames: bytes) -> None:
        """All frames in one write, each after the script's noise."""
        self.write(b"".join(line + b"\n" for frame in frames for line in (*self.noise, frame)))

    def write(self, data: bytes) -> None:
        if self.script.get("writes") == "one_byte":
            for index in range(len(data)):
                fake_tools.write_fully(1, data[index : index + 1])
        else:
            fake_tools.write_fully(1, data)

    def answer(self, request_id: object, result: bytes) -> None:
        self.send(fake_tools.answer_frame(request_id, result))

    def refuse(self, request_id: object, code: int, message: str, data: object = None) -> None:
        error = {"code": code, "message": message}
        self.send(fake_tools.error_frame(request_id, error if data is None else {**error, "data": data}))

    # Waiting

    def when_there(self, path: str, act: Callable[[], None]) -> None:
        self.gates.append((path, act))

    def pass_gates(self) -> None:
        passed = [gate for gate in self.gates if os.path.exists(gate[0])]
        self.gates = [gate for gate in self.gates if gate not in passed]
        for _, act in passed:
            act()

    # Reactions

    def react(self, reaction: dict[str, Any]) -> bool:
        """Whether it goes on after this."""
        fake_tools.write_fully(2, reaction.get("stderr", "").encode())
        self.write(reaction.get("stdout", "").encode())
        if reaction.get("close_stdin"):
            os.dup2(self.lifeline()[0], 0)
        if "exit" in reaction:
            os._exit(reaction["exit"])
        if "signal" in reaction:
            os.kill(os.getpid(), reaction["signal"])
        return not reaction.get("hang")

    def start(self) -> None:
        reaction = self.reactions.get("start", {})
        while "wait" in reaction and not os.path.exists(reaction["wait"]):
            if "installing" in reaction:
                fake_tools.write_fully(2, reaction["installing"].encode() + b"\n")
            time.sleep(POLL)
        if not self.react(reaction):
            fake_tools.stay_for_ever()

    # Requests

    def receive(self, line: bytes) -> None:
        if record := self.script.get("record"):
            fake_tools.append_line(record, line)
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        if "method" not in message:
            self.take_response(message)
        elif "id" in message:
            self.take_request(message["id"], message["method"], message.get("params") or {})
        else:
            self.take_notification(message["method"], message.get("params") or {})

    def take_response(self, message: dict[str, Any]) -> None:
        if ask := self.asked.get(message.get("id")):
            ask.response = message
            ask.then()

    def take_notification(self, method: str, params: dict[str, Any]) -> None:
        self.heard.append(method)
        if method == "notifications/cancelled":
            self.take_cancel(params["requestId"])
        elif method == "notifications/progress":
            for ask in self.asked.values():
                if ask.token == params["progressToken"]:
                    ask.progress.append(params)
        elif method == "notifications/initialized":
            asks = self.script.get("ask_on_initialized", [])
            options = [{"method": ask} if isinstance(ask, str) else ask for ask in asks]
            self.send(*[self.new_ask(each).frame for each in options])

    def take_cancel(self, request_id: object) -> None:
        if request_id in self.held:
            del self.held[request_id]
            if self.script.get("answer_cancelled"):
                self.answer(request_id, fake_tools.text_result("too late"))

    def take_request(self, request_id: object, method: str, params: dict[str, Any]) -> None:
        reaction = self.reactions.get(method, {})

        def go_on() -> None:
            if not self.react(reaction):
                return
            if "error" in reaction:
                self.send(fake_tools.error_frame(request_id, reaction["error"]))
            elif "result" in reaction:
                self.answer(request_id, reaction["result"].encode())
            else:
                self.serve(request_id, method, params)

        if "wait" in reaction:
            self.when_there(reaction["wait"], go_on)
        else:
            go_on()

    def serve(self, request_id: object, method: str, params: dict[str, Any]) -> None:
        if method == "tools/call":
            self.call(request_id, params)
        elif method in LISTS and method.partition("/")[0] in self.capabilities:
            self.list_page(request_id, method, params.get("cursor"))
        elif method == "initialize":
            self.answer(request_id, self.initialized(params))
        elif method == "ping":
            self.answer(request_id, b"{}")
        elif method in self.offers.serves:
            try:
                self.answer(request_id, fake_tools.dumped(self.offers.serves[method](params)))
            except RefusedError as refused:
                self.refuse(request_id, *refused.args)
        else:
            self.refuse(request_id, -32601, f"Method not found: {method}")

    def initialized(self, params: dict[str, Any]) -> bytes:
        plain = {
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": self.capabilities,
            "serverInfo": {"name": self.script.get("name", "fake"), "version": "1.0"},
        }
        return fake_tools.dumped({**plain, **self.script.get("initialize", {})})

    def call(self, request_id: object, params: dict[str, Any]) -> None:
        name = params.get("name")
        if not isinstance(name, str) or name not in self.tools:
            self.refuse(request_id, -32602, f"Unknown tool: {name}")
            return
        self.reactions = {**self.reactions, **self.script.get("on_later", {})}
        behaviour, fixed = self.tools[name]
        token = (params.get("_meta") or {}).get("progressToken")
        result = behaviour(
            fake_tools.Call(self, request_id, {**(params.get("arguments") or {}), **fixed}, token)
        )
        if result is not None:
            self.answer(request_id, result)

    def list_page(self, request_id: object, method: str, cursor: str | None) -> None:
        key, member = LISTS[method]
        entries = self.listed if key == "tools" else self.offers.listed[key]
        style = self.script.get("cursors")
        size = self.script.get("page_size", max(1, len(entries)))
        try:
            page = 0 if cursor is None or style == "repeated" else int(cursor or "1")
        except ValueError:
            self.refuse(request_id, -32602, f"Invalid cursor: {cursor}")
            return
        listing: dict[str, Any] = {member: entries[page * size : (page + 1) * size]}
        if style == "repeated":
            listing["nextCursor"] = "again"
        elif style == "endless" or (page + 1) * size < len(entries):
            listing["nextCursor"] = "" if style == "empty" and page == 0 else str(page + 1)
        self.answer(request_id, fake_tools.dumped(listing))

    # The loop

    def serve_until_eof(self) -> None:
        parts: list[bytes] = []
        while True:
            readable, _, _ = select.select([0], [], [], POLL if self.gates else None)
            self.pass_gates()
            if not readable:
                continue
            chunk = os.read(0, fake_tools.CHUNK)
            if not chunk:
                return
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                self.receive(b"".join((*parts, end)))
                parts = []
            parts.append(rest)

    def run(self) -> None:
        signal.alarm(self.lifetime)
        if self.script.get("ignore_sigterm"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            self.start()
            self.serve_until_eof()
            if record := self.script.get("record"):
                fake_tools.append_line(record, b'{"eof":true}')
        except fake_tools.ReaderGoneError:
            pass
        if self.script.get("ignore_eof"):
            fake_tools.stay_for_ever()


def count_start(path: str) -> int:
    fake_tools.append_line(path, b"%d" % os.getpid())
    with open(path, "rb") as file:
        return len(file.readlines())


def overlays(script: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What is laid over the script for this very start."""
    for path, overlay in script.get("unless", {}).items():
        if not os.path.exists(path):
            yield overlay
    if "script" in script:
        with open(script["script"], "rb") as file:
            yield json.loads(file.read())
    if "starts" in script:
        start = count_start(script["starts"])
        yield from script.get("by_start", [])[start - 1 : start]


def main() -> None:
    script = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    for overlay in overlays(script):
        script = {**script, **overlay}
    FakeServer(script).run()


if __name__ == "__main__":
    main()
