"""The toolboxes that are open, by name: opening, using, closing. Knows no transport and no process."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import Self

from . import config, lifecycle
from .client import Client
from .downstream import Downstream
from .errors import NotFound, ToolboxNotOpen
from .knowledge import Knowledge
from .link import Connect
from .metatools.definitions import OPEN
from .metatools.requests import Address
from .naming import Origin, nearest
from .toolbox import Toolbox, server_not_found

# How a server is reached: by its entry, its toolbox, and the chain of workbenches that leads to it.
Reach = Callable[[config.Server, str, str], Connect]


class Workbench:
    """Use it as a context: its end is the end of every server."""

    def __init__(
        self, configuration: config.Config, reach: Reach, client: Client, knowledge: Knowledge
    ) -> None:
        self._knowledge = knowledge
        self._config = configuration
        self._reach = reach
        self._client = client
        self._open: dict[str, Toolbox] = {}
        # The owners of each toolbox, the open one's last; a new opening waits for the end of all before it.
        self._owners: dict[str, list[asyncio.Task[None]]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_all()
        if owners := [owner for owners in self._owners.values() for owner in owners]:
            await asyncio.wait(owners)

    async def open(self, name: str) -> Toolbox:
        """Open a toolbox, or what of it is down, and wait until it is known what serves."""
        toolbox = self.begin_again(name)
        await self.settled(toolbox)
        return toolbox

    def begin_again(self, name: str) -> Toolbox:
        """Begin to open a toolbox, or what of it is down."""
        if toolbox := self._open.get(name):
            toolbox.try_again()
            return toolbox
        # No await between the look and the entry: two callers share one toolbox.
        return self.begin(name)

    async def settled(self, toolbox: Toolbox) -> None:
        """Wait until it is known what serves."""
        await toolbox.settled(lifecycle.OPENING_ANSWERS_WITHIN)

    def open_toolboxes(self, early: Collection[str] = ()) -> list[Toolbox]:
        """The toolboxes that are open, in the order in which that was begun; `early`: these from then on."""
        return [toolbox for toolbox in self._open.values() if toolbox.is_open or toolbox.name in early]

    def servers(self) -> Iterator[Downstream]:
        """All servers of toolboxes that are open or on their way."""
        for toolbox in self._open.values():
            yield from toolbox.servers

    def server(self, origin: Origin) -> Downstream:
        """A server of a toolbox that is open."""
        toolbox = self._open.get(origin.toolbox)
        if not toolbox:
            raise NotFound(f"Toolbox '{origin.toolbox}' is not open")
        return toolbox.server(origin.server)

    def answering(self, address: Address) -> Downstream:
        """The server of a tool; its toolbox is opened if need be, so that only the server is waited for."""
        toolbox = self._open.get(address.toolbox)
        if not toolbox:
            self.check(address)
            if not self._config.open_on_use:
                raise ToolboxNotOpen(address.toolbox, self._config.meta_tool_prefix + OPEN)
            toolbox = self.begin(address.toolbox)
        return toolbox.server(address.server)

    def close_all(self) -> None:
        """Close what is open; whoever still waits for a server is told that the workbench shuts down."""
        for name in list(self._open):
            self.close(name, "was closed as the workbench is shutting down")

    def close(self, name: str, how: str = "was closed") -> tuple[int, int]:
        """Close a toolbox; how many servers and tools went with it. Their processes end behind this.

        `how` is what those are told of its servers who wait for them.
        """
        self.configured(name)
        toolbox = self._open.pop(name, None)
        if not toolbox:
            return 0, 0
        gone = toolbox.retire(how)
        self._client.claims.release(name)
        if owners := self._owners[name]:  # without servers it is at its end already
            owners[-1].cancel()
        return gone

    def configured(self, name: str) -> config.Toolbox:
        """What the configuration says of a toolbox."""
        if found := self._config.toolboxes.get(name):
            return found
        raise NotFound(f"Toolbox '{name}' not found", nearest(name, self._config.toolboxes))

    def check(self, address: Address) -> None:
        """Whether there are such a toolbox and server: nothing is opened for a name that leads nowhere."""
        servers = self.configured(address.toolbox).servers
        if address.server not in servers:
            raise server_not_found(address.server, address.toolbox, servers)

    def begin(self, name: str) -> Toolbox:
        """Begin to open a toolbox, if it is not open, without waiting for it."""
        if name in self._open:
            return self._open[name]
        servers = self.configured(name).servers.values()
        chain = self._client.declared.chain
        toolbox = self._open[name] = Toolbox(
            name,
            [
                Downstream(
                    server,
                    name,
                    self._reach(server, name, chain),
                    self._config.restart,
                    self._client,
                    self._knowledge,
                )
                for server in servers
            ],
            opened=self._client.offers_changed,
        )
        owners = self._owners.setdefault(name, [])
        owner = asyncio.create_task(toolbox.run(after=tuple(owners)))
        owners.append(owner)
        owner.add_done_callback(owners.remove)
        return toolbox
