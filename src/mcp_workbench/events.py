"""What the workbench says about itself: one logger, on stderr, safe to show in a terminal."""

import logging
import sys

log = logging.getLogger("mcp_workbench")


def printable(text: str) -> str:
    """The text with control and bidi characters escaped: a server's words must not act on a terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else f"\\u{ord(character):04x}"
        for character in text
    )


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Printable("mcp-workbench: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
