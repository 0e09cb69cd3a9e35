"""What makes a server's entry this one: what is run or reached, without what may be secret. Pure.

Texts count as the file writes them, `${VAR}` unexpanded. Of variables and headers the names count, never the
values. Arguments and addresses count whole, since each part of them can decide what is run: a secret there
belongs into a variable. Time limits, filters and trust don't count: the server is the same with others.
"""

import re

from .. import raw_json
from ..config import Server
from .canonical import definition_hash

# Only what cannot end there by any reading of an address, so that no host hides in it.
_PASSWORD = r"(\A[a-z][a-z0-9+.-]*://[\w.~%-]*:)[^/\\?#@\[\]\s]*(?=@)"


def entry_identity(server: Server) -> bytes:
    """What of an entry is approved, as JSON. The lock has only its hash: arguments may be private."""
    if server.transport == "stdio":
        parts: dict[str, object] = {
            "command": server.command,
            "args": server.args,
            "env": sorted(name for name, value in server.env.items() if value is not None),
            "envTakenAway": sorted(name for name, value in server.env.items() if value is None),
            "cwd": server.cwd,
            "envFile": server.env_file,
        }
    else:
        url = re.sub(_PASSWORD, r"\1", server.url or "", flags=re.IGNORECASE)
        parts = {"url": url, "headers": sorted(server.headers)}
    return raw_json.encoded({"type": server.transport, **parts})


def entry_hash(server: Server) -> str:
    """The hash of what a server's entry runs or reaches."""
    return definition_hash(entry_identity(server))


def catalogue_key(toolbox: str, server: Server) -> str:
    """The key of a server of a toolbox, another one as soon as its entry runs or reaches something else."""
    origin = raw_json.encoded([toolbox, server.name])
    return definition_hash(b"[%b,%b]" % (origin, entry_identity(server)))
