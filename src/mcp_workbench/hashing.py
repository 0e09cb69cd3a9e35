"""SHA-256 without OpenSSL, which `hashlib` loads: 4 MB that a session over pipes is spared."""

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

# CPython's own, up to 3.11 and from 3.12 on.
_BUILT_IN = ("_sha256", "_sha2")


def sha256(data: bytes) -> str:
    """The hash in hexadecimal digits."""
    digits: str = _algorithm()(data).hexdigest()
    return digits


@functools.cache
def _algorithm() -> Callable[[bytes], Any]:
    for module in _BUILT_IN:
        try:
            built_in: Callable[[bytes], Any] = import_module(module).sha256
        except (ImportError, AttributeError):
            continue
        return built_in
    import hashlib  # another Python

    return hashlib.sha256
