"""Small file systems that fill with files until the first is refused: does the forecast of half time hold?"""

from __future__ import annotations

import errno
import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsage import seam
from fsage.evidence.forecast import first_refused
from fsage.host.structure import files

MIB, BLOCK = 1 << 20, 4096
NOBODY, NUMBER = 65534, 60


def churned(point: Path, seed: int, mean: int, gone: float) -> tuple[float, tuple[float, float], str]:
    """Fullness at the first refusal, the interval that was forecast at half time, and what it said would lack."""
    draw, made, number, refused = random.Random(seed), [], 0, None
    empty = os.statvfs(point)
    (point / "files").mkdir()
    os.chown(point / "files", NOBODY, NOBODY)
    while True:
        status = os.statvfs(point)
        if refused is None and (status.f_bavail < empty.f_bavail / 2 or status.f_ffree < empty.f_ffree / 2):
            layout = seam.inspect(str(point), 0)
            refused = first_refused(layout["stores"][0], layout["mounted"])
        os.seteuid(NOBODY)
        try:
            if made and draw.random() < gone:
                made.pop(draw.randrange(len(made))).unlink()
            path = point / "files" / f"{number}"
            number += 1
            with open(path, "wb") as file:
                size = max(1, int(mean * draw.lognormvariate(-0.5, 1)))
                files.allocate(file.fileno(), 0, 0, size)
            made.append(path)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            break
        finally:
            os.seteuid(0)
    os.sync()
    (store,) = seam.inspect(str(point), 0)["stores"]
    assert refused
    return store["fullness_percent"], (refused.low_percent, refused.high_percent), refused.lacks


@pytest.fixture
def place(new_target) -> Iterator[Path]:
    """Where everybody may go."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_first_refusal_comes_where_half_time_said(place):
    held, said = 0, []
    for seed in range(NUMBER):
        draw = random.Random(f"forecast {seed}")
        is_xfs, mean = seed % 2, draw.choice([32, 128, 512, 2048]) << 10
        image, point = place / "image", place / "mount"
        image.unlink(missing_ok=True)
        with open(image, "wb") as file:
            file.truncate((320 if is_xfs else draw.choice([64, 128, 256])) * MIB)
        ext4 = ["mkfs.ext4", "-q", "-F", "-i", str(draw.choice([8, 32, 128]) << 10), "-m", draw.choice(["0", "5"])]
        command = ["mkfs.xfs", "-q", "-i", f"sparse={draw.choice('01')}"] if is_xfs else ext4
        subprocess.run([*command, str(image)], check=True, capture_output=True)
        point.mkdir(exist_ok=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(point)], check=True)
        try:
            at, (low, high), lacks = churned(point, seed, mean, draw.choice([0.0, 0.2, 0.4]))
        finally:
            subprocess.run(["umount", str(point)], check=True)
        is_right = low - 0.1 <= at <= high + 0.1
        held += is_right
        said.append(f"{'xfs' if is_xfs else 'ext4'} {mean >> 10} KiB: {at:.2f}% in {low:.2f} to {high:.2f}%, {lacks}")
        print(is_right, said[-1], flush=True)
    assert held >= 0.9 * NUMBER, "\n".join(said)
