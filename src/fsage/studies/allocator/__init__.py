"""What the block allocator of a full file system costs: one call at a time, cold and warm, by what it looks at."""
