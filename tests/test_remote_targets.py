"""What is connected to where private networks are not allowed, whatever a name leads to."""

import asyncio
from typing import Any

import httpcore2
import httpx2
import pytest

from mcp_workbench.remote.targets import Forbidden, PublicTransport

PUBLIC, PRIVATE, LOCAL = "93.184.216.34", "10.0.0.1", "127.0.0.1"


class Network:
    """Resolves every name to the next of these lists of addresses, and connects to nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *resolved: list[str]) -> None:
        self._resolved = [*resolved]
        self.connected: list[str] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self._resolve)
        monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", self._connect)

    async def _resolve(self, host: str, port: int, **_: Any) -> list[Any]:
        return [(2, 1, 6, "", (address, port)) for address in self._resolved.pop(0)]

    async def _connect(self, host: str, port: int, **_: Any) -> None:
        self.connected.append(host)
        raise httpcore2.ConnectError("nobody there")


async def reach(host: str = "example.com") -> BaseException | None:
    """Why a request could not be sent."""
    async with PublicTransport(httpx2.create_ssl_context(), httpx2.Limits()) as transport:
        with pytest.raises(httpx2.ConnectError) as failed:
            await transport.handle_async_request(httpx2.Request("GET", f"http://{host}/"))
    return failed.value.__cause__


async def test_the_address_that_was_looked_at_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, [PUBLIC], [LOCAL])  # the name leads elsewhere when it is asked again
    assert not isinstance(await reach(), Forbidden)
    assert network.connected == [PUBLIC]


@pytest.mark.parametrize("addresses", [[PRIVATE], [LOCAL, PRIVATE], ["::ffff:10.0.0.1"], ["fe80::1%eth0"]])
async def test_a_name_that_leads_only_to_private_addresses_is_refused(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(monkeypatch, addresses)
    assert isinstance(await reach(), Forbidden)
    assert network.connected == []


async def test_of_several_addresses_only_the_public_ones_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, [PRIVATE, PUBLIC, "8.8.8.8", LOCAL])
    assert not isinstance(await reach(), Forbidden)
    assert network.connected == [PUBLIC, "8.8.8.8"]


async def test_a_name_that_leads_nowhere_is_no_reason_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, [])
    assert not isinstance(await reach(), Forbidden)
    assert network.connected == []
