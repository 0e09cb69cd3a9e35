"""`mcp-workbench diff`: what is not as it was approved."""

from argparse import Namespace

from .. import console
from .changes import Changes
from .findings import findings


def run(asked: Namespace) -> int:
    found = Changes.found(asked)
    if found.changes:
        console.say(found.told(found.changes))
    for sight in found.unreachable:
        console.say(f"{sight.name}: not compared: {sight.told_failure}")
    for finding in findings(found.seen):
        console.say(f"look at this: {finding}")
    if not found.changes and not found.unreachable:
        return console.say("All is as it was approved.")
    return console.FAILED
