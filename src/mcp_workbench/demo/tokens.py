"""How many tokens a text takes: counted with o200k where `tiktoken` is there, else estimated."""

import functools
import importlib
from collections.abc import Callable

BYTES_PER_TOKEN = 4


@functools.cache
def counter() -> tuple[Callable[[str], int], str]:
    """The function, and what to call its figures."""
    try:
        encoding = importlib.import_module("tiktoken").get_encoding("o200k_base")
    except Exception:  # not installed, or its table cannot be fetched: the demo works offline
        return _estimate, f"estimated as bytes / {BYTES_PER_TOKEN}"
    return (lambda text: len(encoding.encode(text))), "counted with o200k"


def _estimate(text: str) -> int:
    return len(text.encode()) // BYTES_PER_TOKEN
