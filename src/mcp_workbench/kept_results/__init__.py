"""Results that are too large for an agent: kept in files, shown in part, read on request.

`oversized` decides what of a result is kept and makes the shorter one; `KeptResults` has the files;
`read_part` answers `read_result`. Nobody else touches the files.
"""

from .reader import read_part
from .shortening import SCHEME, Oversized, media_type, oversized, without_promise
from .store import KeptResults, runtime_folder

__all__ = [
    "SCHEME",
    "KeptResults",
    "Oversized",
    "media_type",
    "oversized",
    "read_part",
    "runtime_folder",
    "without_promise",
]
