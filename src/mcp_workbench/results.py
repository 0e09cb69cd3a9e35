"""What is made of a tool's result before an agent gets it: mostly nothing.

Where an agent was told of the tools in short, a refusal of its arguments brings the schema along. Where a
server's results are limited, a longer one is kept, shown in part, and read on request.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from . import raw_json, wire
from .config import Config
from .config_file import WITH_SCHEMAS
from .downstream import Downstream
from .eras import LATEST
from .events import log
from .metatools.definitions import READ
from .metatools.refusals import with_schema
from .metatools.requests import Reading
from .peer import Coming
from .raw_json import Payload
from .wire import Answer

if TYPE_CHECKING:
    from .kept_results import KeptResults

_LINKS_SINCE: Final = "2025-06-18"  # in results


class Results:
    def __init__(self, config: Config, environment: Mapping[str, str], fixed: Collection[str] = ()) -> None:
        """`environment` says where files belong that nobody needs once we are gone.

        The tools of `fixed` toolboxes stand in the client's list, with their schemas.
        """
        self._reader = config.meta_tool_prefix + READ
        self._environment = environment
        self._in_short: dict[str, bool] = {}  # how an agent was told of the tools of toolboxes
        # Who calls without any opening remembers what was told in an earlier conversation, as is usual here.
        if config.detail not in WITH_SCHEMAS and config.tool_mode == "proxy":
            self._in_short = {name: True for name in config.toolboxes if name not in fixed}
        self._kept: KeptResults | None = None
        self._limits: dict[str, int] = {}  # by handle
        self.revision = LATEST  # that the client speaks

    def told(self, toolbox: str, *, in_short: bool) -> None:
        """An agent was told of the tools of a toolbox, in short or with their schemas."""
        self._in_short[toolbox] = in_short

    def found(self, toolbox: str) -> None:
        """An agent was told of some of its tools by a search, in short."""
        self._in_short.setdefault(toolbox, True)

    def of(self, server: Downstream, tool: str, arguments: Payload, coming: Coming) -> Coming:
        """What the agent gets of the answer that is coming to its call with these arguments."""
        if server.max_result_tokens or self._in_short.get(server.toolbox):
            return self._made(server, tool, arguments, coming)
        return coming

    async def _made(self, server: Downstream, tool: str, arguments: Payload, coming: Coming) -> Answer:
        answer = await coming
        if self._in_short.get(server.toolbox) and (offer := server.tool(tool)):
            answer = with_schema(answer, offer, arguments)
        if server.max_result_tokens and not answer.failed:
            answer = self._shortened(answer, tool, server.max_result_tokens)
        return answer

    def _shortened(self, answer: Answer, tool: str, limit: int) -> Answer:
        from .kept_results import oversized

        found = oversized(answer.body, limit)
        if not found:
            return answer
        try:
            handles = [self._store().keep(text) for text in found.texts]
        except OSError as error:
            log.warning("A result that is too large cannot be kept, and passes as it is: %s", error)
            return answer
        kept = self._store()
        self._limits = {handle: at for handle, at in self._limits.items() if handle in kept}
        self._limits.update(dict.fromkeys(handles, limit))
        links = self.revision >= _LINKS_SINCE
        return wire.result(found.shortened(handles, tool, self._reader, links=links))

    def _store(self) -> "KeptResults":
        if not self._kept:
            from .kept_results import KeptResults, runtime_folder

            self._kept = KeptResults(runtime_folder(self._environment))
        return self._kept

    async def read(self, asked: Reading) -> str:
        """The part of a kept result that is asked for. Raises `CallError`."""
        from .kept_results import read_part

        store = self._store()
        store.path(asked.handle)  # before all else that could be wrong
        return await read_part(store, asked, self._limits[asked.handle])

    def resource(self, uri: str) -> Answer | None:
        """The whole of a kept result, for who reads its link; None if this is no such link.

        Raises `NotFound` if it cannot be read any more.
        """
        if not self._limits:
            return None
        from .kept_results import SCHEME, media_type

        handle = uri.removeprefix(SCHEME)
        if handle == uri or handle not in self._limits:
            return None
        data = self._store().read(handle)
        contents = [{"uri": uri, "mimeType": media_type(data), "text": data.decode()}]
        return wire.result(raw_json.encoded({"contents": contents}))

    def close(self) -> None:
        """Remove what was kept."""
        if self._kept:
            self._kept.close()
