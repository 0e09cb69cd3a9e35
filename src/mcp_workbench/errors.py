"""What can go wrong, in the words that a person or an agent reads. Every module may raise these."""

import json
from collections.abc import Iterable, Sequence
from typing import NoReturn

import msgspec

# What a key may have besides letters and digits and still be written without quotes.
_PLAIN_MARKS = str.maketrans("", "", "_-$")


def inside(place: str, key: str | int) -> str:
    """The place of `key` in the object or list at `place`: `dev.args[1]`, `toolboxes["my box"]`."""
    if isinstance(key, int):
        return f"{place}[{key}]"
    if not key.translate(_PLAIN_MARKS).isalnum():
        return f"{place}[{json.dumps(key)}]"
    return f"{place}.{key}" if place else key


class Problem(msgspec.Struct, frozen=True):
    """One thing for a person to mend: where it is, what it is, and what to do about it."""

    place: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        located = f"{self.place}: {self.message}" if self.place else self.message
        return f"{located} — {self.hint}" if self.hint else located


class ConfigError(Exception):
    """The configuration cannot be used; carries everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem], warnings: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        super().__init__("\n".join(map(str, self.problems)))


class Findings:
    """Gathers what is found while reading, so that one run reports all of it."""

    def __init__(self, warnings: Iterable[Problem] = ()) -> None:
        self.problems: list[Problem] = []
        self.warnings = list(warnings)

    def problem(self, place: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(place, message, hint))

    def warning(self, place: str, message: str, hint: str = "") -> None:
        self.warnings.append(Problem(place, message, hint))

    def give_up(self) -> NoReturn:
        raise ConfigError(self.problems, self.warnings)


def how_to_set(variable: str) -> str:
    """What to do about a variable that a server needs and the workbench does not have."""
    return f"export {variable}=…, or set it under `env` in the client's entry of the workbench"


class MissingEnv(Exception):
    """A server cannot start because variables that its entry names are not set."""

    def __init__(self, unset: Sequence[tuple[str, str]]) -> None:
        """`unset` has a name and a place for every use of a variable that is not set."""
        self.unset = tuple(unset)
        told = (f"{name} is not set (at {place}): {how_to_set(name)}" for name, place in self.unset)
        super().__init__("missing_env: " + "; ".join(told))


class UnusableValue(Exception):
    """A server cannot start because values of its entry, once expanded, are of no use to it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class CallError(Exception):
    """A request of the agent's that cannot be carried out; its text is written for the agent."""


class InvalidParameters(CallError):
    def __init__(self, complaint: str, of: str = "parameters") -> None:
        super().__init__(f"Invalid {of}: {complaint}")


class NotFound(CallError):
    """A name that leads nowhere, with the nearest one that does."""

    def __init__(self, what: str, nearest: str | None = None) -> None:
        hint = f". Did you mean '{nearest}'?" if nearest else ""
        super().__init__(f"{what}{hint}")


class ToolboxNotOpen(CallError):
    def __init__(self, toolbox: str, opener: str) -> None:
        super().__init__(f"Toolbox '{toolbox}' is not open; open it with {opener}")


class NotReadOnly(CallError):
    def __init__(self, tool: str, server: str, toolbox: str, *, claimed: bool) -> None:
        """`claimed`: its server says so, but is not trusted."""
        hint = ' (its server says so, but its entry lacks "trustAnnotations": true)' if claimed else ""
        super().__init__(
            f"Tool '{tool}' in server '{server}' (toolbox '{toolbox}') is not known to be read-only{hint}"
        )


class ServerUnavailable(CallError):
    """A server that is not there to be called."""

    def __init__(self, server: str, toolbox: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Failed to connect to server '{server}' in toolbox '{toolbox}': {reason}")


class ServerBusy(CallError):
    def __init__(self, server: str, toolbox: str, reason: str) -> None:
        super().__init__(
            f"Server '{server}' in toolbox '{toolbox}' takes no more calls now: {reason}; nothing was sent"
        )


class CallInterrupted(CallError):
    """A call that was sent and will not be answered by the server. It is never repeated on its own."""

    def __init__(self, server: str, toolbox: str, reason: str, last_words: str = "") -> None:
        super().__init__(
            f"Server '{server}' in toolbox '{toolbox}' {reason}; "
            f"the call may have been carried out{last_words}"
        )


class CallRejected(CallError):
    """A call that the server did not take up."""

    def __init__(self, server: str, toolbox: str, reason: str) -> None:
        super().__init__(f"Server '{server}' in toolbox '{toolbox}' {reason}; the call was not carried out")
