"""The free space of another file system, copied block by block; and `fsage age`."""
