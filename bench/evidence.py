"""What evidence costs: a dumpe2fs text of 400 MB, streamed; the layout of 10 000 files on a target of 16 GiB; metrics.

Goals: bounded memory; at most 0.5 s; metrics of a million free extents in at most 1 s and 200 MB.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from target import build, loop_target

from fsage.host import states
from fsage.layouts.program import program
from fsage.studies.paf.model import Fragment, Populate

MB = 10**6
GROUPS, BLOCKS, INODES = 925_183, 32_768, 1_024  # of the PaF study's OST: 113 TiB
RUNS = 6  # free runs of a group, which makes 400 MB
FILES = 10_000
MILLION = 10**6
REPEATS = 9
HEADER = """\
Filesystem volume name:   bench
Block count:              {blocks}
Free blocks:              0
First block:              0
Block size:               4096
Blocks per group:         32768
Inodes per group:         1024


"""


def write_dumpe2fs(path: Path, groups: int, in_group: int = RUNS) -> None:
    """A text as dumpe2fs writes it, of a file system whose groups have so many runs of free blocks each."""
    rng = random.Random(67005)
    with path.open("w") as file:
        file.write(HEADER.format(blocks=groups * BLOCKS))
        for group in range(groups):
            first = group * BLOCKS
            cuts = sorted(rng.sample(range(1, BLOCKS), 2 * in_group))
            runs = list(zip(cuts[::2], cuts[1::2], strict=True))
            listed = ", ".join(f"{first + start}-{first + end - 1}" for start, end in runs)
            file.write(
                f"Group {group}: (Blocks {first}-{first + BLOCKS - 1}) csum 0x{group & 0xFFFF:04x} [ITABLE_ZEROED]\n"
                f"  Block bitmap at {first} (+0)\n  Inode bitmap at {first + 16} (+16)\n"
                f"  Inode table at {first + 32}-{first + 95} (+32)\n"
                f"  {sum(end - start for start, end in runs)} free blocks, 900 free inodes, 0 directories, "
                "900 unused inodes\n"
                f"  Free blocks: {listed}\n"
                f"  Free inodes: {group * INODES + 125}-{(group + 1) * INODES}\n"
            )


def child(argv: list[str]) -> tuple[float, float]:
    """Seconds and peak MiB of a process whose output nobody reads."""
    began = time.monotonic()
    out = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawnp(argv[0], argv, os.environ, file_actions=out)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"bench: {' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - began, usage.ru_maxrss / 1024


def of_text() -> None:
    """fsage evidence on the text, beside cat, wc -l, and itself on a hundredth of it."""
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/dev/shm") as place:
        whole, part = Path(place) / "whole.txt", Path(place) / "part.txt"
        write_dumpe2fs(whole, GROUPS)
        write_dumpe2fs(part, GROUPS // 100)
        fsage = [sys.executable, "-c", "from fsage.cli import main; main()", "evidence", "--json"]
        for name, argv, path in (
            ("cat", ["cat"], whole),
            ("wc -l", ["wc", "-l"], whole),
            ("fsage evidence", fsage, whole),
            ("fsage evidence", fsage, part),
        ):
            seconds, peak_mib = child([*argv, str(path)])
            size_mb = path.stat().st_size / MB
            print(f"{name:15s} {size_mb:5.0f} MB: {seconds:6.2f} s, {size_mb / seconds:6.0f} MB/s, {peak_mib:4.0f} MiB")


def of_metrics() -> None:
    """The program that servers have, on the text of a million free extents, beside an empty Python and wc -l."""
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/dev/shm") as place:
        text, packed = Path(place) / "ost.txt", Path(place) / "evidence.pyz"
        write_dumpe2fs(text, MILLION // 64, 64)
        packed.write_bytes(program())
        for name, argv in (
            ("python3", [sys.executable, "-I", "-c", "pass"]),
            ("wc -l", ["wc", "-l", str(text)]),
            ("fsage metrics", [sys.executable, "-I", str(packed), "evidence", "--openmetrics", str(text)]),
        ):
            seconds, peak_mib = child(argv)
            print(f"{name:15s} of {MILLION} free extents: {seconds:6.2f} s, {peak_mib:4.0f} MiB")


def of_target() -> None:
    """The layout of a state of about FILES files, as evidence.yml has the agent take it."""
    with loop_target(16) as spec:
        steps = [Populate(1, 80, (1 << 20,), seed=1), Fragment(1, 23, seed=1)]
        request = {"study": "bench", "state": "80.23", "steps": steps}
        build(spec, request, steps)
        layouts = [states.evidence(spec, request, False)["evidence"]["layout"] for _ in range(REPEATS)]
    files = layouts[0]["stores"][0]["files"]["filler"]["files"]
    times = [layout["seconds"] for layout in layouts]
    print(f"layout of {files} files on 16 GiB: median {statistics.median(times):.2f} s, longest {max(times):.2f} s")


if __name__ == "__main__":
    of_metrics()
    of_text()
    of_target()
