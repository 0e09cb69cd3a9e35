"""What a server asks while it works on requests: for their sake, so it ends with the last of them.

Only `downstream` comes here, which knows how many requests there are.
"""

from collections.abc import Coroutine
from typing import Any

from . import raw_json, wire
from .immediate import Outcome, Run
from .raw_json import Malformed
from .wire import Answer


class Questions:
    def __init__(self) -> None:
        self._open: set[Outcome[Answer]] = set()

    async def ask(self, asking: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer of whoever is asked; an error once the question is withdrawn. `Malformed` passes."""
        answered: Outcome[Answer] = Outcome()

        async def ask() -> None:
            try:
                answered.settle(await asking)
            except Malformed as why:
                answered.fail(why)

        question = Run(ask())
        self._open.add(answered)
        question.go_on()  # at once: what the server tells of it next must not come before it
        try:
            return await answered
        finally:
            question.cancel()
            self._open.discard(answered)

    def withdraw(self) -> None:
        """Nobody should have to answer for the sake of nothing."""
        if not self._open:
            return
        ended = wire.error(raw_json.INTERNAL_ERROR, "The request that this was asked for has ended")
        for answered in [*self._open]:
            answered.settle(ended)
