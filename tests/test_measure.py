"""Measuring on a real target: cold caches or no number, raw output kept, what cannot run here said."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
from local_targets import claimed
from measuring import STEPS, asked, cell, holder, observed

from fsage.base import Failure, Refusal
from fsage.host import states
from fsage.host.cells import measure, phases
from fsage.host.system import caches
from fsage.host.system import commands as of_commands
from fsage.host.targets import lease
from fsage.host.targets.opening import open_target
from fsage.layouts import fiemap
from fsage.records import make_record
from fsage.workloads import Unsupported, device_range, metadata

MIB = 1 << 20


@pytest.fixture
def spec(local_target: dict) -> dict:
    claimed(local_target)
    states.reach(local_target, asked([]))
    return local_target


def recorded(spec: dict, name: str, tmp_path: Path) -> dict:
    """The record of an observation."""
    seen, path = observed(spec, name)
    raw = tmp_path / path.name
    raw.write_text(path.read_text())
    record = make_record(seen, raw, tmp_path)
    assert record["status"] == "valid", record["why"]
    return record


@pytest.mark.root
def test_a_cell_leaves_all_that_a_record_needs(spec, tmp_path):
    answer = measure.measure(spec, asked([cell(spec, "one", direct=False)]), False)
    assert (answer["changed"], answer["msg"]) == (True, "measured 1 of 1 cells")
    assert (answer["measured"], answer["remaining"], answer["lost"], answer["undone"]) == (1, 0, None, None)
    record = recorded(spec, "one", tmp_path)
    assert record["metrics"]["write_bytes"] == record["metrics"]["read_bytes"] == 64 * MIB
    write, read = record["phases"]
    assert read["cached_pages"] == 0 and write["extents"]["bytes"] == 64 * MIB
    assert write["extents"]["jumps"] <= write["extents"]["extents"] - 1
    assert write["counters"]["device"][0]["counts"]["write_ms"] > 0
    assert record["layout"]["filler_files"] == record["layout"]["generations"][0]["files"]
    assert record["conditions"]["tools"]["fio"] and record["kernel"] and record["host"]
    (disk,) = record["conditions"]["disks"]
    assert disk["rotational"] in (0, 1) and disk["mb_max_linear_groups"] == (4 if disk["rotational"] else 0)
    assert record["structure"] == f"PAF:30.00:1@8M<{record['layout']['capacity_bytes'] // 1024}"
    assert "stdout" not in write and "fio version" in observed(spec, "one")[0]["phases"][0]["stdout"]
    assert not list((open_target(spec).mounts[0] / "measured").iterdir())


@pytest.mark.long
@pytest.mark.root
def test_a_file_lies_where_those_at_the_places_before_leave_room(spec):
    third = cell(spec, "third", place=3)
    assert [phase["name"] for phase in third["phases"]] == ["place_1", "place_2", "write", "read"]
    cells = [third, cell(spec, "first"), {**third, "name": "again"}]
    assert measure.measure(spec, asked(cells), False)["measured"] == 3
    lie = {}
    for each in cells:
        seen, _ = observed(spec, each["name"])
        assert seen["status"] == "done", seen["why"]
        lie[each["name"]] = [phase["extents"] for phase in seen["phases"] if "extents" in phase]
    assert [extents["files"] for extents in lie["third"]] == [1, 1, 1]
    assert lie["third"] == lie["again"] and lie["third"][0]["extents"] == lie["first"][0]["extents"]
    assert len({extents["mean_position"] for extents in lie["third"]}) == 3, "each lies elsewhere"


@pytest.mark.root
def test_a_read_whose_pages_stay_in_the_cache_fails(spec, monkeypatch):
    """Between write and read somebody locks the file into memory: dropping caches does not drop it."""
    monkeypatch.setattr(of_commands, "GRACE_S", 0.5)
    spec["allocator_reset"] = "none"
    locked = cell(spec, "locked")
    holder = (
        "import ctypes,mmap,os,sys; os.fork() and sys.exit(); os.setsid();"
        "f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),1<<20); m[:];"
        "ctypes.CDLL(None).mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))),1<<20);"
        "open(sys.argv[2],'w').write(str(os.getpid()));"
        "[os.close(n) for n in (1,2)];"
        "import time; time.sleep(30)"
    )
    pid = Path(spec["home"]) / "pid"
    mount = open_target(spec).mounts[0]
    await_it = f"for look in $(seq 200); do [ ! -s {pid} ] && sleep 0.05; done; true"
    script = f'python3 -c "{holder}" {mount}/measured/measured.0.0 {pid}; {await_it}'
    lock = {"name": "lock", "argv": ["sh", "-c", script], "reads": False}
    locked["phases"].insert(1, lock)
    locked["phases"].append({"name": "after", "argv": ["true"], "reads": False})
    try:
        measure.measure(spec, asked([locked]), False)
    finally:
        with contextlib.suppress(ProcessLookupError):  # fsage ended it, and somebody waited for it
            os.kill(int(pid.read_text()), 9)
    seen, _ = observed(spec, "locked")
    assert seen["status"] == "failed"
    assert "pages of its files stayed in the cache" in seen["why"]
    assert [phase["name"] for phase in seen["phases"]] == ["write", "lock", "read"], "nothing ran after that"
    assert "rc" not in seen["phases"][2]


def test_a_directory_in_which_its_owner_may_not_write_costs_no_cell(directory_target):
    """Before the session, and during one by a cell's own command."""
    measured_files = claimed(directory_target).mounts[0] / "measured"
    nothing = asked([]) | {"steps": []}
    states.scrub(directory_target, nothing, False)
    measured_files.chmod(0o500)
    words = ["sh", "-c", f"echo x >{measured_files}/file && chmod 500 {measured_files}"]
    each = {"kind": "planned", "order": 1, "attempt": 1, "params": {}, "phases": [{"name": "w", "argv": words}]}
    measure.measure(directory_target, nothing | {"cells": [{"name": name, **each} for name in ("a", "b")]}, False)
    assert [observed(directory_target, name)[0]["why"] for name in ("a", "b")] == [None, None]
    assert list(measured_files.iterdir()) == [] and measured_files.stat().st_mode & 0o777 == 0o700


@pytest.mark.root
def test_what_cannot_be_measured_is_said_before_anything_is_written(spec):
    with pytest.raises(Refusal, match="was claimed anew"):
        measure.measure(spec, asked([cell(spec, "old")], claim="another"), False)
    elsewhere = asked([cell(spec, "x")], steps=[replace(STEPS[0], percent=40)])
    answer = measure.measure(spec, elsewhere, False)
    assert answer["measured"] == 0 and answer["remaining"] == 1 and "requested is" in answer["lost"]
    answer = measure.measure(spec, asked([{**cell(spec, "large"), "makes_bytes": 1 << 40}]), False)
    seen, _ = observed(spec, "large")
    assert (seen["status"], seen["phases"], answer["lost"]) == ("failed", [], None)
    assert re.search(f"its files take {1 << 40} bytes, and state 30.00 has room for [0-9]+; declare", seen["why"])


@pytest.mark.long
@pytest.mark.root
def test_a_late_program_fails(spec):
    late = cell(spec, "late")
    late["phases"][0].update(argv=["sleep", "60"], timeout_s=0.5)
    late["estimate_s"] = 7.25
    measure.measure(spec, asked([late]), False)
    seen, _ = observed(spec, "late")
    assert seen["status"] == "failed" and seen["phases"][0]["timed_out"] and seen["phases"][0]["wall_s"] < 20
    assert seen["why"] == (
        "write: it had not ended after 0.5 s, its limit. The whole cell was estimated to take 7.2 s. A phase may take "
        "10 times that, at least 900 s"
    )


@pytest.mark.root
def test_a_phase_may_take_as_long_as_its_estimate_wants(spec, monkeypatch):
    """A file of 4 TB is estimated at hours, and what is estimated at a second has a quarter of an hour."""
    given = []

    def run(commands, check_alive, timeout_s, **how):
        given.append(timeout_s)
        return [{"argv": list(argv), "rc": 0, "line_s": [], "timed_out": False, "wall_s": 0.0} for argv in commands]

    monkeypatch.setattr(phases.commands, "run", run)
    cells = [{**cell(spec, name), "estimate_s": estimate_s} for name, estimate_s in (("hours", 5000.0), ("quick", 1.0))]
    measure.measure(spec, asked(cells), False)
    assert given == [50_000.0, 50_000.0, 900.0, 900.0]
    assert [phase["limit_s"] for phase in observed(spec, "hours")[0]["phases"]] == given[:2], "on record"


@pytest.mark.long
@pytest.mark.root
def test_many_files_leave_the_state_as_it_was(spec):
    """A directory of ext4 does not shrink again: what made it large must not be in the state."""
    params = {"workload": "metadata", "tool": "fio", "files_per_task": 5000}
    cells = [cell(spec, name, **params) for name in ("first", "second")]
    done = measure.measure(spec, asked(cells), False)
    assert (done["measured"], done["lost"]) == (2, None)
    outcome = metadata.read(observed(spec, "second")[0])
    assert outcome.status == "valid" and outcome.metrics["create_files"] == 5000, outcome.why


@pytest.mark.root
def test_what_was_measured_comes_home_where_the_state_cannot_be_built_again(spec, monkeypatch):
    """A refusal says that nothing was touched, and then nothing is fetched."""

    def refuse(*given: object) -> None:
        raise Refusal("its OST is gone: nothing was touched")

    answers = [{"lost": "a file is gone", "undone": "1 of 2 cells were not measured"}]
    with monkeypatch.context() as patch:
        patch.setattr(measure, "measure", lambda *given: answers[0])
        patch.setattr(measure.states, "reach", refuse)
        undone = measure.measure_all(spec, asked([]), False)["undone"]
    assert (
        undone
        == "1 of 2 cells were not measured. The state cannot be built again: its OST is gone: nothing was touched"
    )
    monkeypatch.setattr(measure.Session, "cell", refuse)
    with pytest.raises(Failure, match="cell x: its OST is gone"):
        measure.measure_all(spec, asked([cell(spec, "x")]), False)


def test_cached_pages_are_counted(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * (8 * mmap.PAGESIZE))
    assert caches.cached_pages([path]) == 8
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert caches.cached_pages([path]) == 0


def test_neighbouring_extents_are_one():
    apart = fiemap.Extent(8192, 0, 1, False)
    pieces = [fiemap.Extent(0, 4096, 4096, False), fiemap.Extent(4096, 8192, 4096, False), apart]
    assert fiemap.merged(pieces) == [fiemap.Extent(0, 4096, 8192, False), apart]


def far() -> dict:
    """A run on a machine of which nothing is known."""
    return holder(run="far", host="elsewhere", machine="another")


def noted(place: Path) -> dict:
    return json.loads((place / "lease.json").read_text())


@pytest.mark.root
@pytest.mark.parametrize("ends", [True, False], ids=["with its run", "alone"])
def test_a_command_that_a_signal_ends_with_its_run_is_interrupted_and_alone_has_failed(spec, ends):
    """Who kills a run may kill its fio first."""
    killed = cell(spec, "killed")
    with subprocess.Popen(["sleep", "60"]) as run:
        killed["phases"][0]["argv"] = ["sh", "-c", "kill -9 $$"]
        if ends:
            killed["phases"][0]["argv"][2] = f"(sleep 0.3; kill -9 {run.pid}) >&- 2>&- & kill -9 $$"
        by_run = holder(pid=run.pid, pid_start=lease.start_of(run.pid))
        ended = pytest.raises(Failure, match="0 of 1 cells were measured and kept")
        Thread(target=run.wait).start()  # a process that nobody waits for is still there
        with ended if ends else contextlib.nullcontext():
            measure.measure(spec, asked([killed], **by_run), False)
        run.kill()
    if ends:
        assert not list((Path(spec["home"]) / spec["name"] / "outbox").rglob("killed.*.json"))
        assert measure.measure(spec, asked([cell(spec, "killed")]), False)["measured"] == 1
    seen, _ = observed(spec, "killed")
    assert (seen["status"], seen["why"]) == (("done", None) if ends else ("failed", "write: exit code -9"))


def test_a_lease_is_the_living_runs(tmp_path):
    lease.take(tmp_path, holder())
    lease.take(tmp_path, holder())  # its own
    with pytest.raises(Refusal, match=r"held by run r1 \(process \d+ on .*: snakemake\); nothing was touched"):
        lease.take(tmp_path, holder(run="r2"))
    with pytest.raises(Refusal, match="held by run r1"):
        lease.take(tmp_path, {})
    assert not lease.drop(tmp_path, holder(run="r2"))
    with lease.held(tmp_path, holder(), shared=True) as first:
        working = lease.Watch(tmp_path, holder(), first)
        with lease.held(tmp_path, holder(), shared=True) as second:
            assert second == first and not working.orphaned(), "another command of the same run works beside it"
        lease.take(tmp_path, holder())
        assert working.orphaned(), "one that wants it alone has come"
    assert lease.drop(tmp_path, holder())
    lease.take(tmp_path, holder(run="dead", pid_start=1))
    lease.take(tmp_path, holder(run="r3"))  # the process number was given to another


def test_a_lease_of_another_machine_is_believed_for_a_while(tmp_path):
    lease.take(tmp_path, far())
    with pytest.raises(Refusal, match="on elsewhere"):
        lease.take(tmp_path, holder())
    long_ago = noted(tmp_path)["renewed"] - lease.BELIEVED_S
    (tmp_path / "lease.json").write_text(json.dumps(noted(tmp_path) | {"renewed": long_ago}))
    lease.take(tmp_path, holder())


def test_who_takes_the_lease_while_a_command_works_makes_it_stop(tmp_path):
    with lease.held(tmp_path, far()) as taken:
        working = lease.Watch(tmp_path, far(), taken)
        with pytest.raises(Refusal, match="held by run far"):
            lease.take(tmp_path, holder())
        assert not working.orphaned(), "who is refused disturbs nobody"
        lease.take(tmp_path, far())  # the next job of the same run, whose last was cancelled
        assert working.orphaned()
        lease.take(tmp_path, holder() | {"gone": ["far"]})
        assert working.orphaned()
    with pytest.raises(Refusal, match="held by run r1"), lease.held(tmp_path, far()):
        raise AssertionError("an old job works on a target that another run has taken")


def test_who_waits_for_the_target_writes_no_lease_over_that_of_who_took_it_meanwhile(tmp_path, monkeypatch):
    lease.take(tmp_path, far())
    writing = Event()
    write = lease.write_json

    def slowly(path, what):
        if what["run"] == "far":
            writing.set()
            time.sleep(0.3)
        write(path, what)

    monkeypatch.setattr(lease, "write_json", slowly)
    waits = Thread(target=lease.take, args=(tmp_path, far()))
    waits.start()
    assert writing.wait(10)
    lease.take(tmp_path, holder() | {"gone": ["far"]})
    waits.join()
    assert noted(tmp_path)["run"] == "r1"


def test_who_waits_in_vain_does_not_keep_the_lease(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "PATIENCE_S", 0.2)
    refused = pytest.raises(Refusal, match="another fsage command has worked on target")
    with lease.held(tmp_path, far()), refused, lease.held(tmp_path, holder() | {"gone": ["far"]}):
        raise AssertionError("two commands at work on one target")
    assert not (tmp_path / "lease.json").exists()


def test_a_command_that_works_long_renews_the_lease(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_S", 0)
    with lease.held(tmp_path, far()) as taken:
        before = noted(tmp_path)["renewed"]
        assert not lease.Watch(tmp_path, far(), taken).orphaned()
        assert noted(tmp_path)["renewed"] > before


@pytest.mark.root
def test_a_pass_reads_the_device_and_a_traced_cell_keeps_its_requests(spec, tmp_path):
    traced = {**cell(spec, "traced_1"), "kind": "traced", "trace": True}
    reference = {**cell(spec, "before", workload="device_range", position=0.5), "kind": "reference"}
    assert measure.measure(spec, asked([reference, traced]), False)["measured"] == 2
    reference = recorded(spec, "before", tmp_path)
    argv = reference["phases"][0]["argv"]
    assert f"--filename={open_target(spec).devices[0]}" in argv and "--readonly" in argv
    assert reference["metrics"]["read_bytes"] == 64 * MIB
    write, read = (phase["trace"] for phase in recorded(spec, "traced_1", tmp_path)["phases"])
    if "why_none" not in write:
        assert sum(write["columns"]["bytes"]) >= 64 * MIB and any(write["columns"]["write"])
        assert sum(read["columns"]["bytes"]) >= 64 * MIB and not all(read["columns"]["write"])


def test_a_pass_is_unsupported_without_a_device():
    with pytest.raises(Unsupported, match="kind directory has no device"):
        device_range.commands(device_range.Params.model_validate({"iteration": 1}), {"kind": "directory"})
