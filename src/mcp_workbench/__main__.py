"""`python -m mcp_workbench`."""

import sys

from .cli import main

sys.exit(main())
