"""Work that begins and goes on at once, not in the loop's next round, which costs as much as a small call.

An `Outcome` is what a future is, a `Run` what a task is. A `Run` drives a coroutine that comes to its end by
itself or waits for an `Outcome`. One that waits for anything else is given to a task of asyncio's from there
on, for good.
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
        self._error: BaseException | None = None
        self._waiter: Callable[[], None] | None = None

    def settle(self, value: T) -> None:
        """The first value or error counts."""
        if not self.settled:
            self._value = value
            self._wake()

    def fail(self, error: BaseException) -> None:
        if not self.settled:
            self._error = error
            self._wake()

    def cancel(self) -> None:
        """Nobody wants it any more: it ends with `CancelledError`."""
        self.fail(asyncio.CancelledError())

    def _wake(self) -> None:
        self.settled = True
        if waiter := self._waiter:
            self._waiter = None
            waiter()

    def then(self, waiter: Callable[[], None]) -> None:
        """Who is to go on, at once if it is settled."""
        if self.settled:
            waiter()
        else:
            self._waiter = waiter

    def result(self) -> T:
        """The value, or the error raised, once it is settled."""
        if self._error:
            raise self._error
        return self._value

    def __await__(self) -> Generator[Any, None, T]:
        if not self.settled:
            try:
                if _driven:
                    yield self  # to the Run
                else:
                    future = asyncio.get_running_loop().create_future()
                    self._waiter = lambda: None if future.done() else future.set_result(None)
                    yield from future
            except asyncio.CancelledError:
                self._waiter = None
                self.cancel()
                raise
        return self.result()


class Run(Outcome[T]):
    """A coroutine on its way, and what it comes to.

    It may use `asyncio.timeout` and its like only once it has become a task.
    """

    __slots__ = ("_cancelled", "_task", "_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self._work = work
        self._waits_for: Outcome[Any] | None = None
        self._task: asyncio.Task[None] | None = None  # once it runs as one
        self._cancelled = False  # and does not know it yet

    def go_on(self) -> None:
        """Begin; or go on, after what was waited for."""
        self._step(self._work.send, None)

    def cancel(self) -> None:
        """Raise `CancelledError` where the work waits; it comes to its end when the work does."""
        if self._waits_for:
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
        except StopIteration as done:
            _driven = driven
            self.settle(done.value)
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            _driven = driven
            self.fail(error)
        else:
            _driven = driven
            self._wait_for(waits_for)

    def _wait_for(self, what: object) -> None:
        if isinstance(what, Outcome):
            self._waits_for = what
            what.then(self.go_on)
        else:
            asyncio.get_running_loop().create_task(self._as_a_task(what))

    async def _as_a_task(self, waits_for: object) -> None:
        self._task = asyncio.current_task()
        try:
            self.settle(await _rest(self._work, waits_for, self._cancelled))
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            self.fail(error)


@types.coroutine
def _rest(work: Coroutine[Any, Any, T], waits_for: object, cancelled: bool) -> Generator[object, None, T]:
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
    except StopIteration as done:
        value: T = done.value
        return value
