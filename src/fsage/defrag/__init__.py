"""How fragmented existing files are, and what defragmenting them would gain."""
