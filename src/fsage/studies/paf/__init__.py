"""Populate and fragment: what fullness costs, and what fragmentation costs.

A study that builds on it may use what follows; all else may change.

- `model`: step `Populate`, and `sizes_of` a generation of its files;
- `recipe`: `States`, `expand` and the key `DEFAULT` of its `structures`; `FilledOneWay`, keys of a block `states:` that
  say how filler is laid.
"""
