"""`mcp-workbench doctor`: starts every server once, and says what does not work or looks wrong."""

import os
from argparse import Namespace

from .. import console
from ..printable import printable
from .findings import findings
from .seeing import see, wanted


def run(asked: Namespace) -> int:
    place, configuration = console.read(asked.config, asked.toolboxes)
    console.report((), configuration.warnings)
    lock = console.place_of_lock(place)
    pinned = "what it approves is served" if os.path.exists(lock) else "not there, so all is served"
    console.say(f"configuration: {place}")
    console.say(f"catalogue: {console.place_of_catalogue(asked.catalogue)}")
    console.say(f"lock: {lock}: {pinned}")
    known = console.knowledge(configuration, place, asked.catalogue)
    sights = see(place, configuration, known, wanted(configuration, asked.toolboxes))
    for sight in sights:
        told = f"FAILED: {sight.failure}" if sight.failure else f"ok, {len(sight.tools)} tools"
        console.say(printable(f"{'/'.join(sight.origin)}: {told}"))
    for finding in findings([sight for sight in sights if not sight.failure]):
        console.say(f"look at this: {finding}")
    return console.FAILED if any(sight.failure for sight in sights) else console.DONE
