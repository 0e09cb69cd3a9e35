"""What the configuration means: toolboxes, their servers, and which tools of these are shown.

Made once from the bytes of the file; everybody may read it, and nobody changes it.
"""

import fnmatch
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from .config_file import (
    URL_KEYS,
    ConfigFile,
    Detail,
    RestartEntry,
    ServerEntry,
    ToolboxEntry,
    TransportName,
    schema,
    sound,
    unknown_keys,
)
from .config_text import nodes, read
from .errors import Findings, Problem, inside
from .lifecycle import RestartPolicy
from .naming import Origin, nearest

__all__ = [
    "Config",
    "Filter",
    "Server",
    "Toolbox",
    "parse",
    "schema",
    "server_place",
    "unknown_toolboxes",
    "warnings_of_mode",
]

T = TypeVar("T")
Transport = Literal["stdio", "http", "sse"]

# `${VAR}`, `${VAR:-default}` and `${env:VAR}`.
VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}", re.ASCII)
_BRACES = r"\$\{[^}]*(?:\}|\Z)"
_BARE_VARIABLE = r"(?<![\w$])\$([A-Za-z_]\w*)"
_A_SHELL = r"(?:.*[/\\])?(?:ba|da|z|k|fi)?sh(?:\.exe)?|(?:.*[/\\])?(?:pwsh|powershell|cmd)(?:\.exe)?"
_COMMAND_LINE = r"[^\s/\\]+\s+\S|.*\s-"
_FLAGS = r"[^\s/\\]+\s+-"

_LOCAL_KEYS = ("command", "args", "env", "cwd", "envFile")
_REMOTE_KEYS = (*URL_KEYS, "headers", "http_headers")
# What has no effect is not even looked at when the server is started.
_NOTHING_LOCAL: dict[str, Any] = {"command": None, "args": (), "env": {}, "cwd": None, "env_file": None}
_NOTHING_REMOTE: dict[str, Any] = {"url": None, "headers": {}}


class Filter(msgspec.Struct, frozen=True):
    """Which names pass: those that `include` names (None: all), without those that `exclude` names."""

    include: tuple[str, ...] | None
    exclude: tuple[str, ...] = ()

    def admits(self, name: str) -> bool:
        """Goes by the name alone; what a definition says is a matter of `Knowledge.admitted`."""
        return (self.include is None or _matches(name, self.include)) and not _matches(name, self.exclude)


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a toolbox, its variables not yet expanded."""

    name: str
    transport: Transport
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str | None] = {}  # None: not set, even where it would be inherited
    cwd: str | None = None
    env_file: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    start_timeout: float | None = None  # to connect, in all
    request_timeout: float | None = None  # for each request on the way to that
    call_timeout: float | None = None
    trust_annotations: bool = False
    max_result_tokens: int | None = None
    filters: tuple[Filter, ...] = ()

    def admits(self, tool_name: str) -> bool:
        """Whether the tool may be seen and called: it passes every filter."""
        return all(filter_.admits(tool_name) for filter_ in self.filters)

    def idle_patterns(self, tool_names: Collection[str]) -> list[str]:
        """Patterns of its filters that match none of these names: most likely mistyped."""
        patterns = [
            pattern for filter_ in self.filters for pattern in (*(filter_.include or ()), *filter_.exclude)
        ]
        return [it for it in patterns if it != "*" and not any(_matches(name, (it,)) for name in tool_names)]

    def __repr__(self) -> str:  # env, args and headers may hold secrets
        return f"Server({self.name!r}, {self.transport})"


class Toolbox(msgspec.Struct, frozen=True):
    """Servers that open and close together; those that are disabled are not among them."""

    name: str
    description: str | None
    servers: dict[str, Server]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration without problems, in the order of its file."""

    tool_mode: Literal["proxy", "dynamic"] = "proxy"
    meta_tool_prefix: str = ""
    open_on_use: bool = True
    read_only_tools: bool = False
    open_from_catalogue: bool = False
    detail: Detail = "full"
    search: bool | Literal["auto"] = "auto"
    pin: bool = False
    allow_private_networks: bool = True
    restart: RestartPolicy = RestartPolicy()
    toolboxes: dict[str, Toolbox] = {}
    disabled: frozenset[Origin] = frozenset()  # servers that are configured, and left out
    warnings: tuple[Problem, ...] = ()

    def servers(self) -> dict[Origin, Server]:
        """All servers of all toolboxes, in the order of the file."""
        return {
            Origin(toolbox.name, server.name): server
            for toolbox in self.toolboxes.values()
            for server in toolbox.servers.values()
        }


def parse(data: bytes, warnings: Iterable[Problem] = ()) -> Config:
    """The configuration in `data`; raises ConfigError with everything that is wrong with it.

    `warnings` are those that were found already.
    """
    findings = Findings(warnings)
    tree = read(data, findings)
    file = sound(tree, ConfigFile, "", findings, required=True)
    if file is UNSET:
        findings.give_up()
    _warn_of_keys(tree, ConfigFile, "", findings)
    if isinstance(tree.get("restart"), dict):
        _warn_of_keys(tree["restart"], RestartEntry, "restart", findings)
    _warn_of_variables(tree, findings)
    toolboxes = {
        name: _toolbox(name, entry, tree["toolboxes"][name], findings)
        for name, entry in file.toolboxes.items()
    }
    if findings.problems:
        findings.give_up()
    return Config(
        tool_mode=file.toolMode,
        meta_tool_prefix=file.metaToolPrefix,
        open_on_use=file.openOnUse,
        read_only_tools=file.readOnlyTools,
        open_from_catalogue=file.openFromCatalogue,
        detail=file.detail,
        search=file.search,
        pin=file.pin,
        allow_private_networks=file.allowPrivateNetworks,
        restart=RestartPolicy(int(file.restart.crashes), file.restart.within),
        toolboxes=toolboxes,
        disabled=frozenset(
            Origin(name, server)
            for name, entry in file.toolboxes.items()
            for server in entry.mcpServers
            if server not in toolboxes[name].servers
        ),
        warnings=tuple(findings.warnings),
    )


def server_place(toolbox: str, server: str) -> str:
    """Where in the file a server's entry stands."""
    return inside(inside(inside("toolboxes", toolbox), "mcpServers"), server)


def unknown_toolboxes(config: Config, names: Iterable[str]) -> list[Problem]:
    """A problem for each name that is not one of the configuration's toolboxes."""
    return [
        Problem("--toolbox", f"there is no toolbox '{name}'", f"did you mean '{near}'?" if near else "")
        for name in names
        if name not in config.toolboxes
        for near in [nearest(name, config.toolboxes)]
    ]


def warnings_of_mode(mode: int, place: str) -> list[Problem]:
    """A warning if others can write the file of this `st_mode`, and so have its user run what they like."""
    if not mode & 0o002:
        return []
    return [Problem(place, "every user of this machine can change it", "run chmod o-w on it")]


def _toolbox(name: str, entry: ToolboxEntry, raw: Mapping[str, Any], findings: Findings) -> Toolbox:
    _warn_of_keys(raw, ToolboxEntry, inside("toolboxes", name), findings)
    servers = {}
    for key, server_entry in entry.mcpServers.items():
        place = server_place(name, key)
        server = _server(key, server_entry, raw["mcpServers"][key], place, findings)
        if _is_enabled(server_entry, place, findings):
            servers[key] = server
            _warn_of_server(server, place, findings)
    return Toolbox(name, _given(entry.description), servers)


def _server(name: str, entry: ServerEntry, raw: Mapping[str, Any], place: str, findings: Findings) -> Server:
    _warn_of_keys(raw, ServerEntry, place, findings)
    transport = _transport(entry, raw, place, findings)
    for key in _REMOTE_KEYS if transport == "stdio" else _LOCAL_KEYS:
        if key in raw:
            findings.warning(
                inside(place, key), f"has no effect on a server of type '{transport}'", "remove it"
            )
    urls = {"url": entry.url, "serverUrl": entry.serverUrl, "httpUrl": entry.httpUrl}
    headers = {"headers": entry.headers, "http_headers": entry.http_headers}
    timeout = None if entry.timeout is UNSET else entry.timeout / 1000
    server = Server(
        name=name,
        transport=transport,
        command=_given(entry.command),
        args=tuple(_given(entry.args) or ()),
        env={name: _as_text(value) for name, value in (_given(entry.env) or {}).items()},
        cwd=_given(entry.cwd),
        env_file=_given(entry.envFile),
        url=_agreed(urls, place, findings),
        headers=_agreed(headers, place, findings) or {},
        start_timeout=_given(entry.startup_timeout_sec),
        request_timeout=timeout,
        call_timeout=_given(entry.tool_timeout_sec) or timeout,
        trust_annotations=_given(entry.trustAnnotations) or False,
        max_result_tokens=_given(entry.maxResultTokens),
        filters=_filters(entry, place, findings),
    )
    return msgspec.structs.replace(server, **(_NOTHING_REMOTE if transport == "stdio" else _NOTHING_LOCAL))


def _as_text(value: str | float | None) -> str | None:
    """A value of `env`; other clients take numbers, too."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _transport(entry: ServerEntry, raw: Mapping[str, Any], place: str, findings: Findings) -> Transport:
    # What is there counts, not what is right: a `command` of the wrong type is not missing as well.
    has_command, has_url = "command" in raw, any(key in raw for key in URL_KEYS)
    names = {"type": _canonical(entry.type), "transport": _canonical(entry.transport)}
    stated: Transport | None = _agreed(names, place, findings)
    if stated == "stdio" and not has_command:
        findings.problem(
            inside(place, "command"), "is missing from a server of type 'stdio'", 'add "command": "…"'
        )
    elif stated in ("http", "sse") and not has_url:
        findings.problem(
            inside(place, "url"), f"is missing from a server of type '{stated}'", 'add "url": "…"'
        )
    elif not has_command and not has_url:
        findings.problem(
            place, "has neither a command nor a url", 'add "command": "…", or "url": "…" if it is remote'
        )
    elif has_command and has_url and not {"type", "transport"} & raw.keys():
        findings.problem(
            place, "has both a command and a url", 'remove one, or add "type": "stdio" or "type": "http"'
        )
    if stated is None:
        return "stdio" if has_command else "http"
    return stated


def _canonical(transport: TransportName | UnsetType) -> Transport | UnsetType:
    if isinstance(transport, UnsetType) or transport == "stdio" or transport == "sse":
        return transport
    return "http"


def _is_enabled(entry: ServerEntry, place: str, findings: Findings) -> bool:
    negated: bool | UnsetType = UNSET if entry.disabled is UNSET else not entry.disabled
    return _agreed({"enabled": entry.enabled, "disabled": negated}, place, findings) is not False


def _filters(entry: ServerEntry, place: str, findings: Findings) -> tuple[Filter, ...]:
    include = _agreed(
        {key: getattr(entry, key) for key in ("includeTools", "enabled_tools")}, place, findings
    )
    excluding = ("excludeTools", "disabledTools", "disabled_tools")
    exclude = _agreed({key: getattr(entry, key) for key in excluding}, place, findings)
    filters = []
    if entry.toolFilters is not UNSET:
        filters.append(_tool_filter(entry.toolFilters))
    if include is not None or exclude is not None:
        filters.append(Filter(None if include is None else tuple(include), tuple(exclude or ())))
    return tuple(filters)


def _tool_filter(patterns: list[str]) -> Filter:
    include = tuple(pattern for pattern in patterns if not pattern.startswith("!"))
    exclude = tuple(pattern[1:] for pattern in patterns if pattern.startswith("!"))
    return Filter(None if exclude and not include else include, exclude)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _given(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def _agreed(stated: Mapping[str, T | UnsetType], place: str, findings: Findings) -> T | None:
    """The one value of keys that mean the same; a problem for each that contradicts the first."""
    given = [(key, value) for key, value in stated.items() if not isinstance(value, UnsetType)]
    for key, value in given[1:]:
        if value != given[0][1]:
            message = f"means the same as '{given[0][0]}' and says something else"
            findings.problem(inside(place, key), message, "keep one of the two")
    return given[0][1] if given else None


def _warn_of_server(server: Server, place: str, findings: Findings) -> None:
    _warn_of_other_variables(server, place, findings)
    if server.command and re.match(_FLAGS if server.args else _COMMAND_LINE, server.command):
        program = server.command.split()[0]
        hint = f'write "command": "{program}" and the rest as "args": ["…", "…"]'
        findings.warning(
            inside(place, "command"), "looks like a whole command line, but is run as one program", hint
        )
    if server.request_timeout is not None and server.request_timeout < 1:
        given = server.request_timeout * 1000
        hint = f"for {given:g} seconds write {given * 1000:g}"
        findings.warning(inside(place, "timeout"), f"is in milliseconds, and {given:g} are very few", hint)
    if server.env_file and "${" in server.env_file:
        findings.warning(inside(place, "envFile"), "variables are not expanded here", "write the path itself")


def _warn_of_other_variables(server: Server, place: str, findings: Findings) -> None:
    """Variables as a shell and some clients write them; a server would get the text as it stands there."""
    texts = [("command", server.command), ("cwd", server.cwd), ("url", server.url)]
    if not re.fullmatch(_A_SHELL, server.command or ""):  # which has variables of its own
        texts += [(inside("args", at), text) for at, text in enumerate(server.args)]
    texts += [(inside("env", name), text) for name, text in server.env.items()]
    texts += [(inside("headers", name), text) for name, text in server.headers.items()]
    for key, text in texts:
        if (text or "").startswith("~/"):
            findings.warning(f"{place}.{key}", "'~' is not expanded", f"write ${{HOME}}{(text or '')[1:]}")
        for found in re.finditer(_BARE_VARIABLE, text or "", re.ASCII):
            hint = f"write ${{{found[1]}}} and set {found[1]} in the environment"
            findings.warning(f"{place}.{key}", f"'{found[0]}' is not understood", hint)
    for key, names in (("env", server.env), ("headers", server.headers)):
        for name in names:
            if "${" in name:
                findings.warning(f"{place}.{key}", f"'{name}' is taken as it is", "write the name itself")


def _warn_of_keys(
    entry: Mapping[str, Any], struct: type[msgspec.Struct], place: str, findings: Findings
) -> None:
    for key in unknown_keys(entry, struct):
        near = nearest(key, struct.__struct_encode_fields__)
        findings.warning(
            inside(place, key), f"unknown key '{key}'", f"did you mean '{near}'?" if near else ""
        )


def _warn_of_variables(tree: Any, findings: Findings) -> None:
    for place, text in nodes(tree):
        if not isinstance(text, str) or "${" not in text:
            continue
        for braces in re.findall(_BRACES, text):
            variable = VARIABLE.fullmatch(braces)
            if variable is None or "${" in (variable["default"] or ""):
                hint = "write ${VAR} or ${VAR:-default} and set VAR in the environment"
                findings.warning(place, f"'{braces}' is not understood", hint)
