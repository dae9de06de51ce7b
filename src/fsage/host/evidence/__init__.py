"""The layout of file systems, free space and files, from the fastest source that can be trusted; read-only."""
