"""The table of words that comes with the package. Reads a file; nothing else here does."""

import os
from typing import Final

from .spaces import Embedder
from .table import Table

_FILE: Final = "words.table"


def shipped_table() -> Table:
    """Takes some milliseconds, and as much memory as the file is large, with its words once more."""
    from pathlib import Path  # only the first search needs it

    return Table(Path(__file__).with_name(_FILE).read_bytes())


def installed_embedder() -> Embedder | None:
    """The embedder of the extra `[semantic]`, where that is installed. Takes up to a second."""
    # Before numpy is loaded: for texts as short as these, its threads cost more than they bring.
    for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(threads, "1")
    try:
        from .semantic import MiniLM
    except ImportError:
        return None
    return MiniLM()
