"""What the workbench says about itself: one logger, on stderr, safe to show in a terminal."""

import logging
import sys

from .printable import printable

log = logging.getLogger("mcp_workbench")


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def log_to_stderr(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Printable("mcp-workbench: %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False
