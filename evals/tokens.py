"""`python -m evals.tokens --data FOLDER`: what being told of tools costs an agent, up to a first right call.

The folder has `tools.jsonl` (server, category, tool, description, inputSchema) and `queries.jsonl` (query,
relevant).
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean

from evals.signatures import Row, compact, offer, openings, rows
from mcp_workbench.config import Config, Server, Toolbox
from mcp_workbench.counting import counter
from mcp_workbench.metatools import definitions, forms
from mcp_workbench.naming import Origin
from mcp_workbench.schemas.signatures import signature
from mcp_workbench.search.index import Hit, Index
from mcp_workbench.search.shipped import shipped_table

CALLS = forms.Calls(definitions.USE, definitions.DESCRIBE)
AT_START = {"category": 400, "server": 1_700}  # by what the toolboxes are made of
A_SEARCH = 600
A_FIRST_CALL = 750
# An agent that does not see what it needs asks for more, so often.
PAGES = (8, 16, 32, 50)

Count = Callable[[str], int]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m evals.tokens", description="What an agent is told costs it."
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="a folder with tools.jsonl and queries.jsonl"
    )
    folder = parser.parse_args().data
    tools, queries = rows(folder / "tools.jsonl"), rows(folder / "queries.jsonl")
    count, exact = counter()
    print(f"Tokens are {'counted with o200k_base' if exact else 'estimated'}.\n")
    told = [openings(tools, count)]
    for grouping, target in AT_START.items():
        told += measured(tools, queries, grouping, target, count)
    return 0 if all(told) else 1


def measured(
    tools: Sequence[Row],
    queries: Sequence[Row],
    grouping: str,
    target: int,
    count: Count,
) -> Iterator[bool]:
    config = configured(tools, grouping)
    counts = {name: sum(row[grouping] == name for row in tools) for name in config.toolboxes}
    start = at_start(config, counts, count)
    index = filled(tools, grouping)
    answers = sorted(count(text) for text, _ in searched(index, queries))
    first = [start + spent for spent in first_calls(index, queries, count)]
    for what, value, bound in (
        (f"{len(config.toolboxes)} toolboxes, at start", start, target),
        ("  an answer to a search, p95", answers[math.ceil(0.95 * len(answers)) - 1], A_SEARCH),
        ("  to the first right call, mean", round(mean(first)), A_FIRST_CALL),
        ("  … without what is told at the start", round(mean(first)) - start, A_FIRST_CALL),
    ):
        print(f"{what:40}{value:>8,}  ≤ {bound:,}: {'yes' if value <= bound else 'NO'}")
        yield value <= bound


def configured(tools: Sequence[Row], grouping: str) -> Config:
    toolboxes: dict[str, Toolbox] = {}
    for row in tools:
        about = f"{row['category']} tools"
        box = toolboxes.setdefault(row[grouping], Toolbox(row[grouping], about, {}))
        box.servers[row["server"]] = Server(name=row["server"], transport="stdio", command="x")
    return Config(toolboxes=toolboxes)


def at_start(config: Config, counts: dict[str, int], count: Count) -> int:
    listing = definitions.instructions(config.toolboxes.values(), counts)
    own = definitions.meta_tools(config, searchable=definitions.is_searchable(config, sum(counts.values())))
    return count(listing) + count(f"[{','.join(definition.decode() for definition in own.values())}]")


def filled(tools: Sequence[Row], grouping: str) -> Index:
    index = Index(shipped_table)
    servers: dict[Origin, list[Row]] = {}
    for row in tools:
        servers.setdefault(Origin(row[grouping], row["server"]), []).append(row)
    for origin, those in servers.items():
        index.put(origin, [offer(row) for row in those], f"{those[0]['category']} tools")
    return index


def searched(
    index: Index, queries: Sequence[Row], most: int = forms.MOST_FOUND
) -> Iterator[tuple[str, list[Hit]]]:
    for row in queries:
        hits = index.search(row["query"], most)
        yield forms.search_text([(hit.origin, hit.tool) for hit in hits], len(index), 0, CALLS), hits


def first_calls(index: Index, queries: Sequence[Row], count: Count) -> Iterator[int]:
    """Search, more of it where nothing right is found, describe what was not told whole, call."""
    for row in queries:
        spent = 0
        for most in PAGES:
            asked = {"query": row["query"]} | ({"limit": most} if most > forms.MOST_FOUND else {})
            ((text, hits),) = searched(index, [row], most)
            spent += count(compact({"name": definitions.SEARCH, "arguments": asked})) + count(text)
            right = [
                at for at, hit in enumerate(hits) if f"{hit.origin.server}/{hit.tool.name}" in row["relevant"]
            ]
            if right:
                spent += described_and_called(hits[right[0]], right[0], count)
                break
        yield spent


def described_and_called(hit: Hit, place: int, count: Count) -> int:
    address = {"toolbox": hit.origin.toolbox, "server": hit.origin.server, "tool": hit.tool.name}
    called = count(compact({"name": definitions.USE, "arguments": {"tool": address, "arguments": {}}}))
    if place < forms.MOST_SIGNED and not signature(hit.tool.definition).lossy:
        return called
    asked = count(compact({"name": definitions.DESCRIBE, "arguments": {"tools": [address]}}))
    return called + asked + count(forms.describe_text([(hit.origin, hit.tool)]))


if __name__ == "__main__":
    sys.exit(main())
