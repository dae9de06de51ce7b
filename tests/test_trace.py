"""Request traces: the kernel's events against what is known of the file that caused them."""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from local_targets import claimed

from fsage.base import Failure
from fsage.host.instruments import trace
from fsage.host.instruments.cleanup import undo
from fsage.host.system import mounting, places, settings
from fsage.host.targets.opening import open_target
from fsage.layouts import fiemap, machine

MIB = 1 << 20

EVENTS = """# tracer: nop
             fio-4711    [001] .....  2010.000100: block_rq_issue: 7,0 WS 524288 () 8192 + 1024 none,0,0 [fio]
CPU:1 [LOST 12 EVENTS]
    kworker/1:1H-99      [001] .....  2010.000300: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [kworker/1:1H]
             fio-4711    [000] ..s1.  2010.000500: block_rq_issue: 7,0 RA 4096 () 16 + 8 be,0,4 [fio]
     jbd2/loop0-8-77     [000] .....  2010.000700: block_rq_issue: 7,0 D 4096 () 64 + 8 none,0,0 [jbd2/loop0-8]
             fio-4711    [000] ...1   2010.000900: block_rq_issue: 7,0 W 4096 () 24 + 8 [fio]
"""


def test_the_kernels_lines_of_new_and_old_series() -> None:
    assert list(trace.requests_in(EVENTS.splitlines(keepends=True))) == [
        (2010.0001, 8192 * 512, 524288, True),
        (2010.0005, 16 * 512, 4096, False),
        (2010.0009, 24 * 512, 4096, True),
    ]


def test_blkparse_lines() -> None:
    lines = ["0.000000001 WS 8192 524288", "0.5 FN 0 0", "0.75 R 16 4096", "CPU0 (trace):"]
    assert list(trace.requests_of_blkparse(lines)) == [(1e-09, 8192 * 512, 524288, True), (0.75, 8192, 4096, False)]


def test_what_a_buffer_lost_is_counted() -> None:
    stats = "entries: 3\noverrun: 7\ncommit overrun: 1\nbytes: 4096\ndropped events: 5\nread events: 0\n"
    assert trace.lost_in(stats) == 12


def test_a_blktrace_that_does_not_end_is_killed_and_disturbs_nothing(tmp_path, monkeypatch) -> None:
    for name, text in (("blktrace", "trap '' INT; while :; do sleep 0.1; done"), ("blkparse", "")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(trace, "_events", Mock(__name__="_events", side_effect=Failure("not here")))
    monkeypatch.setattr(trace, "BLKTRACE_PATIENCE_S", 0.2)
    with trace.tracing(Mock(devices=["/dev/none"], home=tmp_path / "home")) as noted:
        pass
    assert noted == {"why_none": "the trace of /dev/none was lost: blktrace did not end within 0.2 s"}


@pytest.fixture
def target(local_target: dict[str, Any]):
    claimed(local_target)
    return open_target(local_target)


def written(path: Path, mib: int) -> None:
    """Write by O_DIRECT, one MiB at a time."""
    page = mmap.mmap(-1, MIB)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    for _ in range(mib):
        os.write(descriptor, page)
    os.close(descriptor)


def instances() -> list[str]:
    """What the journal or the machine would have of a trace that goes on."""
    return [mount.point for mount in machine.mounts() if mount.point.startswith(str(trace.PLACE))]


@pytest.mark.root
def test_requests_lie_where_the_file_lies(target) -> None:
    path = target.mounts[0] / "measured" / "file"
    path.parent.mkdir(exist_ok=True)
    with trace.tracing(target) as noted:
        written(path, 16)
    if why := noted.get("why_none"):
        pytest.skip(f"this kernel refuses traces: {why}")
    assert re.fullmatch(r"tracefs block:block_rq_issue|blktrace", noted["source"])
    assert noted["lost_events"] == 0
    columns = noted["columns"]
    assert len({len(values) for values in columns.values()}) == 1
    writes = {
        offset: (at, length)
        for at, offset, length, write in zip(*columns.values(), strict=True)
        if write and any(extent.physical <= offset < extent.physical + extent.length for extent in fiemap.extents(path))
    }
    assert sum(length for _, length in writes.values()) == 16 * MIB, "the whole file, each byte once"
    assert all(0 <= at < 60 for at, _ in writes.values())
    assert not instances() and not settings.journal_of(target.home).path.exists()


@pytest.mark.root
def test_what_a_killed_trace_leaves_goes_with_the_next_and_with_the_release(target) -> None:
    for cleaner in ("next trace", "release"):
        begun = trace.tracing(target)
        begun.__enter__()
        left = settings.journal_of(target.home).entries("trace")
        if not left:
            pytest.skip("this kernel refuses tracefs")
        assert Path(left[0]["instance"]).is_dir()
        if cleaner == "release":
            assert undo(target.home) == [f"the tracing instance {left[0]['instance']} is gone"]
        else:
            with trace.tracing(target) as again:
                pass
            assert "columns" in again
        assert not Path(left[0]["instance"]).exists() and not instances()
        assert not settings.journal_of(target.home).path.exists()


@pytest.mark.root
def test_where_another_targets_trace_is_mounted_nothing_is_put(target) -> None:
    """It goes with that trace, whatever is in it."""
    other = trace.PLACE / "other"
    places.make(other)
    try:
        mounting.mount_call("fsage", str(other), "tracefs", 0, "")
    except OSError as error:
        pytest.skip(f"this kernel refuses tracefs: {error}")
    try:
        with trace.tracing(target):
            left = settings.journal_of(target.home).entries()
            assert [entry for entry in left if str(other) in entry.get("instance", "")] == []
        assert other.is_dir()
    finally:
        mounting.unmount(other)
        other.rmdir()
        trace.PLACE.rmdir()


def test_a_directory_has_no_trace_and_says_so(tmp_path: Path) -> None:
    class Plain:
        name, kind, devices = "here", "directory", ()

    with trace.tracing(Plain()) as noted:  # type: ignore[arg-type]  # the least of a target that it needs
        pass
    assert noted == {"why_none": "target here is a directory: its device is not known"}
