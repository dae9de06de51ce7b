"""What a study makes of the free space that `fsage evidence` reads. It takes long to import: use it where it is needed.

- `Free`: where a device is free: `head`, the device, and `places`, an array of starts and ends; `pairs` has them one
  by one, and `store` what else was read;
- `read_free(what, seed)`: that of a source; `seed`: draw what a text of sizes does not say, in one of `DRAWS` draws;
- `save_free(what, path, seed)`: the same, written to a file as a list of free extents;
- `write_free(free, path)`: write one to a file.
"""

from fsage.evidence import DRAWS, Free, read_free, save_free, write_free
