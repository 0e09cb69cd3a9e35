"""`mcp-workbench warm`: sees every server once, so that what they offer is known before they are opened."""

from argparse import Namespace

from .. import console
from ..printable import printable
from .seeing import see, wanted


def run(asked: Namespace) -> int:
    place, configuration = console.read(asked.config, asked.toolboxes)
    known = console.knowledge(configuration, place, asked.catalogue)
    sights = see(place, configuration, known, wanted(configuration, asked.toolboxes))
    for sight in sights:
        told = sight.failure or f"{len(sight.tools)} tools"
        console.say(printable(f"{'/'.join(sight.origin)}: {told}"))
    return console.FAILED if any(sight.failure for sight in sights) else console.DONE
