"""The disk that charges for seeks: its clock, and the real thing on /dev/fuse."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsage.base import Failure
from fsage.base.shell import run
from fsage.host import filesystems
from fsage.host.device import models
from fsage.host.system import mounting
from fsage.model.declaration import device_model
from fsage.studies.slowdisk.host import seek
from fsage.studies.slowdisk.host.seekdisk import MAX_REQUEST_BYTES, PAUSE_S, Arm, Costs

MIB = 1 << 20
RATE, SEEK_S, SIZE = 100 * MIB, 0.005, 1024 * MIB


def test_a_request_costs_its_bytes_and_a_seek_where_it_does_not_follow():
    arm = Arm(Costs(RATE, SEEK_S), SIZE)
    assert arm.deadline_s(10.0, 0, MIB) == pytest.approx(10.0 - 0.01 + 0.01), "follows, and may come late"
    assert arm.deadline_s(10.0, MIB, MIB) == pytest.approx(10.01), "follows"
    assert arm.deadline_s(10.0, 0, MIB) == pytest.approx(10.01 + SEEK_S + 0.01), "goes back, after what is under way"
    assert arm.deadline_s(20.0, 5 * MIB, MIB) == pytest.approx(20 + SEEK_S + 0.01), "idle time is not saved up"
    assert arm.deadline_s(30.0, 6 * MIB, MIB) == pytest.approx(30.0), "nor beyond one request's time"


@given(st.lists(st.tuples(st.floats(0, 0.1), st.integers(0, 64), st.integers(1, 256)), min_size=1))
def test_no_order_of_requests_beats_the_rate(requests):
    arm, now, moved = Arm(Costs(RATE, SEEK_S), SIZE), 1.0, 0
    for pause, place, pages in requests:
        done = arm.deadline_s(now, place * MIB, pages * 4096)
        assert done >= now - MAX_REQUEST_BYTES / RATE
        now = max(now + pause, done)
        moved += pages * 4096
    assert now - 1.0 >= moved / RATE - MAX_REQUEST_BYTES / RATE - 1e-9


def test_a_model_has_the_declared_rate_or_half_of_it_and_its_label_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seek.Seek, "unavailable_because", staticmethod(lambda declared: None))
    declared = device_model({"kind": "seek", "bytes_per_s": 100 * MIB})
    for most, rate, words in (
        (100 * MIB, 100 * MIB, "(a disk that charges for seeks, 100 MiB/s, 5 ms"),
        (99 * MIB, 50 * MIB, "(a disk that charges for seeks, 50 instead of 100 MiB/s, 5 ms"),
        (49 * MIB, 25 * MIB, "25 instead of 100 MiB/s"),
    ):
        chosen = models.choose(declared, most)
        assert chosen["bytes_per_s"] == rate and chosen["declared_bytes_per_s"] == 100 * MIB
        assert words in chosen["label"]


def test_inner_tracks_are_slower_by_the_declared_factor():
    arm, took = Arm(Costs(RATE, 0.0, outer_to_inner=2), SIZE), []
    for place in (0, SIZE // 2, SIZE - MIB):
        arm.position_bytes, began = -1, arm.busy_until_s
        took.append(arm.deadline_s(began, place, MIB) - began)
    assert [took[0] / each for each in took] == pytest.approx([1, 0.75, 0.5], rel=2e-3)


def test_noise_is_one_factor_a_burst_and_has_the_declared_spread():
    arm, factors = Arm(Costs(RATE, 0.0, noise_cov=0.05), SIZE), []
    now = 0.0
    for _ in range(2000):
        now += 2 * PAUSE_S
        first = arm.deadline_s(now, 0, MIB)
        factor = arm.factor
        assert arm.deadline_s(first, MIB, MIB) == pytest.approx(first + factor * MIB / RATE, rel=1e-3)
        assert arm.factor == factor, "as long as requests go on"
        factors.append(factor)
        now = arm.busy_until_s
    assert statistics.median(factors) == pytest.approx(1, abs=0.005)
    assert statistics.stdev(factors) / statistics.mean(factors) == pytest.approx(0.05, rel=0.06)
    assert factors[:3] != factors[3:6]
    first, again = [Arm(Costs(RATE, 0.0), SIZE).noise.gauss(0, 1) for _ in range(2)]
    assert first == again, "the same each time"


def test_drift_is_by_the_hour():
    costs = Costs(RATE, 0.0, drift_percent_per_hour=-20, since_s=1000.0)
    assert [costs.drift(1000 + 3600 * hours) for hours in (0, 0.5, 1)] == pytest.approx([1, 0.9, 0.8])
    assert costs.drift(1e9) == 0.1 and math.isclose(costs.drift(1000 - 3600), 1.2)


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
    costs = json.dumps({"bytes_per_s": 400e6, "seek_s": 0.005})
    argv = [sys.executable, "-m", seek.MODULE, str(backing), str(point), costs]
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


CONTAINER = """
import json, os, subprocess, sys, time
from pathlib import Path
from fsage.host import filesystems
from fsage.host.system import namespace
place = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
with namespace.entered([str(place)]):
    module = "fsage.studies.slowdisk.host.seekdisk"
    costs = json.dumps({"bytes_per_s": 400e6, "seek_s": 0.005})
    disk = [sys.executable, "-m", module, str(place / "backing"), str(place / "point"), costs]
    subprocess.run(disk, check=True)
    attach = ["losetup", "--find", "--show", str(place / "point/disk")]
    device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    filesystems.mount("ext4", device, place / "mnt")
    (place / "mnt/file").write_bytes(bytes(64 << 20))
    print(device, os.minor(os.stat(place / "point").st_dev), flush=True)
    time.sleep(600)
"""


@pytest.mark.root
def test_a_container_that_is_killed_leaves_nothing_that_the_kernel_waits_for(tmp_path: Path) -> None:
    """The disk is the last process of it. It must hold no mount of the file system that lies on it."""
    for name in ("point", "mnt", "connections"):
        (tmp_path / name).mkdir()
    with open(tmp_path / "backing", "wb") as backing:
        backing.truncate(256 * MIB)
    apart = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private"]
    container = subprocess.Popen([*apart, sys.executable, "-c", CONTAINER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert container.stdout
    device, connection = container.stdout.readline().split()
    first = int(Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text())
    container.kill()
    container.wait()
    os.kill(first, signal.SIGKILL)
    sync = subprocess.Popen(["sync"])
    try:
        sync.wait(30)
    finally:
        run(["mount", "-t", "fusectl", "none", str(tmp_path / "connections")])
        if sync.poll() is None:  # else it would wait for ever, and all others too
            (tmp_path / "connections" / connection / "abort").write_text("1")
        mounting.unmount(tmp_path / "connections")
        sync.wait(30)
        run(["losetup", "--detach", device])
