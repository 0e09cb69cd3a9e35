"""`mcp-workbench check`: what is wrong with the configuration. Starts nothing."""

import os
from argparse import Namespace
from collections.abc import Iterator

import msgspec

from .. import config, console
from ..config import Config, server_place
from ..errors import ConfigError, Problem, inside
from ..expansion import unset_variables


def run(asked: Namespace) -> int:
    if asked.schema:
        return console.say(msgspec.json.format(msgspec.json.encode(config.schema()), indent=2).decode())
    place, configuration = console.read(asked.config, asked.toolboxes)
    missing = _missing_files(configuration, os.path.dirname(place))
    warnings = [*configuration.warnings, *unset_variables(configuration, os.environ), *missing]
    console.report((), warnings)
    servers = sum(len(toolbox.servers) for toolbox in configuration.toolboxes.values())
    if asked.locked and (problems := [*_unapproved(place, configuration)]):
        raise ConfigError(problems)
    found = f"{len(configuration.toolboxes)} toolboxes, {servers} servers"
    return console.say(f"{place}: {found}, no problems, {len(warnings)} warnings")


def _unapproved(place: str, configuration: Config) -> Iterator[Problem]:
    """A problem for each server whose entry is not the one that was approved."""
    from ..approvals import Approvals
    from ..pins.entries import entry_hash
    from ..pins.judge import entry_change, gone

    lock_file = console.place_of_lock(place)
    if not os.path.lexists(lock_file):
        yield Problem(lock_file, "is not there", "run mcp-workbench lock, and commit it")
        return
    lock = Approvals(lock_file).lock
    servers = configuration.servers()
    for origin, server in servers.items():
        if change := entry_change(lock, origin, entry_hash(server)):
            hint = "run mcp-workbench diff, then mcp-workbench approve"
            yield Problem(server_place(*origin), f"is not approved: {change.kind.value}", hint)
    for change in gone(lock, servers.keys() | configuration.disabled):
        told = f"approves {change.name}, which is not configured"
        yield Problem(lock_file, told, "run mcp-workbench approve")


def _missing_files(configuration: Config, folder: str) -> Iterator[Problem]:
    """A warning for each folder and file that a server needs and that is not there."""
    for name, toolbox in configuration.toolboxes.items():
        for server in toolbox.servers.values():
            place = server_place(name, server.name)
            needed = (("cwd", server.cwd, os.path.isdir), ("envFile", server.env_file, os.path.exists))
            for key, path, is_there in needed:
                if path and "${" not in path and not is_there(os.path.join(folder, path)):
                    yield Problem(inside(place, key), f"'{path}' is not there", "create it, or mend the path")
