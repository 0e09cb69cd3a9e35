"""One conversation held in three ways: straight with a server, and with a workbench in between in each mode.

A side takes what is said in the server's own words, and says it in the words of its way. What comes back is
read as the server's own: native names, and the marks of whose a thing is, are taken off again. Results and
progress are kept as the lines that they came in.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.workbench import PATIENCE, Client, Json, fake, serving, talking_to, toolboxes, use

TOOLBOX, SERVER = "box", "fake"
CAPABILITIES: Json = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
ASKED = ("sampling/createMessage", "elicitation/create", "roots/list")
LISTS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
URL_ELICITATION_REQUIRED = -32042
LIST_CHANGED = "/list_changed"
_ASIDE = "aside"


class Request(NamedTuple):
    """One in the server's own words. If it is `held`, its answer is not waited for."""

    id: int | str
    method: str
    params: Json
    held: bool = False


class Seen(NamedTuple):
    """What a client was told, and what it was asked, less what was withdrawn at once."""

    told: list[Any]
    asked: list[Json]


class Side:
    label = ""  # the mark of what is the server's

    def __init__(self, client: Client) -> None:
        self.client = client
        # To each question: progress, then {"result": ...} or {"error": ...}; None leaves it open.
        self.progress: Sequence[float] = ()
        self.reply: Json | None = None
        self.open_questions: dict[Any, Json] = {}
        for method in ASKED:
            client.answers[method] = self._answer
        client.answers["ping"] = lambda _: {}

    def __repr__(self) -> str:
        return type(self).__name__

    def _answer(self, params: Json) -> None:
        question = self.client.asked[-1]["id"]
        token = params.get("_meta", {}).get("progressToken")
        for value in self.progress if token is not None else ():
            self.client.tell("notifications/progress", {"progressToken": token, "progress": value})
        if self.reply:
            self.client.send({"jsonrpc": "2.0", "id": question, **self.reply})

    # What is said ---------------------------------------------------------------------------------

    async def learn(self, own: Mapping[str, Sequence[Json]]) -> None:
        """Get to know what things are called on this side; `own` are the server's lists."""

    def _call(self, params: Json) -> Json:
        return params

    def _prompt(self, own: str) -> str:
        return own

    def worded(self, request: Request) -> Json:
        params = request.params
        if request.method == "tools/call":
            params = self._call(params)
        elif request.method == "prompts/get":
            params = {**params, "name": self._prompt(params["name"])}
        elif params.get("ref", {}).get("type") == "ref/prompt":
            params = {**params, "ref": {**params["ref"], "name": self._prompt(params["ref"]["name"])}}
        return {"jsonrpc": "2.0", "id": request.id, "method": request.method, "params": params}

    async def say(self, requests: Sequence[Request], first: Sequence[Json] = ()) -> Seen:
        """Say all in one write, notifications `first`; what came of it.

        Calls that go through to the server end it: what the server said before was on its way earlier. There
        are two, since a question may be overtaken by what the server says together with it.
        """
        mark = len(self.client.lines)
        waited = [self.client.expect(request.id) for request in requests if not request.held]
        messages = [*first, *map(self.worded, requests)]
        self.client.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*waited)
            await self.text("echo")
            await self.text("echo")
        return self._read(self.client.lines[mark:])

    async def answer(self, method: str, params: Json) -> Json:
        """The answer to a request that is no part of what is compared."""
        answer = self.client.expect(_ASIDE)
        self.client.send(self.worded(Request(_ASIDE, method, params)))
        async with asyncio.timeout(PATIENCE):
            return await answer

    async def text(self, tool: str) -> str:
        """The text of a call that is none, either."""
        answer = await self.answer("tools/call", {"name": tool})
        assert "result" in answer, answer
        return str(answer["result"]["content"][0]["text"])

    # What comes back ------------------------------------------------------------------------------

    def _read(self, lines: Sequence[bytes]) -> Seen:
        told: list[Any] = []
        asked: dict[Any, Json] = {}
        for line in lines:
            message = json.loads(line)
            method = message.get("method", "")
            if message.get("id") == _ASIDE:
                pass
            elif method == "notifications/cancelled":
                withdrawn = message["params"]["requestId"]
                # One that is withdrawn at once may not be handed on at all.
                del (asked if withdrawn in asked else self.open_questions)[withdrawn]
            elif method and "id" in message:
                if method != "ping":  # everybody answers it alone
                    asked[message["id"]] = self._own_question(message)
            elif not method.endswith(LIST_CHANGED) and self._is_owed(message):
                told.append(self._own(line, message))
        if not self.reply:
            self.open_questions |= asked
        return Seen(told, [*asked.values()])

    def _is_owed(self, message: Json) -> bool:
        return True

    def _own(self, line: bytes, message: Json) -> Any:
        """A message as the server's own: to the byte, where it has no names in it."""
        match message:
            case {"error": error}:
                return {**message, "error": self._own_error(error)}
            case {"method": "notifications/message", "params": params}:
                return {**message, "params": {**params, "logger": self._own_logger(params.get("logger", ""))}}
            case {"method": "notifications/elicitation/complete", "params": params}:
                return {**message, "params": self._own_elicitation(params)}
        return line

    def _own_question(self, message: Json) -> Json:
        params = {**message.get("params", {})}
        if message["method"] == "elicitation/create":
            params = self._own_elicitation(params)
        if "progressToken" in params.get("_meta", {}):  # each hop has tokens of its own
            params["_meta"] = {**params["_meta"], "progressToken": "own"}
        return {"method": message["method"], "params": params}

    def _own_logger(self, logger: str) -> str:
        return self._after(self.label, logger).removeprefix("/") if self.label else logger

    def _own_error(self, error: Json) -> Json:
        if error["code"] != URL_ELICITATION_REQUIRED:
            return error
        asked = [self._own_elicitation(each) for each in error["data"]["elicitations"]]
        return {**error, "data": {**error["data"], "elicitations": asked}}

    def _own_elicitation(self, params: Json) -> Json:
        marks = {"message": f"[{self.label}] ", "elicitationId": f"{self.label}/"} if self.label else {}
        return {**params, **{key: self._after(marks[key], params[key]) for key in marks if key in params}}

    @staticmethod
    def _after(mark: str, text: str) -> str:
        assert text.startswith(mark), f"{text!r} should begin with {mark!r}"
        return text.removeprefix(mark)

    async def changed_lists(self, at_least: int = 0) -> list[str]:
        """The notifications that came since this was last asked and say that a list has changed."""
        told: list[str] = []
        while len(told) < at_least or not self.client.notifications.empty():
            method = (await self.client.notification()).get("method", "")
            told += [method] if method.endswith(LIST_CHANGED) else []
        return told

    async def offered(self) -> dict[str, list[Json]]:
        """All pages of all lists, as the server's own."""
        return {member: await self._listed(member) for member in LISTS}

    async def _listed(self, member: str) -> list[Json]:
        entries: list[Json] = []
        params: Json = {}
        while True:
            page = (await self.client.ask(LISTS[member], params))["result"]
            entries += page[member]
            if "nextCursor" not in page:
                return entries
            params = {"cursor": page["nextCursor"]}


class Direct(Side):
    """Straight to the server; what a workbench does not owe its client is left out."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.level = "debug"
        self._latest: dict[Any, tuple[Any, float]] = {}  # by token: whose it is, and how far that has come

    async def say(self, requests: Sequence[Request], first: Sequence[Json] = ()) -> Seen:
        tokens = ((request.params.get("_meta", {}).get("progressToken"), request.id) for request in requests)
        self._latest = {token: (request, float("-inf")) for token, request in tokens if token is not None}
        for request in requests:
            if request.method == "logging/setLevel":
                self.level = request.params["level"]
        return await super().say(requests, first)

    def _is_owed(self, message: Json) -> bool:
        match message:
            case {"method": "notifications/message", "params": {"level": level}}:
                # The fake tells everything whatever was set; a level that MCP does not know passes.
                return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(self.level)
            case {"method": "notifications/progress", "params": {"progressToken": token, "progress": now}}:
                # It has to rise, and ends with its request: the workbench sees to that for every server.
                if token not in self._latest or now <= self._latest[token][1]:
                    return False
                self._latest[token] = (self._latest[token][0], now)
            case {"method": "notifications/of_a_vendor"}:
                return False  # nobody knows how to tell whose it is
            case {"id": request}:
                self._latest = {token: of for token, of in self._latest.items() if of[0] != request}
        return True


def _native(names: Mapping[str, str], own: str) -> str:
    return names.get(own, f"{TOOLBOX}__{SERVER}_{own}")  # made up, of what is not there


class _Behind(Side):
    """With a workbench in between."""

    label = f"{TOOLBOX}/{SERVER}"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._prompts: dict[str, str] = {}

    async def learn(self, own: Mapping[str, Sequence[Json]]) -> None:
        listed = await super()._listed("prompts")
        self._prompts = self._names(own["prompts"], [entry["name"] for entry in listed])

    @staticmethod
    def _names(own: Sequence[Json], names: Sequence[str]) -> dict[str, str]:
        """What the server's own things are called here: they come in its order."""
        return {entry["name"]: name for entry, name in zip(own, names, strict=True)}

    def _prompt(self, own: str) -> str:
        return _native(self._prompts, own)

    async def _listed(self, member: str) -> list[Json]:
        if member == "tools":
            return await self.offered_tools()
        entries = await super()._listed(member)
        return self._unnamed(entries, self._prompts) if member == "prompts" else entries

    async def offered_tools(self) -> list[Json]:
        raise NotImplementedError

    def _unnamed(self, entries: Sequence[Json], names: Mapping[str, str]) -> list[Json]:
        own = {native: name for name, native in names.items()}
        unnamed: list[Json] = []
        for entry in entries:
            description = self._after(f"[{self.label}]", entry["description"]).removeprefix(" ")
            there = {"description": description} if description else {}
            rest = {key: value for key, value in entry.items() if key != "description"}
            unnamed.append({**rest, **there, "name": own.get(entry["name"], entry["name"])})
        return unnamed


class Native(_Behind):
    """In dynamic mode, by native names."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._tools: dict[str, str] = {}

    async def learn(self, own: Mapping[str, Sequence[Json]]) -> None:
        await super().learn(own)
        self._tools = self._names(own["tools"], (await self.client.open(TOOLBOX))["tools"])

    def _call(self, params: Json) -> Json:
        return {**params, "name": _native(self._tools, params["name"])}

    async def offered_tools(self) -> list[Json]:
        entries = await Side._listed(self, "tools")
        native = [
            entry for entry in entries if entry["name"] not in ("open_toolbox", "use_tool", "close_toolbox")
        ]
        return self._unnamed(native, self._tools)


class Used(_Behind):
    """In proxy mode, by `use_tool`."""

    def _call(self, params: Json) -> Json:
        address = use(TOOLBOX, SERVER, params["name"])["tool"]
        given = {"arguments": params["arguments"]} if "arguments" in params else {}
        meta = {"_meta": params["_meta"]} if "_meta" in params else {}
        return {"name": "use_tool", "arguments": {"tool": address, **given}, **meta}

    async def offered_tools(self) -> list[Json]:
        tools = (await self.client.open(TOOLBOX))["tools"]
        whose = {"toolbox_name": TOOLBOX, "source_server": SERVER}
        assert all(whose.items() <= tool.items() for tool in tools)
        return [{key: value for key, value in tool.items() if key not in whose} for tool in tools]


class Sides(NamedTuple):
    direct: Direct
    native: Native
    used: Used

    @property
    def behind(self) -> tuple[Native, Used]:
        return self.native, self.used


@asynccontextmanager
async def all_sides(script: Json, folder: Path) -> AsyncIterator[Sides]:
    """Each side with a server of its own that does what the script says, new and introduced."""
    async with AsyncExitStack() as stack:

        async def straight() -> Direct:
            entry = fake(**script)
            command = (entry["command"], *entry["args"])
            client = await stack.enter_async_context(talking_to(*command, folder=folder))
            await client.initialize(capabilities=CAPABILITIES)
            return Direct(client)

        async def through(mode: str) -> Client:
            (place := folder / mode).mkdir()
            config = {**toolboxes(**{TOOLBOX: {SERVER: fake(**script)}}), "toolMode": mode, "search": False}
            client = await stack.enter_async_context(serving(config, place, capabilities=CAPABILITIES))
            await client.open(TOOLBOX)
            return client

        direct, dynamic, proxy = await asyncio.gather(straight(), through("dynamic"), through("proxy"))
        sides = Sides(direct, Native(dynamic), Used(proxy))
        own = await direct.offered()
        for behind in sides.behind:
            await behind.learn(own)
            await behind.changed_lists()
        yield sides
        for side in sides:  # all at once
            if side.client.process.stdin:
                side.client.process.stdin.close()
