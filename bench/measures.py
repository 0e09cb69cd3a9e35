"""What is measured. Both sides take turns in short blocks: what else the machine does falls on both."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench import procs
from bench.client import Load, clock
from bench.sides import Direct, Ground, Side, ToolCall, Workbench, direct, greeted, least, opened

SMALL = ToolCall("echo", {"text": "hello"})
KB100 = ToolCall("big", {"n": 100_000})
MB5 = ToolCall("big", {"n": 5_000_000})
STEPS = 100
LONG = ToolCall("steps", {"n": STEPS}, progress_token=1)
ENDLESS = sys.maxsize


@dataclass(frozen=True)
class Plan:
    """How much of each is done, and for how many seconds at most."""

    starts: int = 20
    openings: int = 3
    small: int = 20_000
    small_block: int = 1_000
    long: int = 1_000
    kb100: int = 400
    mb5: int = 60
    flights: int = 60_000
    flights_block: int = 10_000
    streamed: int = 40
    many_calls: int = 100_000
    limit: float = 30.0


QUICK = Plan(
    starts=5,
    openings=1,
    small=2_000,
    small_block=500,
    long=100,
    kb100=60,
    mb5=12,
    flights=8_000,
    flights_block=2_000,
    streamed=5,
    many_calls=10_000,
    limit=10.0,
)


@dataclass(frozen=True)
class AtMost:
    bound: float

    def met_by(self, value: float) -> bool:
        return value <= self.bound

    def __str__(self) -> str:
        return f"≤ {self.bound:,g}"


@dataclass(frozen=True)
class AtLeast:
    bound: float

    def met_by(self, value: float) -> bool:
        return value >= self.bound

    def __str__(self) -> str:
        return f"≥ {self.bound:,.0f}"


@dataclass(frozen=True)
class Figure:
    """A value through the workbench; `reference` is the same without it, or what it is held against."""

    what: str
    unit: str
    value: float
    reference: float | None = None
    target: AtMost | AtLeast | None = None

    @property
    def met(self) -> bool | None:
        return self.target.met_by(self.value) if self.target else None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "target": str(self.target) if self.target else None, "met": self.met}


Measure = Callable[[Ground, Plan], Awaitable[list[Figure]]]


async def cold(ground: Ground, plan: Plan) -> list[Figure]:
    """From the start to the answer to `initialize`."""
    ours, imports = [], []
    for _ in range(plan.starts):
        start = clock()
        async with greeted(ground, 1):
            ours.append(clock() - start)
        imports.append(await seconds_to_import_asyncio())
    own, floor = median(ours), median(imports)
    return [
        Figure("start to initialize, p50", "ms", own * 1e3, floor * 1e3, AtMost(100)),
        Figure("… against `import asyncio`", "x", own / floor, None, AtMost(1.6)),
    ]


async def seconds_to_import_asyncio() -> float:
    start = clock()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import asyncio")
    await process.wait()
    return clock() - start


async def first(ground: Ground, plan: Plan) -> list[Figure]:
    """From the start to the first answer of the last of ten servers that are slow to start."""
    through, straight = [], []
    for _ in range(plan.openings):
        start = clock()
        async with direct(ground, 10, sleep_ms=300) as side:
            await block(side, SMALL, 1, plan, server=9)
            straight.append(clock() - start)
        start = clock()
        async with opened(ground, 10, sleep_ms=300) as side:
            await block(side, SMALL, 1, plan, server=9)
            through.append(clock() - start)
    ours, theirs = median(through), median(straight)
    return [
        Figure("first answer, 10 servers, p50", "ms", ours * 1e3, theirs * 1e3),
        Figure("… against direct", "x", ours / theirs, None, AtMost(1.3)),
    ]


async def small(ground: Ground, plan: Plan) -> list[Figure]:
    """Small calls one at a time: the time that is added, and what they cost."""
    async with direct(ground, 1) as straight, opened(ground, 1) as through, opened(least(ground), 1) as floor:
        turns = await take_turns(straight, through, SMALL, plan.small, plan.small_block, plan)
        least_turns = await take_turns(straight, floor, SMALL, plan.small // 2, plan.small_block, plan)
    return [
        Figure("small call, p50", "ms", turns.through_p50 * 1e3, turns.direct_p50 * 1e3),
        Figure("added to a small call, p50", "ms", turns.added_p50 * 1e3, None, AtMost(0.035)),
        Figure("… by the least relay", "ms", least_turns.added_p50 * 1e3),
        Figure("CPU a call", "µs", turns.cpu_per_call * 1e6, None, AtMost(50)),
        Figure("… of the least relay", "µs", least_turns.cpu_per_call * 1e6),
    ]


async def native(ground: Ground, plan: Plan) -> list[Figure]:
    """Small calls one at a time by native names, in dynamic mode."""
    async with direct(ground, 1) as straight, opened(ground, 1, native=True) as through:
        turns = await take_turns(straight, through, SMALL, plan.small, plan.small_block, plan)
    return [
        Figure("native call, p50", "ms", turns.through_p50 * 1e3, turns.direct_p50 * 1e3),
        Figure("added to a native call, p50", "ms", turns.added_p50 * 1e3, None, AtMost(0.042)),
        Figure("CPU a native call", "µs", turns.cpu_per_call * 1e6, None, AtMost(60)),
    ]


async def progress(ground: Ground, plan: Plan) -> list[Figure]:
    """Calls with 100 notifications of progress before the answer, one at a time."""
    async with direct(ground, 1) as straight, opened(ground, 1) as through:
        turns = await take_turns(straight, through, LONG, plan.long, plan.long // 10, plan)
    messages = STEPS + 1
    added, cpu = turns.added_p50 / messages, turns.cpu_per_call / messages
    return [
        Figure("call with 100 × progress, p50", "ms", turns.through_p50 * 1e3, turns.direct_p50 * 1e3),
        Figure("added to each message of it, p50", "ms", added * 1e3, None, AtMost(0.042)),
        Figure("CPU a message of it", "µs", cpu * 1e6, None, AtMost(60)),
    ]


async def large(ground: Ground, plan: Plan) -> list[Figure]:
    """Large results one at a time."""
    async with direct(ground, 1) as straight, opened(ground, 1) as through:
        kb100 = await take_turns(straight, through, KB100, plan.kb100, plan.kb100 // 10, plan)
        mb5 = await take_turns(straight, through, MB5, plan.mb5, plan.mb5 // 6, plan)
    return [
        Figure("100 KB result, p50", "ms", kb100.through_p50 * 1e3, kb100.direct_p50 * 1e3),
        Figure("5 MB result, p50", "ms", mb5.through_p50 * 1e3, mb5.direct_p50 * 1e3, AtMost(6)),
    ]


async def throughput(ground: Ground, plan: Plan) -> list[Figure]:
    """Small calls, 32 in flight."""
    rates: dict[str, list[float]] = {"direct": [], "through": []}
    async with direct(ground, 1) as straight, opened(ground, 1) as through:
        for _ in range(plan.flights // plan.flights_block):
            for name, side in (("direct", straight), ("through", through)):
                start = clock()
                done = await block(side, SMALL, plan.flights_block, plan, width=32)
                rates[name].append(len(done) / (clock() - start))
    ours, theirs = median(rates["through"]), median(rates["direct"])
    return [Figure("32 in flight", "calls/s", ours, theirs, AtLeast(20_000))]


async def neighbour(ground: Ground, plan: Plan) -> list[Figure]:
    """Small calls to one server while another streams large results."""
    async with direct(ground, 2) as straight, opened(ground, 2) as through:
        theirs, ours = [], []
        for _ in range(5):
            theirs += await beside_a_stream(straight, plan)
            ours += await beside_a_stream(through, plan)
    return [
        Figure("small call beside 5 MB results, p50", "ms", median(ours) * 1e3, median(theirs) * 1e3),
        Figure("small call beside 5 MB results, p99", "ms", p99(ours) * 1e3, p99(theirs) * 1e3, AtMost(8)),
    ]


async def beside_a_stream(side: Side, plan: Plan) -> list[float]:
    """As many small calls as there is time for while the stream lasts."""
    calls = Load(side.call(0, SMALL), ENDLESS, limit=plan.limit)
    calling = asyncio.ensure_future(calls.run())
    try:
        await block(side, MB5, plan.streamed, plan, server=1)
    finally:
        calls.stop()
    return await calling


async def memory(ground: Ground, plan: Plan) -> list[Figure]:
    """Resident memory with ten servers open, before and after many calls."""
    async with opened(ground, 10) as workbench:
        idle = procs.rss_mb(workbench.processes())
        # The first calls fill caches and pools; what grows after them is a leak.
        await block(workbench, SMALL, plan.many_calls // 20, plan, width=32)
        warm = procs.rss_mb(workbench.processes())
        done = await block(workbench, SMALL, plan.many_calls, plan, width=32)
        grown = procs.rss_mb(workbench.processes()) - warm
    return [
        Figure("RSS idle, 10 servers open", "MB", idle, None, AtMost(28)),
        Figure(f"… growth over {len(done):,} calls", "MB", grown, None, AtMost(0.5)),
    ]


MEASURES: dict[str, Measure] = {
    measure.__name__: measure
    for measure in (cold, first, small, native, progress, large, throughput, neighbour, memory)
}


# Blocks of calls


@dataclass(frozen=True)
class Turns:
    """The times of both sides by block, direct first, and the workbench's CPU time in its own blocks."""

    blocks: Sequence[tuple[list[float], list[float]]]
    cpu: float

    @property
    def direct_p50(self) -> float:
        return median(seconds for theirs, _ in self.blocks for seconds in theirs)

    @property
    def through_p50(self) -> float:
        return median(seconds for _, ours in self.blocks for seconds in ours)

    @property
    def added_p50(self) -> float:
        return median(median(ours) - median(theirs) for theirs, ours in self.blocks)

    @property
    def cpu_per_call(self) -> float:
        return self.cpu / sum(len(ours) for _, ours in self.blocks)


async def take_turns(
    straight: Direct, through: Workbench, call: ToolCall, count: int, size: int, plan: Plan
) -> Turns:
    for side in (straight, through):
        await block(side, call, size // 5 + 1, plan)
    processes = through.processes()
    blocks: list[tuple[list[float], list[float]]] = []
    cpu = 0.0
    until = clock() + plan.limit
    while len(blocks) * size < count and clock() < until:
        theirs = await block(straight, call, size, plan)
        before = procs.cpu_seconds(processes)
        ours = await block(through, call, size, plan)
        cpu += procs.cpu_seconds(processes) - before
        blocks.append((theirs, ours))
    return Turns(blocks, cpu)


async def block(
    side: Side, call: ToolCall, count: int, plan: Plan, *, server: int = 0, width: int = 1
) -> list[float]:
    return await Load(side.call(server, call), count, width=width, limit=plan.limit).run()


def p99(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[int(len(ordered) * 0.99)]
