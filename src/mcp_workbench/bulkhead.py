"""What keeps the trouble of one task its own: errors told plainly, endings that are not left half done."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def innermost(error: BaseException) -> BaseException:
    """The first error in a group of errors, however deep; any other error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work that must not be left half done; being cancelled meanwhile counts when it is done."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            break
    if cancelled:
        raise cancelled
    task.result()
