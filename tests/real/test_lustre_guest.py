"""A plain user measures on a real Lustre, in a project's directory with a quota: no root, no helper, no servers."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import HOST, LustreProject, ssh
from project import make_project

from fsage.model.caches import KEPT

pytestmark = real.MARKS
USER, GROUP, PROJECT, LIMIT_MIB = "fsageguest", "fsageproj", 4711, 1500
ABOVE = f"{real.MOUNT}/fsageproj"
PLACE = f"{ABOVE}/{USER}/fsage"
MAKE = f"""set -e
groupadd {GROUP}; {real.make_user(USER)}; usermod -aG {GROUP} {USER}
lctl conf_param {real.FSNAME}.quota.ost=ugp; lctl conf_param {real.FSNAME}.quota.mdt=ugp; sleep 8
install -d -m 2770 -o root -g {GROUP} {ABOVE}
lfs project -p {PROJECT} -s -r {ABOVE}
lfs setquota -p {PROJECT} -b 0 -B {LIMIT_MIB}M -i 0 -I 20000 {real.MOUNT}
su {USER} -c 'mkdir -p {ABOVE}/{USER} && chmod 2700 {ABOVE}/{USER}'
"""
UNMAKE = f"""lfs setquota -p {PROJECT} -b 0 -B 0 -i 0 -I 0 {real.MOUNT}; rm -rf {ABOVE}
userdel --force --remove {USER}; groupdel {GROUP}"""
FILESET, POOL = "/mnt/fsage-fileset", f"{real.FSNAME}.fsageguest"
ANEW = f"""set -e
mkdir {FILESET}; mount -t lustre $(findmnt -n -o SOURCE {real.MOUNT})/{Path(ABOVE).name} {FILESET}
lctl pool_new {POOL}; lctl pool_add {POOL} OST[1,3-4]; sleep 3
"""
AWAY = f"""umount {FILESET}; rmdir {FILESET}
lctl pool_remove {POOL} OST[1,3-4]; lctl pool_destroy {POOL}; sleep 3"""
MDTS = "lctl set_param -n mdt.*.enable_remote_dir_gid"
DEVICE, POINT, LIMITS = "/dev/vdc", "/mnt/ost0", "/etc/fsage"
STUDY = {"states__capacity": [10], "states__fragmentation": [50], "states__file_size": ["64M"], "headline": []}
CELLS = {"cells__iterations": 1, "cells__transfer_size": ["4M"]}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """His target. It is not claimed yet, and in the end the machine is as it was."""
    folder = tmp_path_factory.mktemp("guest")
    config = real.reached_as(USER, folder)
    lustre = {"fsname": real.FSNAME, "mgs": real.mgs(), "osts": [0, 2], "stripe_count": 2}
    spec = {**real.declaration(), "lustre": lustre, "directory": PLACE, "amount_mib": 8}
    spec |= {"home": f"/home/{USER}/fsage", "scale": {"file_size": 0.125, "tasks": 2}}
    spec["stop_if"] = {"slower": None, "server_load": 1000, "server_ms": 100_000}  # by what any user may read there
    try:
        ssh(MAKE)
        yield real.project_in(folder / "clone", spec, (HOST,), config, server="", watched=[HOST])
    finally:
        ssh(UNMAKE, check=False)


def refuse_untrue(page: str) -> None:
    """The page for the site's owner has his home, and nothing that only root does."""
    assert f"/home/{USER}/fsage" in page and PLACE in page and "pages of the measured files alone" in page
    assert "drop_caches" not in page and "lru_size" not in page and "at most" in page


def test_what_the_claim_would_refuse_is_refused_before_and_a_refused_claim_leaves_nothing(
    project: LustreProject,
) -> None:
    """By the room that his project's quota leaves, for the tasks that he declares; both say the same."""
    project.write_study(**STUDY, **CELLS)
    project.declare(amount_mib=None)
    ssh(f"lfs setquota -p {PROJECT} -b 0 -B 180M -i 0 -I 20000 {real.MOUNT}")
    before = real.everything(USER)
    try:
        why = r"has 17\d MiB, and 15% of it does not hold 64 MiB for each of 2 tasks"
        assert re.search(why, project.fails("fsage", "--target", project.spec["name"], "site", "small"))
        assert re.search(why, project.fails(*project.playing("local_target.yml", "claim.yml")))
        assert sorted(before ^ real.everything(USER)) == []
    finally:
        ssh(f"lfs setquota -p {PROJECT} -b 0 -B {LIMIT_MIB}M -i 0 -I 20000 {real.MOUNT}")
        project.declare(amount_mib=8)


def test_his_whole_life_in_a_project_leaves_the_machine_as_it_was(project: LustreProject) -> None:
    name = project.spec["name"]
    before = real.everything(USER)
    project.write_study(**STUDY, **CELLS)
    page = project.root / "page.html"
    site = ("fsage", "--target", name, "site", "small", "--html", str(page))
    project.declare(amount_mib=4096)
    assert "amount_mib is 4096 for each of 2 tasks" in project.fails(*site), "as the claim would be refused"
    project.declare(amount_mib=8)
    assert "Nothing stands in the way" in project.done(*site)
    refuse_untrue(page.read_text())
    project.done(*project.playing("local_target.yml", "claim.yml"))
    project.done("snakemake", "small")
    (record,) = project.records().values()
    assert record["status"] == "valid", record["why"]
    assert list((project.root / "results").rglob("index.html"))
    for phase in json.loads((project.root / "results" / record["raw"]["path"]).read_text())["phases"]:
        jobs = [job[phase["name"]] for job in json.loads(phase["stdout"])["jobs"]]
        rate = sum(job["io_bytes"] for job in jobs) / max(job["runtime"] for job in jobs) * 1000 / real.MIB
        assert record["metrics"][f"{phase['name']}_bw_mib_s"] == pytest.approx(rate, rel=1e-6), (
            "by hand, of fio's own JSON"
        )
    project.forget()
    claim = project.claim_file()
    assert claim["capacity_bytes"] == min(claim["lustre"]["budget"].values()) <= LIMIT_MIB << 20
    assert f"quota of project {PROJECT}" in claim["lustre"]["budget"]
    assert set(record["phases"][0]["placement"]["stripes"]) == {"0", "2"}
    assert (record["phases"][1]["cache_drop"], record["phases"][1]["metadata"]) == ("posix_fadvise(DONTNEED)", KEPT)
    assert record["osts"]["brw_stats"] is None and "brw_stats" in record["osts"]["absent"]
    assert "cold caches of the servers" in record["absent"], "they are only watched"
    assert (record["servers"], record["watched"]) == ([], [HOST])
    assert ssh(f"ls -A {real.MOUNT}").split() == ["fsageproj"], "his mark lies in his directory"
    project.done(*project.playing("release.yml"))
    assert not (project.root / f"results/targets/{name}.json").exists()
    assert sorted(before ^ real.everything(USER)) == []


def test_a_quota_that_is_reached_amid_a_cell_fails_it_with_that_reason(project: LustreProject) -> None:
    project.done(*project.playing("local_target.yml", "claim.yml"))
    try:
        used = int(ssh(f"lfs quota -q -p {PROJECT} {real.MOUNT}").split()[1].rstrip("*")) // 1024
        ssh(f"lfs setquota -p {PROJECT} -b 0 -B {used + 24}M {real.MOUNT}")
        project.write_study(**{**STUDY, "states__fragmentation": [0]}, **CELLS)
        project.done("snakemake", *real.ALL)
        (why,) = (record["why"] for record in project.records().values())
        assert "Disk quota exceeded" in str(why), why
    finally:
        ssh(f"lfs setquota -p {PROJECT} -b 0 -B {LIMIT_MIB}M {real.MOUNT}")
        project.forget()
        project.done(*project.playing("release.yml"))


def allow(limits: dict) -> None:
    """Have root allow no more on that host."""
    ssh(f"mkdir -p {LIMITS} && cat >{LIMITS}/limits.json", stdin=json.dumps(limits).encode())


def test_a_client_that_mounts_a_fileset_has_files_in_a_declared_pool_and_directories_on_a_declared_mdt(
    project: LustreProject,
) -> None:
    """The site allows him directories on a declared MDT. Before, the claim is refused with what to ask for."""
    lustre = {"fsname": real.FSNAME, "mgs": real.mgs(), "pool": POOL.partition(".")[2], "stripe_count": -1}
    ssh(ANEW)
    before = project.spec["lustre"]
    try:
        project.declare(lustre={**lustre, "mdt_index": 0}, directory=f"{FILESET}/{USER}/fsage")
        refused = project.fails(*project.playing("local_target.yml", "claim.yml"))
        assert "enable_remote_dir_gid" in refused, refused[-3000:]
        ssh(f"{MDTS}=$(getent group {GROUP} | cut -d: -f3)")
        project.done(*project.playing("local_target.yml", "claim.yml"))
        (record,) = project.measured(**STUDY, **CELLS).values()
        assert set(record["phases"][0]["placement"]["stripes"]) == {"1", "3", "4"}
        project.done(*project.playing("release.yml"))
        assert ssh(f"ls -A {ABOVE}/{USER}").split() == []
    finally:
        ssh(f"{MDTS}=0; {AWAY}", check=False)
        project.declare(lustre=before, directory=PLACE)


@pytest.mark.parametrize("realisation", ["pfl", "segments"])
def test_a_pattern_of_stripes_lies_on_his_osts_alone(project: LustreProject, realisation: str) -> None:
    """Of his four OSTs 1 stripe of the pattern is 1, and 4 are 2."""
    before, states = project.spec["lustre"], {"recipe": "striping", "pattern": ["IOR.1", "IOR.4"], "default": "IOR.1"}
    project.declare(lustre={**before, "osts": [0, 2, 3, 5], "stripe_count": 4})
    try:
        project.done(*project.playing("local_target.yml", "claim.yml"))
        cells = {"workload": "striped_file", "transfer_size": "1M", "iterations": 1}
        records = project.measured(headline=[], states={**states, "realisation": realisation}, cells=cells)
        stripes = {r["state"]: r["phases"][0]["placement"]["stripes"] for r in records.values()}
        print(stripes)
        assert all(set(on) <= {"0", "2", "3", "5"} for on in stripes.values()), stripes
        project.done(*project.playing("release.yml"))
    finally:
        project.declare(lustre=before)


RATES, COUNTS = {"bandwidth_mib_s": 1, "operations_s": 25, "clients": 1}, "/run/fsage-counts"
COUNT = """while sleep 1; do echo $(date +%s.%N) $(lctl get_param -n llite.*.stats | awk '
/^(read|write)_bytes/ { bytes += $7; done += $2 } /^(create|mknod|mkdir|unlink|rmdir) / { done += $2 }
END { print bytes + 0, done + 0 }'); done"""


def fastest(place: int, window_s: float = 30) -> float:
    """The most of what was counted that came a second, over a window: bytes (1) or operations (2)."""
    rows = [[float(word) for word in line.split()] for line in ssh(f"cat {COUNTS}").splitlines()]
    return max(
        (late[place] - early[place]) / (late[0] - early[0])
        for early in rows
        for late in rows
        if window_s <= late[0] - early[0] < window_s + 3
    )


def test_a_whole_life_keeps_to_the_rates_of_the_site(project: LustreProject) -> None:
    """Of root's file there, by what the client counts, whoever asks for it; one more client is refused."""
    watched = project.spec["stop_if"]
    project.declare(stop_if=None)
    allow(RATES)
    ssh(f"cat >{COUNTS}.sh", stdin=COUNT.encode())
    ssh(f"setsid sh {COUNTS}.sh </dev/null >{COUNTS} 2>&1 & echo $! >{COUNTS}.pid")
    try:
        project.done(*project.playing("local_target.yml", "claim.yml"))
        (record,) = project.measured(**STUDY, **CELLS).values()
        print({name: value for name, value in record["metrics"].items() if "mib_s" in name or "iops" in name})
        names = {"workload": "metadata", "tool": "fio", "files_per_task": 50, "iterations": 1}
        (record,) = project.measured(**STUDY, cells=names).values()
        print({name: value for name, value in record["metrics"].items() if "per_s" in name})
        project.done(*project.playing("release.yml"))
        mib_s, operations = fastest(1) / real.MIB, fastest(2)
        # Requests of 4 MiB, one in 4 s: 30 s hold eight of them, and one more that came late.
        print("at most", mib_s, "MiB/s and", operations, "operations a second, over 30 s")
        assert 0.3 < mib_s < 1.25 and 5 < operations < 30
    finally:
        ssh(f"kill -- -$(cat {COUNTS}.pid); rm -rf {COUNTS}* {LIMITS}", check=False)
        project.declare(stop_if=watched)


OF_A_CELL = '"^fio .*measured"'
FIRST_FIO = f"setsid sh -c 'until pkill -STOP -f {OF_A_CELL}; do sleep 0.02; done; {{}}' </dev/null >/dev/null 2>&1 &"
"""The first fio of a cell is stopped, and then something is done: a cell takes seconds, and a look at it as long."""
SETS = "for each in osc.{0}-OST0000-*.active osp.{0}-OST0000-*.active; do lctl set_param $each={1}; done"
LOST = {
    "deactivated": (SETS.format(real.FSNAME, 0), SETS.format(real.FSNAME, 1)),
    "unmounted": (f"umount -f {POINT}", f"until mount -t lustre {DEVICE} {POINT}; do sleep 1; done; sleep 15"),
}
"""What happens to an OST that his files lie on, and how it comes back."""


@pytest.fixture(scope="module")
def one_claim(project: LustreProject) -> Iterator[None]:
    """His target is claimed, for the tests from here on, and nobody ends what it does."""
    watched = project.spec["stop_if"]
    project.declare(stop_if=None)
    project.done(*project.playing("local_target.yml", "claim.yml"))
    try:
        yield
    finally:
        project.done(*project.playing("release.yml"))
        project.declare(stop_if=watched)


@pytest.fixture
def claimed(project: LustreProject, one_claim: None) -> Iterator[LustreProject]:
    """His target, with cells that take a while."""
    project.write_study(**{**STUDY, "states__fragmentation": [0]}, **{**CELLS, "cells__transfer_size": ["64K"]})
    try:
        yield project
    finally:
        project.end_started()
        project.forget()


def test_an_ost_of_his_that_fills_up_amid_a_cell_fails_it(claimed: LustreProject) -> None:
    started = claimed.start("snakemake", *real.ALL)
    with real.filled(0, left_kib=2048) as fill:
        real.once_written(fill, place=PLACE)
        started.wait(timeout=900)
        (why,) = claimed.why().values()
        assert why and re.search("No space left|lustre-OST0000 holds", why), why
        print(why)
    claimed.valid_again()


@pytest.mark.parametrize("how", LOST)
def test_an_ost_of_his_that_is_lost_amid_a_cell(claimed: LustreProject, how: str) -> None:
    """It fails with the OST in its reason, or waits until the OST is back; while it is away a command names it."""
    lose, back = LOST[how]
    claimed.own_source()
    limits = claimed.root / "src/fsage/host/cells/observed.py"
    text = limits.read_text()
    for before, after in (
        ("LEAST_LIMIT_S = 900.0", "LEAST_LIMIT_S = 60.0"),
        ("TIMES_ESTIMATE = 10", "TIMES_ESTIMATE = 1"),
    ):
        assert before in text
        text = text.replace(before, after)
    limits.write_text(text)
    ssh(FIRST_FIO.format(f"{lose}; pkill -CONT -f {OF_A_CELL}"))
    started = claimed.start("snakemake", *real.ALL)
    try:
        started.wait(timeout=1800)
        said = (claimed.root / "started.log").read_text()
        records = claimed.records().values()  # none yet where the state was lost too: the run said why
        statuses = json.dumps([(record["status"], record["why"], record["warnings"]) for record in records])
        print(statuses, said[-3000:])
        assert "OST0000" in (statuses if records else said) and "Traceback" not in said
        claimed.forget()
        said = claimed.fails("snakemake", *real.ALL)
        print(said[-3000:])
        assert "OST0000" in said, said[-3000:]
    finally:
        ssh(back)
        claimed.shared_source()
    claimed.done("snakemake", *real.ALL)  # also fetches what was observed of the cell that failed
    assert all(why is None or "fio" in why for why in claimed.why().values())
    claimed.valid_again()


STRANGER, THEIRS = f"{real.MOUNT}/stranger", f"lfs setstripe -c 1 -i 5 {real.MOUNT}/stranger"
WRITES = f"""import os, time
while True:
    with open("{STRANGER}", "wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
            os.fsync(file.fileno())
            time.sleep(1 / 12)
"""
EVICTED = f"lctl set_param obdfilter.{real.FSNAME}-OST0005.evict_client=$(lctl get_param -n llite.*.uuid | head -n 1)"


def test_on_an_ost_that_he_does_not_use_others_may_write_and_his_client_may_be_evicted(claimed: LustreProject) -> None:
    """Somebody rewrites a file there all the time, from before the state is filled to the end."""
    ssh(f"{THEIRS}; {real.begin(WRITES, 'fsage-stranger')}")
    try:
        started = claimed.start("snakemake", *real.ALL)
        real.once_written(EVICTED, place=PLACE)
        started.wait(timeout=1800)
        (record,) = claimed.records().values()
        print(record["warnings"], record["check"])
        assert record["status"] == "valid", record["why"]
        assert set(record["phases"][0]["placement"]["stripes"]) == {"0", "2"}
    finally:
        ssh(f"{real.end('fsage-stranger')}; rm -f {STRANGER}", check=False)


def test_a_second_clone_of_his_is_refused_while_a_run_is_on(claimed: LustreProject, tmp_path: Path) -> None:
    """It names run, process, host and the time since when, and touches nothing."""
    other = LustreProject(make_project(tmp_path / "other", claimed.spec).root, claimed.spec, claimed.env)
    shutil.copytree(claimed.root / "inventories", other.root / "inventories", dirs_exist_ok=True)
    shutil.copytree(claimed.root / "results/targets", other.root / "results/targets")
    shutil.copytree(claimed.root / "config", other.root / "config", dirs_exist_ok=True)
    started = claimed.start("snakemake", *real.ALL)
    real.once_written("true", place=PLACE)
    said = other.fails("snakemake", *real.ALL)
    assert started.wait(timeout=1800) == 0
    assert re.search(r"run \S+ .*process \d+", said) and "since" in said and not other.records(), said[-3000:]
    (why,) = claimed.why().values()
    assert why is None, why


def test_the_hours_of_a_site_end_a_cell_and_the_bytes_of_a_day_let_none_begin(claimed: LustreProject) -> None:
    """The state is filled before. What was ended counts as not measured, and the same command resumes."""
    claimed.write_study(**{**STUDY, "states__fragmentation": [0]}, **{**CELLS, "cells__iterations": 2})
    cells = ("--omit-from", "report_small", "--", "small")
    claimed.done("snakemake", *cells)
    claimed.forget()
    try:
        allow({"hours": f"00:00-{ssh('date -d +6min +%H:%M').strip()}"})
        ssh(FIRST_FIO.format("true"))  # so it takes longer than was estimated
        started = claimed.start("snakemake", *cells)
        assert started.wait(timeout=1800) != 0
        said = " ".join((claimed.root / "started.log").read_text().split())
        assert "and these hours have ended; the same command resumes in them" in said, said[-3000:]
        assert claimed.records() == {}
        allow({"gib_a_day": 0.02})  # a cell writes 16 MiB
        said = claimed.fails("snakemake", *cells)
        assert "0.03 GiB would be written today, and limits.gib_a_day is 0.02" in said, said[-3000:]
        assert [record["status"] for record in claimed.records().values()] == ["valid"]
    finally:
        ssh(f"rm -rf {LIMITS}")
    claimed.done("snakemake", *cells)
    assert [record["status"] for record in claimed.records().values()] == ["valid"] * 2
    note = f"/home/{USER}/.local/state/fsage/written.json"
    assert json.loads(ssh(f"cat {note}")), "it stays until tomorrow, and release says so"
    ssh(f"rm -r {Path(note).parent}")
