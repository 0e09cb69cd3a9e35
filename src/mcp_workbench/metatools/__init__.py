"""What an agent reads and writes: the listing, the meta-tools, their arguments and their answers. Pure."""
