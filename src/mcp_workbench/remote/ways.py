"""Which way a remote server is spoken to, and what all that are have in common."""

from collections.abc import Callable

from ..config import Transport
from ..expansion import Launch
from ..link import Link, Requests
from .links import Flow
from .streamable import StreamableLink
from .two_channels import TwoChannelLink
from .web import Web


class Remote:
    def __init__(self, *, private_networks: bool) -> None:
        """`private_networks`: whether addresses there may be connected to."""
        self._private_networks = private_networks
        self.flow = Flow()

    def link(
        self, transport: Transport, launch: Launch, receive: Callable[[bytes], None], requests: Requests
    ) -> Link:
        web = Web(launch.url or "", launch.headers, launch.secrets, private_networks=self._private_networks)
        way = TwoChannelLink if transport == "sse" else StreamableLink
        return way(web, receive, requests, self.flow)
