"""Populate and fragment: what fullness costs, and what fragmentation costs.

A study that builds on it may use what follows; all else may change.

- `model`: step `Populate`, and `sizes_of` a generation of its files; `Method`, how they get their blocks, and the usual
  way: `METHOD`, `REQUEST_BYTES`, `FILES_AT_ONCE`;
- `recipe`: `States`, `expand` and the key `DEFAULT` of its `structures`; for keys that say how filler is laid,
  `FilesAtOnce`, `METHOD_HELP`, `REQUEST_HELP` and `AT_ONCE_HELP`.
"""
