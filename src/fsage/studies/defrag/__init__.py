"""A fragmented file, before and after its file system's own defragmentation.

A study that builds on it may use what follows; all else may change.

- `model`: step `Defragment`, and `whole_mib`, a share of the capacity;
- `host`: `MORE_PERCENT` extents that an allocator may make;
- `report`: `extents_words`.
"""
