"""Defragmenting files, and moving ranges of them."""
