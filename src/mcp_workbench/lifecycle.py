"""When servers are given up, restarted or waited for, and clients told. Pure: times in, decisions out.

How long a process may take to leave stands in `processes/children.py`, and what may wait unread in `stdio`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

CONNECT_WITHIN: Final = 60.0
INSTALL_WITHIN: Final = 120.0
CALL_WITHIN: Final = 60.0
CALL_AT_MOST: Final = 600.0
# Clients give up on a request after 60 s: an opening answers with what it has before that.
OPENING_ANSWERS_WITHIN: Final = 50.0
# Some clients wait for 30 s at most until they know all tools.
FIRST_LIST_WITHIN: Final = 25.0
RETRY_IS_NEAR: Final = 1.0
BETWEEN_LISTINGS: Final = 1.0
# What a server has just announced is waited for by who asks for it.
LISTED_ANEW_WITHIN: Final = 5.0
BETWEEN_ANNOUNCEMENTS: Final = 1.0
REQUESTS_FINISH_WITHIN: Final = 1.0

_INSTALLERS: Final = ("npx", "npm", "pnpm", "bunx", "uvx", "uv", "pipx")


class RestartPolicy(msgspec.Struct, frozen=True):
    """How soon a server that crashed is started again."""

    crashes: int = 5
    within: float = 180.0
    first_delay: float = 0.1
    longest_delay: float = 30.0
    probe_every: float = 60.0

    def delay(self, crashes: Sequence[float], now: float, jitter: float, before: float = 0.0) -> float:
        """Seconds until the next start: `first_delay`, doubled for each crash, times `jitter`.

        `jitter`, in [0, 1), spreads servers that fell together: a delay is anything below its bound.

        `before` is the delay before the life that ended, if it did not get to serve.
        """
        recent = len([at for at in crashes if now - at <= self.within])
        if recent >= self.crashes or before >= self.probe_every:
            return self.probe_every
        doubled = min(max(0, recent - 1), 64)  # more would not fit a float
        return jitter * min(self.first_delay * 2.0**doubled, self.longest_delay)


def installs(command: str) -> bool:
    """Whether this command may first have to fetch the server that it runs."""
    name = command.replace("\\", "/").rpartition("/")[2].lower()
    return name.removesuffix(".exe").removesuffix(".cmd") in _INSTALLERS


def connect_deadline(
    began: float,
    last_output: float | None,
    *,
    installing: bool,
    limit: float | None,
    request: float | None = None,
) -> float:
    """Until when a server may take to connect and list: longer while its installer still prints.

    `limit` is what was set for all of it, `request` for each request, which has to fit in.
    """
    if limit is not None:
        return began + limit
    within = max(CONNECT_WITHIN, request or 0.0)
    if installing and last_output is not None:
        return min(max(began, last_output) + within, began + max(INSTALL_WITHIN, within))
    return began + within
