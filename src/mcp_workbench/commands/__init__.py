"""The commands beside `serve`, a module each: `run` does what was asked, and gives the exit code."""
