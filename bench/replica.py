"""What a replica costs: 100 000 free extents on an ext4 of 16 GiB, beside a C loop that only punches them.

Goal: at most 3 times as long. With --text: windows of a text of 400 MB, at most 2.5 times `zcat | wc`. Wants cc.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import random
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from evidence import GROUPS, write_dumpe2fs
from target import loop_target

from fsage.evidence import read_free
from fsage.host import states
from fsage.host.structure import files, work
from fsage.host.structure.quota import Quota
from fsage.host.targets.opening import open_target
from fsage.layouts import extents, fiemap
from fsage.layouts.extents import Head
from fsage.model.structure import ALONE, path_of
from fsage.studies.replica.free import Windows
from fsage.studies.replica.host import free_space_layout
from fsage.studies.replica.model import Replica

COUNT, BLOCK, DEVICE_BYTES = 100_000, 4096, 16 << 30
PUNCH = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int fd = open(argv[1], O_WRONLY);
    long long offset, length;
    while (scanf("%lld %lld", &offset, &length) == 2)
        if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length)) { perror(argv[1]); return 1; }
    return fsync(fd);
}
"""


def of_replica() -> None:
    """The step, from the request's text to what is read back, and the loop on a file of its own."""
    with loop_target(DEVICE_BYTES >> 30) as spec, tempfile.TemporaryDirectory() as place:
        target = open_target(spec)
        _, room = free_space_layout.read(target)
        draw = random.Random(67005)
        starts = sorted(draw.sample(range(0, DEVICE_BYTES // BLOCK - 12, 12), COUNT))
        wanted = extents.common([(at * BLOCK, (at + draw.randint(1, 11)) * BLOCK) for at in starts], room)
        text = b"".join(extents.written(Head(DEVICE_BYTES, BLOCK, 128 << 20, "ext4", "bench"), wanted))
        name = hashlib.sha256(text).hexdigest()
        step = Replica(1, "bench.gz", False, 1, 16, 1, name)
        target.inputs = {name: base64.b64encode(zlib.compress(text)).decode()}
        began = time.monotonic()
        notes = work(step, target, [], ALONE, lambda: None).notes
        ours_s = time.monotonic() - began

        states.scrub(spec, {"state": "empty", "steps": [], "study": "bench", "reuse": "fresh"}, False)
        target = open_target(spec)
        files.make_room(target.mounts, 1)
        path, program = path_of(target.mounts, 1, 0), Path(place) / "punch"
        Quota(target).rest(path)
        pieces = sorted(fiemap.extents(path), key=lambda piece: piece.physical)
        holes = "".join(f"{offset} {length}\n" for offset, length in sorted(free_space_layout.within(pieces, wanted)))
        subprocess.run(["cc", "-O2", "-xc", "-", "-o", program], input=PUNCH.encode(), check=True)
        began = time.monotonic()
        subprocess.run([program, path], input=holes.encode(), check=True)
        loop_s = time.monotonic() - began
    print(
        f"replica of {len(wanted)} free extents: {ours_s / loop_s:.2f} times a C loop on them ({loop_s:.1f} s); "
        f"{100 * notes['agree_share']:.3f}% agree, {notes['found']['free_extents']} free extents"
    )


def of_text() -> None:
    """A sample of windows, beside unpacking and counting lines."""
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/dev/shm") as place:
        plain, packed = Path(place) / "ost.txt", Path(place) / "ost.txt.gz"
        write_dumpe2fs(plain, GROUPS)
        packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
        plain.unlink()
        began = time.monotonic()
        subprocess.run(f"zcat {packed} | wc", shell=True, check=True, stdout=subprocess.DEVNULL)
        wc_s = time.monotonic() - began
        began = time.monotonic()
        Windows(read_free(str(packed)), 16).sample(DEVICE_BYTES, 1, 1)
        ours_s = time.monotonic() - began
    print(f"windows of a text of {GROUPS} groups: {ours_s / wc_s:.2f} times zcat | wc ({wc_s:.1f} s)")


if __name__ == "__main__":
    of_replica()
    if "--text" in sys.argv:
        of_text()
