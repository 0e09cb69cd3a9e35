"""What each meta-tool does for the agent behind one client."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import get_args

from . import config, progress
from .config_file import WITH_SCHEMAS, Detail
from .downstream import Downstream, Ready
from .errors import CallError, NotReadOnly
from .library import Library
from .metatools import answers, forms
from .metatools.answers import Connected
from .metatools.definitions import CLOSE, DESCRIBE, OPEN, READ, SEARCH, USE, USE_READONLY
from .metatools.requests import (
    Opening,
    read_closing,
    read_opening,
    read_reading,
    read_search,
    tool_and_arguments,
    tools_to_describe,
)
from .offers import TOOLS
from .peer import Answering, Coming, OnProgress, Peer
from .raw_json import Payload
from .results import Results
from .toolbox import Toolbox
from .view import View
from .wire import Answer
from .workbench import Workbench

Meta = dict[str, Payload]


class MetaCalls:
    def __init__(
        self,
        configuration: config.Config,
        peer: Peer,
        workbench: Workbench,
        library: Library,
        view: View,
        results: Results,
        announce: Callable[[], None],
        fixed: Collection[str],
        ways_on: forms.Calls,
    ) -> None:
        """`announce` tells the client of lists that its own call has changed."""
        self._config = configuration
        self._peer = peer
        self._workbench = workbench
        self._library = library
        self._view = view
        self._results = results
        self._announce = announce
        self._fixed = fixed
        self._ways_on = ways_on
        self.by_name: dict[str, Callable[[Payload, Meta], Answering]] = {
            OPEN: self._open,
            USE: self._use,
            USE_READONLY: self._use_readonly,
            SEARCH: self._search,
            DESCRIBE: self._describe,
            READ: self._read,
            CLOSE: self._close,
        }

    def relay(self, meta: Meta) -> OnProgress | None:
        """Where progress of a request goes, if its client wants to know."""
        return progress.wanted(self._peer, meta)

    # Opening and closing --------------------------------------------------------------------------

    async def _open(self, arguments: Payload, meta: Meta) -> Answer:
        asked = read_opening(arguments)
        toolbox = await self._opened(asked.toolbox_name)
        self._announce()
        connected = [told for server in toolbox.servers if (told := self._told(server))]
        failures = toolbox.failures()
        configured = self._config.toolboxes[toolbox.name]
        if failures and not connected:
            return answers.text_result("\n".join(failures), is_error=True)
        if self._config.tool_mode == "dynamic" or toolbox.name in self._fixed:
            names = self._view.tools_of(toolbox.name)
            return answers.text_result(answers.opened_natively(configured, connected, failures, names))
        form, text = self._told_in_form(asked, configured, connected, failures)
        self._results.told(toolbox.name, in_short=form not in WITH_SCHEMAS)
        return answers.text_result(text)

    async def _opened(self, name: str) -> Toolbox:
        toolbox = self._workbench.begin_again(name)
        if self._config.open_from_catalogue:
            await self._library.expect(toolbox.servers)
        await self._workbench.settled(toolbox)
        return toolbox

    def _told(self, server: Downstream) -> Connected | None:
        """What is told of a server that serves, or of one that is expected to."""
        if isinstance(server.state, Ready):
            instructions, tools = server.state.instructions, server.state.offers[TOOLS]
        elif server.expected:
            instructions, tools = server.expected.instructions, server.expected.tools
        else:
            return None
        shown = self._view.with_shown_uris(server.origin, tools.values())
        return Connected(server.name, instructions, shown, serves=isinstance(server.state, Ready))

    def _told_in_form(
        self, asked: Opening, toolbox: config.Toolbox, connected: Sequence[Connected], failures: Sequence[str]
    ) -> forms.Fitted:
        forms_of: dict[str, Callable[[], str]] = {
            form: partial(answers.told, form, toolbox, connected, failures, self._ways_on)
            for form in get_args(Detail)
        }
        if asked.max_tokens is None:
            form = asked.detail or self._config.detail
            return forms.Fitted(form, forms_of[form]())
        names = [*forms_of]
        richest = names.index(asked.detail) if asked.detail else 0
        return forms.fitting(asked.max_tokens, {name: forms_of[name] for name in names[richest:]})

    def _close(self, arguments: Payload, meta: Meta) -> Answer:
        name = read_closing(arguments).toolbox_name
        gone = self._workbench.close(name)
        self._announce()
        return answers.closed(name, *gone)

    # Using ----------------------------------------------------------------------------------------

    def _use(self, arguments: Payload, meta: Meta) -> Coming:
        address, given = tool_and_arguments(arguments)
        server = self._workbench.answering(address)
        relay = self.relay(meta) if meta else None
        coming = server.call(address.tool, given, meta, relay)
        return self._results.of(server, address.tool, given, coming)

    async def _use_readonly(self, arguments: Payload, meta: Meta) -> Answer:
        address, given = tool_and_arguments(arguments)
        server = self._workbench.answering(address)
        try:
            coming = server.call(address.tool, given, meta, self.relay(meta), read_only=True)
            return await self._results.of(server, address.tool, given, coming)
        except NotReadOnly as refusal:
            raise CallError(f"{refusal}; call it with {self._config.meta_tool_prefix}{USE}") from None

    async def _read(self, arguments: Payload, meta: Meta) -> Answer:
        return answers.text_result(await self._results.read(read_reading(arguments)))

    # Finding --------------------------------------------------------------------------------------

    async def _search(self, arguments: Payload, meta: Meta) -> Answer:
        asked = read_search(arguments)
        usual = forms.MOST_FOUND if asked.query.strip() else forms.MOST_ASKED_FOR
        limit = int(min(asked.limit or usual, forms.MOST_ASKED_FOR))
        hits, total, unseen = await self._library.found(asked.query, limit, asked.toolbox)
        found = [(hit.origin, hit.tool) for hit in hits]
        for origin in {origin for origin, _ in found}:
            self._results.found(origin.toolbox)
        return answers.text_result(forms.search_text(found, total, unseen, self._ways_on))

    async def _describe(self, arguments: Payload, meta: Meta) -> Answer:
        found, failures = await self._library.described(tools_to_describe(arguments))
        if failures and not found:
            return answers.text_result("\n".join(failures), is_error=True)
        shown = [
            (origin, tool) for origin, told in found for tool in self._view.with_shown_uris(origin, [told])
        ]
        return answers.text_result(forms.describe_text(shown, failures))
