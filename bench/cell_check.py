"""What the check before each cell costs, against the number of filler files. Goal: 3 ms, however many there are.

The check asks the kernel what others did and how much is free (`events`); all files are looked at when a visit begins
and ends, and where somebody did something (`files`). What brings so many files up and takes them away is beside the
bare system calls in the same places, in time of the processor, which other load changes little. Goal: 1.5 times.

    cell_check.py [FILES ...]     100 and 100000 unless others are given; a million takes a target of 8 GiB
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import sys
import time
from pathlib import Path

from target import build, loop_target

from fsage.host.states.inspection import digest
from fsage.host.states.structure_check import StructureCheck
from fsage.host.structure import files
from fsage.host.targets import Target, claims
from fsage.host.targets.opening import open_target
from fsage.studies.paf.model import Fragment, Populate

FILE_BYTES, PERCENT, DELETED_PERCENT = 4096, 50, 30
CHECKS = 15
INODE_BYTES = 16384  # of a file system for each inode, as mkfs.ext4 has it


def main(counts: list[int]) -> None:
    """Two lines for each number of files."""
    for count in counts:
        with loop_target(max(1, -(-count * INODE_BYTES * 5 // 4 // (1 << 30)))) as spec:
            of_target(spec, count)


def of_target(spec: dict, count: int) -> dict[str, float]:
    """Bring up a state of `count` files, look at it, fragment it; what is printed: ms a check, ratios to bare calls."""
    capacity = open_target(spec).capacity_bytes
    size = max(FILE_BYTES, capacity * PERCENT // 100 // count // 4096 * 4096)
    populate = Populate(1, PERCENT, (size,), seed=1)
    fragment = Fragment(1, DELETED_PERCENT, seed=1)
    took = build(spec, {"state": "populated"}, [populate])
    checks = of_checks(open_target(spec))
    took |= build(spec, {"state": "fragmented"}, [populate, fragment])
    target = open_target(spec)
    target.remount()
    began = time.process_time()
    digest(target.mounts)
    took["digest"] = time.process_time() - began
    populated = populate.sizes(target.capacity_bytes)
    bare = by_hand(target, list(populated), fragment.to_delete(len(populated)))
    said = "; ".join(f"{name} {took[name]:.2f} s, {took[name] / bare[name]:.2f}x" for name in took)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"       beside the bare system calls: {said}; memory at most {peak_mib:.0f} MiB")
    return {
        **{f"check_{name}_ms": ms for name, ms in checks.items()},
        **{name: took[name] / bare[name] for name in took},
    }


def of_checks(target: Target) -> dict[str, float]:
    """Median ms of the check after a remount, by way of looking: what the kernel tells, and all files. Printed too."""
    now = claims.read_token(target.mounts[0])
    assert now
    samples: dict[str, list[float]] = {"events": [], "files": []}
    with contextlib.closing(StructureCheck(target)) as check:
        check.differs(now)
        for number in range(CHECKS):
            target.remount()
            if number % 5 == 4 and target.watch:
                target.watch.lift()
            began = time.monotonic()
            claims.read_token(target.mounts[0])
            differs, looked_at = check.differs(now)
            samples[looked_at].append((time.monotonic() - began) * 1e3)
            assert differs is None
    medians = {name: statistics.median(found) for name, found in samples.items() if found}
    by = ", ".join(f"{name} {ms:.2f} ms" for name, ms in medians.items())
    print(f"{now.files:7d} files: check after a remount by {by}", flush=True)
    return medians


def by_hand(
    target: Target, sizes: list[int], to_delete: set[int], request_bytes: int = 1 << 40, at_once: int = 1
) -> dict[str, float]:
    """Seconds of processor time of the same calls in a bare loop, on the same target when it is empty again."""
    target.format()
    below = target.mounts[0] / "filler" / "g1"
    below.mkdir(parents=True)
    paths = [str(below / f"{index:07d}") for index in range(len(sizes))]
    took, began = {}, time.process_time()
    for first in range(0, len(paths), at_once):
        growing = [os.open(path, files.FRESH, 0o600) for path in paths[first : first + at_once]]
        for offset in range(0, max(sizes[first : first + at_once]), request_bytes):
            for descriptor, size in zip(growing, sizes[first:], strict=False):
                if offset < size:
                    os.posix_fallocate(descriptor, offset, min(request_bytes, size - offset))
        for descriptor in growing:
            os.close(descriptor)
    took["populate"] = time.process_time() - began
    target.remount()
    began = time.process_time()
    for index in sorted(to_delete):
        os.unlink(paths[index])
    took["fragment"] = time.process_time() - began
    target.remount()
    began = time.process_time()
    bare_extents(below)
    took["digest"] = time.process_time() - began
    return took


def bare_extents(below: Path) -> None:
    """Ask where each file lies, and keep nothing."""
    import fcntl

    from fsage.layouts.fiemap import BATCH, EXTENT, FIEMAP_FLAG_SYNC, FS_IOC_FIEMAP, HEADER

    buffer = bytearray(HEADER.size + BATCH * EXTENT.size)
    for entry in os.scandir(below):
        HEADER.pack_into(buffer, 0, 0, 2**64 - 1, FIEMAP_FLAG_SYNC, 0, BATCH, 0)
        descriptor = os.open(entry.path, os.O_RDONLY)
        fcntl.ioctl(descriptor, FS_IOC_FIEMAP, buffer)
        os.close(descriptor)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [100, 100_000])
