"""How servers are reached: over the pipes of a process, or over HTTP. Their entries are filled in here."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from . import expansion
from .config import Server, server_place
from .errors import MissingEnv, UnusableValue
from .events import log
from .expansion import Launch
from .link import CannotConnect, Connect, Link, Requests
from .pipes import Pipes

if TYPE_CHECKING:
    from .env_files import EnvFiles
    from .remote.ways import Remote


class Transports:
    """Reaches servers; what that takes of this machine and this run is kept here."""

    def __init__(self, environment: Mapping[str, str], folder: str, *, private_networks: bool = True) -> None:
        """`private_networks`: whether remote servers may be there."""
        self._environment = environment
        self._folder = folder
        self._private_networks = private_networks
        self._pipes = Pipes(folder)
        self._remote: Remote | None = None
        self._env_files: EnvFiles | None = None
        self._paused = False

    def reach(self, server: Server, toolbox: str, chain: str) -> Connect:
        async def connect(receive: Callable[[bytes], None], requests: Requests) -> Link:
            launch = await self._launch(server, toolbox)
            if server.transport == "stdio":
                return await self._pipes.link(launch, chain, receive)
            return self._over_http().link(server.transport, launch, receive, requests)

        return connect

    def _over_http(self) -> "Remote":
        if self._remote is None:
            from .remote.ways import Remote  # half of a session's memory: only where a server is remote

            self._remote = Remote(private_networks=self._private_networks)
            if self._paused:
                self._remote.flow.pause()
        return self._remote

    async def _launch(self, server: Server, toolbox: str) -> Launch:
        place = server_place(toolbox, server.name)
        settings = await self._settings(server.env_file) if server.env_file else None
        try:
            launch = expansion.expand(server, self._environment, place, settings, windows=os.name == "nt")
        except (MissingEnv, UnusableValue) as error:
            raise CannotConnect(str(error)) from None
        for warning in launch.warnings:
            log.warning("%s", warning)
        return launch

    async def _settings(self, env_file: str) -> str:
        if self._env_files is None:
            from .env_files import EnvFiles  # few servers have one

            self._env_files = EnvFiles()
        try:
            return await self._env_files.read(os.path.join(self._folder, env_file))
        except (OSError, ValueError) as error:
            raise CannotConnect(f"envFile '{env_file}' cannot be read: {error}") from None

    def pause(self) -> None:
        """Read nothing from any server for now: the client does not take what it gets."""
        self._paused = True
        self._pipes.pause()
        if self._remote:
            self._remote.flow.pause()

    def resume(self) -> None:
        self._paused = False
        self._pipes.resume()
        if self._remote:
            self._remote.flow.resume()

    async def close(self) -> None:
        await self._pipes.close()
