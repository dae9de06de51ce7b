"""Preallocation: how much the file system, or the servers of Lustre, give a file at a time."""
