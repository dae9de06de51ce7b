"""A fragmented file, before and after its file system's own defragmentation."""
