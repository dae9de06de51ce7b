"""A neighbour on a real Lustre, with a mount of his own: he is spared, or what fsage does is stopped (`stop_if`)."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator

import lustre_vm as real
import pytest
from lustre_vm import HOST, LustreProject, run_there, ssh
from project import kill_group

pytestmark = real.MARKS
THEIR_MOUNT, TIMES = "/mnt/theirs", "fsage-theirs"
THEIRS = f"{THEIR_MOUNT}/theirs"
OTHER = f"""import mmap, os, random, time
with open("{THEIRS}", "wb") as file:
    for _ in range(64):
        file.write(os.urandom(1 << 20))
buffer, file = mmap.mmap(-1, 1 << 20), os.open("{THEIRS}", os.O_RDONLY | os.O_DIRECT)
while True:
    began = time.monotonic()
    os.preadv(file, [buffer], random.randrange(64) << 20)
    print(time.time(), round(1000 * (time.monotonic() - began), 1), flush=True)
    time.sleep(0.1)
"""
"""A neighbour, whose mount has connections of its own: when he read 1 MiB past his cache, and how many ms it took."""
READS = f"""mkdir -p {THEIR_MOUNT}
mount -t lustre $(findmnt -n -o SOURCE {real.MOUNT}) {THEIR_MOUNT}
lfs setstripe -c -1 {THEIRS}
{real.begin(OTHER, TIMES)}"""
END = f"""{real.end(TIMES)}; rm -f {THEIRS}
umount {THEIR_MOUNT}; rmdir {THEIR_MOUNT}"""
STUDY = {"states__capacity": [10], "states__fragmentation": [0], "states__file_size": ["64M"], "headline": []}
CELLS = {"cells__iterations": 1, "cells__transfer_size": ["4M"]}
LOOKS = """
import time
from pathlib import Path
from types import SimpleNamespace
from fsage.studies.neighbours.instruments import probe
from fsage.studies.lustre.helper import lctl
from fsage.studies.lustre.host import stripes

def reads():
    devices = lctl.get("osd-ldiskfs.*-OST*.mntdev").values()
    return [int(Path("/sys/block", Path(device.strip()).name, "stat").read_text().split()[0]) for device in devices]

def main(folder):
    folder = Path(folder)
    (folder / ".fsage").mkdir(parents=True, mode=0o700)
    osts = SimpleNamespace(spread_files=lambda place: stripes.one_on_each(place, range(6)))
    looks = probe.Looks(SimpleNamespace(mounts=[folder], osts=osts))
    looks.once(lambda: None)
    time.sleep(6)
    before = reads()
    for _ in range(20):
        looks.once(lambda: None)
    after = reads()
    looks.end()
    return [late - early for early, late in zip(before, after)]
"""


def test_each_look_reaches_the_disk_of_each_ost(tmp_path) -> None:
    """Although the servers keep what was read and written in memory (read_cache_enable, their default)."""
    program = tmp_path / "looks.py"
    program.write_text(LOOKS)
    folder = f"{real.MOUNT}/looks"
    try:
        cached = ssh("lctl get_param -n osd-ldiskfs.*-OST*.read_cache_enable").split()
        assert set(cached) == {"1"} and min(run_there(program, folder=folder)) >= 20
    finally:
        ssh(f"rm -rf {folder}")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target whose cells take many seconds, on all OSTs."""
    folder = tmp_path_factory.mktemp("stop")
    spec = real.declaration(capacity_gib=4, free_percent=60, stripe_count=-1, tolerance_mib=64)
    spec |= {"amount_mib": 128, "scale": {"file_size": 1, "tasks": 16}}
    with real.at_work(folder, spec, (HOST,)) as made:
        yield made


def raw(project: LustreProject, record: dict) -> dict:
    """What the host told of a cell."""
    return json.loads((project.root / "results" / record["raw"]["path"]).read_text())


@pytest.mark.parametrize("then", ["end", "wait"])
def test_a_neighbour_is_spared_or_what_runs_is_stopped(project: LustreProject, then: str) -> None:
    """The 90th percentile of his reads stays below twice the usual; or fsage says that it stopped for his sake.

    A run that waits goes on to its last cell.
    """
    project.declare(stop_if={"slower": 2, "then": then, "wait_minutes": 10})
    project.write_study(**STUDY, **{**CELLS, "cells__iterations": 2})
    ssh(READS)
    try:
        ssh("sleep 60")
        ran = project.run("snakemake", *real.ALL)
        printed = " ".join((ran.stdout + ran.stderr).split())
        reads = [tuple(map(float, line.split())) for line in ssh(f"cat /run/{TIMES}").splitlines()]
        quiet = [ms for at, ms in reads if at < reads[0][0] + 50]
        beside = [ms for at, ms in reads if at > reads[0][0] + 60]
        p90 = [statistics.quantiles(of, n=10)[-1] for of in (quiet, beside)]
        records = list(project.records().values())
        stopped = [record for record in records if record["status"] == "stopped"]
        waits = [wait for record in records for wait in (raw(project, record).get("probe") or {}).get("waits", [])]
        print("p90 of the neighbour, ms:", p90, "stopped:", len(stopped), "waits:", waits, printed[-1500:])
        assert p90[1] < 2 * p90[0] or "stop_if: others suffer" in printed or stopped or waits, (p90, printed[-2000:])
        if then == "wait":
            assert {record["status"] for record in records} <= {"valid", "stopped"} and len(records) == 2, printed[
                -3000:
            ]
            assert all(wait["seconds"] > 0 for wait in waits), waits
    finally:
        ssh(END, check=False)
        project.forget()


def test_nothing_begins_while_a_limit_is_passed_that_nothing_can_keep(project: LustreProject) -> None:
    """A look takes more than 1 µs: neither a cell nor a state, although calibration makes cells of a second."""
    project.write_study(**STUDY, **CELLS)
    project.declare(stop_if=None)
    project.done("snakemake", *real.ALL)
    project.forget()
    project.declare(stop_if={"slower": None, "read_ms": 0.001, "in_a_row": 1, "then": "end"})
    printed = project.fails("snakemake", *real.ALL)
    assert "stop_if: others suffer: the probe (read OST000" in printed, printed[-2000:]
    assert "valid" not in {record["status"] for record in project.records().values()}
    project.forget()


def test_a_fill_is_stopped_when_requests_take_long_on_a_server(project: LustreProject) -> None:
    """By the counters of its OSTs, which anybody may read who can log in there."""
    project.declare(stop_if={"slower": None, "server_ms": 0.2, "in_a_row": 1})
    project.write_study(**STUDY, **CELLS)
    printed = project.fails("snakemake", *real.ALL)
    assert "stop_if: in ms, a request of an OST took" in printed and "the same command resumes" in printed, printed[
        -3000:
    ]
    project.declare(stop_if=None)
    project.done("snakemake", *real.ALL)
    project.forget()


def test_what_runs_ends_within_seconds_of_a_sigkill(project: LustreProject) -> None:
    """Of the launcher's process group, over a real ssh: the phase that runs is ended, and no other one begins."""
    project.declare(stop_if=None)
    project.write_study(**STUDY, **CELLS)
    begun = project.start("snakemake", *real.ALL)
    real.once_written("true")
    kill_group(begun)
    time.sleep(4)
    running = ssh("pgrep -x -a 'fio|ior|mpirun|python3' | grep -v 'pgrep\\|unattended\\|networkd'", check=False)
    assert "fio" not in running and "ior" not in running and "measure" not in running, running
    kept = ssh("find /var/lib/fsage/lvm/outbox -name '*.json' 2>/dev/null", check=False).split()
    assert kept == [], "the cell was not measured to its end"
