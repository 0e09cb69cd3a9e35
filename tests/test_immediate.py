"""Tier 2: work that begins and goes on at once, whatever it waits for."""

import asyncio
from collections.abc import Awaitable, Callable

from mcp_workbench import wire
from mcp_workbench.immediate import Outcome, Run
from mcp_workbench.wire import Answer

from .clock import a_few_turns, on_a_clock

YES = wire.result(b'"yes"')


class Diary:
    """A piece of work that waits for something, and what becomes of it."""

    def __init__(self, wait: Callable[[], Awaitable[object]]) -> None:
        self.entries: list[object] = []
        self._wait = wait

    async def work(self) -> None:
        self.entries.append("begun")
        try:
            self.entries.append(await self._wait())
        except asyncio.CancelledError:
            self.entries.append("cancelled")
        except KeyError as error:
            self.entries.append(error.args[0])

    def run(self) -> Run[None]:
        run = Run(self.work())
        run.go_on()
        return run


async def waiting_for(outcome: Outcome[Answer]) -> Answer:
    return await outcome


@on_a_clock
async def test_work_that_waits_for_nothing_is_done_when_it_was_begun() -> None:
    async def nothing() -> None:
        return None

    diary = Diary(nothing)
    diary.run()
    assert diary.entries == ["begun", None]


@on_a_clock
async def test_what_waits_for_an_outcome_goes_on_within_its_settling() -> None:
    loop = asyncio.get_running_loop()
    outcome: Outcome[Answer] = Outcome()
    diary = Diary(lambda: waiting_for(outcome))
    settled = loop.create_future()

    def settle() -> None:  # outside of every task, as what a transport calls
        diary.run()
        outcome.settle(YES)
        settled.set_result([*diary.entries])

    loop.call_soon(settle)
    assert await settled == ["begun", YES]


@on_a_clock
async def test_an_outcome_may_be_an_error_and_the_first_one_counts() -> None:
    outcome: Outcome[Answer] = Outcome()
    diary = Diary(lambda: waiting_for(outcome))
    asyncio.get_running_loop().call_soon(diary.run)
    await a_few_turns()
    outcome.fail(KeyError("lost"))
    outcome.settle(YES)
    assert diary.entries == ["begun", "lost"]


@on_a_clock
async def test_an_outcome_that_was_settled_before_is_there_at_once() -> None:
    outcome: Outcome[Answer] = Outcome()
    outcome.settle(YES)
    diary = Diary(lambda: waiting_for(outcome))
    diary.run()
    assert diary.entries == ["begun", YES]


@on_a_clock
async def test_a_task_can_wait_for_an_outcome_too() -> None:
    outcome: Outcome[Answer] = Outcome()
    task = asyncio.create_task(waiting_for(outcome))
    await a_few_turns()
    outcome.settle(YES)
    assert await task == YES


@on_a_clock
async def test_a_task_that_gave_up_waiting_does_not_mind_the_outcome() -> None:
    outcome: Outcome[Answer] = Outcome()
    task = asyncio.create_task(waiting_for(outcome))
    await a_few_turns()
    task.cancel()
    await a_few_turns()
    outcome.settle(YES)
    assert task.cancelled()


@on_a_clock
async def test_what_waits_for_something_of_asyncio_goes_on_in_a_task() -> None:
    outcome: Outcome[Answer] = Outcome()

    async def all_kinds() -> object:
        await asyncio.sleep(0)
        async with asyncio.timeout(1):  # needs a task
            await asyncio.sleep(0.5)
        return await outcome

    diary = Diary(all_kinds)
    diary.run()
    await asyncio.sleep(2)
    outcome.settle(YES)
    await a_few_turns()
    assert diary.entries == ["begun", YES]


@on_a_clock
async def test_an_error_of_what_is_waited_for_reaches_the_work_also_in_a_task() -> None:
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    async def wait() -> object:
        return await future

    diary = Diary(wait)
    diary.run()
    future.set_exception(KeyError("broken"))
    await a_few_turns()
    assert diary.entries == ["begun", "broken"]


@on_a_clock
async def test_work_is_cancelled_where_it_waits_for_an_outcome() -> None:
    outcome: Outcome[Answer] = Outcome()
    diary = Diary(lambda: waiting_for(outcome))
    runs: list[Run[None]] = []
    asyncio.get_running_loop().call_soon(lambda: runs.append(diary.run()))
    await a_few_turns()
    runs[0].cancel()
    assert diary.entries == ["begun", "cancelled"]
    outcome.settle(YES)
    runs[0].cancel()
    assert diary.entries == ["begun", "cancelled"]


@on_a_clock
async def test_work_is_cancelled_in_its_task_and_before_the_task_has_begun() -> None:
    for turns in (0, 1):
        diary = Diary(lambda: asyncio.sleep(60))
        run = diary.run()
        for _ in range(turns):
            await a_few_turns()
        run.cancel()
        await a_few_turns()
        assert diary.entries == ["begun", "cancelled"]


@on_a_clock
async def test_work_that_has_itself_cancelled_learns_it_at_its_next_wait() -> None:
    runs: list[Run[None]] = []

    async def cancel_myself() -> object:
        runs[0].cancel()
        return await asyncio.sleep(60, result="slept")

    diary = Diary(cancel_myself)
    runs.append(Run(diary.work()))
    runs[0].go_on()
    assert diary.entries == ["begun", "cancelled"]
