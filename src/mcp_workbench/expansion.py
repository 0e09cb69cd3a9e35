"""What a server is started with: its entry with the variables filled in, and the environment of its process.

Done anew each time a server is started. The values are secrets as likely as not: nothing here puts one
into a message, and `mask` takes them out of what a server prints.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from .config import VARIABLE, Config, Server, server_place
from .errors import MissingEnv, Problem, UnusableValue, how_to_set, inside

_POSIX_NAMES = """
    PATH HOME LANG LANGUAGE USER LOGNAME SHELL TERM TMPDIR TZ
    XDG_CACHE_HOME XDG_CONFIG_DIRS XDG_CONFIG_HOME XDG_DATA_DIRS XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME
    NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
"""
# Without SYSTEMROOT a program cannot open a socket, without PATHEXT it does not find npx.cmd.
_WINDOWS_NAMES = """
    APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86) PROGRAMW6432 COMMONPROGRAMFILES
    ALLUSERSPROFILE PUBLIC COMSPEC HOMEDRIVE HOMEPATH USERPROFILE USERNAME USERDOMAIN COMPUTERNAME
    NUMBER_OF_PROCESSORS OS PATHEXT PROCESSOR_ARCHITECTURE SYSTEMDRIVE SYSTEMROOT WINDIR TEMP TMP
"""
_INHERITED = frozenset(_POSIX_NAMES.split())
_INHERITED_ON_WINDOWS = frozenset((_POSIX_NAMES + _WINDOWS_NAMES).split())

# Compiled when the first env file is read, not at start-up.
_SETTING = r"""(?xas)
    [ \t]* (?:export[ \t]+)? (?P<name>[A-Za-z_][\w.-]*) [ \t]* =
    (?: [ \t]*'(?P<literal>[^']*)' | [ \t]*"(?P<escaped>(?:[^"\\]|\\.)*)" | (?P<bare>(?![ \t]*['"])[^\n]*?) )
    (?:[ \t]+\#[^\n]*)? [ \t]* (?:\n|\Z)
"""
_BLANK = r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)"
_ESCAPE = r"(?s)\\(.)"
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}

# Shorter ones are in every text: masking them would hide nothing and spoil much.
_SHORTEST_SECRET = 4
_SHORTEST_SECRET_LINE = 8


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A server's entry with nothing left to look up; `env` is the whole environment of its process."""

    command: str | None
    args: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None
    url: str | None
    headers: dict[str, str]
    secrets: tuple[str, ...]
    warnings: tuple[Problem, ...]

    def __repr__(self) -> str:  # every other field may hold secrets
        return f"Launch({mask(self.command or self.url or '', self.secrets)!r})"


def expand(
    server: Server,
    environment: Mapping[str, str],
    place: str,
    env_file_text: str | None = None,
    *,
    windows: bool = False,
) -> Launch:
    """What to start `server` with; `place` is where its entry stands, `env_file_text` what its envFile holds.

    Raises MissingEnv with every variable that is not set, else UnusableValue with every value that no process
    could be given.
    """
    filling = _Filling(environment)
    command, cwd, url = (
        None if text is None else filling.text(text, inside(place, key))
        for key, text in (("command", server.command), ("cwd", server.cwd), ("url", server.url))
    )
    args = tuple(filling.text(arg, inside(inside(place, "args"), at)) for at, arg in enumerate(server.args))
    env: dict[str, str | None] = {**server.env, **filling.values(server.env, inside(place, "env"))}
    headers = filling.values(server.headers, inside(place, "headers"))
    file_place = inside(place, "envFile")
    from_file, warnings = parse_env_file(env_file_text, file_place) if env_file_text else ({}, [])
    if filling.unset:
        raise MissingEnv(filling.unset)
    needed = {inside(place, key): text for key, text in (("command", command), ("cwd", cwd), ("url", url))}
    in_file = ((inside(file_place, name), value) for name, value in from_file.items())
    if problems := [*_empty(needed), *_with_nul((*filling.filled, *in_file))]:
        raise UnusableValue(problems)
    return Launch(
        command=command,
        args=args,
        env=_layered(_inherited(environment, windows), from_file, env, windows=windows),
        cwd=cwd,
        url=url,
        headers=headers,
        secrets=tuple(dict.fromkeys(filter(None, (*filling.brought_in, *from_file.values())))),
        warnings=tuple(warnings),
    )


def unset_variables(configuration: Config, environment: Mapping[str, str]) -> Iterator[Problem]:
    """A warning for each use of a variable that is not set in this environment."""
    for name, toolbox in configuration.toolboxes.items():
        for server in toolbox.servers.values():
            try:
                expand(server, environment, server_place(name, server.name))
            except MissingEnv as missing:
                for variable, place in missing.unset:
                    yield Problem(place, f"{variable} is not set here", how_to_set(variable))
            except UnusableValue:
                pass  # depends on the values that it will have


class _Filling:
    """Fills variables in, and remembers what that brought in and what was not there."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.filled: list[tuple[str, str]] = []
        self.brought_in: list[str] = []
        self.unset: list[tuple[str, str]] = []

    def text(self, text: str, place: str) -> str:
        def value(use: re.Match[str]) -> str:
            found = self._environment.get(use["name"])
            if found is not None:
                self.brought_in.append(found)
                return found
            if use["default"] is None:
                self.unset.append((use["name"], place))
            return use["default"] or ""

        filled = VARIABLE.sub(value, text)
        self.filled.append((place, filled))
        return filled

    def values(self, entries: Mapping[str, str | None], place: str) -> dict[str, str]:
        return {key: self.text(text, inside(place, key)) for key, text in entries.items() if text is not None}


def parse_env_file(text: str, place: str) -> tuple[dict[str, str], list[Problem]]:
    """The settings in the text of an env file, and a problem for each line that is none."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    settings: dict[str, str] = {}
    problems: list[Problem] = []
    blank_line, setting_line = re.compile(_BLANK), re.compile(_SETTING)
    at = 0
    while at < len(text):
        if blank := blank_line.match(text, at):
            at = blank.end()
        elif setting := setting_line.match(text, at):
            settings[setting["name"]] = _unquoted(setting)
            at = setting.end()
        else:
            line = text.count("\n", 0, at) + 1
            problems.append(Problem(place, f"line {line} of the file is skipped", "write NAME=value"))
            at = text.find("\n", at) + 1 or len(text)
    return settings, problems


def mask(text: str, secrets: Iterable[str]) -> str:
    """`text` with `***` for every secret that is long enough to be one, and every long line of one."""
    masked, end = [], 0
    for start, stop in sorted(span for secret in _maskable(secrets) for span in _spans(secret, text)):
        if start >= end:
            masked += [text[end:start], "***"]
        end = max(end, stop)
    return "".join([*masked, text[end:]])


def _spans(secret: str, text: str) -> Iterator[tuple[int, int]]:
    """Where `secret` stands in `text`; the places may overlap, so that no rest of one is left to read."""
    start = text.find(secret)
    while start >= 0:
        yield start, start + len(secret)
        start = text.find(secret, start + 1)


def _maskable(secrets: Iterable[str]) -> set[str]:
    maskable = set()
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            maskable.add(secret)
        lines = secret.splitlines()
        if len(lines) > 1:
            maskable.update(line for line in map(str.strip, lines) if len(line) >= _SHORTEST_SECRET_LINE)
    return maskable


def _unquoted(setting: re.Match[str]) -> str:
    if setting["literal"] is not None:
        return setting["literal"]
    if setting["escaped"] is not None:
        return re.sub(_ESCAPE, lambda escape: _ESCAPED.get(escape[1], escape[0]), setting["escaped"])
    return setting["bare"].strip()


def _inherited(environment: Mapping[str, str], windows: bool) -> dict[str, str]:
    """What a child gets of the workbench's own environment: what programs need to run, and no secrets."""
    return {
        name: value
        for name, value in environment.items()
        # A value that begins with "()" is a function to old shells, which run what follows it.
        if _is_inherited(name, windows) and not value.startswith("()")
    }


def _is_inherited(name: str, windows: bool) -> bool:
    if windows:
        return name.upper() in _INHERITED_ON_WINDOWS
    return name in _INHERITED or name.startswith("LC_")


def _layered(*layers: Mapping[str, str | None], windows: bool) -> dict[str, str]:
    """One environment, in which later layers win; on Windows `Path` and `PATH` are the same name."""
    merged: dict[str, tuple[str, str | None]] = {}
    for layer in layers:
        merged.update((name.upper() if windows else name, (name, value)) for name, value in layer.items())
    return {name: value for name, value in merged.values() if value is not None}


def _empty(needed: Mapping[str, str | None]) -> Iterator[Problem]:
    for place, text in needed.items():
        if text is not None and not text.strip():
            yield Problem(place, "is empty", "set its variables to something, or write it without them")


def _with_nul(texts: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    for place, text in texts:
        if "\0" in text:
            yield Problem(place, "has a NUL character in it", "no program can be given one: remove it")
