"""What looks wrong in what servers say, for a person to look at before approving it."""

from collections.abc import Iterator, Sequence

from ..knowledge import NOTHING_SAID
from ..pins import scan
from ..printable import printable
from .seeing import Sight


def findings(sights: Sequence[Sight]) -> Iterator[str]:
    """Each with its server and tool."""
    servers = {sight.origin.server for sight in sights}
    for sight in sights:
        others = servers - {sight.origin.server}
        foreign = {name for other in sights for name in other.tools} - sight.tools.keys()
        for name, tool in sight.tools.items():
            found = scan.findings(tool.definition, sight.origin.server, others, other_tools=foreign)
            yield from (printable(f"{'/'.join((*sight.origin, name))}: {it}") for it in found)
        if sight.instructions != NOTHING_SAID:
            said = scan.findings(
                bytes(sight.instructions),
                sight.origin.server,
                others,
                other_tools=foreign,
                place="instructions",
            )
            yield from (printable(f"{'/'.join(sight.origin)}: {it}") for it in said)
