"""The disk that charges for seeks: its clock, and the real thing on /dev/fuse."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsage.agent import filesystems, mounting
from fsage.agent.device import seek
from fsage.agent.device.seekdisk import MAX_REQUEST_BYTES, Arm
from fsage.agent.errors import Failure
from fsage.agent.shell import run

MIB = 1 << 20
RATE, SEEK_S = 100 * MIB, 0.005


def test_a_request_costs_its_bytes_and_a_seek_where_it_does_not_follow():
    arm = Arm(RATE, SEEK_S)
    assert arm.deadline_s(10.0, 0, MIB) == pytest.approx(10.0 - 0.01 + 0.01), "follows, and may come late"
    assert arm.deadline_s(10.0, MIB, MIB) == pytest.approx(10.01), "follows"
    assert arm.deadline_s(10.0, 0, MIB) == pytest.approx(10.01 + SEEK_S + 0.01), "goes back, after what is under way"
    assert arm.deadline_s(20.0, 5 * MIB, MIB) == pytest.approx(20 + SEEK_S + 0.01), "idle time is not saved up"
    assert arm.deadline_s(30.0, 6 * MIB, MIB) == pytest.approx(30.0), "nor beyond one request's time"


@given(st.lists(st.tuples(st.floats(0, 0.1), st.integers(0, 64), st.integers(1, 256)), min_size=1))
def test_no_order_of_requests_beats_the_rate(requests):
    arm, now, moved = Arm(RATE, SEEK_S), 1.0, 0
    for pause, place, pages in requests:
        done = arm.deadline_s(now, place * MIB, pages * 4096)
        assert done >= now - MAX_REQUEST_BYTES / RATE
        now = max(now + pause, done)
        moved += pages * 4096
    assert now - 1.0 >= moved / RATE - MAX_REQUEST_BYTES / RATE - 1e-9


@pytest.mark.root
def test_a_file_system_on_it_keeps_its_data_and_the_server_goes_with_the_mount(tmp_path: Path):
    backing, content = tmp_path / "backing.img", os.urandom(3 * MIB + 4096)
    backing.touch()
    os.truncate(backing, 64 * MIB)
    with served(backing, tmp_path / "disk") as disk:
        device = run(["losetup", "--find", "--show", "--direct-io=on", str(disk)]).stdout.strip()
        try:
            run(["mkfs.ext4", "-q", device])
            for attempt in range(2):
                filesystems.mount("ext4", device, tmp_path / "mnt")
                file = tmp_path / "mnt/file"
                if not attempt:
                    file.write_bytes(content)
                assert file.read_bytes() == content
                mounting.unmount(tmp_path / "mnt")
        finally:
            mounting.unmount(tmp_path / "mnt")
            run(["losetup", "--detach", device])
    assert b"\x53\xef" in backing.read_bytes()[1024:2048], "an ext4 lies in the backing file itself"


@contextlib.contextmanager
def served(backing: Path, point: Path) -> Iterator[Path]:
    point.mkdir()
    argv = [sys.executable, "-m", "fsage.agent.device.seekdisk", str(backing), str(point), str(400e6), "0.005"]
    run(argv)
    try:
        with pytest.raises(Failure, match="cannot be served"):
            run(argv)  # one disk, one arm
        yield point / "disk"
    finally:
        mounting.unmount(point)
        deadline = time.monotonic() + 10
        while seek.server_of(str(backing)) is not None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
