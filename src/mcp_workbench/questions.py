"""What a server asks while it works on requests: for their sake, so it ends with the last of them.

Only `downstream` comes here, which knows how many requests there are.
"""

from collections.abc import Coroutine
from typing import Any

from . import raw_json, wire
from .immediate import Run
from .wire import Answer


class Questions:
    def __init__(self) -> None:
        self._open: set[Run[Answer]] = set()

    async def ask(self, asking: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer of whoever is asked; an error once the question is withdrawn."""
        question = Run(asking)
        self._open.add(question)
        question.go_on()  # at once: what the server tells of it next must not come before it
        try:
            return await question
        finally:
            question.cancel()
            self._open.discard(question)

    def withdraw(self) -> None:
        """Nobody should have to answer for the sake of nothing."""
        if not self._open:
            return
        ended = wire.error(raw_json.INTERNAL_ERROR, "The request that this was asked for has ended")
        for question in [*self._open]:
            question.settle(ended)
