"""`mcp-workbench lock`: approves all servers as they are now, and writes that to `workbench.lock`."""

from argparse import Namespace

from .. import console
from ..approvals import Approvals
from ..knowledge import Knowledge
from ..pins.lock_file import Lock
from .changes import by_hash
from .findings import findings
from .seeing import counted, see


def run(asked: Namespace) -> int:
    place, configuration = console.read(asked.config, asked.toolboxes)
    servers = configuration.servers()
    approvals = Approvals(console.place_of_lock(place))
    before = approvals.lock
    known = Knowledge(configuration, console.catalogue(asked.catalogue))
    sights = see(place, configuration, known, servers)
    seen = [sight for sight in sights if not sight.failure]
    failed = {sight.origin for sight in sights if sight.failure}
    kept = Lock(
        {
            toolbox: {
                name: pins
                for name, pins in those.items()
                if (toolbox, name) in failed | configuration.disabled
            }
            for toolbox, those in before.toolboxes.items()
        }
    )
    approvals.replace(
        kept,
        [
            change
            for it in seen
            for change in approvals.differing(
                Lock(), it.origin, servers[it.origin], it.tools, it.instructions
            )
        ],
    )
    known.keep_approved(by_hash(configuration, seen))
    for sight in sights:
        told = f"not approved: {sight.told_failure}" if sight.failure else counted(len(sight.tools), "tool")
        console.say(f"{sight.name}: {told}")
    for finding in findings(seen):
        console.say(f"look at this: {finding}")
    console.say(f"{approvals.place} is written")
    return console.FAILED if failed else console.DONE
