"""The first answer, on stdin and stdout, given before the event loop and all that needs it is loaded.

Loading these takes longer than all else at the start; it is done while the client reads its answer.
"""

import os
from typing import Final

from msgspec import UNSET

from . import eras, wire
from .eras import Declared, Greeting
from .raw_json import Malformed, Payload

_STDIN: Final = 0
_STDOUT: Final = 1
_AT_MOST: Final = 64 * 1024


def greet(greeting: Greeting, chain: str) -> tuple[bytes, Declared | None]:
    """Answer `initialize`, if that is what comes first.

    Gives what was read and is still to be dealt with, and what the client declared, if it was greeted.
    """
    if os.name == "posix":  # a client may have left them as its own event loop had them
        os.set_blocking(_STDIN, True)
        os.set_blocking(_STDOUT, True)
    begun = b""
    while b"\n" not in begun and len(begun) < _AT_MOST:
        chunk = os.read(_STDIN, _AT_MOST)
        if not chunk:
            return begun, None
        begun += chunk
    line, _, rest = begun.partition(b"\n")
    hello = _initialize(line)
    if not hello:
        return begun, None
    request_id, params = hello
    greeted, declared = eras.greeted(params, greeting, chain)
    answer = b"".join(wire.answer_line(request_id, greeted))
    try:
        while answer:
            answer = answer[os.write(_STDOUT, answer) :]
    except OSError:
        pass  # nobody can be told anything, as the front door will find
    return rest, declared


def _initialize(line: bytes) -> tuple[Payload, Payload] | None:
    """The id and params of a first line that is as it should be."""
    try:
        message = wire.read_envelope(line)
        line.decode()
    except (Malformed, UnicodeDecodeError):
        return None
    if message.method != "initialize" or message.id is UNSET or message.params is UNSET:
        return None
    if not wire.is_id(message.id):
        return None
    return message.id, message.params
