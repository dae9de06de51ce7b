"""The text of dumpe2fs of a made-up OST: metadata where mkfs.ext4 puts them, and free extents drawn with a seed.

    ./run python bench/made_ost.py ost0012.txt.gz                       113 TiB, 925,183 groups, 5 million free extents
    ./run python bench/made_ost.py small.txt.gz --groups 4000 --extents 20000

Its header and groups are those of an OST as mkfs.lustre makes it, so it reads as a real one. Fullness changes along the
device: some groups are full, some nearly empty. The empty file system is made in /dev/shm, in a sparse file; one of
113 TiB takes 2 GB of memory there.
"""

from __future__ import annotations

import argparse
import gzip
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

Blocks = npt.NDArray[np.int64]
GROUPS, EXTENTS, FULL, SEED = 925_183, 5_000_000, 0.844, 67005
GROUP_BLOCKS, BLOCK_BYTES = 32_768, 4096
MAKE = [
    *("mkfs.ext4", "-q", "-F", "-b", str(BLOCK_BYTES), "-m", "5", "-i", "69905", "-I", "512", "-G", "256"),
    *("-J", "size=1024", "-L", "lustre-OST000c"),
    *("-O", "uninit_bg,flex_bg,^resize_inode,64bit,^metadata_csum,quota,project,large_dir,huge_file"),
    *("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"),
]
WAVES = 40  # from emptier to fuller parts of the device


def drawn(blocks: int, extents: int, full: float, seed: int) -> Blocks:
    """Free extents on a device of so many blocks, a row each; lengths are lognormal, fullness goes in waves."""
    random = np.random.default_rng(seed)
    free = random.lognormal(0.0, 1.6, extents)
    used = random.lognormal(0.0, 1.2, extents)
    fullness = full + (1 - full) * np.sin(np.arange(extents) * 2 * np.pi * WAVES / extents)
    free = np.maximum(1, free / free.mean() * (1 - fullness + 0.001) / (1 - full) * blocks * (1 - full) / extents)
    used = np.maximum(1, used / used.mean() * blocks * full / extents)
    ends = np.cumsum(np.stack([used, free], axis=1).ravel())
    ends = (ends * ((blocks - 1) / ends[-1])).astype(np.int64).reshape(-1, 2)
    return ends[ends[:, 1] > ends[:, 0]]


def written(empty: IO[bytes], free: Blocks, out: IO[bytes]) -> int:
    """Write dumpe2fs' text of the empty file system with these extents free; how many are listed."""
    place, count, total = 0, 0, 0
    starts, ends = free[:, 0].tolist(), free[:, 1].tolist()
    clusters = re.compile(rb"  \d+ free blocks,")
    kept = b""
    for line in empty:
        if line.startswith(b"  Free blocks: "):
            runs: list[tuple[int, int]] = []
            for first, last in _listed(line):
                while place and ends[place - 1] > first:
                    place -= 1
                while place < len(ends) and ends[place] <= first:
                    place += 1
                while place < len(ends) and starts[place] <= last:
                    runs.append((max(first, starts[place]), min(last, ends[place] - 1)))
                    place += 1
            number = sum(last - first + 1 for first, last in runs)
            out.write(clusters.sub(b"  %d free blocks," % number, kept))
            words = (b"%d-%d" % run if run[0] < run[1] else b"%d" % run[0] for run in runs)
            out.write(b"  Free blocks: " + b", ".join(words) + b"\n")
            count, total = count + len(runs), total + number
        elif b" free blocks, " in line:
            kept = line
        else:
            out.write(
                line.replace(b" [INODE_UNINIT, BLOCK_UNINIT", b" [INODE_UNINIT") if line[:6] == b"Group " else line
            )
    return count


def _listed(line: bytes) -> Iterator[tuple[int, int]]:
    for run in line[len("  Free blocks: ") :].strip().split(b", "):
        if run:
            first, _, last = run.partition(b"-")
            yield int(first), int(last or first)


def make(path: Path, groups: int = GROUPS, extents: int = EXTENTS, full: float = FULL, seed: int = SEED) -> int:
    """Write the text, packed where its name ends so; the number of runs that it lists."""
    blocks = groups * GROUP_BLOCKS - 20_480  # the last group is shorter, as on the source study's OST
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/dev/shm") as place:
        image = Path(place) / "empty.img"
        with image.open("wb") as file:
            file.truncate(blocks * BLOCK_BYTES)
        subprocess.run([*MAKE, image, str(blocks)], check=True)
        with subprocess.Popen(["dumpe2fs", image], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as dump:
            assert dump.stdout is not None
            free = drawn(blocks, extents, full, seed)
            with gzip.open(path, "wb", 1) if path.suffix == ".gz" else path.open("wb") as out:
                return written(dump.stdout, free, out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--extents", type=int, default=EXTENTS)
    parser.add_argument("--full", type=float, default=FULL, help="share of the blocks in use")
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    count = make(given.path, given.groups, given.extents, given.full, given.seed)
    print(f"{given.path}: {count:,} runs of free blocks in {given.groups:,} groups")
