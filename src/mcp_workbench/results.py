"""What is made of a tool's result before an agent gets it: mostly nothing.

Where an agent was told of the tools in short, a refusal of its arguments brings the schema along. Where a
server's results are limited, a longer one is kept, shown in part, and read on request.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import raw_json, wire
from .config import Config
from .downstream import Downstream
from .errors import NotFound
from .events import log
from .metatools.definitions import READ
from .metatools.refusals import with_schema
from .metatools.requests import Reading
from .peer import Coming
from .wire import Answer

if TYPE_CHECKING:
    from .kept_results import KeptResults


class Results:
    def __init__(self, config: Config, environment: Mapping[str, str]) -> None:
        """`environment` says where files belong that nobody needs once we are gone."""
        self._reader = config.meta_tool_prefix + READ
        self._environment = environment
        self._told_in_short: set[str] = set()  # toolboxes
        self._kept: KeptResults | None = None
        self._limits: dict[str, int] = {}  # by handle

    def told(self, toolbox: str, *, in_short: bool) -> None:
        """An agent was told of the tools of a toolbox, in short or with their schemas."""
        if in_short:
            self._told_in_short.add(toolbox)
        else:
            self._told_in_short.discard(toolbox)

    def of(self, server: Downstream, tool: str, coming: Coming) -> Coming:
        """What the agent gets of the answer that is coming."""
        if server.max_result_tokens or server.toolbox in self._told_in_short:
            return self._made(server, tool, coming)
        return coming

    async def _made(self, server: Downstream, tool: str, coming: Coming) -> Answer:
        answer = await coming
        if server.toolbox in self._told_in_short and (offer := server.tool(tool)):
            answer = with_schema(answer, offer)
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
        self._limits.update(dict.fromkeys(handles, limit))
        return wire.result(found.shortened(handles, tool, self._reader))

    def _store(self) -> "KeptResults":
        if not self._kept:
            from .kept_results import KeptResults, runtime_folder

            self._kept = KeptResults(runtime_folder(self._environment))
        return self._kept

    async def read(self, asked: Reading) -> str:
        """The part of a kept result that is asked for. Raises `CallError`."""
        from .kept_results import read_part

        if asked.handle not in self._limits:
            raise NotFound(f"Result '{asked.handle[:80]}' not found: it is not kept any more, or never was")
        return await read_part(self._store(), asked, self._limits[asked.handle])

    def resource(self, uri: str) -> Answer | None:
        """The whole of a kept result, for who reads its link; None if this is no such link."""
        handle = uri.removeprefix("workbench-result://")
        if handle not in self._limits:
            return None
        text = self._store().read(handle).decode(errors="replace")
        contents = [{"uri": uri, "mimeType": "text/plain", "text": text}]
        return wire.result(raw_json.encoded({"contents": contents}))

    def close(self) -> None:
        """Remove what was kept."""
        if self._kept:
            self._kept.close()
