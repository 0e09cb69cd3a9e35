"""`mcp-workbench check`: what is wrong with the configuration. Starts nothing."""

import os
from argparse import Namespace
from collections.abc import Iterator

import msgspec

from .. import config, console
from ..config import Config, server_place
from ..errors import Problem, inside
from ..expansion import unset_variables


def run(asked: Namespace) -> int:
    if asked.schema:
        return console.say(msgspec.json.format(msgspec.json.encode(config.schema()), indent=2).decode())
    place, configuration = console.read(asked.config, asked.toolboxes)
    missing = _missing_files(configuration, os.path.dirname(place))
    warnings = [*configuration.warnings, *unset_variables(configuration, os.environ), *missing]
    console.report((), warnings)
    servers = sum(len(toolbox.servers) for toolbox in configuration.toolboxes.values())
    found = f"{len(configuration.toolboxes)} toolboxes, {servers} servers"
    return console.say(f"{place}: {found}, no problems, {len(warnings)} warnings")


def _missing_files(configuration: Config, folder: str) -> Iterator[Problem]:
    """A warning for each folder and file that a server needs and that is not there."""
    for name, toolbox in configuration.toolboxes.items():
        for server in toolbox.servers.values():
            place = server_place(name, server.name)
            needed = (("cwd", server.cwd, os.path.isdir), ("envFile", server.env_file, os.path.isfile))
            for key, path, is_there in needed:
                if path and "${" not in path and not is_there(os.path.join(folder, path)):
                    yield Problem(inside(place, key), f"'{path}' is not there", "create it, or mend the path")
