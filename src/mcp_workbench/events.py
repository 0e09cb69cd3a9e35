"""What the workbench says about itself: one logger, on stderr, safe to show in a terminal."""

import logging

from .printable import printable
from .stderr import stderr

log = logging.getLogger("mcp_workbench")


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        stderr.say(printable(f"mcp-workbench: {self.format(record)}"))


def log_to_stderr(level: int = logging.INFO) -> None:
    """From now on print what is logged; what the event loop and libraries have to say, too."""
    root = logging.getLogger()
    if not any(isinstance(handler, _ToStderr) for handler in root.handlers):
        root.addHandler(_ToStderr())
    log.setLevel(level)
