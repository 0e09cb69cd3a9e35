"""Searching a kept text, by a regular expression or a jq program.

Run as a program, in a process of its own, it serves patterns and programs that may never end: Python's
regular expressions cannot be interrupted, and jq has loops. Then it stands alone: nothing of the package is
imported here.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

_LONG_LINE = 400
_BEFORE = 120
_BEHIND = 240
_MOST_SECONDS = 5
_MOST_MEMORY = 2 * 1024**3


def grepped(data: bytes, pattern: str, first: int, last: int, offset: int, most: int) -> dict[str, Any]:
    """The lines from `first` to `last` in which a pattern is found, with their numbers, in `most` bytes.

    `next` says from where on there may be more. Of a long line each match is shown by itself, with the
    characters around it and the place in the line. The first line begins at `offset`.
    """
    try:
        search = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return {"error": f"not a regular expression: {error}"}
    return _within(_rows(data, search, first, last, offset), most)


def _rows(
    data: bytes, search: "re.Pattern[str]", first: int, last: int, offset: int
) -> Iterator[tuple[str, str]]:
    """What is shown of each line that matches, and the lines from there on."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if number < first:
            continue
        if number > last:
            return
        text = line.decode(errors="replace")
        begin, offset = offset, 0
        if len(text) <= _LONG_LINE:
            if search.search(text, begin):
                yield f"{number}: {text}", f"{number}-{last}"
            continue
        shown = -1
        for match in search.finditer(text, begin):
            if match.start() > shown:
                start, shown = max(begin, match.start() - _BEFORE), match.start() + _BEHIND
                yield f"{number}+{start}: …{text[start:shown]}…", f"{number}+{start}"


def _within(rows: Iterable[tuple[str, str]], most: int) -> dict[str, Any]:
    found: list[str] = []
    for row, place in rows:
        most -= len(row.encode(errors="replace")) + 1
        if most < 0:
            return {"found": found, "next": place}
        found.append(row)
    return {"found": found, "next": ""}


def queried(data: bytes, program: str, most: int) -> dict[str, Any]:
    """What a jq program makes of the JSON in a text, one value a line, in `most` bytes."""
    import jq  # type: ignore[import-not-found]  # an extra

    try:
        values = iter(jq.compile(program).input_text(data.decode()))
        return _within(((json.dumps(value, ensure_ascii=False), "more") for value in values), most)
    except (ValueError, RecursionError) as error:
        return {"error": f"jq: {str(error)[:500]}"}


def main() -> None:
    """Serve one search: a line of JSON on stdin, and one on stdout."""
    request = json.loads(sys.stdin.buffer.read())
    with open(request.pop("path"), "rb") as file:
        data = file.read()
    program = request.pop("jq")
    if program is None:
        _confine()
        answer = grepped(data, **request)
    else:
        sys.path.append(request["place"])
        import jq  # noqa: F401  # before no file can be opened any more

        _confine()
        answer = queried(data, program, request["most"])
    sys.stdout.buffer.write(json.dumps(answer).encode())


def _confine() -> None:
    """From now on no file can be opened, no variable of the environment read, and time and memory end."""
    import os

    os.environ.clear()  # jq has `env`
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = [
        (resource.RLIMIT_NOFILE, 0),  # jq has `import`
        (resource.RLIMIT_CPU, _MOST_SECONDS),
        (resource.RLIMIT_AS, _MOST_MEMORY),
    ]
    for what, limit in limits:
        try:
            resource.setrlimit(what, (limit, limit))
        except (OSError, ValueError):  # not on this system
            pass


if __name__ == "__main__":
    main()
