"""`python -m bench`: measures, prints a table with the target beside each figure, and writes JSON."""

import argparse
import compileall
import importlib.util
import json
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from bench.client import BenchError
from bench.measures import MEASURES, QUICK, Figure, Plan
from bench.sides import Ground

Figures = Mapping[str, Sequence[Figure]]


def main() -> int:
    options = arguments()
    compile_package()
    with tempfile.TemporaryDirectory(prefix="mcp-workbench-bench-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # what is measured here is not to be remembered elsewhere
        ground = Ground(Path(folder), options.command)
        try:
            figures = uvloop.run(measured(ground, QUICK if options.quick else Plan(), options.only))
        except (BenchError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
    print_table(figures)
    if options.out:
        options.out.write_text(json.dumps(report(options, figures), indent=2, ensure_ascii=False) + "\n")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what the workbench costs.")
    parser.add_argument("--quick", action="store_true", help="small counts: some seconds, rougher figures")
    parser.add_argument("--only", type=names, default=list(MEASURES), help=f"of {','.join(MEASURES)}")
    parser.add_argument("--out", type=Path, help="a file for the figures as JSON")
    parser.add_argument(
        "--command",
        type=shlex.split,
        default=[sys.executable, "-m", "mcp_workbench"],
        help="what is measured, started with --config FILE (default: python -m mcp_workbench)",
    )
    return parser.parse_args()


def names(text: str) -> list[str]:
    chosen = text.split(",")
    if unknown := [name for name in chosen if name not in MEASURES]:
        raise argparse.ArgumentTypeError(f"no such measure: {', '.join(unknown)}")
    return chosen


def compile_package() -> None:
    """Where PYTHONDONTWRITEBYTECODE is set, every start would otherwise compile the source anew."""
    package = importlib.util.find_spec("mcp_workbench")
    for folder in (package and package.submodule_search_locations) or []:
        compileall.compile_dir(folder, quiet=1)


async def measured(ground: Ground, plan: Plan, only: Sequence[str]) -> Figures:
    figures = {}
    for name in only:
        print(f"{name}: {MEASURES[name].__doc__}", file=sys.stderr)
        figures[name] = await MEASURES[name](ground, plan)
    return figures


def print_table(figures: Figures) -> None:
    print(f"{'':38}{'figure':>12}{'target':>12}  {'met':5}{'reference':>12}")
    for figure in (figure for group in figures.values() for figure in group):
        met = {True: "yes", False: "NO", None: ""}[figure.met]
        reference = "" if figure.reference is None else number(figure.reference)
        target = "" if figure.target is None else str(figure.target)
        print(
            f"{figure.what:38}{number(figure.value):>12}{target:>12}  {met:5}{reference:>12}  {figure.unit}"
        )


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"


def report(options: argparse.Namespace, figures: Figures) -> dict[str, object]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "command": options.command,
        "quick": options.quick,
        "measures": {name: [figure.as_json() for figure in group] for name, group in figures.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
