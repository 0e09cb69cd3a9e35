"""Tokens counted exactly, where `tiktoken` is installed and has its table; else estimated."""

import importlib
import queue
import threading
from collections.abc import Callable
from typing import Final

from . import tokens

# It may want to download its table, and knows no limit of time.
_PATIENCE: Final = 5.0


def counter(patience: float = _PATIENCE) -> tuple[Callable[[str], int], bool]:
    """What counts the tokens of a text, and whether it does so exactly."""
    exact: queue.SimpleQueue[Callable[[str], int] | None] = queue.SimpleQueue()

    def load() -> None:
        try:
            encoding = importlib.import_module("tiktoken").get_encoding("o200k_base")
            # A text may look like one of its special tokens, and is counted as what it is.
            exact.put(lambda text: len(encoding.encode(text, disallowed_special=())))
        except BaseException:  # whatever keeps it from counting, there is the estimate
            exact.put(None)

    threading.Thread(target=load, daemon=True, name="tiktoken").start()
    try:
        count = exact.get(timeout=patience)
    except queue.Empty:
        count = None
    return (count, True) if count else (tokens.estimate, False)
