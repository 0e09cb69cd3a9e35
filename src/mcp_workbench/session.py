"""One client's conversation: what each of its methods means. Knows no transport."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec import UNSET, Raw, UnsetType

from . import eras, lifecycle, offers, raw_json, upwards, wire
from .client import Client
from .config import Config
from .downstream import Downstream, Ready
from .eras import Declared
from .errors import CallError, NotFound
from .knowledge import Knowledge
from .library import Library
from .meta_calls import MetaCalls
from .metatools import answers, definitions
from .metatools.definitions import OPEN
from .naming import NativeNames
from .offers import PROMPTS, RESOURCES, TEMPLATES, TOOLS, Kind
from .pages import BadCursor
from .peer import NO_PARAMS, Answering, Coming, Peer, Send
from .raw_json import Malformed, Payload
from .results import Results
from .schemas.dialects import dialect_of
from .toolbox import Toolbox
from .view import Native, View
from .wire import Answer
from .workbench import Reach, Workbench


class _Call(msgspec.Struct):
    name: str
    arguments: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


_read_call = raw_json.Reader(_Call)


class Session:
    def __init__(
        self,
        config: Config,
        reach: Reach,
        send: Send,
        declared: Declared,
        knowledge: Knowledge,
        results: Results,
        fixed: Sequence[str] = (),
    ) -> None:
        """`fixed` are the toolboxes that are open from the start, their tools shown natively."""
        self._config = config
        self._knowledge = knowledge
        self._loop = asyncio.get_running_loop()
        self.peer = Peer(send, self)
        self.client = Client(self.peer, declared, self._offers_changed)
        self.workbench = Workbench(config, reach, self.client, knowledge)
        self.results = results
        servers = config.servers()
        bare = fixed[0] if len(fixed) == 1 else ""
        prefix = config.meta_tool_prefix
        self._greeting = definitions.greeting(config, knowledge.tool_counts, fixed)
        searchable = definitions.is_searchable(config, knowledge.known_tools)
        self._meta_tools = partial(definitions.meta_tools, config, searchable=searchable, fixed=fixed)
        ways_on = definitions.ways_on(config, searchable=searchable)
        # Also those that come once enough is known: a server's tool is not to be renamed by that.
        own_names = [prefix + own for own in self._meta_tools(searchable=config.search is not False)]
        self._view = View(
            NativeNames(servers, reserved=own_names, without_prefix=bare),
            NativeNames(servers, without_prefix=bare),
            self.client.claims,
            unpromising={origin for origin, server in servers.items() if server.max_result_tokens},
        )
        self._present()
        self._library = Library(config, knowledge, self.workbench)
        announce = partial(self._announce, asked=True)
        self._calls = MetaCalls(
            config, self.peer, self.workbench, self._library, self._view, results, announce, fixed, ways_on
        )
        by_name = self._calls.by_name
        self._tools = {prefix + own: by_name[own] for own in self._meta_tools()}
        self._fixed = fixed
        self._is_greeted = False
        self._first_listed: list[Toolbox] | None = None  # the fixed ones that the first listing waits for
        self._stirred = asyncio.Event()  # whenever a server may have other offers
        self._announcing: asyncio.TimerHandle | None = None
        self._announced_at = float("-inf")
        self._methods: dict[str, Callable[[Payload], Answering]] = {
            "initialize": self._greet,
            "ping": self._pong,
            "tools/list": partial(self._list, TOOLS),
            "tools/call": self._call,
            "prompts/list": partial(self._list, PROMPTS),
            "prompts/get": self._get_prompt,
            "resources/list": partial(self._list, RESOURCES),
            "resources/templates/list": partial(self._list, TEMPLATES),
            "resources/read": self._read,
            "resources/subscribe": partial(self._subscribe, True),
            "resources/unsubscribe": partial(self._subscribe, False),
            "completion/complete": self._complete,
            "logging/setLevel": self._set_log_level,
        }

    def __str__(self) -> str:
        return "client"

    def answer(self, method: str, params: Payload) -> Answering:
        serve = self._methods.get(method)
        if not serve:
            return wire.error(raw_json.METHOD_NOT_FOUND, f"Method not found: {method}")
        if self._is_greeted and not self.client.ready.is_set() and method not in ("initialize", "ping"):
            self.client.ready.set()  # it may have forgotten to say so
        return serve(params)

    def failure(self, method: str, error: BaseException) -> Answer | None:
        match error:
            case Malformed():
                return wire.error(raw_json.INVALID_PARAMS, f"Invalid {method}: {error}")
            case CallError() if method == "tools/call":  # for a model to read and mend
                return answers.text_result(str(error), is_error=True)
            case CallError():
                return wire.error(raw_json.INTERNAL_ERROR, str(error))
        return None

    def told(self, method: str, params: Payload) -> None:
        if method == "notifications/initialized":
            self.client.ready.set()
        elif method == "notifications/roots/list_changed" and "roots" in self.client.declared.capabilities:
            for server in self.workbench.servers():
                server.tell(method)

    def garbled(self, frame: Payload, why: Malformed) -> Answer:
        what = "Parse error" if why.code == raw_json.PARSE_ERROR else "Invalid request"
        return wire.error(why.code, f"{what}: {why}")

    # The handshake --------------------------------------------------------------------------------

    def _greet(self, params: Payload) -> Answer:
        answer, declared = eras.greeted(params, self._greeting, self.client.declared.chain)
        if declared:
            self.greeted(declared)
        return answer

    def greeted(self, declared: Declared) -> None:
        """The client has been greeted, and said this of itself."""
        self._is_greeted = True
        self.client.declared = declared
        self.results.revision = declared.revision
        self._present()
        self._refresh()  # what is open already is shown to it, too
        self.open_fixed()

    def _present(self) -> None:
        """Have the client see what it can read."""
        dialect = dialect_of(self.client.declared.client)
        own = self._meta_tools(describes=dialect.hides_instructions)
        prefix = self._config.meta_tool_prefix
        self._view.present({prefix + name: definition for name, definition in own.items()}, dialect)

    def open_fixed(self) -> None:
        """Begin to open the fixed toolboxes, now that it is known what the client can do."""
        if self._first_listed is None:
            self._first_listed = [self.workbench.begin(name) for name in self._fixed]

    def _pong(self, params: Payload) -> Answer:
        return wire.result(b"{}")

    def _set_log_level(self, params: Payload) -> Answer:
        level = _text(raw_json.members(params), "level")
        if level not in upwards.LEVELS:
            raise Malformed(f"level: expected one of {', '.join(upwards.LEVELS)}")
        self.client.log_level = level
        for server in self.workbench.servers():
            server.set_log_level()
        return wire.result(b"{}")

    # Lists ----------------------------------------------------------------------------------------

    async def _list(self, kind: Kind, params: Payload) -> Answer:
        await self._until_first_listed()
        given = raw_json.members_if_any(params)
        try:
            return wire.result(self._view.page(kind, _text_or_none(given, "cursor")))
        except BadCursor:
            raise Malformed("cursor: not one of this list's") from None

    async def _until_first_listed(self) -> None:
        """Clients that list only once have to see the fixed toolboxes."""
        self.open_fixed()
        if self._first_listed:
            if self._config.open_from_catalogue:
                await self._library.expect(
                    server for toolbox in self._first_listed for server in toolbox.servers
                )
            await asyncio.gather(
                *(toolbox.settled(lifecycle.FIRST_LIST_WITHIN) for toolbox in self._first_listed)
            )
            self._first_listed = []
            self._refresh()

    async def _found(self, find: Callable[[str], Native | None], name: str) -> Native | None:
        """Where a name leads; the fixed toolboxes, whose names clients remember, are waited for."""
        found = find(name)
        if not found and self._first_listed:
            found = await self._found_soon(find, name)
        return found

    async def _found_soon(self, find: Callable[[str], Native | None], name: str) -> Native | None:
        """Wait for its own server, not for others that are slower."""
        listed = asyncio.ensure_future(self._until_first_listed())
        try:
            while True:
                self._refresh()
                found = find(name)
                if found or listed.done():
                    return found
                self._stirred.clear()
                stirred = asyncio.ensure_future(self._stirred.wait())
                await asyncio.wait((listed, stirred), return_when=asyncio.FIRST_COMPLETED)
                stirred.cancel()
        finally:
            listed.cancel()

    def _offers_changed(self) -> None:
        """A server may have other offers: what changed by itself is told once a second at most."""
        self._stirred.set()
        if not self._announcing:
            due = self._announced_at + lifecycle.BETWEEN_ANNOUNCEMENTS
            self._announcing = self._loop.call_at(due, self._announce)

    def _announce(self, *, asked: bool = False) -> None:
        """Tell the client of each list that is another one than it has seen; `asked`: by its own doing."""
        if self._announcing:
            self._announcing.cancel()
            self._announcing = None
        changed = self._refresh()
        if changed and (asked or not self._first_listed):
            self._announced_at = self._loop.time()
            for capability in sorted(changed):
                self.peer.tell(offers.list_changed(capability))

    def _refresh(self) -> set[str]:
        # What nobody has listed yet can be shown piece by piece.
        toolboxes = self.workbench.open_toolboxes(early=self._fixed if self._first_listed else ())
        native = [toolbox.name for toolbox in toolboxes if self._shows_natively(toolbox.name)]
        offered = [(server.origin, server.offered) for toolbox in toolboxes for server in toolbox.servers]
        return self._view.refresh(offered, native)

    def _shows_natively(self, toolbox: str) -> bool:
        return self._config.tool_mode == "dynamic" or toolbox in self._fixed

    # Tools ----------------------------------------------------------------------------------------

    def _call(self, params: Payload) -> Answering:
        call = _read_call(params)
        arguments = NO_PARAMS if call.arguments is UNSET else call.arguments
        meta = {} if call.meta is UNSET else raw_json.members_if_any(call.meta)
        if serve := self._tools.get(call.name):
            return serve(arguments, meta)
        if native := self._view.tool(call.name):
            return self._call_native(native, arguments, meta)
        return self._call_once_listed(call.name, arguments, meta)

    def _call_native(self, native: Native, arguments: Payload, meta: dict[str, Payload]) -> Coming:
        server = self._server(native)
        relay = self._calls.relay(meta) if meta else None
        coming = server.call(native.own, arguments, meta, relay)
        return self.results.of(server, native.own, arguments, coming)

    async def _call_once_listed(self, name: str, arguments: Payload, meta: dict[str, Payload]) -> Answer:
        native = await self._found(self._view.tool, name)
        if not native:
            hint = ""
            if self._config.tool_mode == "dynamic":
                opener = self._config.meta_tool_prefix + OPEN
                hint = f"; the tools of a toolbox can be called by name while it is open: use {opener}"
            return wire.error(raw_json.INVALID_PARAMS, f"Tool '{name}' not found{hint}")
        return await self._call_native(native, arguments, meta)

    # Prompts and resources ------------------------------------------------------------------------

    async def _get_prompt(self, params: Payload) -> Answer:
        given = raw_json.members(params)
        name = _text(given, "name")
        native = await self._found(self._view.prompt, name)
        if not native:
            return wire.error(raw_json.INVALID_PARAMS, f"Prompt '{name}' not found")
        return await self._hand_on("prompts/get", native, {**given, "name": raw_json.encoded(native.own)})

    async def _read(self, params: Payload) -> Answer:
        given = raw_json.members(params)
        uri = _text(given, "uri")
        try:
            if kept := self.results.resource(uri):
                return kept
        except NotFound:
            return _resource_not_found(uri)
        native = await self._found_resource(uri)
        if not native:
            return _resource_not_found(uri)
        asked = {**given, "uri": raw_json.encoded(native.own)}
        answer = await self._hand_on("resources/read", native, asked)
        return answer if answer.failed else wire.result(self._view.as_asked(uri, native, answer.body))

    async def _subscribe(self, wanted: bool, params: Payload) -> Answer:
        given = raw_json.members(params)
        uri = _text(given, "uri")
        native = await self._found_resource(uri)
        if not native:
            return _resource_not_found(uri)
        meta = _meta_of(given)
        server, known_as = self._server(native), uri if wanted else None
        answer = await server.subscribe(native.own, known_as, meta, self._calls.relay(meta))
        if wanted and not answer.failed:
            self.client.claims.shown(*native)  # so it is known whose this is that the client has now
        return answer

    async def _complete(self, params: Payload) -> Answer:
        given = raw_json.members(params)
        ref = raw_json.members(given.get("ref", b"null"))
        is_prompt = _text(ref, "type") == "ref/prompt"
        key = "name" if is_prompt else "uri"
        name = _text(ref, key)
        native = await (self._found(self._view.prompt, name) if is_prompt else self._found_resource(name))
        if not native:
            return wire.error(raw_json.INVALID_PARAMS, f"'{name}' not found")
        ref[key] = raw_json.encoded(native.own)
        return await self._hand_on(
            "completion/complete", native, {**given, "ref": raw_json.object_of(ref.items())}
        )

    async def _hand_on(self, method: str, native: Native, params: dict[str, Payload]) -> Answer:
        """Ask the server that a native name leads to; `params` have its own names already."""
        meta = _meta_of(params)
        return await self._server(native).request(method, params, meta, self._calls.relay(meta))

    async def _found_resource(self, uri: str) -> Native | None:
        """Where a URI leads; if no server has shown it, to the one that has resources, if only one does."""
        found = await self._found(self._resource, uri)
        if found or self._view.resource(uri):
            return found
        having = [server for server in self.workbench.servers() if _may_have_resources(server)]
        return Native(having[0].origin, uri) if len(having) == 1 else None

    def _resource(self, uri: str) -> Native | None:
        """Where a URI leads, if that toolbox is open."""
        native = self._view.resource(uri)
        try:
            return native if native and self._server(native) else None
        except NotFound:
            return None

    def _server(self, native: Native) -> Downstream:
        return self.workbench.server(native.origin)


def _may_have_resources(server: Downstream) -> bool:
    if isinstance(server.state, Ready):
        return "resources" in server.state.hello.capabilities
    return bool(server.offered)  # it is being restarted


def _meta_of(params: dict[str, Payload]) -> dict[str, Payload]:
    """The `_meta` of a request, taken out of its parameters."""
    return raw_json.members_if_any(params.pop("_meta", b"null"))


def _text(given: dict[str, Payload], key: str) -> str:
    found = _text_or_none(given, key)
    if found is None:
        raise Malformed(f"{key}: required")
    return found


def _text_or_none(given: dict[str, Payload], key: str) -> str | None:
    try:
        return raw_json.text_or_none(given.get(key, b"null"))
    except Malformed:
        raise Malformed(f"{key}: expected a string") from None


def _resource_not_found(uri: str) -> Answer:
    told = {"code": raw_json.RESOURCE_NOT_FOUND, "message": "Resource not found", "data": {"uri": uri}}
    return Answer("error", raw_json.encoded(told))
