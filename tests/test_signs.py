"""Signs of trouble amid a phase: made for real on a loop device, and as real Lustre and NFS told them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_targets import claimed, written
from measuring import asked, cell, observed
from records import contents, make_records

from fsage.base import typed
from fsage.host import claiming, states
from fsage.host.cells import measure
from fsage.host.verbs import claim
from fsage.layouts import machine
from fsage.model import signs
from fsage.model.caches import KEPT
from fsage.model.declaration import complete
from fsage.records import absent_of, make_record
from fsage.studies.lustre.host import connections
from fsage.studies.neighbours.instruments import signs as looks
from fsage.studies.paf.model import Populate
from fsage.studies.slowdisk.host import seek
from fsage.study.files import load_study

SOURCE = Path(__file__).parents[1] / "src"
DATA = Path(__file__).parent / "data/signs"
"""Taken on Lustre 2.17.57 and NFS 4.2 of Linux 6.12, while a client read: nothing; all OSTs evicted the client; an OST
was unmounted for 60 s; packets to the NFS server were dropped for 40 s."""
SETTINGS = "settings of the servers (preallocation tables)"
FROZEN = ((6.0, signal.SIGSTOP), (14.0, signal.SIGCONT))
STEPS = [Populate(1, percent=5, file_bytes=(8 << 20,), seed=1, files_at_once=4)]


@pytest.fixture
def on_a_full_disk(tmp_path: Path, new_target: dict) -> Iterator[dict]:
    """A target of 1 GiB whose image is a hole in a file system that has room for a part of it."""
    mount, disk = tmp_path / "outer", tmp_path / "disk"
    mount.mkdir()
    with open(disk, "xb") as file:
        file.truncate(200 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", disk], check=True)
    subprocess.run(["mount", "-o", "loop", disk, mount], check=True)
    try:
        yield written({**new_target, "image_dir": str(mount / "images")})
        claim.remove({**new_target, "image_dir": str(mount / "images")}, {}, False)
    finally:
        subprocess.run(["umount", mount], check=True)


@pytest.mark.root
def test_an_error_of_the_device_below_is_told_of_a_cell_whose_command_hid_it(on_a_full_disk: dict, tmp_path: Path):
    """For a moment the disk below has no room left, and the command ends with 0."""
    spec = on_a_full_disk
    target = claimed(spec)
    request = asked([]) | {"steps": STEPS}
    states.scrub(spec, request, False)
    states.begin("populate", spec, request, False)
    states.work(spec, request, STEPS[0])
    states.end(spec, request, STEPS[0])
    of_cell = cell(spec, "hidden")
    hidden, eater = target.mounts[0] / "measured/hidden", tmp_path / "outer/eater"
    fault = f"dd if=/dev/zero of={eater} bs=1M; dd if=/dev/zero of={hidden} bs=1M count=32 oflag=direct; rm {eater}"
    of_cell["phases"].append({"name": "fault", "argv": ["sh", "-c", fault]})
    measure.measure(spec, asked([of_cell]) | {"steps": STEPS}, False)
    seen, raw = observed(spec, "hidden")
    (tmp_path / "raw.json").write_bytes(raw.read_bytes())
    record = make_record(seen, tmp_path / "raw.json", tmp_path)
    assert record["status"] == "valid", record["why"]
    (warning,) = record["warnings"]
    (device,) = target.devices
    assert warning.startswith("fault: ") and f"error, dev {Path(device).name}, sector" in warning
    assert "signs" not in record["phases"][0], "looks are kept in the raw observation"
    assert seen["phases"][0]["signs"]["after"].keys() == {seen["host"]}


@pytest.mark.parametrize(
    ("what", "failed", "warnings"),
    [
        ("none", None, []),
        (
            "evict",
            "evicted by lustre-OST0000, lustre-OST0002, so that",
            ["the connection to lustre-OST0000, lus", "its k"],
        ),
        (
            "stop",
            "evicted by lustre-OST0002, so that",
            ["the connection to lustre-OST0002 was lost", "its kernel says: L"],
        ),
        (
            "nfs_blocked",
            None,
            ["of the requests to NFS at /mnt/nfs, 3 timed out", "its kernel says: nfs: server 127.0.0."],
        ),
    ],
)
def test_faults_of_real_servers_are_judged(what: str, failed: str | None, warnings: list[str]) -> None:
    taken = typed.read(signs.Looks, json.loads((DATA / "looks.json").read_text())[what])
    judged = signs.judge([{"name": "read", "signs": taken}])
    (host,) = taken["after"]
    assert bool(failed) == bool(judged.failed)
    assert not failed or judged.failed.startswith(f"read: {host}: {failed}")
    for words, begin in zip(judged.warnings, warnings, strict=True):
        assert words.startswith(f"read: {host}: {begin}")


def test_an_eviction_is_seen_in_the_log_alone_and_an_idle_connection_is_no_trouble() -> None:
    """As for a user who may not read the connections; and as the client closes and opens them every few seconds."""
    taken = json.loads((DATA / "looks.json").read_text())["evict"]
    for look in (taken["before"]["lvm"], taken["after"]["lvm"]):
        del look["connections"]
    assert "evicted by lustre-OST0000, " in str(signs.judge([{"name": "read", "signs": taken}]).failed)
    some = signs.judge([{"name": "read", "signs": {**taken, "unused": ["lustre-OST0002"]}}])
    assert "evicted by lustre-OST0000, lustre-OST0001, lustre-OST0003" in str(some.failed)
    assert "evicted by lustre-OST0002, on which no file of the target lies" in some.warnings[0]
    idle = {"time": 5.0, "connections": {"a-OST0000-osc-ff": {"state": "IDLE", "history": [[3, "FULL"], [4, "IDLE"]]}}}
    again = {"state": "FULL", "generation": 9, "history": [[4, "IDLE"], [6, "CONNECTING"], [6, "FULL"]]}
    used = {"time": 9.0, "connections": {"a-OST0000-osc-ff": again}}
    assert signs.judge([{"name": "read", "signs": {"before": {"h": idle}, "after": {"h": used}}}]) == (None, [])
    waited = {**again, "waits": [9, 61_000_000, 62_000_000, 3_721_000_000_000_000]}
    used["connections"] = {"a-OST0000-osc-ff": waited}
    judged = signs.judge([{"name": "read", "signs": {"before": {"h": idle}, "after": {"h": used}}}])
    assert judged == (None, ["read: h: a request to a-OST0000 waited at least 61 s"])


def test_errors_of_another_loop_device_or_after_a_shutdown_on_request_are_no_trouble() -> None:
    disk, io = "I/O error, dev sda, sector 8 op 0x1:(WRITE)", "I/O error, dev loop3, sector 2048 op 0x1:(WRITE)"
    others = ["EXT4-fs error (device loop5): ext4_find_entry:1678: inode #2", "Aborting journal on device loop5-8."]
    request = "EXT4-fs (loop3): shut down requested (2)"
    after = ["Aborting journal on device loop3-8.", "EXT4-fs error (device loop3) in ext4_evict_inode:296: Journal has"]
    assert list(looks.of_target([*others, io, disk], {"loop3"})) == [io, disk]
    assert list(looks.of_target([io, request, *after, disk], {"loop3"})) == [io, disk]
    assert list(looks.of_target(after, {"loop3"})) == after, "nobody asked for it"
    ended = ["XFS (loop3): User initiated shutdown received.", "XFS (loop3): log I/O error -5"]
    assert list(looks.of_target(ended, {"loop3"})) == []


def test_a_directory_on_lustre_has_the_connections_of_that_file_system_looked_at() -> None:
    client = machine.Mount("0:1", "/", "/mnt/l", "lustre", "10.0.2.15@tcp:/scratch/project", "rw", "")
    ost = client._replace(point="/mnt/ost0", source="/dev/vdc")
    assert connections._fsnames(complete({"name": "a", "kind": "directory"}), [client, ost]) == {"scratch"}


def test_what_lustre_and_nfs_print_is_read() -> None:
    text = (DATA / "imports.txt").read_text()
    (ost, connection), (mdt, _) = connections.connections(text).items()
    assert connections.connections(text, ost.rpartition("-")[2]).keys() == {ost, mdt}
    assert connections.connections(text, "ff00") == {}, "of another mount of it"
    assert connection["history"][-1][1] == connection["state"]
    assert connection["generation"] == 6 and connection["waits"][0] == 954
    mount = looks.nfs_counters((DATA / "mountstats.txt").read_text())["/mnt/nfs"]
    assert mount == {"operations": 103, "transmissions": 103, "timeouts": 0, "connects": 2}


def test_a_sample_with_a_sign_of_trouble_is_told_of_on_top_and_in_a_table(tmp_path: Path) -> None:
    study = load_study(Path(__file__).parent / "data/plain/quickstart.yaml")
    records = make_records(study)
    records[0]["warnings"] = ["read: n2: the connection to lustre-OST0002 was lost"]
    wait = {"seconds": 60.0, "why": "stop_if: others suffer", "during": "emptying", "began": "2026-11-25"}
    records[0]["probe"], records[2]["probe"] = {"waits": []}, {"waits": [wait, wait]}
    page = contents(study, records, tmp_path)
    waited = f"because others suffered (stop_if): the first time before {records[2]['state']} {records[2]['cell']}."
    assert f"The run waited 2 times, 2 min in all, {waited}" in page.rest["doubts"]
    first = f"{records[0]['state']} {records[0]['cell']}: read: n2: the connection to lustre-OST0002 was lost."
    assert any("samples has signs of trouble" in doubt and doubt.endswith(first) for doubt in page.rest["doubts"])
    (section,) = [section for section in page.sections if section.title == "Signs of trouble"]
    assert [row[3] for row in section.table[1:]] == records[0]["warnings"]


def test_an_ost_that_is_gone_when_the_cell_ends_is_named() -> None:
    both, left = {"lustre-OST0000": {}, "lustre-OST0001": {}}, {"lustre-OST0001": {}}
    (lost,) = signs.lost_osts({"before": both, "after": left})
    assert lost.startswith("lustre-OST0000 was lost during the cell")
    assert signs.lost_osts({"before": both, "after": both}) == signs.lost_osts({"before": both, "after": None}) == []


def test_what_a_guest_could_not_have_is_on_top_of_the_report_with_its_reason(tmp_path: Path) -> None:
    study = load_study(Path(__file__).parent / "data/plain/quickstart.yaml")
    records = make_records(study)
    why = "no server is named"
    seen = {"signs": {"before": {}, "after": {"n1": {"absent": {"kernel": "/dev/kmsg: Operation not permitted"}}}}}
    tunables = {"nr_requests": {"asked": 8, "unsupported": "no block queue"}}
    observation = {
        "servers": [],
        "watched": [],
        "phases": [{**seen, "metadata": KEPT}],
        "layout": {"state_known": False, "notes": {}},
        "conditions": {"tunables": tunables, "lustre": {"version": "2.15"}},
        "osts": {"absent": {"brw_stats": why}},
    }
    lacking = absent_of(observation)
    assert set(lacking) == {
        "the log of the kernel of n1",
        "brw_stats of the OSTs",
        "tunable nr_requests",
        "how full and fragmented the file system is",
        "cold names and inodes",
        "cold caches of the servers",
        SETTINGS,
    }
    assert set(lacking) - set(absent_of({**observation, "watched": ["oss1"]})) == {SETTINGS}
    records[0]["absent"] = records[1]["absent"] = {"brw_stats of the OSTs": why, "brw_stats of the MDTs": why}
    records[2] |= {"status": "unsupported", "why": "mdtest cannot be kept to the limits", "metrics": {}}
    page = contents(study, records, tmp_path)
    assert "Not had or known: brw_stats of the MDTs, brw_stats of the OSTs: no server is named." in page.rest["doubts"]
    (section,) = [section for section in page.sections if section.title == "What could not be had or known"]
    assert section.table[1] == ["1 cell of workload sequential", "mdtest cannot be kept to the limits", "1"]
    assert section.table[2][2] == "2"


@pytest.mark.long
@pytest.mark.root
def test_a_disk_that_is_frozen_amid_a_phase_is_on_record(local_target: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of a simulated disk is stopped for 8 s while fio reads, and goes on."""
    if why := seek.Seek.unavailable_because({}):
        pytest.skip(why)
    monkeypatch.setattr(claiming, "BACKING_MIB", 64)
    spec = {**local_target, "device_model": {"kind": "seek", "seek_s": 0.004}}
    target = claimed(spec)
    states.scrub(spec, asked([]) | {"steps": []}, False)
    server = seek.server_of(target.claim["stores"][0]["image"])
    assert server
    fio = ["fio", "--name=read", "--rw=randread", "--bs=4k", "--size=16m", "--direct=1", "--time_based", "--runtime=12"]
    phase = {"name": "read", "argv": [*fio, f"--directory={target.mounts[0]}/measured"]}
    made = {**cell(spec, "frozen"), "phases": [phase]}
    frozen = [threading.Timer(after, os.kill, (server, number)) for after, number in FROZEN]
    for timer in frozen:
        timer.start()
    try:
        measure.measure(spec, asked([made]) | {"steps": []}, False)
    finally:
        os.kill(server, signal.SIGCONT)
        for timer in frozen:
            timer.cancel()
    seen, _ = observed(spec, "frozen")
    (warning,) = [words for words in signs.judge(seen["phases"]).warnings if "ended none" in words]
    assert re.fullmatch(r"read: .+: loop\d+ ended none of its requests for [678] s", warning)


LOOKS = """
import sys
sys.path.insert(0, sys.argv[1])
from fsage.base import Refusal
from fsage.host.system import kernel_log, privilege
privilege.HELPER = privilege.Path(sys.argv[2])
for _ in range(2):
    try:
        kernel_log.since(-1)
    except Refusal as why:
        print(why)
"""


@pytest.mark.root
@pytest.mark.parametrize(("helper", "asked"), [("missing", 0), ("helper", 1)])
def test_a_user_who_may_not_read_the_log_is_reported_by_sudo_once_at_most(helper: str, asked: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o777)
        (place / "helper").touch()
        (place / "sudo").write_text(f"#!/bin/sh\necho reported >> {place}/mails\necho no rule >&2\nexit 1\n")
        (place / "sudo").chmod(0o755)
        words = [sys.executable, "-c", LOOKS, str(SOURCE), str(place / helper)]
        env = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}
        front = ["setpriv", "--reuid=65534", "--clear-groups"]
        done = subprocess.run([*front, *words], capture_output=True, text=True, cwd="/", check=True, env=env)
        assert len(done.stdout.splitlines()) == 2 and "nothing was touched" in done.stdout
        mails = place / "mails"
        assert (mails.read_text().count("reported") if mails.exists() else 0) == asked
