"""Answers `read_result`: lines at once, searches in a process of their own that can be ended."""

import asyncio
import json
import os
import re
import sys
from typing import Any, Final

from ..errors import InvalidParameters
from ..metatools.requests import Reading
from . import searching
from .parts import answer_of, count_of_lines, lines_of, room, span_of
from .store import KeptResults

SECONDS: Final = 10.0

_NO_JQ: Final = (
    "jq is not installed beside the workbench (pip install 'mcp-workbench[jq]'); "
    "lines and grep work without it"
)
_NOTE: Final = 200
# All other characters mean themselves.
_OF_PATTERNS: Final = re.compile(r"[\\.^$*+?{}\[\]|()]")
# To look through more takes longer than a process needs to start.
_QUICKLY_SEARCHED: Final = 512 * 1024


async def read_part(store: KeptResults, request: Reading, max_tokens: int, seconds: float = SECONDS) -> str:
    """The part that is asked for, and how to go on. Raises NotFound and InvalidParameters."""
    most = room(max_tokens) - _NOTE
    if request.jq is not None:
        if request.lines is not None or request.grep is not None:
            raise InvalidParameters("jq goes without lines and grep")
        program = {"jq": request.jq, "place": _place_of_jq()}
        there = {"path": store.path(request.handle), "most": most}
        return answer_of(await _apart({**program, **there}, seconds), asked="jq")
    data = store.read(request.handle)
    if request.grep is None:
        return lines_of(data, span_of(request.lines), max_tokens)
    span = span_of(request.lines).within(count_of_lines(data))
    asked: dict[str, Any] = {
        "pattern": request.grep,
        "first": span.first,
        "last": span.last,
        "offset": span.offset,
    }
    if len(data) <= _QUICKLY_SEARCHED and not _OF_PATTERNS.search(request.grep):
        return answer_of(searching.grepped(data, **asked, most=most), asked="grep")
    there = {"path": store.path(request.handle), "jq": None, "most": most}
    return answer_of(await _apart({**asked, **there}, seconds), asked="grep")


def _place_of_jq() -> str:
    if os.name == "nt":  # a program could read any file there
        raise InvalidParameters("jq is not offered on Windows; lines and grep are")
    from importlib.util import find_spec

    found = find_spec("jq")
    if found is None or not found.origin:
        raise InvalidParameters(_NO_JQ)
    return os.path.dirname(found.origin)


async def _apart(request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What a search finds in a process of its own, which is ended when time is up or nobody waits."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        searching.__file__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate(json.dumps(request).encode())
        found = json.loads(said)
    except TimeoutError:
        raise InvalidParameters(f"the search did not end within {seconds:g} s; make it simpler") from None
    except ValueError:  # it was ended for its time or memory
        raise InvalidParameters("the search took too much time or memory; make it simpler") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return found if isinstance(found, dict) else {}
