"""Starts servers once, has them list what they offer, and ends them: for commands, not for clients."""

import asyncio
import logging
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from .. import console
from ..client import Client
from ..config import Config
from ..downstream import Down, Downstream, Ready
from ..eras import Declared
from ..knowledge import NOTHING_SAID, Knowledge
from ..naming import Origin
from ..offers import TOOLS, Offer
from ..peer import Answering, Peer
from ..raw_json import Malformed, Payload
from ..transports import Transports
from ..wire import Answer
from ..workbench import Workbench

# So many at once: the machine has other things to do.
_TOOLBOXES_AT_ONCE: Final = 4
# Longer than the catalogue itself waits for others that write.
_WRITTEN_WITHIN: Final = 30.0


class Sight(msgspec.Struct, frozen=True):
    """What was seen of one server: what may be used of it, or why it could not be reached."""

    origin: Origin
    tools: Mapping[str, Offer] = {}
    instructions: Payload = NOTHING_SAID
    left_out: Sequence[str] = ()
    failure: str = ""

    @property
    def name(self) -> str:
        return self.origin.path

    @property
    def told_failure(self) -> str:
        """Why it could not be reached, each line of a server's own set apart from those of ours."""
        return self.failure.replace("\n", "\n    ")


class _Nobody:
    """Stands where a client would be: it asks nothing, and answers nothing."""

    def answer(self, method: str, params: Payload) -> Answering:
        raise NotImplementedError

    def failure(self, method: str, error: BaseException) -> Answer | None:
        raise NotImplementedError

    def told(self, method: str, params: Payload) -> None:
        pass

    def garbled(self, frame: Payload, why: Malformed) -> None:
        pass


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def wanted(configuration: Config, toolboxes: Collection[str]) -> list[Origin]:
    """The servers of these toolboxes; all where none is named."""
    return [it for it in configuration.servers() if not toolboxes or it.toolbox in toolboxes]


def see(place: str, configuration: Config, known: Knowledge, origins: Collection[Origin]) -> list[Sight]:
    """See these servers of the configuration at `place`."""
    from ..events import log_to_stderr

    log_to_stderr(logging.ERROR)  # what failed is told by whoever asked
    try:
        return asyncio.run(_see(place, _only(configuration, origins), known))
    finally:
        known.close(_WRITTEN_WITHIN)


def _only(configuration: Config, origins: Collection[Origin]) -> Config:
    toolboxes = {}
    for name, toolbox in configuration.toolboxes.items():
        servers = {key: server for key, server in toolbox.servers.items() if Origin(name, key) in origins}
        if servers:
            toolboxes[name] = replace(toolbox, servers=servers)
    return replace(configuration, toolboxes=toolboxes)


async def _see(place: str, configuration: Config, known: Knowledge) -> list[Sight]:
    transports = Transports(
        os.environ, os.path.dirname(place), private_networks=configuration.allow_private_networks
    )
    nobody = Client(Peer(lambda parts: None, _Nobody()), Declared(console.chain(place)), lambda: None)
    turn = asyncio.Semaphore(_TOOLBOXES_AT_ONCE)

    async def look(name: str) -> list[Sight]:
        async with turn:
            toolbox = bench.begin(name)
            await toolbox.settled(None)  # no client gives up: an installer may take its time
            seen = [_sight(server) for server in toolbox.servers]
            bench.close(name)
        return seen

    try:
        async with Workbench(configuration, transports.reach, nobody, known) as bench:
            seen = await asyncio.gather(*map(look, configuration.toolboxes))
    finally:
        await transports.close()
    return [sight for sights in seen for sight in sights]


def _sight(server: Downstream) -> Sight:
    match server.state:
        case Ready(offers=offers, instructions=instructions, left_out=left_out):
            return Sight(server.origin, offers[TOOLS], instructions, left_out)
        case Down(reason=reason):
            return Sight(server.origin, failure=reason)
    return Sight(server.origin, failure="it was still starting")
