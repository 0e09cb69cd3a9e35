"""The configuration file as it is written: its keys, their types, and its JSON Schema.

The structs here are the one source of all three. `config` says what the keys mean; nobody else reads them.
"""
# The attributes of the structs are the keys of the file, so that a key has one name everywhere.
# ruff: noqa: N815

import json
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .errors import Findings, inside

# `$` alone would let a line break at the end pass.
_NAME = r"^(?!.*__)[^\x00-\x1f\x7f-\x9f]+$(?!\n)"
_A_NAME = "a name that is not empty and has no '__' and no control characters"


def _must(expected: str, hint: str, **limits: Any) -> Meta:
    """Limits on a value, and how a person is told of them."""
    return Meta(**limits, extra={"expected": expected, "hint": hint})


Name = Annotated[str, _must(_A_NAME, "rename it", pattern=_NAME)]
Filled = Annotated[str, _must("a text that is not empty", "fill it in or leave the key out", pattern=r"\S")]
Variable = Annotated[str, _must("the name of a variable", 'write "NAME": "value"', pattern=r"^[^=\x00]+$")]
EnvValue = Annotated[str | int | float | None, _must("a text, a number or null", "write it in quotes")]
Positive = Annotated[float, _must("a number greater than 0", "leave the key out to have the default", gt=0)]
# Not an int, which would refuse the 2.0 that JSON Schema takes for one.
Count = Annotated[
    float,
    _must("a whole number of at least 1", "leave the key out to have the default", ge=1, multiple_of=1),
]
Prefix = Annotated[
    str,
    _must(
        "at most 32 of the characters A-Z, a-z, 0-9, '_' and '-'",
        "leave the others out",
        pattern=r"^[A-Za-z0-9_-]{0,32}$(?!\n)",
    ),
]
# With less nothing of use would remain of a result beside the words that lead to the rest.
LEAST_RESULT_TOKENS = 512
Tokens = Annotated[
    int,
    _must(
        f"a whole number of at least {LEAST_RESULT_TOKENS}",
        "leave the key out for no limit",
        ge=LEAST_RESULT_TOKENS,
    ),
]
ToolMode = Literal["proxy", "dynamic"]
# How tools are told at an opening, the richest first; and those of the forms that have input schemas.
Detail = Literal["full", "signatures", "names"]
WITH_SCHEMAS = ("full",)
Search = Annotated[bool | Literal["auto"], _must('true, false or "auto"', "choose one of these")]
TransportName = Literal["stdio", "http", "streamable-http", "streamableHttp", "sse"]
Names = list[str]
URL_KEYS = ("url", "serverUrl", "httpUrl")


class ServerEntry(msgspec.Struct, kw_only=True):
    """One MCP server, as this program or another client writes it."""

    command: Annotated[Filled | UnsetType, Meta(description="The program to run, without a shell.")] = UNSET
    args: Annotated[list[str] | UnsetType, Meta(description="Its arguments, one text for each.")] = UNSET
    env: Annotated[
        dict[Variable, EnvValue] | UnsetType,
        Meta(description="Its environment variables; null takes away one that it would inherit."),
    ] = UNSET
    cwd: Annotated[Filled | UnsetType, Meta(description="The directory in which it runs.")] = UNSET
    envFile: Annotated[Filled | UnsetType, Meta(description="A file of KEY=VALUE lines for env.")] = UNSET
    type: Annotated[TransportName | UnsetType, Meta(description="The same as transport.")] = UNSET
    transport: Annotated[TransportName | UnsetType, Meta(description="How the server is reached.")] = UNSET
    url: Annotated[Filled | UnsetType, Meta(description="The address of a remote server.")] = UNSET
    serverUrl: Annotated[Filled | UnsetType, Meta(description="The same as url.")] = UNSET
    httpUrl: Annotated[Filled | UnsetType, Meta(description="The same as url.")] = UNSET
    headers: Annotated[dict[str, str] | UnsetType, Meta(description="HTTP headers for url.")] = UNSET
    http_headers: Annotated[dict[str, str] | UnsetType, Meta(description="The same as headers.")] = UNSET
    timeout: Annotated[
        Positive | UnsetType, Meta(description="Milliseconds for each request, the handshake included.")
    ] = UNSET
    startup_timeout_sec: Annotated[Positive | UnsetType, Meta(description="Seconds for connecting.")] = UNSET
    tool_timeout_sec: Annotated[Positive | UnsetType, Meta(description="Seconds for a call.")] = UNSET
    disabled: Annotated[bool | UnsetType, Meta(description="true leaves the server out.")] = UNSET
    enabled: Annotated[bool | UnsetType, Meta(description="false leaves the server out.")] = UNSET
    trustAnnotations: Annotated[
        bool | UnsetType, Meta(description="Whether use_readonly_tool believes its readOnlyHint.")
    ] = UNSET
    maxResultTokens: Annotated[
        Tokens | UnsetType, Meta(description="What is longer in its results is kept, and read on request.")
    ] = UNSET
    toolFilters: Annotated[
        Names | UnsetType, Meta(description="Names and globs of tools to show; !name hides one.")
    ] = UNSET
    includeTools: Annotated[Names | UnsetType, Meta(description="The only tools to show.")] = UNSET
    enabled_tools: Annotated[Names | UnsetType, Meta(description="The same as includeTools.")] = UNSET
    excludeTools: Annotated[Names | UnsetType, Meta(description="Tools to hide.")] = UNSET
    disabledTools: Annotated[Names | UnsetType, Meta(description="The same as excludeTools.")] = UNSET
    disabled_tools: Annotated[Names | UnsetType, Meta(description="The same as excludeTools.")] = UNSET


Servers = Annotated[
    dict[Name, ServerEntry], _must("at least one server", "add a server or remove the toolbox", min_length=1)
]


class ToolboxEntry(msgspec.Struct, kw_only=True):
    """A named group of servers that open and close together."""

    mcpServers: Annotated[Servers, Meta(description="The servers of the toolbox, by name.")]
    description: Annotated[str | UnsetType, Meta(description="What the agent reads about it.")] = UNSET


class RestartEntry(msgspec.Struct, kw_only=True):
    """How often a server may crash before it is only probed."""

    crashes: Annotated[Count, Meta(description="How many crashes are too many.")] = 5
    within: Annotated[Positive, Meta(description="The seconds in which they are counted.")] = 180.0


class ConfigFile(msgspec.Struct, kw_only=True):
    """The whole of workbench-config.json."""

    toolboxes: Annotated[dict[Name, ToolboxEntry], Meta(description="The toolboxes, by name.")]
    toolMode: Annotated[ToolMode, Meta(description="How tools are offered.")] = "proxy"
    metaToolPrefix: Annotated[Prefix, Meta(description="Put before the meta-tools' names.")] = ""
    openOnUse: Annotated[bool, Meta(description="Whether use_tool opens a closed toolbox.")] = True
    readOnlyTools: Annotated[bool, Meta(description="Whether there is use_readonly_tool, too.")] = False
    openFromCatalogue: Annotated[
        bool, Meta(description="Whether openings answer at once with what was seen before.")
    ] = False
    detail: Annotated[Detail, Meta(description="How much open_toolbox tells of each tool.")] = "full"
    search: Annotated[Search, Meta(description="Whether there is search_tools.")] = "auto"
    pin: Annotated[bool, Meta(description="Whether to begin a workbench.lock, if there is none.")] = False
    allowPrivateNetworks: Annotated[
        bool, Meta(description="Whether remote servers may be on this machine or on private networks.")
    ] = True
    restart: Annotated[RestartEntry, Meta(description="The limits of restarting.")] = msgspec.field(
        default_factory=RestartEntry
    )
    schema: str | UnsetType = msgspec.field(default=UNSET, name="$schema")


def schema() -> dict[str, Any]:
    """The JSON Schema of the configuration file, for editors."""
    found = msgspec.json.schema(ConfigFile)
    found["$defs"]["ServerEntry"]["anyOf"] = [{"required": [key]} for key in ("command", *URL_KEYS)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MCP Workbench configuration",
        **found,
    }


def unknown_keys(entry: Mapping[str, Any], struct: type[msgspec.Struct]) -> list[str]:
    return [key for key in entry if key not in struct.__struct_encode_fields__]


# Python's types, as a person who writes JSON knows them, with an example of each.
_KINDS: dict[Any, tuple[str, str]] = {
    str: ("a string", '"text"'),
    bool: ("true or false", "true or false"),
    int: ("a number", "30"),
    float: ("a number", "30"),
    list: ("a list", '["one", "two"]'),
    dict: ("an object", '{"name": …}'),
}
# Where other clients keep what belongs in a toolbox's mcpServers.
_FOREIGN_KEYS = ("mcpServers", "servers", "mcp_servers", "context_servers")


def sound(value: Any, annotation: Any, place: str, findings: Findings, *, required: bool = False) -> Any:
    """`value` as `annotation` has it, without the parts that do not fit.

    Each of those is one problem with its own place. UNSET stands for a value that does not fit at all.
    """
    try:
        return msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        pass  # it tells of the first misfit only: look at the parts
    kind, extra = _plain(annotation)
    if not _is_a(value, kind):
        findings.problem(place, *_wrong_kind(value, kind, required=required))
        return UNSET
    known = len(findings.problems)
    parts = _sound_parts(value, kind, place, findings)
    if len(findings.problems) == known:  # nothing wrong with the parts: it is the whole
        expected = extra.get("expected") or f"one of {', '.join(map(json.dumps, get_args(kind)))}"
        findings.problem(
            place, f"expected {expected}, got {_shown(value)}", extra.get("hint", "choose one of these")
        )
    return parts


def _sound_parts(value: Any, kind: Any, place: str, findings: Findings) -> Any:
    if _is_struct(kind):
        return _sound_struct(value, kind, place, findings)
    if get_origin(kind) is list:
        (of,) = get_args(kind)
        parts = [sound(part, of, inside(place, at), findings) for at, part in enumerate(value)]
        return [part for part in parts if part is not UNSET]
    if get_origin(kind) is dict:
        names, of = get_args(kind)
        for key in value:
            sound(key, names, inside(place, key), findings)
        entries = {key: sound(part, of, inside(place, key), findings) for key, part in value.items()}
        return {key: part for key, part in entries.items() if part is not UNSET}
    return UNSET


def _sound_struct(value: dict[str, Any], struct: Any, place: str, findings: Findings) -> Any:
    parts: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        key, part = field.encode_name, UNSET
        if key in value:
            part = sound(value[key], field.type, inside(place, key), findings, required=field.required)
        elif field.required:
            findings.problem(inside(place, key), "is missing", _how_to_add(key, value))
        if part is UNSET and field.required:
            part = _plain(field.type)[0]()  # empty, so that the rest of the struct can be looked at
        if part is not UNSET:
            parts[field.name] = part
    return struct(**parts)


def _plain(annotation: Any) -> tuple[Any, dict[str, str]]:
    """The type inside Annotated and `| UnsetType`, and what `_must` says of it."""
    extra: dict[str, str] = {}
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *metas = get_args(annotation)
            for meta in metas:
                extra |= meta.extra or {}
        elif UnsetType in get_args(annotation):
            annotation = get_args(annotation)[0]
        else:
            return annotation, extra


def _is_struct(kind: Any) -> bool:
    return hasattr(kind, "__struct_fields__")


def _written_as(kind: Any) -> Any:
    """The type of the JSON values in which a `kind` is written."""
    if _is_struct(kind):
        return dict
    if get_origin(kind) in (Literal, UnionType, Union):
        return object  # whatever stands there, it is one choice among others
    return get_origin(kind) or kind


def _is_a(value: Any, kind: Any) -> bool:
    written = _written_as(kind)
    if written in (int, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, written)


def _wrong_kind(value: Any, kind: Any, *, required: bool) -> tuple[str, str]:
    noun, example = _KINDS[_written_as(kind)]
    if kind is ConfigFile:
        example = '{"toolboxes": {…}}'
    if value is None and not required:
        return f"expected {noun}, got null", "remove it"
    found = json.dumps(value) if isinstance(value, bool) else _noun(value)
    if _written_as(kind) is str and isinstance(value, (bool, int, float)):
        example = f'"{json.dumps(value)}"'
    elif isinstance(value, str) and _is_text_of(value, kind):
        example = f"{value}, without quotes"
    return f"expected {noun}, got {found}", f"write {example}"


def _noun(value: Any) -> str:
    if value is None:
        return "null"
    return next(noun for kind, (noun, _) in _KINDS.items() if isinstance(value, kind))


def _is_text_of(text: str, kind: Any) -> bool:
    """Whether `text` is a number or boolean that should have been written without quotes."""
    if kind not in (bool, int, float):
        return False
    try:
        msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return False
    return True


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"


def _how_to_add(key: str, entry: Mapping[str, Any]) -> str:
    foreign = next((name for name in _FOREIGN_KEYS if name in entry), None)
    if foreign is None:
        return f'add "{key}": {{…}}'
    if key == "mcpServers":
        return f'rename "{foreign}" to "mcpServers"'
    return (
        f'this is the file of another client: put what its "{foreign}" holds into a toolbox, '
        f'{{"toolboxes": {{"main": {{"mcpServers": {{…}}}}}}}}'
    )
