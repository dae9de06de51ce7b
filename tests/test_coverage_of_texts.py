"""Layouts that are known whole, told by each kind of text, drawn and laid: does the interval hold the truth?

The table is in docs/background/replica.md.
"""

from __future__ import annotations

import io
import mmap
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from small_filesystems import MAKE, Small

from fsage.evidence import DRAWS, lay
from fsage.host.filesystems.ext4 import WritableBitmap
from fsage.host.system import kernel, mounting
from fsage.layouts import extents, fiemap, fragmentation, saved
from fsage.layouts.ext4 import BlockBitmap
from fsage.studies.replica.report import of_one_more

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(7200)]
MIB, BLOCK = 1 << 20, 4096
DEVICE, FILE, WRITE = 1024 * MIB, 48 * MIB, 16 * MIB
LAYOUTS = 30
LEAST = {"freesp": 0.8, "freesp by group": 0.8, "e2freefrag": 0.65, "mb_groups": 0.65}
"""Draws of the last two agree with each other, not with the layout (docs/background/replica.md)."""
Extents = list[tuple[int, int]]


@contextmanager
def mounted(image: Path) -> Iterator[Path]:
    small = Small("ext4", image, image.parent / "mount")
    small.point.mkdir(exist_ok=True)
    small.mount()
    try:
        yield small.point
    finally:
        mounting.unmount(small.point)


def formatted(image: Path, size: int) -> None:
    image.unlink(missing_ok=True)
    with open(image, "wb") as file:
        file.truncate(size)
    command = [*MAKE["ext4"], "-F", "-i", "8192", "-E", "lazy_itable_init=0", str(image)]
    subprocess.run(command, check=True, capture_output=True)


def aged(image: Path, seed: int) -> None:
    """Files come and go until it is 50 to 88% full; sizes, rounds and fullness are drawn."""
    formatted(image, DEVICE)
    draw = random.Random(seed)
    full, small, rounds = draw.uniform(0.5, 0.88), draw.choice([8, 16, 64, 256, 1024]) << 10, draw.choice([0, 1, 2, 4])
    large = small * draw.choice([4, 16, 64])
    made: list[tuple[Path, int]] = []
    with mounted(image) as point:
        capacity, number = os.statvfs(point).f_bfree * BLOCK, 0

        def fill() -> None:
            nonlocal number
            while sum(size for _, size in made) < capacity * min(0.97, full + 0.08):
                for _ in range(100):
                    size = int(small * (large / small) ** draw.random()) // BLOCK * BLOCK + BLOCK
                    path = point / f"d{number % 16}" / f"{number}"
                    path.parent.mkdir(exist_ok=True)
                    number += 1
                    try:
                        with open(path, "wb") as file:
                            kernel.allocate(file.fileno(), 0, 0, size)
                    except OSError:
                        path.unlink(missing_ok=True)
                        return
                    made.append((path, size))

        fill()
        for _ in range(rounds):
            draw.shuffle(made)
            for path, _ in made[: len(made) * 2 // 5]:
                path.unlink()
            del made[: len(made) * 2 // 5]
            fill()
        draw.shuffle(made)
        used = sum(size for _, size in made)
        while used > capacity * full:
            path, size = made.pop()
            path.unlink()
            used -= size


def new_file(point: Path) -> int:
    """A file written past the cache; in how many pieces it lies."""
    descriptor = os.open(point / "new", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    with mmap.mmap(-1, WRITE) as content:
        for at in range(0, FILE, WRITE):
            os.pwrite(descriptor, content, at)
        os.fsync(descriptor)
    os.close(descriptor)
    return fragmentation.of_file(fiemap.extents(point / "new")).extents


def freesp(free: Extents, group: int | None = None) -> str:
    """As xfs_db's `freesp` prints it; of a group with sums."""
    sizes = [(end - start) // BLOCK for start, end in free]
    lines = [] if group is None else [f"# xfs_db -r -c 'freesp -s -a {group}' /dev/sdb1"]
    lines.append("   from      to extents  blocks    pct")
    for power in range(32):
        own = [size for size in sizes if size.bit_length() == power + 1]
        if own:
            lines.append(f"{1 << power} {(2 << power) - 1} {len(own)} {sum(own)} {100 * sum(own) / sum(sizes):.2f}")
    if group is not None:
        lines += [f"total free extents {len(sizes)}", f"total free blocks {sum(sizes)}"]
    return "\n".join([*lines, ""])


def told(image: Path, free: Extents) -> dict[str, str]:
    """The layout as each kind of text tells it."""
    quarter = DEVICE // 4
    groups = [extents.common(free, [(number * quarter, (number + 1) * quarter)]) for number in range(4)]
    with mounted(image) as point:
        device = output("findmnt", "-no", "SOURCE", str(point)).strip()
        mb_groups = Path("/proc/fs/ext4", Path(device).name, "mb_groups").read_text()
    return {
        "freesp": freesp(free),
        "freesp by group": "".join(freesp(own, number) for number, own in enumerate(groups) if own),
        "e2freefrag": output("e2freefrag", str(image)),
        "mb_groups": mb_groups,
    }


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def laid(image: Path, size: int, free: Extents) -> int:
    """In how many pieces a new file lies in this free space."""
    formatted(image, size)
    bitmap = WritableBitmap(str(image))
    bitmap.take(extents.without(list(bitmap.free()), free))
    bitmap.close()
    with mounted(image) as point:
        return new_file(point)


def drawn(text: str, image: Path) -> list[int]:
    """The pieces of a new file in each draw."""
    store = saved.read(io.BytesIO(text.encode())).summary(0)
    pieces = []
    for draw in range(1, DRAWS + 1):
        head, places = lay(store, (67005, draw))
        pieces.append(laid(image, head.device_bytes, [(start, end) for start, end in places.tolist()]))
    return pieces


def test_the_interval_of_draws_holds_what_the_layout_has() -> None:
    hits = dict.fromkeys(LEAST, 0)
    with TemporaryDirectory(prefix="fsage-coverage-", dir="/dev/shm") as folder:
        true_image, drawn_image = Path(folder, "true"), Path(folder, "drawn")
        for seed in range(LAYOUTS):
            aged(true_image, seed)
            bitmap = BlockBitmap(str(true_image))
            free = list(bitmap.free())
            bitmap.leave()
            by_kind = told(true_image, free)
            with mounted(true_image) as point:
                true = new_file(point)
            for kind, text in by_kind.items():
                pieces = drawn(text, drawn_image)
                print(seed, true, kind, pieces, flush=True)
                interval = of_one_more(pieces)
                # Pieces are whole numbers: half a piece below and above is the same number.
                hits[kind] += bool(interval) and interval[0] - 0.5 <= true <= interval[1] + 0.5
    print(hits, "of", LAYOUTS)
    for kind, least in LEAST.items():
        assert hits[kind] >= least * LAYOUTS, kind
