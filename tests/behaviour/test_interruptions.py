"""Killed, stopped, failing, held by another: the same command again ends with the same cells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from project import CELLS, MEASURE, Project, kill_group
from tiers import first_row_of

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]


def wait_for(condition, seconds: float = 120) -> None:
    """Wait until `condition()` holds; fail the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def observations(project: Project) -> int:
    """Cells measured so far, fetched or not."""
    waiting = list((project.home / "outbox").rglob("*.json"))
    return len(waiting) + len(list((project.root / "results" / "raw").rglob("*.json")))


def processes_in(folder: Path) -> list[str]:
    """Command lines of all processes that name this test's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and int(entry.name) != os.getpid():
            found.append(line)
    return found


# A claim that is killed: test_agent_target_killed; a step that is killed: test_hosts_together.
@pytest.mark.parametrize(("kills", "fragmentation"), first_row_of(((2,), [50]), ((0, 1, 2, 3), [0, 50])))
def test_sigkill_at_any_moment_then_the_same_command(
    project: Project, kills: tuple[int, ...], fragmentation: list[int]
) -> None:
    cells = 2 * len(fragmentation)
    one_size = {"states__capacity": [30], "cells__transfer_size": ["4M"], "headline": []}
    project.write_study(**one_size, states__fragmentation=fragmentation)
    moments = [
        lambda: (project.home / "claim.json").exists(),  # while claiming
        lambda: (project.mount / "filler").exists(),  # while a state is built
        lambda: any((project.mount / "measured").glob("*")) and observations(project) >= 1,  # amid an I/O command
        lambda: (project.root / "results/incoming").exists() and len(project.record_files()) >= 2,
    ]
    seen: dict = {}
    for number in kills:
        run, moment = project.start("snakemake", "small"), moments[number]
        wait_for(lambda: moment() or run.poll() is not None)  # noqa: B023 - called at once
        assert run.poll() is None, (project.root / "started.log").read_text()
        kill_group(run)
        taken = project.taken()
        assert all(taken[name] == was for name, was in seen.items()), "a finished cell was measured again"
        seen = taken
    ran = project.measure()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert project.taken().items() >= seen.items()
    records = project.records()
    assert len(records) == cells and {r["status"] for r in records.values()} == {"valid"}
    assert all(r["check"]["agreed"] and r["check"]["state"] == r["state"] for r in records.values())
    attempts = len(list((project.root / "results" / "raw").rglob("*.json")))
    assert attempts == cells, "what was measured before a kill is kept and not measured twice"
    wait_for(lambda: not processes_in(project.root), 10)


@pytest.mark.long
def test_a_batch_that_was_killed_goes_on_where_it_was(project: Project) -> None:
    """One job visits all states; what it finished is kept, and only the rest is visited again."""
    words = ["snakemake", "--config", "batch_states=4", "--", "small"]
    run = project.start(*words)
    wait_for(lambda: observations(project) >= 7 or run.poll() is not None)  # amid the second state
    assert run.poll() is None, (project.root / "started.log").read_text()
    kill_group(run)
    seen = project.taken()
    assert len(seen) == 4, "the records of a state that was measured are handed over before the next begins"
    ran = project.run(*words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert project.taken().items() >= seen.items()
    assert len(project.records()) == CELLS == observations(project)
    assert [state for state, _ in project.order()] == sorted(state for state, _ in project.order()), "planned order"
    assert {r["check"]["rebuilt"] for r in project.records().values()} == {False}


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("ignored", [False, True], ids=["", "as by & in a script"])
def test_ctrl_c_and_sigterm_stop_cleanly_and_the_next_run_goes_on(
    project: Project, number: signal.Signals, ignored: bool
) -> None:
    """Ctrl-C comes to all processes of a group, SIGTERM to the run alone. A second state waits, and is not begun."""
    project.write_study(states__capacity=[30], cells__transfer_size=["4M"], headline=[])
    words = [sys.executable, "-m", "fsage.start", "small"]
    run = project.start(*(["sh", "-c", 'trap "" INT; exec "$@"', "sh"] if ignored else []), *words)
    wait_for(lambda: observations(project) >= 1)
    os.kill(run.pid, number) if number == signal.SIGTERM else os.killpg(run.pid, number)
    assert run.wait(timeout=60) != 0  # a busy machine
    wait_for(lambda: not processes_in(project.root), 15)
    said = (project.root / "started.log").read_text()
    assert "Traceback" not in said and "Exception" not in said and said.count("the same command resumes") == 1
    kept = {path.name for path in (project.home / "outbox").rglob("*.json")}
    ran = project.measure()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(project.records()) == 4
    assert len(list((project.root / "results" / "raw").rglob("*.json"))) == 4
    assert kept <= {path.name for path in (project.root / "results" / "raw").rglob("*.json")}


@pytest.mark.long
def test_a_window_that_closes_stops_the_run_between_cells_and_the_next_goes_on(project: Project) -> None:
    assert project.fsage("claim").returncode == 0
    end = (datetime.now().astimezone() + timedelta(seconds=22)).isoformat(timespec="seconds")
    ran = project.snakemake("--config", f"until={end}", "--", "small")
    assert ran.returncode != 0
    assert "when this run is to end" in ran.stderr and "Traceback" not in ran.stderr
    raw = project.root / "results" / "raw"
    kept = [json.loads(path.read_text()) for path in raw.rglob("*.json")]
    assert len(kept) < CELLS and not list((project.mount / "measured").glob("*"))
    assert all(datetime.fromisoformat(each["began"]) < datetime.fromisoformat(end) for each in kept)
    assert project.snakemake().returncode == 0
    assert len(project.records()) == CELLS == len(list(raw.rglob("*.json"))), "no cell twice"
    assert project.snakemake("-n", "--config", "until=25:61", "--", "small").returncode != 0


@pytest.mark.long
def test_a_second_run_on_the_same_target_is_refused_at_once_naming_the_holder(project: Project) -> None:
    project.write_study(states__capacity=[30], states__fragmentation=[0], cells__iterations=300, headline=[])
    run = project.start("snakemake", *MEASURE)  # until it is told to stop, however slow the machine is
    wait_for(lambda: observations(project) >= 1)
    second = project.run("snakemake", "--config", "results=elsewhere", "--", "small")
    assert second.returncode != 0
    assert (
        f"process {run.pid} on {os.uname().nodename}" in second.stderr
        and "snakemake --omit-from report_small -- small" in second.stderr
    )
    assert not (project.root / "elsewhere" / "records").exists()
    by_hand = project.playbook("scrub.yml", "-e", project.asked(steps=[], state="empty"))
    assert by_hand.returncode != 0
    assert "is held by run" in by_hand.stdout, by_hand.stdout + by_hand.stderr
    taken = observations(project)
    wait_for(lambda: observations(project) > taken)
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(timeout=60) != 0
    found = [json.loads(path.read_text()) for path in (project.home / "outbox").rglob("*.json")]
    assert {each["check"]["rebuilt"] for each in found} == {False}, "neither of them touched anything"


@pytest.mark.long
def test_a_cell_that_runs_out_of_space_fails_and_the_rest_goes_on(project: Project) -> None:
    project.write_study(states__capacity=[30, 97], states__fragmentation=[0], cells__transfer_size=["4M"], headline=[])
    ran = project.snakemake()
    assert ran.returncode != 0
    records = project.records()
    assert len(records) == 4
    status = {(r["state"], r["status"]) for r in records.values()}
    assert status == {("30.00@8M", "valid"), ("97.00@8M", "failed")}
    failed = [r for r in records.values() if r["status"] == "failed"]
    assert all("has room for" in r["why"] and r["metrics"] == {} for r in failed)
    assert (project.root / "results/report" / project.spec["name"] / "small/index.html").exists()
    said = ran.stdout + ran.stderr
    assert "failed: 97.00@8M transfer_size-4M_i1" in said
    command = said.partition("to measure just the failed ones again: ")[2].partition("\n")[0]
    before = project.taken()
    again = project.run("bash", "-ec", command.replace("./run ", ""))
    assert again.returncode != 0 and "records quarantined" in again.stdout
    now = project.taken()
    assert {name for name in now if now[name] != before.get(name)} == {n for n in now if n.startswith("97.00")}


@pytest.mark.long
def test_an_io_error_fails_its_cell_and_the_rest_goes_on(project: Project) -> None:
    """The file system is shut down under a cell, as it does itself after an I/O error in its journal."""
    project.write_study(states__capacity=[30], states__fragmentation=[0], headline=[])
    run = project.start("snakemake", "small")
    wait_for(lambda: observations(project) >= 1 and any((project.mount / "measured").glob("*")))
    subprocess.run(["xfs_io", "-x", "-c", "shutdown", str(project.mount)], check=True, timeout=30)
    assert run.wait(timeout=400) != 0
    said = (project.root / "started.log").read_text()
    assert "Traceback" not in said and "remeasure small --failed" in said
    records = project.records()
    assert sorted(r["status"] for r in records.values()) == ["failed", "valid", "valid", "valid"]
    failed = next(r for r in records.values() if r["status"] == "failed")
    assert failed["metrics"] == {} and "error" in failed["why"].lower()
    assert (project.root / "results/report" / project.spec["name"] / "small/index.html").exists()
    assert project.fsage("remeasure", "small", "--failed").returncode == 0
    again = project.snakemake()
    assert again.returncode == 0, again.stdout + again.stderr
    assert {r["status"] for r in project.records().values()} == {"valid"}


@pytest.mark.long
def test_a_lost_folder_of_results_is_measured_anew_and_the_target_kept(project: Project) -> None:
    project.write_study(states__capacity=[30], states__fragmentation=[0], headline=[])
    assert project.snakemake().returncode == 0
    claim = (project.home / "claim.json").read_text()
    shutil.rmtree(project.root / "results")
    ran = project.snakemake()
    assert ran.returncode == 0, ran.stderr
    assert len(project.records()) == 4
    assert (project.home / "claim.json").read_text().split('"id"')[1][:45] == claim.split('"id"')[1][:45]
