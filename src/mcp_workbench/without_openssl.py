"""The event loop, loaded without OpenSSL, which a session over pipes never uses: that spares 4.6 MB.

`asyncio` goes without where there is none. `uvloop` asks `ssl` for some names as it is loaded, and looks at
them only when it is to speak TLS. Whoever imports `ssl` later gets the real one.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_ERRORS = ("SSLError", "SSLWantReadError", "SSLSyscallError", "SSLZeroReturnError", "CertificateError")
_TYPES = ("SSLContext", "MemoryBIO", "create_default_context")
_NUMBERS = ("SSL_ERROR_WANT_READ", "SSL_ERROR_WANT_WRITE", "SSL_ERROR_SYSCALL")


def load_event_loop() -> None:
    if sys.modules.keys() & {"ssl", "asyncio", "uvloop"}:
        return  # they know each other already
    with _standing_for_ssl(None):
        import asyncio  # noqa: F401
    try:
        with _standing_for_ssl(_names_of_ssl()):
            import uvloop  # noqa: F401
    except ImportError:  # Windows
        pass


@contextmanager
def _standing_for_ssl(module: ModuleType | None) -> Iterator[None]:
    sys.modules["ssl"] = module  # type: ignore[assignment]  # None: as if it were not installed
    try:
        yield
    finally:
        del sys.modules["ssl"]


def _names_of_ssl() -> ModuleType:
    names = ModuleType("ssl")
    for name in _ERRORS:
        setattr(names, name, type(name, (Exception,), {}))
    for name in _TYPES:
        setattr(names, name, type(name, (), {}))
    for name in _NUMBERS:
        setattr(names, name, 0)
    return names
