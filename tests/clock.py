"""An event loop whose time passes only when nothing else is left to do: an hour's wait takes no time.

A test that waits for what will never happen fails at once, and so does one that lets an exception escape.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")


class Stuck(AssertionError):
    """Every task waits, and nothing is due."""


class _Selector(selectors.SelectSelector):
    now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if ready := super().select(0):
            return ready
        if timeout is None:
            raise Stuck("every task waits, and nothing is due")
        self.now += max(0.0, timeout)
        return []


class ClockLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        self.escaped: list[dict[str, Any]] = []
        super().__init__(self._clock)
        self.set_exception_handler(lambda _, context: self.escaped.append(context))

    def time(self) -> float:
        return self._clock.now


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run the work to its end on a clock of its own; nothing may escape from it."""
    loop = ClockLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)
    assert not loop.escaped, loop.escaped


def on_a_clock(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @functools.wraps(test)
    def sync(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return sync


def now() -> float:
    return asyncio.get_running_loop().time()


async def until(condition: Callable[[], object], turns: int = 200) -> None:
    """Let the others have their turns until this holds; no time passes."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("this never came to hold")


async def a_few_turns() -> None:
    """Let whoever can go on do so; no time passes."""
    for _ in range(20):
        await asyncio.sleep(0)
