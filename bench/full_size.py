"""A production file system's layout at its full size: 113 TiB, 925,183 groups, 5 million free extents.

From dumpe2fs' text to a mounted target, beside a C program on the same library. Goals: at most 3 minutes and 4 GB of
memory on 2 cores; at most 2 times the C program; laying it again in at most 10 s. Wants root, cc and 40 GiB of free
disk. --groups and --extents make it smaller, --text takes a text that is there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from made_ost import EXTENTS, GROUPS, make
from target import loop_target

from fsage.base import GIB
from fsage.evidence import save_free
from fsage.host import states
from fsage.host.device import below
from fsage.host.device.copies import clone
from fsage.host.filesystems.ext4 import WritableBitmap
from fsage.host.structure import work
from fsage.host.system import mounting
from fsage.host.targets.opening import open_target
from fsage.layouts import extents
from fsage.layouts.ext4 import BlockBitmap
from fsage.model.structure import ALONE, Notes
from fsage.studies.replica.model import Replica

LAY = r"""
#include <stdint.h>
#include <stdio.h>
/* libext2fs, declared here: its headers need not be installed. */
extern void *unix_io_manager;
long ext2fs_open(const char *, int, int, unsigned, void *, void **);
long ext2fs_read_block_bitmap(void *);
void ext2fs_block_alloc_stats_range(void *, uint64_t, uint64_t, int);
long ext2fs_close(void *);
int main(int argc, char **argv) {
    void *fs;
    uint64_t range[2];
    if (ext2fs_open(argv[1], 1 | 0x20000, 0, 0, unix_io_manager, &fs) || ext2fs_read_block_bitmap(fs)) return 1;
    while (fread(range, sizeof range, 1, stdin) == 1) ext2fs_block_alloc_stats_range(fs, range[0], range[1], 1);
    return ext2fs_close(fs) != 0;
}
"""
EMPTY = {"state": "empty", "steps": [], "study": "bench", "reuse": "fresh"}


def peak_gb() -> float:
    """The most memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


class Took(NamedTuple):
    """Seconds of the clock, and of processors: this process's and its children's, which others' load changes little."""

    seconds: float
    cpu_s: float

    def __add__(self, other: object) -> Took:
        return Took(*map(sum, zip(self, other, strict=True)))

    def __str__(self) -> str:
        return f"{self.seconds:.0f} s ({self.cpu_s:.0f} of processors)"


@contextmanager
def timed(to: list[Took]) -> Iterator[None]:
    """Append what the block takes."""
    began, cpu = time.monotonic(), sum(os.times()[:4])
    yield
    to.append(Took(time.monotonic() - began, sum(os.times()[:4]) - cpu))


def laid(spec: dict, step: Replica, path: Path) -> tuple[Notes, Took, Took]:
    """Make the file system anew and lay a layout on it; what is noted, and what mkfs and the rest took."""
    took: list[Took] = []
    target = open_target(spec)
    with timed(took):
        target.format()
    states.scrub(spec, EMPTY, False)
    target = open_target(spec)
    target.inputs = {step.input or "": str(path)}
    with timed(took):
        notes = work(step, target, [], ALONE, lambda: None).notes
    return notes, took[0], took[1]


def beside_c(spec: dict, places: extents.Extents, folder: Path) -> list[Took]:
    """Taking the blocks that are in use on copies of an empty file system: by fsage, and by the C program."""
    took: list[Took] = []
    target = open_target(spec)
    target.format()
    [store] = target.claim["stores"]
    mounting.unmount(target.mounts[0])
    copy, program, ranges = below.point_of(target.home) / "copy", folder / "lay", folder / "ranges"
    subprocess.run(["cc", "-O2", "-xc", "-", "-o", program, "-l:libext2fs.so.2"], input=LAY.encode(), check=True)

    def fresh() -> None:
        copy.unlink(missing_ok=True)
        with copy.open("wb") as file:
            file.truncate(os.stat(store["image"]).st_size)
        clone(Path(store["image"]), copy)

    def ours() -> None:
        bitmap = WritableBitmap(str(copy))
        bitmap.take(extents.without(list(bitmap.free()), places))
        bitmap.close()
        subprocess.run(["sync", "-f", copy], check=True)

    fresh()
    bitmap = BlockBitmap(str(copy))
    with ranges.open("wb") as file:
        for start, end in extents.without(list(bitmap.free()), places):
            file.write((start // 4096).to_bytes(8, "little") + ((end - start) // 4096).to_bytes(8, "little"))
    bitmap.leave()
    with timed(took):
        ours()
    fresh()
    with timed(took):
        subprocess.run(f"{program} {copy} < {ranges} && sync -f {copy}", shell=True, check=True)
    copy.unlink()
    return took


def main() -> None:
    """Print what each part takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--extents", type=int, default=EXTENTS)
    parser.add_argument("--text", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/var/tmp") as place:
        text, path = given.text or Path(place) / "ost0012.txt.gz", Path(place) / "ost0012.gz"
        if not given.text:
            make(text, given.groups, given.extents)
        took: list[Took] = []
        with timed(took):
            read = save_free(str(text), path)
        print(f"text of {len(read.places):,} free extents read and listed in {took[0]}, {peak_gb():.1f} GB")
        size_gib = -(-read.head.device_bytes // GIB)
        step = Replica(1, path.name, False, 1, 16, 1, hashlib.sha256(path.read_bytes()).hexdigest())
        with loop_target(size_gib, 384, sparse=True, geometry=read.head.geometry) as spec:
            notes, made, lay = laid(spec, step, path)
            print(f"mkfs {made}; laid, mounted and compared {lay}; in all {took[0] + made + lay} (goal 180 s)")
            print(f"at most {peak_gb():.1f} GB (goal 4); all but {1 - notes['agree_share']:.1e} of it agree")
            again, _, copied = laid(spec, step, path)
            print(f"laid again in {copied.seconds:.1f} s (goal 10): {again['held_by']}")
            below.forget_kept(open_target(spec).home)
            ours, c = beside_c(spec, list(read.pairs()), Path(place))
            print(
                f"taking the blocks: {ours}, the C program {c}: {ours.seconds / c.seconds:.2f} times its time, "
                f"{ours.cpu_s / c.cpu_s:.2f} times its processor time (goal 2)"
            )


if __name__ == "__main__":
    main()
