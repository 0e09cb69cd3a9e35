"""How a link over pipes tells that its server is gone, and why, on a clock that the tests own."""

import asyncio
import itertools
from collections.abc import Callable
from typing import cast

import pytest

from mcp_workbench.pipes import ChildLink
from mcp_workbench.processes import Child

from .clock import now, on_a_clock

SOON = 0.2
NEVER = 10.0


class FakeChild:
    """Just its ends."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = loop.create_future()
        self.stdin_closed: asyncio.Future[None] = loop.create_future()
        self.is_ending = False


def linked() -> tuple[ChildLink, FakeChild, dict[str, Callable[[], None]]]:
    """A link, its child, and what may happen to this."""
    link, child = ChildLink((), lambda line: None), FakeChild()
    link.own(cast(Child, child))
    return (
        link,
        child,
        {
            "exit": lambda: child.exited.set_result(3),
            "stdout": lambda: link.heard(b""),
            "stdin": lambda: child.stdin_closed.set_result(None),
        },
    )


@pytest.mark.parametrize("order", [*itertools.permutations(("exit", "stdout", "stdin"))], ids=" ".join)
@pytest.mark.parametrize("pause", [0.0, SOON / 2])
@on_a_clock
async def test_a_server_that_exits_is_gone_for_that_in_whatever_order_it_shows(
    order: tuple[str, ...], pause: float
) -> None:
    link, _, happens = linked()
    for event in order:
        happens[event]()
        await asyncio.sleep(pause)
    assert await link.gone == "exited with code 3"


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (("exit",), "exited with code 3"),
        (("stdout",), "closed its stdout"),
        (("stdin",), "closed its stdin"),
        (("exit", "stdin"), "exited with code 3"),
        (("stdin", "exit"), "exited with code 3"),
        (("stdin", "stdout"), "closed its stdout"),
        (("stdout", "stdin"), "closed its stdout"),
    ],
)
@on_a_clock
async def test_without_all_of_its_ends_a_server_is_gone_soon_all_the_same(
    events: tuple[str, ...], reason: str
) -> None:
    link, _, happens = linked()
    began = now()
    for event in events:
        happens[event]()
        await asyncio.sleep(0)
    assert await link.gone == reason
    assert now() == began + 0.25


@on_a_clock
async def test_a_server_whose_stdin_we_close_is_not_gone_for_that() -> None:
    link, child, happens = linked()
    child.is_ending = True
    happens["stdin"]()
    await asyncio.sleep(NEVER)
    assert not link.gone.done()
