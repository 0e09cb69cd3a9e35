"""`python -m evals.signatures --data FOLDER`: whether signatures tell what schemas say; what forms cost.

The folder has `tools.jsonl` (server, category, tool, description, inputSchema).
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.signature_reader import read, told_wrongly

from mcp_workbench import tokens
from mcp_workbench.config import Toolbox
from mcp_workbench.counting import counter
from mcp_workbench.metatools import answers, forms
from mcp_workbench.metatools.answers import Connected
from mcp_workbench.offers import Offer
from mcp_workbench.schemas import signatures
from mcp_workbench.schemas.signatures import Room, Signature, signature

CALLS = forms.Calls("use_tool", "describe_tools")
ROOMS = {"opening": forms.BRIEF, "search": signatures.AMPLE, "little": Room(60, 60)}

MOST_OF_FLAT = 0.2

Count = Callable[[str], int]
Row = Mapping[str, Any]
# By toolbox: its servers, each with its tools.
Toolboxes = dict[str, dict[str, list[Offer]]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evals.signatures", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with tools.jsonl")
    folder = parser.parse_args().data
    tools = rows(folder / "tools.jsonl")
    count, exact = counter()
    print(f"Tokens are {'counted with o200k_base' if exact else 'estimated'}.\n")
    told = [told_as_meant(tools), openings(tools, count)]
    if exact:
        estimates(tools, count)
    return 0 if all(told) else 1


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def offer(row: Row) -> Offer:
    definition = {
        "name": row["tool"],
        "description": row["description"],
        "inputSchema": row["inputSchema"],
    }
    return Offer(row["tool"], compact(definition).encode())


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Whether it is so --------------------------------------------------------------------------------


def told_as_meant(tools: Sequence[Row]) -> bool:
    """Names, types, enums, and what is required: as in the schemas, but where `…` stands."""
    wrong: list[str] = []
    for name, room in ROOMS.items():
        made = [signature(offer(row).definition, room) for row in tools]
        wrong += [complaint for row, it in zip(tools, made, strict=True) for complaint in complaints(row, it)]
        lossy = sum(it.lossy for it in made) / len(made)
        print(f"{len(made)} signatures with the room of {name}: {lossy:.1%} lossy")
    print(f"told otherwise than the schemas have it: {len(wrong)}\n", *wrong[:20], sep="\n")
    return not wrong


def complaints(row: Row, made: Signature) -> list[str]:
    wrong = told_wrongly(made.text, {"name": row["tool"], "inputSchema": row["inputSchema"]})
    if read(made.text).lossy != made.lossy:
        wrong.append("whether it is lossy")
    return [f"{made.text}: {complaint}" for complaint in wrong]


# What it costs -----------------------------------------------------------------------------------


def openings(tools: Sequence[Row], count: Count) -> bool:
    flat = count(compact([json.loads(offer(row).definition) for row in tools]))
    print(f"flat: {flat} tokens for {len(tools)} tools\n")
    print(
        "| toolboxes | full | signatures | of flat | names | of flat |\n| --- | --- | --- | --- | --- | --- |"
    )
    fits = True
    for grouping in ("server", "category"):
        toolboxes = grouped(tools, grouping)
        full = signed = named = 0
        for name, servers in toolboxes.items():
            served = [(server, b"null", offers) for server, offers in servers.items()]
            full += count(full_text(name, served))
            signed += count(forms.signatures_text(name, served, [], CALLS))
            named += count(forms.names_text(name, served, [], CALLS))
        print(
            f"| {len(toolboxes)} | {full} | {signed} | {signed / flat:.3f} | {named} | {named / flat:.3f} |"
        )
        fits = fits and signed <= MOST_OF_FLAT * flat
    print(f"\nsignatures of at most {MOST_OF_FLAT} × flat: {'yes' if fits else 'NO'}\n")
    return fits


def grouped(tools: Iterable[Row], grouping: str) -> Toolboxes:
    toolboxes: Toolboxes = {}
    for row in tools:
        toolboxes.setdefault(row[grouping], {}).setdefault(row["server"], []).append(offer(row))
    return toolboxes


def full_text(name: str, served: Sequence[forms.Served]) -> str:
    connected = [Connected(*it) for it in served]
    return answers.opened(Toolbox(name, None, {}), connected, [])


# How well it is estimated -------------------------------------------------------------------------


def estimates(tools: Sequence[Row], count: Count) -> None:
    """The relative error of the estimate, text by text."""
    offers = [offer(row) for row in tools]
    served = {
        name: [(server, b"null", found) for server, found in servers.items()]
        for name, servers in grouped(tools, "server").items()
    }
    texts = {
        "definitions": [it.definition.decode() for it in offers],
        "signatures": [signature(it.definition).text for it in offers],
        "openings, full": [full_text(name, it) for name, it in served.items()],
        "openings, signatures": [forms.signatures_text(name, it, [], CALLS) for name, it in served.items()],
        "openings, names": [forms.names_text(name, it, [], CALLS) for name, it in served.items()],
    }
    print("| estimated | texts | mean error | p95 | bytes / 4: mean error | p95 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, found in texts.items():
        ours = spread([tokens.estimate(text) / count(text) for text in found])
        quarters = spread([len(text.encode()) / 4 / count(text) for text in found])
        print(f"| {name} | {len(found)} | {ours} | {quarters} |")


def spread(ratios: Sequence[float]) -> str:
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    return f"{sum(errors) / len(errors):.1%} | {errors[math.ceil(0.95 * len(errors)) - 1]:.1%}"


if __name__ == "__main__":
    sys.exit(main())
