"""The command `mcp-workbench`: what it is asked to do."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from . import __version__, console
from .errors import ConfigError
from .metatools import definitions

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_EXAMPLES: Final = """\
examples:
  mcp-workbench                              serve ./workbench-config.json on stdin and stdout
  mcp-workbench serve --config tools.json    serve another file
  mcp-workbench --toolbox dev                with the tools of one toolbox in the first list, for clients
                                             that list once
  mcp-workbench check --config tools.json    say what is wrong with it, and start nothing
  mcp-workbench check --schema               print the JSON Schema of the file, for editors
  mcp-workbench warm                         start every server once, so that their tools are known
  mcp-workbench doctor                       start every server once, and say what does not work
  mcp-workbench tokens                       print what the configuration costs an agent
  mcp-workbench lock                         approve all tools as they are now, in workbench.lock
  mcp-workbench diff                         print what is not as it was approved
  mcp-workbench approve dev/files            take over what has changed of one server

The file is --config FILE, else $WORKBENCH_CONFIG, else ./workbench-config.json.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    console.open_standard_streams()
    try:
        match sys.argv[1:] if arguments is None else list(arguments):
            # As clients start it. They need not wait for argparse, which is a megabyte and some milliseconds.
            case [] | ["serve"]:
                return _serve(None)
            case ["--config", file] | ["serve", "--config", file]:
                return _serve(file)
            case others:
                return _run(_parser().parse_args(others))
    except ConfigError as error:
        console.report(error.problems, error.warnings)
        return console.WRONG
    except KeyboardInterrupt:
        return console.INTERRUPTED


def _run(asked: "Namespace") -> int:
    asked.toolboxes = tuple(dict.fromkeys((*asked.toolboxes_before, *asked.toolboxes)))
    if asked.command in (None, "serve"):
        return _serve(asked.config, asked.toolboxes, asked.catalogue)
    from importlib import import_module

    exit_code: int = import_module(f".commands.{asked.command}", __package__).run(asked)
    return exit_code


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
    named: dict[str, Any] = {"metavar": "NAME", "action": "append", "default": []}
    parser.add_argument("--toolbox", dest="toolboxes_before", help=toolbox, **named)
    remembering: dict[str, Any] = {
        "metavar": "FILE",
        "help": "where it is remembered what servers offered (default: in the user's cache; or :memory:)",
    }
    parser.add_argument("--catalogue", **remembering)
    parser.set_defaults(toolboxes=[])
    # SUPPRESS: what stands before the command counts where nothing stands behind it.
    behind = ArgumentParser(add_help=False)
    behind.add_argument("--config", metavar="FILE", default=SUPPRESS, help="the configuration")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(name: str, does: str, example: str) -> "ArgumentParser":
        return commands.add_parser(
            name, parents=[behind], help=does, epilog=f"example: mcp-workbench {example}"
        )

    serve = command(
        "serve",
        "serve a client on stdin and stdout (the default)",
        "serve --config tools.json --toolbox dev",
    )
    serve.add_argument("--toolbox", dest="toolboxes", help=toolbox, **named)
    serve.add_argument("--catalogue", default=SUPPRESS, **remembering)
    check = command(
        "check",
        "print all problems and warnings of the configuration; exit 0 or 2",
        "check --config tools.json",
    )
    check.add_argument("--toolbox", dest="toolboxes", help="a toolbox that has to be there", **named)
    check.add_argument("--schema", action="store_true", help="print the JSON Schema of the file instead")
    check.add_argument(
        "--locked", action="store_true", help="and whether workbench.lock approves all entries (for CI)"
    )
    _add_commands_about_servers(command, named, remembering)
    return parser


def _add_commands_about_servers(
    command: "Callable[[str, str, str], ArgumentParser]", named: Any, remembering: Any
) -> None:
    """Those that look at what servers offer."""
    from argparse import SUPPRESS

    only = "only this toolbox; may be given several times"
    warm = command("warm", "start every server once, so that their tools are known", "warm --toolbox dev")
    doctor = command("doctor", "start every server once, and say what does not work or looks wrong", "doctor")
    for each in (warm, doctor):
        each.add_argument("--toolbox", dest="toolboxes", help=only, **named)
    tokens = command("tokens", "print what the configuration costs an agent; starts nothing", "tokens")
    lock = command("lock", "approve all servers as they are now: writes workbench.lock", "lock")
    diff = command("diff", "print what is not as workbench.lock approves it; exit 0 or 1", "diff")
    approve = command("approve", "take over what has changed, or what is named of it", "approve dev/files")
    names = "toolbox, toolbox/server or toolbox/server/tool"
    approve.add_argument("names", nargs="*", metavar="NAME", help=names)
    for each in (warm, doctor, tokens, lock, diff, approve):
        each.add_argument("--catalogue", default=SUPPRESS, **remembering)


def _serve(file: str | None, fixed: Sequence[str] = (), catalogue: str | None = None) -> int:
    place, configuration = console.read(file, fixed)
    console.report((), configuration.warnings, serving=True)
    known = console.knowledge(configuration, place, catalogue)
    if os.isatty(sys.stdin.fileno()):
        print(f"mcp-workbench: serving {place} on stdin, for an MCP client to start", file=sys.stderr)
    chain = console.chain(place)

    from .greeting import greet
    from .without_openssl import load_event_loop

    unread, declared = greet(definitions.greeting(configuration, known.tool_counts, fixed), chain)
    load_event_loop()

    from . import stdio
    from .events import log_to_stderr
    from .processes import raise_limit
    from .transports import Transports

    log_to_stderr()
    raise_limit()
    transports = Transports(
        os.environ, os.path.dirname(place), private_networks=configuration.allow_private_networks
    )
    stdio.serve(configuration, known, transports, stdio.Begun(chain, unread, declared), fixed)
    return 0
