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
    is_kept = known.is_kept()
    if not is_kept:
        catalogue = console.place_of_catalogue(asked.catalogue)
        console.say(printable(f"{catalogue}: not all of this could be written there"))
    return console.DONE if is_kept and not any(sight.failure for sight in sights) else console.FAILED
