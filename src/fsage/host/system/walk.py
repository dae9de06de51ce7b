"""Regular files below a directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path


def regular_files(directory: Path) -> Iterator[Path]:
    """Regular files below a directory, as they come, on its own file system only; links are not followed."""
    device = os.stat(directory).st_dev

    def same(path: str, is_kind: Callable[[int], bool]) -> bool:
        try:
            found = os.lstat(path)
        except OSError:  # it has gone
            return False
        return found.st_dev == device and is_kind(found.st_mode)

    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if same(os.path.join(folder, name), stat.S_ISDIR)]
        yield from (Path(folder, name) for name in names if same(os.path.join(folder, name), stat.S_ISREG))
