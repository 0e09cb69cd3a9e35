"""`mcp-workbench approve [NAME ...]`: takes over what has changed: all of it, or what is named."""

from argparse import Namespace

from .. import console
from ..pins.changes import chosen
from .changes import Changes


def run(asked: Namespace) -> int:
    found = Changes.found(asked, start_changed=True)
    taken = chosen(found.changes, asked.names) if asked.names else found.changes
    if taken:
        console.say(found.told(taken))
        found.approvals.approve(taken)
    for sight in found.unreachable:
        console.say(f"{'/'.join(sight.origin)}: not approved: {sight.failure}")
    console.say(f"{len(taken)} changes are approved.")
    return console.FAILED if found.unreachable else console.DONE
