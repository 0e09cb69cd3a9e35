"""`mcp-workbench approve [NAME ...]`: takes over what has changed: all of it, or what is named."""

from argparse import Namespace

from .. import console
from ..pins.changes import Kind, chosen
from .changes import Changes
from .findings import findings
from .seeing import counted


def run(asked: Namespace) -> int:
    found = Changes.found(asked, asked.names)
    for sight in found.unreachable:
        console.say(f"{sight.name}: not approved: {sight.told_failure}")
    names = [name for name in asked.names if not found.explains(name)]
    taken = chosen(found.changes, names) if names or asked.names else found.changes
    if not taken:
        if not found.unreachable:
            console.say("Nothing waits for approval.")
        return console.FAILED if found.unreachable else console.DONE
    shown = [found.told(taken), *(f"look at this: {finding}" for finding in findings(found.seen))]
    if console.say("\n".join(shown)) != console.DONE:
        return console.NOT_PRINTED  # what nobody could read is not approved
    found.approve(taken)
    console.say(f"Approved: {counted(len(taken), 'change')}.")
    if any(change.kind in (Kind.SERVER_NEW, Kind.ENTRY_CHANGED) for change in taken):
        console.say("What these servers offer waits: run mcp-workbench diff again, which starts them now.")
    return console.FAILED if found.unreachable else console.DONE
