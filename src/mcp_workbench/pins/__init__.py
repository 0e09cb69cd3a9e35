"""What of the servers is approved: `workbench.lock`, what differs from it, and what looks wrong. Pure.

`judge` decides, `canonical` and `entries` say what is the same, `lock_file` reads and writes the file,
`differences` and `scan` are for people to read.
"""

from typing import Final

FILE_NAME: Final = "workbench.lock"
