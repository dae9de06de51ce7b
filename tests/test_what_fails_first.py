"""What can still be had on a full file system, and what fails first: on real ones, as two reports tell of them."""

import contextlib
import json
import os
import subprocess

import pandas as pd
import pytest

from fsage.host.system import caches, kernel, mounting
from fsage.layouts import fiemap
from fsage.report.parts import Data
from fsage.studies.limits import host
from fsage.studies.limits import workloads as limits
from fsage.studies.limits.model import Assignment
from fsage.studies.limits.report import answer, section

pytestmark = pytest.mark.root
MIB = 1 << 20
BLOCK = 4096
PUNCH = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


@pytest.fixture
def made(tmp_path, new_target):
    """Makes and mounts a file system of so many MiB."""
    with contextlib.ExitStack() as undo:
        image, point = tmp_path / "image", tmp_path / "mount"

        def make(command, mib):
            image.touch()
            os.truncate(image, mib * MIB)
            subprocess.run([*command, str(image)], check=True, capture_output=True)
            point.mkdir()
            subprocess.run(["mount", "-o", "loop", str(image), str(point)], check=True)
            undo.callback(mounting.unmount, point)
            return point

        yield make


def prepared(point):
    """As `looks` prepares its folder, for one look."""
    (point / "names0").mkdir()
    taken(point / "linked", BLOCK, least=BLOCK)
    return point


def taken(path, size, least, pieces=None):
    """Give a file all that can be had by requests of `size`, halved down to `least`; each in so many pieces more."""
    with open(path, "wb") as file:
        end = 0
        while size >= least:
            before = len(fiemap.extents(path))
            try:
                kernel.allocate(file.fileno(), 0, end, size)
            except OSError:
                size //= 2
                continue
            if pieces and end and len(fiemap.extents(path)) > before + pieces:
                file.truncate(end)
                caches.flush(path.parent)
                size //= 2
                continue
            end += size
            if least == BLOCK == size:
                return


@pytest.mark.parametrize(
    ("hole_blocks", "sparse", "had"),
    [(4, 1, "ENOSPC"), (8, 0, "ENOSPC"), (8, 1, 1)],
    ids=["16K with sparse inodes", "32K without", "32K with"],
)
def test_an_xfs_that_is_half_full_and_has_no_inode(made, hole_blocks, sparse, had):
    """amazon-eks-ami#1224: 51% full, `touch` fails. No run holds 64 inodes, or with sparse inodes 16 KiB of them."""
    point = prepared(made(["mkfs.xfs", "-q", "-i", f"sparse={sparse}"], 320))
    taken(point / "all", 64 * MIB, least=2 * BLOCK)
    size, hole, apart = (point / "all").stat().st_size, hole_blocks * BLOCK, 2 * hole_blocks * BLOCK
    with open(point / "all", "r+b") as file:
        for at in range(0, size - apart, apart):
            kernel.allocate(file.fileno(), PUNCH, at, hole)
    caches.flush(point)
    taken(point / "run", MIB, least=2 * hole, pieces=1)  # where XFS keeps its reserve, one run is free
    seen = host.look(point, 0)
    assert 45 < seen["full_percent"] < 65 and seen["free_bytes"] > 100 * MIB
    assert seen["had"]["inode"] == had


def test_a_small_xfs_refuses_files_with_278_blocks_left(made):
    """linux-xfs, February 2022: 184,320 bytes of 16 MiB are left to users, 278 blocks are free, and `touch` fails."""
    point = prepared(made(["mkfs.xfs", "-q", "--unsupported", "-d", "agcount=1"], 16))
    with open(point / "fill", "wb") as file:
        for number in range(2000):
            try:
                (point / f"{number}").touch()
            except OSError:
                break
            if number > 60:  # one chunk of inodes
                kernel.allocate(file.fileno(), 0, (number - 61) * 4 * BLOCK, 4 * BLOCK)
    seen = host.look(point, 0)
    assert 100 << 10 < seen["free_bytes"] < 300 << 10 and 97 < seen["full_percent"] < 99
    assert seen["had"]["inode"] == "ENOSPC" and seen["had"]["piece_2m"] == "ENOSPC"


@pytest.mark.parametrize("make", [["mkfs.ext4", "-q", "-F"], ["mkfs.xfs", "-q"]], ids=["ext4", "xfs"])
def test_larger_pieces_fail_first_and_all_is_given_back(made, make):
    point = made(make, 320)
    (point / "measured").mkdir()
    looks = host.looks(Assignment(str(point / "measured"), 8, MIB))
    full = [seen["full_percent"] for seen in looks]
    assert full == sorted(full) and full[-1] > 99
    assert looks[0]["had"]["inode"] == looks[0]["had"]["piece_2m"] == 1
    metrics = limits._judge(limits.Params(iteration=1), {"rc": 0, "stdout": json.dumps(looks), "stderr": ""})
    names = [f"piece_{size}_fails_at_percent" for size in ("256m", "32m", "2m")]
    fails = [metrics[name] for name in names if name in metrics]
    assert len(fails) > 1 and fails == sorted(fails), "what needs a longer run fails earlier"
    assert metrics["from_full_percent"] == fails[0], "256 MiB lie in pieces at once: the device has 320"


def test_the_report_says_of_each_layout_what_fails_first():
    rows = [
        {"from_full_percent": 51.0, "inode_fails_at_percent": 51.0, "inode_fails_errno": 28,
         "inode_fails_free_mib": 150.0},
        {"from_full_percent": 90.0, "piece_2m_fails_at_percent": 93.2, "piece_2m_fails_pieces": 3,
         "piece_2m_fails_free_mib": 20.0, "tree_fails_at_percent": 99.0, "tree_fails_errno": 28,
         "tree_fails_free_mib": 0.5},
        {"from_full_percent": 10.0},
        {"from_full_percent": 80.0, "inode_fails_at_percent": 85.0, "inode_fails_errno": 28},
        {"from_full_percent": 90.0, "inode_fails_at_percent": 95.0, "inode_fails_errno": 28},
    ]  # fmt: skip
    frame = pd.DataFrame([{"status": "valid", "state": name, **row} for name, row in zip("abcdd", rows, strict=True)])
    data = Data(pd.DataFrame(), ["a", "b", "c", "d"], pd.DataFrame(), [], frame)
    shown = section(data)
    assert shown and len(shown.table) == 1 + 4 * 6
    assert " ".join(answer(data).sentences) == (
        "a, 51.0% full: a new file's inode (XFS: a chunk of them) can no longer be had now (ENOSPC). "
        "b, 90.0% full: 2 MiB in one piece fails at 93.2% (in 3 pieces). Next is a block of an extent tree at 99.0%. "
        "c, 10.0% full: all that is tried can be had until nothing is left. "
        "d, 80.0 to 90.0% full: a new file's inode (XFS: a chunk of them) fails at 85.0% (ENOSPC)."
    )
    assert section(Data(pd.DataFrame(), [], pd.DataFrame(), [], frame.drop(columns="from_full_percent"))) is None
