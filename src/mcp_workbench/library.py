"""All tools that are known, of servers that run and of those that were only seen: described and searched."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from .config import Config
from .errors import CallError, NotFound
from .knowledge import Admitted, Knowledge
from .metatools.requests import Address
from .naming import Origin, nearest
from .offers import TOOLS, Offer
from .workbench import Workbench

Tools = Mapping[str, Offer]


class Library:
    def __init__(self, config: Config, knowledge: Knowledge, workbench: Workbench) -> None:
        self._config = config
        self._knowledge = knowledge
        self._workbench = workbench

    async def remembered(self, origins: Collection[Origin]) -> dict[Origin, Admitted]:
        """What servers offered when they were last seen; without those that never were."""
        return await asyncio.to_thread(self._knowledge.remembered, origins) if origins else {}

    async def tools(self, origins: Collection[Origin]) -> dict[Origin, Tools]:
        """The tools of these servers: those that they list now, else those of the last time."""
        known: dict[Origin, Tools] = {
            server.origin: server.offered[TOOLS]
            for server in self._workbench.servers()
            if server.origin in origins and TOOLS in server.offered
        }
        earlier = await self.remembered([origin for origin in origins if origin not in known])
        return known | {origin: admitted.tools for origin, admitted in earlier.items()}

    async def described(self, asked: Sequence[Address]) -> tuple[list[tuple[Origin, Offer]], list[str]]:
        """The tools that are asked for, and what is to be said of those that could not be found."""
        found: list[tuple[Origin, Offer]] = []
        failures: list[str] = []
        known = await self.tools({Origin(address.toolbox, address.server) for address in asked})
        for address in asked:
            origin = Origin(address.toolbox, address.server)
            try:
                found.append((origin, self._tool(address, known.get(origin))))
            except CallError as error:
                failures.append(str(error))
        return found, failures

    def _tool(self, address: Address, tools: Tools | None) -> Offer:
        self._workbench.check(address)
        if tools is None:
            server = f"Server '{address.server}' in toolbox '{address.toolbox}'"
            raise NotFound(f"{server} was never seen; open the toolbox first")
        if address.tool not in tools:
            raise NotFound(
                f"Tool '{address.tool}' not found in server '{address.server}' (toolbox '{address.toolbox}')",
                nearest(address.tool, tools),
            )
        return tools[address.tool]
