"""Child processes and their whole trees: all that knows the operating system.

A `Spawner` starts children; who spawned a child owns it and calls `end()`, after a crash too. Nobody else
touches the process. What a child started is ended with it, also where it hides; the guard does so when we
are killed.
"""

from .children import Child, Spawner
from .commands import SpawnError
from .descriptors import raise_limit

__all__ = ["Child", "SpawnError", "Spawner", "raise_limit"]
