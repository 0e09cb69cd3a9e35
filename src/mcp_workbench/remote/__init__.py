"""Servers that are reached over HTTP. Loaded for the first of them: it brings `httpx2` and OpenSSL."""
