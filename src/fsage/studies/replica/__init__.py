"""The free space of another file system, copied block by block; and `fsage age`.

A study that builds on it may use what follows; all else may change.

- `model`: steps `Replica` and `KeepFreeSpace`, and their base `FreeSpace`;
- `host.free_space_layout`: `read` and `lay`, the free space of a target;
- `report`: the sections `maps` and `agreement`, and `span`, a ratio in words.
"""
