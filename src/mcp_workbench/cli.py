"""The command `mcp-workbench`: what it is asked to do, and how it says what is wrong."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from . import __version__, chains, config
from .config import Config
from .errors import ConfigError, Problem
from .metatools import definitions

if TYPE_CHECKING:
    from argparse import ArgumentParser

# os.path instead of pathlib, here and wherever a session comes by: pathlib is half a megabyte.

_NOT_PRINTED: Final = 1
_USAGE_ERROR: Final = 2
_INTERRUPTED: Final = 130
_DEFAULT_FILE: Final = "workbench-config.json"

_EXAMPLES: Final = """\
examples:
  mcp-workbench                              serve ./workbench-config.json on stdin and stdout
  mcp-workbench serve --config tools.json    serve another file
  mcp-workbench --toolbox dev                with the tools of one toolbox in the first list, for clients
                                             that list once
  mcp-workbench check --config tools.json    say what is wrong with it, and start nothing
  mcp-workbench check --schema               print the JSON Schema of the file, for editors

The file is --config FILE, else $WORKBENCH_CONFIG, else ./workbench-config.json.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    _open_standard_streams()
    try:
        match sys.argv[1:] if arguments is None else list(arguments):
            # As clients start it. They need not wait for argparse, which is a megabyte and some milliseconds.
            case [] | ["serve"]:
                return _serve(None)
            case ["--config", file] | ["serve", "--config", file]:
                return _serve(file)
            case others:
                asked = _parser().parse_args(others)
        toolboxes = tuple(dict.fromkeys((*asked.toolboxes_before, *asked.toolboxes)))
        if asked.command in (None, "serve"):
            return _serve(asked.config, toolboxes)
        return _print_schema() if asked.schema else _check(asked.config, toolboxes)
    except ConfigError as error:
        _report(error.problems, error.warnings)
        return _USAGE_ERROR
    except KeyboardInterrupt:
        return _INTERRUPTED


def _parser() -> "ArgumentParser":
    from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter

    parser = ArgumentParser(
        prog="mcp-workbench",
        description="An MCP server that stands in front of other MCP servers, grouped into named toolboxes.",
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcp-workbench {__version__}")
    parser.add_argument("--config", metavar="FILE", help="the configuration")
    toolbox = "open this toolbox at once, and show its tools natively; may be given several times"
    named: dict[str, Any] = {"metavar": "NAME", "action": "append", "default": [], "help": toolbox}
    parser.add_argument("--toolbox", dest="toolboxes_before", **named)
    parser.set_defaults(toolboxes=[])
    # SUPPRESS: what stands before the command counts where nothing stands behind it.
    behind = ArgumentParser(add_help=False)
    behind.add_argument("--config", metavar="FILE", default=SUPPRESS, help="the configuration")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        parents=[behind],
        help="serve a client on stdin and stdout (the default)",
        epilog="example: mcp-workbench serve --config tools.json --toolbox dev",
    )
    serve.add_argument("--toolbox", dest="toolboxes", **named)
    check = commands.add_parser(
        "check",
        parents=[behind],
        help="print all problems and warnings of the configuration; exit 0 or 2",
        epilog="example: mcp-workbench check --config tools.json",
    )
    check.add_argument("--schema", action="store_true", help="print the JSON Schema of the file instead")
    return parser


def _serve(file: str | None, fixed: Sequence[str] = ()) -> int:
    place, configuration = _read(file, fixed)
    _report((), configuration.warnings)
    if os.isatty(sys.stdin.fileno()):
        print(f"mcp-workbench: serving {place} on stdin, for an MCP client to start", file=sys.stderr)
    chain = _chain(place)

    from .greeting import greet
    from .without_openssl import load_event_loop

    unread, declared = greet(definitions.greeting(configuration, fixed), chain)

    load_event_loop()

    from . import stdio
    from .events import log_to_stderr
    from .transports import ProcessTransport

    log_to_stderr()
    processes = ProcessTransport(os.environ, os.path.dirname(place))
    stdio.serve(configuration, processes, stdio.Begun(chain, unread, declared), fixed)
    return 0


def _chain(place: str) -> str:
    """The workbenches that lead here, this one last; there's no serving where it is among them before."""
    known = os.stat(place)
    try:
        return chains.extended(os.environ.get(chains.VARIABLE, ""), f"{known.st_dev:x}-{known.st_ino:x}")
    except chains.Ring as ring:
        raise ConfigError([Problem(place, str(ring))]) from None


def _check(file: str | None, fixed: Sequence[str]) -> int:
    from .expansion import unset_variables

    place, configuration = _read(file, fixed)
    warnings = [*configuration.warnings, *unset_variables(configuration, os.environ)]
    _report((), warnings)
    servers = sum(len(toolbox.servers) for toolbox in configuration.toolboxes.values())
    found = f"{len(configuration.toolboxes)} toolboxes, {servers} servers"
    return _print(f"{place}: {found}, no problems, {len(warnings)} warnings")


def _print_schema() -> int:
    return _print(msgspec.json.format(msgspec.json.encode(config.schema()), indent=2).decode())


def _print(text: str) -> int:
    """Print to stdout; the exit code."""
    try:
        print(text, flush=True)
    except OSError:  # whoever was reading has read enough (`| head`), or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the exit
        return _NOT_PRINTED
    return 0


def _open_standard_streams() -> None:
    """What the shell has closed (`2>&-`) leads nowhere: else the next file that is opened takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as we live


def _read(file: str | None, fixed: Sequence[str]) -> tuple[str, Config]:
    """The place of the configuration and what it says; the toolboxes in `fixed` are among its own."""
    place = file or os.environ.get("WORKBENCH_CONFIG") or _DEFAULT_FILE
    try:
        with open(place, "rb") as opened:
            data = opened.read()
            mode = os.fstat(opened.fileno()).st_mode
    except OSError as error:
        problem = Problem(
            place,
            f"cannot be read ({error.strerror})",
            "create it, or name another with --config FILE or WORKBENCH_CONFIG",
        )
        raise ConfigError([problem]) from None
    configuration = config.parse(data, config.warnings_of_mode(mode, place))
    if problems := config.unknown_toolboxes(configuration, fixed):
        raise ConfigError(problems, configuration.warnings)
    return os.path.abspath(place), configuration


def _report(problems: Sequence[Problem], warnings: Sequence[Problem]) -> None:
    if problems or warnings:
        from .events import printable

        for problem in problems:
            print(printable(f"error: {problem}"), file=sys.stderr)
        for warning in warnings:
            print(printable(f"warning: {warning}"), file=sys.stderr)
