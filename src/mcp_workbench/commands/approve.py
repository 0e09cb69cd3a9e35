"""`mcp-workbench approve [NAME ...]`: takes over what has changed: all of it, or what is named."""

from argparse import Namespace

from .. import console
from ..pins.changes import chosen
from .changes import Changes
from .seeing import counted


def run(asked: Namespace) -> int:
    found = Changes.found(asked, start_changed=True)
    for sight in found.unreachable:
        console.say(f"{sight.name}: not approved: {sight.told_failure}")
    names = [name for name in asked.names if not found.explains(name)]
    taken = chosen(found.changes, names) if names or asked.names else found.changes
    if taken:
        if console.say(found.told(taken)) != console.DONE:
            return console.NOT_PRINTED  # what nobody could read is not approved
        found.approve(taken)
        console.say(f"Approved: {counted(len(taken), 'change')}.")
    elif not found.unreachable:
        console.say("Nothing waits for approval.")
    return console.FAILED if found.unreachable else console.DONE
