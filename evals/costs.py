"""What a search costs in time and memory."""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from evals.rankers import Servers, filled
from mcp_workbench.search.index import Index
from mcp_workbench.search.shipped import shipped_table

COLD = """
import time
from mcp_workbench.search.index import Index
from mcp_workbench.search.shipped import shipped_table

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

before, begun = resident(), time.perf_counter()
table = shipped_table()
took = time.perf_counter() - begun
print(took, resident() - before)
"""


@dataclass(frozen=True)
class Costs:
    tools: int
    put: float  # seconds
    first_search: float
    mean_search: float
    p95_search: float
    change: float  # one server is put anew, and searched


def measured(servers: Servers, queries: Sequence[str]) -> Costs:
    begun = time.perf_counter()
    index = filled(Index(shipped_table), servers)
    put = time.perf_counter() - begun
    first = timed(index, "read a file")
    each = sorted(timed(index, query) for query in queries)
    begun = time.perf_counter()
    index.put(*next(iter(servers.items())))
    index.search("read a file", 8)
    change = time.perf_counter() - begun
    return Costs(len(index), put, first, mean(each), each[len(each) * 95 // 100], change)


def timed(index: Index, query: str) -> float:
    begun = time.perf_counter()
    index.search(query, 8)
    return time.perf_counter() - begun


def cold() -> tuple[float, int]:
    """Seconds and KiB that loading the table takes in a new process, where there is /proc."""
    told = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True).stdout
    seconds, memory = told.split()
    return float(seconds), int(memory)
