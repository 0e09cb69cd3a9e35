"""One open toolbox: its servers, each in a task of its own. To close it is to cancel its task."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from . import lifecycle
from .downstream import Down, Downstream, Ready
from .errors import NotFound, ServerUnavailable
from .naming import nearest
from .offers import TOOLS


def server_not_found(name: str, toolbox: str, servers: Collection[str]) -> NotFound:
    return NotFound(f"Server '{name}' not found in toolbox '{toolbox}'", nearest(name, servers))


class Toolbox:
    def __init__(self, name: str, servers: Sequence[Downstream], opened: Callable[[], None]) -> None:
        """`opened` is called when it is known what serves, so that clients hear of it once."""
        self.name = name
        self.is_open = False  # no more on its way
        self._servers = {server.name: server for server in servers}
        self._tell_opened = opened

    def __repr__(self) -> str:
        return f"<toolbox {self.name}: {list(self._servers.values())}>"

    async def run(self, after: Collection["asyncio.Task[None]"]) -> None:
        """Own the servers until cancelled, once the owners of earlier openings are `after` their end."""
        if after:
            await asyncio.wait(after)
        async with asyncio.TaskGroup() as owners:
            for server in self._servers.values():
                owners.create_task(server.run())
            await self.settled(lifecycle.OPENING_ANSWERS_WITHIN)
            self._tell_opened()

    def server(self, name: str) -> Downstream:
        if found := self._servers.get(name):
            return found
        raise server_not_found(name, self.name, self._servers)

    def try_again(self) -> None:
        """Ask for an attempt at each server that is down."""
        for server in self._servers.values():
            server.try_again()

    async def settled(self, within: float | None) -> None:
        """Wait until it is known of each server whether it serves; not longer than so many seconds.

        None: as long as each of them may take to start.
        """
        waits = [asyncio.ensure_future(server.settled()) for server in self._servers.values()]
        try:
            if waits:
                await asyncio.wait(waits, timeout=within)
        finally:
            for wait in waits:
                wait.cancel()
        self.is_open = True

    @property
    def servers(self) -> Collection[Downstream]:
        """All of its servers, in the order of the configuration."""
        return self._servers.values()

    def connected(self) -> list[tuple[Downstream, Ready]]:
        """Each server that serves, and what it does."""
        return [
            (server, server.state) for server in self._servers.values() if isinstance(server.state, Ready)
        ]

    def failures(self) -> list[str]:
        """What a person should know of the servers and tools that are not there."""
        told: list[str] = []
        for server in self._servers.values():
            match server.state:
                case Ready(left_out=left_out):
                    told += self._of_server(server, left_out)
                case Down(reason=reason):
                    told.append(str(ServerUnavailable(server.name, self.name, reason)))
                case _ if server.expected:
                    told += self._of_server(server, server.expected.left_out)
                case _:
                    doing = "installing" if server.installs else "starting"
                    told.append(
                        f"Server '{server.name}' in toolbox '{self.name}' is still {doing}; "
                        "its tools can be used as soon as it is ready"
                    )
        return told

    def _of_server(self, server: Downstream, told: Iterable[str]) -> list[str]:
        return [f"Server '{server.name}' in toolbox '{self.name}': {what}" for what in told]

    def retire(self, reason: str) -> tuple[int, int]:
        """Make everything in it uncallable; how many servers and tools that took away."""
        connected = len(self.connected())
        tools = sum(len(server.offered.get(TOOLS, ())) for server in self._servers.values())
        for server in self._servers.values():
            server.retire(reason)
        return connected, tools
