"""MCP Workbench: many MCP servers behind one, grouped into named toolboxes."""

__version__ = "0.1.0"
