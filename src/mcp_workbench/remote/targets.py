"""Connects to public addresses alone: a name is resolved once, and what was looked at is connected to."""

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

from . import addresses


class Forbidden(httpcore2.ConnectError):
    """Nothing was connected to, and won't be at the next attempt."""


class PublicTransport(httpx2.AsyncHTTPTransport):
    """One that reaches nothing on private networks, whatever names lead there."""

    def __init__(self, verify: Any, limits: httpx2.Limits) -> None:
        super().__init__(verify=verify, limits=limits)
        # Its own pool connects to whatever a name is resolved to; it has no setting for another way.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=verify,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_PublicNetwork(),
        )


class _PublicNetwork(httpcore2.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as the library has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                return await self._connect(host, port, socket_options)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None

    async def _connect(
        self, host: str, port: int, socket_options: Iterable[Any] | None
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception | None = None
        forbidden: Exception = httpcore2.ConnectError("its name leads to no address")
        for address in await _resolved(host, port):
            if why := addresses.refusal(address):
                forbidden = Forbidden(
                    f"{host} is {why} ({address}), "
                    'and "allowPrivateNetworks": false keeps the workbench from those'
                )
                continue
            try:
                return await self._network.connect_tcp(address, port, socket_options=socket_options)
            except httpcore2.ConnectError as error:
                failure = error
        raise failure or forbidden


async def _resolved(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError(error) from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
