"""Two groups that share a device by weight, of which one reads a fragmented file.

A study that builds on it may use what follows; all else may change.

- `recipe`: `States` and `expand`, and the stages `BEFORE` and `AFTER`;
- `weighted`: the `PATTERNS` by which groups read, the file that is `FRAGMENTED`, and `file_of`, its path; `files_among`
  finds the step that made the files.
"""
