"""What keeps large messages quick: they are not copied, and their memory is kept."""

import asyncio
import functools
from collections.abc import Sequence
from typing import Final

from .raw_json import Payload

LARGE: Final = 256 * 1024

_WORTH_JOINING: Final = 64 * 1024
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_KEPT: Final = 32 * 1024 * 1024


def write(transport: asyncio.WriteTransport, parts: Sequence[Payload]) -> None:
    """Write one line: a small one in one piece, a large one without copying it."""
    if sum(map(len, parts)) <= _WORTH_JOINING:
        transport.write(b"".join(parts))
    else:
        transport.writelines(parts)


@functools.cache
def keep_large_blocks() -> None:
    """From now on keep freed memory, up to 32 MiB of it, for the next large message.

    glibc gives a large block back to the kernel as soon as it is freed. To take it anew, page by page, was
    two thirds of the time of a 5 MB result.
    """
    import ctypes  # only where large messages come

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(_MMAP_THRESHOLD, _KEPT)
    mallopt(_TRIM_THRESHOLD, _KEPT)
