"""`python -m evals --data FOLDER`: how often the right tool is found, by ingredient, and what it costs."""

import argparse
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import mean

from evals import costs, rankers
from evals.judging import Data, Judged, Ranker, difference, halves, judged, load, overall
from mcp_workbench.search.index import Index
from mcp_workbench.search.shipped import installed_embedder, shipped_table
from mcp_workbench.search.spaces import Embedder
from mcp_workbench.search.words import stems

MANY = 5_000
DEFAULT = "+ word meanings (the default)"

Makers = dict[str, Callable[[], Ranker]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evals", description="Judge what search_tools finds.")
    parser.add_argument(
        "--data", type=Path, required=True, help="a folder with tools.jsonl and queries.jsonl"
    )
    parser.add_argument("--no-costs", action="store_true", help="leave out time and memory")
    options = parser.parse_args()
    data = load(options.data)
    print(
        f"{len(data.tools)} tools, {len(data.queries)} queries; hit@5 of each set, then means of the sets\n"
    )
    print_quality(data)
    if not options.no_costs:
        print_costs(data)
    return 0


def print_quality(data: Data) -> None:
    embedder, cache = installed_embedder(), dict[str, bytes]()
    if embedder is None:
        print("(the extra [semantic] is not installed: without it)\n")
    sets = list(dict.fromkeys(query.set for query in data.queries))
    print(f"{'':40}" + "".join(f"{name:>8}" for name in [*sets, "hit@5", "hit@3", "hit@1", "mrr"]))

    def shown(kinds: Makers) -> dict[str, Judged]:
        results = {}
        for name, make in kinds.items():
            results[name] = judged(make(), data.queries)
            print_row(name, results[name], sets)
        return results

    shown(alone(data, embedder, cache))
    steps = shown(together(data, embedder, cache))
    others = shown(alternatives(data))
    print(f"\n{'each step against the one before':40}{'hit@5':>26}{'mrr':>26}")
    for (_, before), (name, after) in pairwise(steps.items()):
        print_difference(name, before, after)
    print("\nothers against the default")
    for name, other in others.items():
        print_difference(name, steps[DEFAULT], other)
    print(f"\n{'hit@5 on two random halves':40}{'one':>8}{'other':>8}")
    for name, result in steps.items():
        one, other_half = halves(result.hit5)
        print(f"{name:40}{one:8.3f}{other_half:8.3f}")


def print_row(name: str, result: Judged, sets: list[str]) -> None:
    figures = [mean(result.hit5[each]) for each in sets]
    figures += [overall(of) for of in (result.hit5, result.hit3, result.hit1, result.reciprocal_rank)]
    print(f"{name:40}" + "".join(f"{figure:8.3f}" for figure in figures), flush=True)


def print_difference(name: str, before: Judged, after: Judged) -> None:
    by_rank = difference(before.reciprocal_rank, after.reciprocal_rank)
    print(f"{name:40}{difference(before.hit5, after.hit5)!s:>26}{by_rank!s:>26}")


def alone(data: Data, embedder: Embedder | None, cache: dict[str, bytes]) -> Makers:
    made: Makers = {"word meanings alone": lambda: rankers.word_meanings_alone(data.tools)}
    if embedder:
        made["sentences alone"] = lambda: rankers.sentences_alone(data.tools, embedder, cache)
    return made


def together(data: Data, embedder: Embedder | None, cache: dict[str, bytes]) -> Makers:
    boxes = rankers.servers_of(data.tools, "category")
    made: Makers = {
        "words in one text": lambda: rankers.plain(data.tools, rankers.as_written),
        "+ stems": lambda: rankers.plain(data.tools, stems),
        "+ fields": lambda: rankers.searched(rankers.filled(Index(), boxes)),
        DEFAULT: lambda: rankers.searched(rankers.filled(Index(shipped_table), boxes)),
    }
    if embedder:
        made["+ sentences (with [semantic])"] = lambda: rankers.searched(
            rankers.learnt(rankers.filled(Index(shipped_table), boxes), embedder, cache)
        )
    return made


def alternatives(data: Data) -> Makers:
    boxes = rankers.servers_of(data.tools, "category")
    about = {tool["server"]: tool["server_description"] for tool in data.tools}
    single = rankers.servers_of(data.tools, "server")
    made: Makers = {
        "each server a toolbox with a description": lambda: rankers.searched(
            rankers.filled(Index(shipped_table), single, about)
        ),
        "without stems": lambda: rankers.with_stems(boxes, rankers.as_written),
    }
    if snowball := rankers.snowball():
        made["with the stems of snowballstemmer"] = lambda: rankers.with_stems(boxes, snowball)
    return made


def print_costs(data: Data) -> None:
    seconds, memory = costs.cold()
    print(f"\nloading the table: {1000 * seconds:.0f} ms, {memory / 1024:.1f} MiB")
    queries = [query.text for query in data.queries]
    print(f"{'tools':>6}{'index':>9}{'+ first search':>16}{'a search':>11}{'p95':>9}{'a change':>12}")
    for count in (len(data.tools), MANY):
        servers = rankers.servers_of(list(rankers.many(data.tools, count)), "category")
        found = costs.measured(servers, queries)
        print(
            f"{found.tools:6}{found.put:7.2f} s{found.first_search:14.2f} s"
            f"{1000 * found.mean_search:8.1f} ms{1000 * found.p95_search:6.1f} ms"
            f"{1000 * found.change:9.1f} ms"
        )


if __name__ == "__main__":
    sys.exit(main())
