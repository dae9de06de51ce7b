"""How long the devices below a target ended no request although some waited: a frozen server, a disk that is gone."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from fsage.host.targets.target import Target

EVERY_S = 1.0
COMPLETED, IN_FLIGHT = (0, 4, 11, 15), 8  # places in a block device's `stat` (Documentation/block/stat.rst)


class Stalls:
    """The devices of a target while a phase runs; `longest_s`: by the device's number, where it was over EVERY_S.

    A file system without a block device, such as NFS, has none: what it counts itself is in fsage.model.signs.
    """

    def __init__(self, target: Target) -> None:
        numbers = {os.stat(device).st_rdev for device in target.devices} or {
            os.stat(mount).st_dev for mount in target.mounts
        }
        places = [Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}") for number in numbers]
        self.stats = [place.resolve() / "stat" for place in places if place.exists()]
        self.completed: dict[Path, tuple[int, float]] = {}
        self.looked, self.longest_s = 0.0, dict[str, float]()

    def look(self) -> None:
        """Look at each device, not more often than EVERY_S."""
        if (now := time.monotonic()) - self.looked < EVERY_S:
            return
        self.looked = now
        for path in self.stats:
            with contextlib.suppress(OSError, IndexError):  # the device is gone: then its requests fail
                fields = [int(word) for word in path.read_text(encoding="ascii").split()]
                completed = sum(fields[place] for place in COMPLETED if place < len(fields))
                last, since = self.completed.get(path, (-1, now))
                if completed != last or not fields[IN_FLIGHT]:
                    self.completed[path] = completed, now
                else:
                    name = path.parent.name
                    self.longest_s[name] = max(self.longest_s.get(name, 0.0), round(now - since, 1))
