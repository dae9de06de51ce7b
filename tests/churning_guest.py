"""What guests of tests/test_forecast.py run: a small file system fills with files until the first is refused."""

from __future__ import annotations

import errno
import os
import random
import sys
from pathlib import Path

from fsage.base import Json
from fsage.base.shell import run
from fsage.host import filesystems
from fsage.host.guests import work
from fsage.host.guests.target import GuestTarget
from fsage.host.system import kernel
from fsage.layouts import inspect
from fsage.layouts.filesystems import of_store
from fsage.layouts.placement import Refused, first_refused
from fsage.studies.kernels.host import guest

KIB, MIB = 1 << 10, 1 << 20
NOBODY = 65534


def churned(job: Json, device: str, point: Path, kind: type[GuestTarget]) -> Json:
    """Fullness at the first refusal, the interval that was forecast at half time, and what it said would lack."""
    number = job["number"]
    draw = random.Random(f"forecast {number}")
    mean_bytes = draw.choice([32, 128, 512, 2048]) * KIB
    if number % 2:
        filesystem = "xfs"
        command = ["mkfs.xfs", "-q", "-i", f"sparse={draw.choice('01')}", device]
    else:
        filesystem = "ext4"
        blocks = f"{draw.choice([64, 128, 256])}M"
        inodes = ["-i", str(draw.choice([8, 32, 128]) * KIB), "-m", draw.choice(["0", "5"])]
        command = ["mkfs.ext4", "-q", "-F", *inodes, device, blocks]
    run(command)
    filesystems.mount(filesystem, device, point)
    at_percent, forecast = filled(point, number, mean_bytes, gone=draw.choice([0.0, 0.2, 0.4]))
    return {"what": f"{filesystem} {mean_bytes // KIB} KiB", "at_percent": at_percent, **forecast._asdict()}


def filled(point: Path, seed: int, mean_bytes: int, gone: float) -> tuple[float, Refused]:
    """Add files as a user, now and then delete one, until one is refused."""
    draw = random.Random(seed)
    made: list[Path] = []
    number = 0
    forecast = None
    empty = os.statvfs(point)
    (point / "files").mkdir()
    os.chown(point / "files", NOBODY, NOBODY)
    while True:
        status = os.statvfs(point)
        if forecast is None and (status.f_bavail < empty.f_bavail / 2 or status.f_ffree < empty.f_ffree / 2):
            layout = inspect.inspect(str(point), 0)
            forecast = first_refused(of_store(layout["stores"][0]), layout["stores"][0], layout["mounted"])
        os.seteuid(NOBODY)
        try:
            if made and draw.random() < gone:
                made.pop(draw.randrange(len(made))).unlink()
            path = point / "files" / f"{number}"
            number += 1
            with open(path, "wb") as file:
                size = max(1, int(mean_bytes * draw.lognormvariate(-0.5, 1)))
                kernel.allocate(file.fileno(), 0, 0, size)
            made.append(path)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            break
        finally:
            os.seteuid(0)
    os.sync()
    [store] = inspect.inspect(str(point), 0)["stores"]
    assert forecast
    return store["fullness_percent"], forecast


if __name__ == "__main__":
    work.WORK["churn"] = churned
    guest.main(Path(sys.argv[1]), Path(sys.argv[2]))
