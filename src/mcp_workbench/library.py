"""All tools that are known, of servers that run and of those that were only seen: described and searched."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from .config import Config
from .downstream import Downstream, tool_not_found
from .errors import CallError, NotFound
from .events import log
from .knowledge import Admitted, Knowledge
from .metatools.requests import Address
from .naming import Origin
from .offers import TOOLS, Offer
from .workbench import Workbench

if TYPE_CHECKING:
    from .search.index import Hit, Index
    from .search.spaces import Embedder

Tools = Mapping[str, Offer]

# Texts that an embedder reads before others have their turn.
_READ_AT_ONCE = 16


class Library:
    def __init__(self, config: Config, knowledge: Knowledge, workbench: Workbench) -> None:
        self._config = config
        self._knowledge = knowledge
        self._workbench = workbench
        self._index: Index | None = None
        self._indexed: dict[Origin, Tools] = {}
        self._approved: object = None  # when that was done
        self._embedder: Embedder | None = None
        self._turn = asyncio.Lock()  # of whoever uses the index
        self._reading: asyncio.Task[None] | None = None

    async def remembered(self, origins: Collection[Origin]) -> dict[Origin, Admitted]:
        """What servers offered when they were last seen; without those that never were."""
        return await asyncio.to_thread(self._knowledge.remembered, origins) if origins else {}

    async def expect(self, servers: Iterable[Downstream]) -> None:
        """Have those of them that start expected to offer what they did when they were last seen."""
        starting = {server.origin: server for server in servers if server.is_starting}
        for origin, admitted in (await self.remembered(starting)).items():
            starting[origin].expect(admitted)

    async def admitted(self, origins: Collection[Origin]) -> dict[Origin, Admitted]:
        """What may be used of these servers: of what they list now, else of the last time."""
        known = {
            server.origin: Admitted(dict(server.offered[TOOLS]), withheld=dict(server.withheld))
            for server in self._workbench.servers()
            if server.origin in origins and TOOLS in server.offered
        }
        return known | await self.remembered([origin for origin in origins if origin not in known])

    async def described(self, asked: Sequence[Address]) -> tuple[list[tuple[Origin, Offer]], list[str]]:
        """The tools that are asked for, each once, and what is to be said of those that are not found."""
        found: list[tuple[Origin, Offer]] = []
        failures: list[str] = []
        addresses = [*dict.fromkeys(asked)]
        origins = {Origin(address.toolbox, address.server) for address in addresses}
        known = await self.admitted(origins & self._config.servers().keys())
        for address in addresses:
            origin = Origin(address.toolbox, address.server)
            try:
                found.append((origin, self._tool(address, known.get(origin))))
            except CallError as error:
                failures.append(str(error))
        return found, failures

    def _tool(self, address: Address, known: Admitted | None) -> Offer:
        self._workbench.check(address)
        if known is None:
            server = f"Server '{address.server}' in toolbox '{address.toolbox}'"
            raise NotFound(f"{server} was never seen; open the toolbox first")
        if why := known.withheld.get(address.tool):
            raise CallError(why)
        if address.tool not in known.tools:
            raise tool_not_found(address.tool, Origin(address.toolbox, address.server), known.tools)
        return known.tools[address.tool]

    # Searching ------------------------------------------------------------------------------------

    async def found(self, query: str, limit: int, toolbox: str | None) -> "tuple[list[Hit], int, int]":
        """The best tools for a query; how many there are, and how many servers were never seen."""
        if toolbox is not None:
            self._workbench.configured(toolbox)
        # Whoever stops waiting does not stop the thread, which has the index to itself.
        return await asyncio.shield(self._found_in_turn(query, limit, toolbox))

    async def _found_in_turn(
        self, query: str, limit: int, toolbox: str | None
    ) -> "tuple[list[Hit], int, int]":
        async with self._turn:
            live = {
                server.origin: server.offered[TOOLS]
                for server in self._workbench.servers()
                if TOOLS in server.offered
            }
            hits = await asyncio.to_thread(self._found, query, limit, toolbox, live)
            searched = [origin for origin in self._config.servers() if toolbox in (None, origin.toolbox)]
            known = [self._indexed[origin] for origin in searched if origin in self._indexed]
        if self._embedder and not self._reading:
            self._reading = asyncio.create_task(self._read_on(self._embedder))
        return hits, sum(map(len, known)), len(searched) - len(known)

    def _found(
        self, query: str, limit: int, toolbox: str | None, live: Mapping[Origin, Tools]
    ) -> "list[Hit]":
        index = self._index or self._begun()
        approved = self._knowledge.approved
        is_current = self._approved == approved
        self._approved = approved
        gone = [
            origin
            for origin in self._config.servers()
            if origin not in live and not (is_current and origin in self._indexed)
        ]
        earlier = {origin: admitted.tools for origin, admitted in self._knowledge.remembered(gone).items()}
        for origin, tools in {**earlier, **live}.items():
            if self._indexed.get(origin) != tools:
                self._indexed[origin] = tools
                index.put(origin, tools.values(), self._config.toolboxes[origin.toolbox].description or "")
        return index.search(query, limit, toolbox) if query.strip() else self._all(limit, toolbox)

    def _all(self, limit: int, toolbox: str | None) -> "list[Hit]":
        """The tools of a toolbox, or of all, as the configuration has them: for who asks for nothing else."""
        from .search.index import Hit

        listed = (
            Hit(origin, tool, 0.0)
            for origin in self._config.servers()
            if toolbox in (None, origin.toolbox)
            for tool in self._indexed.get(origin, {}).values()
        )
        return [*islice(listed, limit)]

    def _begun(self) -> "Index":
        from .search.index import Index
        from .search.shipped import installed_embedder, shipped_table

        self._index = Index(shipped_table)
        try:
            self._embedder = installed_embedder()
        except Exception as why:  # whatever is wrong with it: words are enough for a search
            log.warning("The search does without an embedder: %s", why)
        if self._embedder:
            self._index.use(self._embedder, {})
        return self._index

    async def _read_on(self, embedder: "Embedder") -> None:
        """Have the embedder read all tools, some at a time; until then the search does without it."""
        try:
            while True:
                async with self._turn:
                    texts = self._index.unlearnt(_READ_AT_ONCE) if self._index else []
                if not texts:
                    break
                places = await asyncio.to_thread(embedder.embed, texts)
                async with self._turn:
                    if self._index:
                        self._index.learn(texts, places)
        except Exception as why:  # as above
            self._embedder = None
            log.warning("The search goes on without its embedder: %s", why)
        finally:
            self._reading = None
