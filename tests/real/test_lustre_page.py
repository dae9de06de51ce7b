"""The page for a site's owner beside what a whole life really did on a Lustre: clients and servers, as root."""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import LustreProject, ssh

pytestmark = real.MARKS
TRACING, LOG, SHIM = "/sys/kernel/tracing", "/run/fsage-test-lctl", "/usr/local/sbin/lctl"
WATCH = f"""set -e
printf '%s\\n' '#!/bin/sh' 'echo "$*" >>{LOG}' 'exec /usr/sbin/lctl "$@"' >{SHIM}; chmod +x {SHIM}; rm -f {LOG}
mountpoint -q {TRACING} || mount -t tracefs none {TRACING}
echo 32768 >{TRACING}/buffer_size_kb; echo >{TRACING}/trace
echo 1 >{TRACING}/events/sched/sched_process_exec/enable
"""
UNWATCH = f"""rm -f {SHIM} {LOG}
echo 0 >{TRACING}/events/sched/sched_process_exec/enable; echo 1408 >{TRACING}/buffer_size_kb"""
LOGIN = {"sshd-session", "sshd-auth", "unix_chkpwd", "run-parts", "env", "uname", "10-uname", "sh", "bash"}
AROUND = LOGIN | {"l_getidentity", "prterun", "rm", "cat", "awk", "touch", "sort", "head", "ls", "cut"}
"""What a login by ssh, a shell, a Lustre server, mpirun itself (prterun) and this test start."""
STUDY = {
    "states__capacity": [10],
    "states__fragmentation": [50],
    "states__file_size": ["32M"],
    "cells__transfer_size": ["4M"],
    "cells__iterations": 2,
    "headline": [],
    "tuning": {"max_rpcs_in_flight": 16},
}


def rows_of(page: str) -> list[list[str]]:
    """The cells of all rows of tables."""
    rows = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in page.split("<tr>")[1:])
    return [[html.unescape(cell) for cell in row] for row in rows]


def most(rows: list[list[str]], words: str) -> int:
    """How often at most something is done, as the page has it."""
    (row,) = (row for row in rows if len(row) == 5 and words in row[1])
    return int(row[2].replace(",", ""))


def bound(rows: list[list[str]], words: str) -> float:
    """The number of a row of what is done at most; bytes in GiB."""
    (row,) = (row for row in rows if len(row) == 2 and row[0] == words)
    number, unit = re.search(r"at most ([\d,.]*\d)(?: (KiB|MiB|GiB))?", row[1]).groups()  # type: ignore[union-attr]
    return float(number.replace(",", "")) / {"KiB": 1 << 20, "MiB": 1 << 10}.get(unit, 1)


def counted() -> dict[str, float]:
    """What the client counted since it was mounted: GiB written to each OST, files and directories made."""
    lines = ssh("lctl get_param 'osc.*-osc-[!M]*.stats' 'llite.*.stats'").splitlines()
    seen: dict[str, float] = {"made": 0}
    for line in lines:
        words = line.split()
        if "stats=" in line:
            device = line.split(".")[1]
        elif words[0] == "write_bytes" and "-OST" in device:
            seen[device[:14]] = int(words[6]) / 2**30
        elif words[0] in ("create", "mkdir", "mknod"):
            seen["made"] += int(words[1])
    return seen


def drops() -> int:
    """How often the page cache was dropped."""
    return int(ssh("awk '/^drop_pagecache/ { print $2 }' /proc/vmstat"))


@pytest.fixture
def project(tmp_path: Path) -> LustreProject:
    """A target of a part of the file system, not claimed yet."""
    lustre = {"capacity_gib": 1, "free_percent": 60, "stripe_count": 2, "osts": [1, 4], "tolerance_mib": 4}
    made = real.project_in(tmp_path / "clone", real.declaration(**lustre))
    made.write_study(**STUDY)
    return made


def test_what_a_life_does_is_on_the_page(project: LustreProject, tmp_path: Path) -> None:
    """Counts of what was done are at most those of the page, and no program was started that it lacks."""
    project.done("fsage", "--target", project.spec["name"], "site", "small", "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    rows = rows_of(page)
    release = project.playing("release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent")
    ssh(WATCH)
    try:
        dropped, before = drops(), counted()
        project.done(*project.playing("local_target.yml", "claim.yml"))
        project.done("snakemake", *real.ALL)
        assert not any(project.why().values()), project.why()
        project.done(*release)
        dropped, after = drops() - dropped, counted()
        lctl = ssh(f"cat {LOG}").splitlines()
        executed = Counter(re.findall(r"filename=\S*?([^/\s]+) pid=", ssh(f"cat {TRACING}/trace")))
        lost = ssh(f"cat {TRACING}/per_cpu/cpu*/stats | awk '/^overrun/ {{ sum += $2 }} END {{ print sum }}'")
    finally:
        ssh(UNWATCH, check=False)
        project.run(*release)  # nothing is left to do where all went well
    assert int(lost) == 0
    programs = {word for row in rows if len(row) == 5 for word in row[3].split(", ")}
    patterns = [re.escape(word).replace(r"\*", ".*") for word in programs]
    left = {name for name in executed if not any(re.fullmatch(pattern, name) for pattern in patterns)}
    assert left - AROUND == set(), executed
    assert 0 < dropped <= most(rows, "page cache, names and inodes") + most(rows, "page cache of the whole server")
    cleared = sum("lru_size=clear" in line for line in lctl)
    assert 0 < cleared <= most(rows, "unused locks"), lctl
    assert 0 < sum("force_sync=1" in line for line in lctl) <= most(rows, "force_sync")
    assert 0 < sum("brw_stats" in line for line in lctl) <= most(rows, "brw_stats")
    tunables = {words.rpartition(".")[2].partition("=")[0] for line in lctl for words in line.split() if "=" in words}
    assert tunables and not [name for name in tunables if not any(name in row[1] for row in rows if len(row) == 5)]
    assert 0 < after["made"] - before["made"] <= bound(rows, "files and directories made")
    written = {ost: after[ost] - before.get(ost, 0) for ost in after if ost != "made"}
    declared = {f"{real.FSNAME}-OST000{number}" for number in (1, 4)}
    assert {ost for ost, gib in written.items() if gib > 1 / 1024} == declared, written
    assert max(written.values()) <= bound(rows, "of it on each OST")
    assert sum(written.values()) <= bound(rows, "bytes written in all")
