"""`mcp-workbench doctor`: starts every server once, and says what does not work or looks wrong.

What is withheld until it is approved does not work; servers that are withheld are not started.
"""

import os
from argparse import Namespace
from collections.abc import Iterable

from .. import console
from ..approvals import Approvals
from ..config import Config
from ..knowledge import Knowledge
from ..naming import Origin
from ..pins.changes import Change
from ..pins.entries import entry_hash
from ..pins.judge import entry_change
from .findings import findings
from .seeing import Sight, counted, see, wanted


def run(asked: Namespace) -> int:
    place, configuration = console.read(asked.config, asked.toolboxes)
    console.report((), configuration.warnings)
    approvals = console.approvals(configuration, place)
    console.say(f"configuration: {place}")
    console.say(f"catalogue: {console.place_of_catalogue(asked.catalogue)}")
    console.say(f"lock: {_about_lock(console.place_of_lock(place), configuration)}")
    servers = configuration.servers()
    refused = _refused(approvals, configuration, wanted(configuration, asked.toolboxes))
    # Without the approvals: what is withheld is what should be looked at, and this approves nothing.
    known = Knowledge(configuration, console.catalogue(asked.catalogue))
    started = [origin for origin in wanted(configuration, asked.toolboxes) if origin not in refused]
    sights = see(place, configuration, known, started)
    withheld = [*refused.values()]
    for sight in sights:
        console.say(f"{sight.name}: {_told(sight)}")
        if approvals and not sight.failure:
            withheld += approvals.withheld(
                sight.origin, servers[sight.origin], sight.tools, sight.instructions
            )
    for change in withheld:
        console.say(f"{change.name}: withheld until it is approved: {change.kind.value}")
    if withheld:
        console.say("Read mcp-workbench diff, then run mcp-workbench approve.")
    _say_what_looks_wrong(sights)
    return console.FAILED if withheld or any(sight.failure for sight in sights) else console.DONE


def _about_lock(lock: str, configuration: Config) -> str:
    if os.path.lexists(lock):
        return f"{lock}: what it approves is served"
    if configuration.pin:
        return f"{lock}: not there; it begins with what is seen first"
    return f"{lock}: not there, so all is served"


def _refused(
    approvals: Approvals | None, configuration: Config, origins: Iterable[Origin]
) -> dict[Origin, Change]:
    """The servers that must not be started, and why."""
    servers, refused = configuration.servers(), dict[Origin, Change]()
    for origin in origins:
        if approvals and approvals.refusal(origin, servers[origin]):
            change = entry_change(approvals.lock, origin, entry_hash(servers[origin]))
            refused |= {origin: change} if change else {}
    return refused


def _told(sight: Sight) -> str:
    return f"FAILED: {sight.told_failure}" if sight.failure else f"ok, {counted(len(sight.tools), 'tool')}"


def _say_what_looks_wrong(sights: Iterable[Sight]) -> None:
    seen = [sight for sight in sights if not sight.failure]
    for sight in seen:
        for told in sight.left_out:
            console.say(f"look at this: {sight.name}: {told}")
    for finding in findings(seen):
        console.say(f"look at this: {finding}")
