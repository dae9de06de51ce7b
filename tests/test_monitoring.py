"""Layouts as metrics for Prometheus: what is printed, its dashboard and alert rules, and the role that installs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import preloaded
import pytest
import yaml
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from small_filesystems import small
from test_playbooks import ansible, done, inventory_of, refused
from tiers import first_of, first_row_of

from fsage.layouts import ext4, machine, monitoring
from fsage.layouts.__main__ import main
from fsage.layouts.inspect import inspect
from fsage.layouts.program import START, program

ROOT = Path(__file__).resolve().parents[1]
MONITORING = ROOT / "docs" / "howto" / "monitoring"
EXAMPLE = ROOT / "config" / "layouts" / "example.gz"
SECRET = "payroll-2026"
NAMES = re.compile(r"\bfsage_[a-z_]+\b")


def samples(text: str) -> dict[str, list[Any]]:
    """Samples by metric; the text is OpenMetrics, and means the same in the classic format."""
    strict = [sample for family in openmetrics.text_string_to_metric_families(text) for sample in family.samples]
    classic = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert [each[:3] for each in strict] == [each[:3] for each in classic]
    found: dict[str, list[Any]] = {}
    for each in strict:
        found.setdefault(each.name, []).append(each)
    return found


def fsage(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return preloaded.call("fsage", *words)


def test_what_is_printed_is_what_evidence_counts() -> None:
    ran = fsage("evidence", EXAMPLE, "--openmetrics")
    assert ran.returncode == 0, ran.stderr
    found = samples(ran.stdout)
    [store] = inspect(str(EXAMPLE), 0)["stores"]
    assert found["fsage_free_bytes"][0].value == store["free_bytes"]
    assert found["fsage_free_extent_size_bytes_count"][0].value == store["free_extents"]["count"]
    assert found["fsage_free_extent_size_bytes_sum"][0].value == store["free_bytes"]
    below = {float(each.labels["le"]): each.value for each in found["fsage_free_extent_size_bytes_bucket"]}
    for row in store["free_extents"]["histogram"]:
        start = row["from_bytes"]
        assert below[2 * start - 1] - below.get(start - 1, 0) == row["extents"]
    assert sum(group.value for group in found["fsage_groups"]) == store["groups"]["count"]
    chunks = {each.labels["chunk_bytes"]: each.value for each in found["fsage_free_aligned_ratio"]}
    assert chunks == store["aligned_free_share"]


@pytest.mark.parametrize("text", ["e2freefrag.txt", "../trials/23-xfs-16mib-enospc/freesp-s.txt"])
def test_what_a_text_does_not_tell_has_no_metric(text: str) -> None:
    path = ROOT / "tests/data/evidence" / text
    ran = fsage("evidence", path, "--openmetrics")
    assert ran.returncode == 0, ran.stderr
    found = samples(ran.stdout)
    [store] = inspect(str(path), 0)["stores"]
    assert found["fsage_free_bytes"][0].value == store["free_bytes"]
    assert "fsage_free_aligned_ratio" not in found
    assert ("fsage_device_size_bytes" in found) == (store["device_bytes"] is not None)


def oldest_python() -> str:
    """Python 3.9, where one really runs (a shim of pyenv may not), else the distribution's."""
    python = shutil.which("python3.9")
    runs = python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    return python if python and runs else "/usr/bin/python3"


@pytest.mark.root
@pytest.mark.parametrize("filesystem", first_of("ext4", "xfs", "btrfs"))
def test_files_are_looked_at_when_asked_and_no_name_is_told(filesystem: str, tmp_path: Path) -> None:
    """By the program as servers get it: one file, run by the oldest Python that is here, with nothing else."""
    packed, to = tmp_path / "evidence.pyz", tmp_path / "fsage.prom"
    packed.write_bytes(program())
    assert program() == packed.read_bytes(), "the same modules give the same file"
    point = tmp_path / "mnt"
    with small(filesystem, point) as made:
        folder = made.point / SECRET
        folder.mkdir()
        for number in range(5):
            (folder / f"{SECRET}{number}").write_bytes(b"x" * 100_000)
        os.sync()
        argv = [oldest_python(), "-I", packed, "evidence", "--openmetrics", "--to", to, folder]
        subprocess.run(argv, check=True, capture_output=True)
        without = to.read_text()
        subprocess.run([*argv, "--files", "3"], check=True, capture_output=True)
        asked = samples(to.read_text())
        device = machine.mount_of(point).source
    point.rmdir()
    assert "fsage_file_extents" not in without
    assert asked["fsage_file_extents_count"][0].value == 3
    assert asked["fsage_file_extents_count"][0].labels == {"device": device, "fstype": filesystem}
    assert SECRET not in without + to.read_text() and str(tmp_path) not in without
    assert stat.S_IMODE(to.stat().st_mode) == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == [packed.name, to.name]


def test_what_cannot_be_read_is_a_sentence_and_a_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "fsage.prom"
    metered = ("evidence", "--openmetrics", "--to")
    assert main([*metered, str(to), str(EXAMPLE), str(tmp_path / SECRET), "none"]) == 1
    assert f"{SECRET}: No such file or directory" in capsys.readouterr().err
    found = samples(to.read_text())
    success = found["fsage_evidence_success"]
    assert [(each.labels["device"], each.value) for each in success] == [("file", 1), ("none", 0), ("none (2)", 0)]
    assert len(found["fsage_free_bytes"]) == 1 and SECRET not in to.read_text()
    assert main([*metered, str(tmp_path / "none" / "x.prom"), str(EXAMPLE)]) == 1
    assert "No such file or directory; the metrics were not written" in capsys.readouterr().err
    assert main(["evidence", str(EXAMPLE), "--openmetrics", "--json"]) == 2
    assert "--openmetrics stands alone" in capsys.readouterr().err
    assert main(["evidence", str(tmp_path / SECRET), str(EXAMPLE), "--fail-on", "full=1"]) == 1
    shown = capsys.readouterr()
    assert f"{EXAMPLE}: ext4, 16 GiB" in shown.out and f"{SECRET}: No such file or directory" in shown.err


def test_an_older_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 6, 15))
    with pytest.raises(SystemExit, match=r"this is Python 3\.6, and 3\.9 or newer is needed"):
        exec(START)


@pytest.mark.parametrize("option", first_of("--save", "--openmetrics --to"))
def test_what_is_no_file_does_not_become_one(tmp_path: Path, option: str) -> None:
    """A file is renamed into its place. Root's `--save /dev/null` took the place of the machine's,
    and /dev/stdout, a link to what may be a file, lost its place too."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "named").symlink_to("kept")
    (tmp_path / "kept").touch()
    for name, kind in (("fifo", "a FIFO"), ("link", "a link"), ("named", "a link")):
        before = os.lstat(tmp_path / name).st_ino
        ran = fsage("evidence", EXAMPLE, *option.split(), tmp_path / name)
        assert ran.returncode == 1 and f"{name}: it is {kind}, where a file is expected" in ran.stderr
        assert os.lstat(tmp_path / name).st_ino == before


def test_a_time_limit_ends_what_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that reads a device does not end, and is ended."""
    slow = tmp_path / "dumpe2fs"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("fsage.layouts.monitoring.inspect", lambda what, files, counting: ext4.of_device(what))
    failed = monitoring.export(["/dev/none"], tmp_path / "fsage.prom", 0.5, 0, 0)
    assert failed == ["/dev/none: not read within 0.5 s (--time-limit)"]
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert samples((tmp_path / "fsage.prom").read_text())["fsage_evidence_success"][0].value == 0


def test_dashboard_and_alerts_name_only_what_is_printed() -> None:
    [store] = inspect(str(EXAMPLE), 0)["stores"]
    store["files"] = {"found": {"files": 2, "extents_per_file": {"1": 2}, "extents": 2}}
    printed = set(samples(monitoring.text([monitoring.Watched("/dev/sdb", store, 1.0, 1.0)]).decode()))
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [each["query"] for each in dashboard["templating"]["list"]]
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    asked += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    named = set(NAMES.findall("\n".join(asked)))
    assert named and named <= printed
    documented = set(NAMES.findall((MONITORING / "README.md").read_text()))
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in printed} == documented


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian: prometheus)")
def test_promtool_takes_the_rules_and_the_metrics() -> None:
    said = fsage("evidence", EXAMPLE, "--openmetrics").stdout
    for words in ("check rules alerts.yml", "test rules alerts_test.yml", "check metrics"):
        argv = ["promtool", *words.split()]
        ran = subprocess.run(argv, cwd=MONITORING, input=said, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def installed(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if path.is_file())


@pytest.mark.root
@pytest.mark.long
def test_the_role_installs_a_timer_and_removes_it(tmp_path: Path) -> None:
    inventory, root = inventory_of(tmp_path / "inventory", {}, servers=["one"]), tmp_path / "root"
    folder, units = root / "var/lib/prometheus/node-exporter", root / "etc/systemd/system"
    for path in (folder, root / "usr/local/lib", units):
        path.mkdir(parents=True)

    def play(*words: str, **more: Any) -> int:
        given = {"monitoring_root": str(root), "monitoring_sources": ["/mnt/ost0", "/dev/sdb"], **more}
        return done(ansible(inventory, "monitoring.yml", *words, **given))

    assert play("--check") > 0 and installed(root) == []
    assert play() > 0 and play() == 0
    assert installed(root) == ["fsage-evidence.pyz", "fsage-evidence.service", "fsage-evidence.timer"]
    ran = subprocess.run(["systemd-analyze", "verify", *units.iterdir()], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")
    [start] = re.findall("^ExecStart=(.*)$", (units / "fsage-evidence.service").read_text(), re.M)
    words = [*start.split()[:-2], str(EXAMPLE)]
    for place in (2, words.index("--to") + 1):
        words[place] = str(root / words[place].strip("/"))
    subprocess.run(words, check=True)
    assert samples((folder / "fsage.prom").read_text())["fsage_evidence_success"][0].value == 1
    assert play(monitoring_state="absent") > 0 and installed(root) == []


@pytest.mark.root
@pytest.mark.parametrize(
    ("sources", "more", "said"),
    first_row_of(
        ([], {}, "at least one, now 0"),
        (["/mnt/%i"], {}, "every path is absolute"),
        (["/mnt/a\nUser=me"], {}, "every path is absolute"),
        (["/mnt/a"], {"monitoring_calendar": "hourly\nUnit=x"}, "systemd.time(7)"),
        (["/mnt/a"], {"monitoring_folder": "/nowhere"}, "/nowhere is no folder"),
    ),
)
def test_the_role_refuses(sources: list[str], more: dict[str, str], said: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    given = {"monitoring_root": str(root), "monitoring_sources": sources, **more}
    ran = ansible(inventory_of(tmp_path / "inventory", {}, servers=["one"]), "monitoring.yml", **given)
    assert said in refused(ran) and not list(root.iterdir())
