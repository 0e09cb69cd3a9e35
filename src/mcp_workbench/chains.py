"""The chain of workbenches that leads to this one, so that none is started through itself. Pure.

A chain is text, ids with commas between, the outermost first and ours last. Servers are told it by their
environment, and when they are greeted, since `ssh` or `docker` pass no environment on.
"""

from typing import Final

import msgspec
from msgspec import UnsetType

from . import raw_json
from .raw_json import Malformed, Payload

VARIABLE: Final = "MCP_WORKBENCH_CHAIN"
META: Final = "mcp-workbench/chain"

_LONGEST: Final = 8


class Ring(Exception):
    """The chain would come back to a workbench that is in it already, or has no end."""


def extended(chain: str, own_id: str) -> str:
    """The chain that leads to us, with us at its end. Raises `Ring`."""
    links = chain.split(",") if chain else []
    if own_id in links:
        raise Ring(
            "this workbench is listed in itself, directly or through another server; take that entry out"
        )
    if len(links) >= _LONGEST:
        raise Ring(f"more than {_LONGEST} workbenches are listed in each other; take some out")
    return ",".join([*links, own_id])


def as_the_client_knows(chain: str, meta: Payload | UnsetType) -> str:
    """Our chain, with the links before it that only the client's greeting has. Raises `Ring`, `Malformed`."""
    told = raw_json.members_if_any(meta).get(META, b'""')
    try:
        before = [link for link in msgspec.json.decode(told, type=str).split(",") if link]
    except msgspec.DecodeError as error:
        raise Malformed(f"{META}: {error}") from None
    *ours, own_id = chain.split(",")
    return extended(",".join([*(link for link in before if link not in ours), *ours]), own_id)
