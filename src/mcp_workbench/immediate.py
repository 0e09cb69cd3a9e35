"""Work that begins and goes on at once, not in the loop's next round, which costs as much as a small call.

A `Run` is what a task is, for a coroutine that comes to its end by itself or waits for an `Outcome`. One that
waits for anything else is given to a task of asyncio's from there on, for good.
"""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_driven = False  # whether what runs now is driven by a Run, and not by a task


class Outcome(Generic[T]):
    """A value or an error that is to come. Who waits for it goes on within `settle` or `fail`; one may."""

    __slots__ = ("_error", "_value", "_waiter", "settled")
    _value: T

    def __init__(self) -> None:
        self.settled = False
        self._error: Exception | None = None
        self._waiter: Callable[[], None] | None = None

    def settle(self, value: T) -> None:
        """The first value or error counts."""
        if not self.settled:
            self._value = value
            self._wake()

    def fail(self, error: Exception) -> None:
        if not self.settled:
            self._error = error
            self._wake()

    def _wake(self) -> None:
        self.settled = True
        if waiter := self._waiter:
            self._waiter = None
            waiter()

    def then(self, waiter: Callable[[], None] | None) -> None:
        """Who is to go on, if anybody is."""
        self._waiter = waiter

    def __await__(self) -> Generator[Any, None, T]:
        if not self.settled:
            if _driven:
                yield self  # to the Run
            else:
                future = asyncio.get_running_loop().create_future()
                self._waiter = lambda: None if future.done() else future.set_result(None)
                yield from future
        if self._error:
            raise self._error
        return self._value


class Run:
    """A coroutine on its way. It may use `asyncio.timeout` and its like only once it has become a task."""

    __slots__ = ("_cancelled", "_task", "_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._waits_for: Outcome[Any] | None = None
        self._task: asyncio.Task[None] | None = None  # once it runs as one
        self._cancelled = False  # and does not know it yet

    def go_on(self) -> None:
        """Begin; or go on, after what was waited for."""
        self._step(self._work.send, None)

    def cancel(self) -> None:
        """Raise `CancelledError` where the work waits."""
        if self._waits_for:
            self._waits_for.then(None)
            self._step(self._work.throw, asyncio.CancelledError())
        elif self._task:
            self._task.cancel()
        else:
            self._cancelled = True

    def _step(self, resume: Callable[[Any], object], what: object) -> None:
        global _driven
        self._waits_for = None
        driven, _driven = _driven, True
        try:
            waits_for = resume(what)
            if self._cancelled:  # by what it did itself
                self._cancelled = False
                waits_for = self._work.throw(asyncio.CancelledError())
        except (StopIteration, asyncio.CancelledError):
            return
        finally:
            _driven = driven
        if isinstance(waits_for, Outcome):
            self._waits_for = waits_for
            waits_for.then(self.go_on)
        else:
            asyncio.get_running_loop().create_task(self._as_a_task(waits_for))

    async def _as_a_task(self, waits_for: object) -> None:
        self._task = asyncio.current_task()
        await _rest(self._work, waits_for, self._cancelled)


@types.coroutine
def _rest(
    work: Coroutine[Any, Any, None], waits_for: object, cancelled: bool
) -> Generator[object, None, None]:
    """What is left of the work: the task gets what it waits for, and it gets what the task brings."""
    try:
        if cancelled:
            waits_for = work.throw(asyncio.CancelledError())
        while True:
            try:
                yield waits_for
            except BaseException as error:
                waits_for = work.throw(error)
            else:
                waits_for = work.send(None)
    except StopIteration:
        return
