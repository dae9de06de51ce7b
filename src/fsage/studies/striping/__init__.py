"""Files and databases in static and dynamic layouts of stripes.

A study that builds on it may use what follows; all else may change.

- `model`: step `Stripe`, its base `Layout`, and the map of a striped file: `Segment`, `counts`, `file_bytes`,
  `osts_of`, `pieces`.
- `host`: `stripe_folder` and `astray`, for files that lie as a segment does.
- `recipe`: `Patterned` and `expand`, a state for each pattern.
- `striped`, for workloads: `Params`, `check`, `clients`, `controlled`, `layout`, `opened`, `eviction_seconds`, `noted`,
  `objects`, `ost_bytes` and `check_objects`.
- `report`: `VIEW`; `advice`: `options`.
"""
