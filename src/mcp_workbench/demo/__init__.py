"""`make demo`: two small MCP servers, a small client, and a tour of what an agent sees."""
