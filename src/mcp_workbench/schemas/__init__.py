"""What is done with schemas of tools: told in a line, written for clients, arguments mended by them. Pure."""
