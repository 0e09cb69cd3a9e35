"""`mcp-workbench warm`: sees every server once, so that what they offer is known before they are opened."""

from argparse import Namespace

from .. import console
from .seeing import counted, see, wanted


def run(asked: Namespace) -> int:
    place, configuration = console.read(asked.config, asked.toolboxes)
    known = console.knowledge(configuration, place, asked.catalogue)
    sights = see(place, configuration, known, wanted(configuration, asked.toolboxes))
    for sight in sights:
        told = f"FAILED: {sight.told_failure}" if sight.failure else counted(len(sight.tools), "tool")
        console.say(f"{sight.name}: {told}")
    is_kept = known.is_kept()
    if not is_kept:
        catalogue = console.place_of_catalogue(asked.catalogue)
        console.say(f"{catalogue}: not all of this could be written there")
    return console.DONE if is_kept and not any(sight.failure for sight in sights) else console.FAILED
