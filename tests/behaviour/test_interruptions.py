"""Killed, stopped, failing, held by another: the same command again ends with the same cells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from project import CELLS, MEASURE, Project, kill_group, observations, succeeded
from testbed import wait_for
from tiers import first_row_of

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]


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


def raw_files(project: Project) -> set[str]:
    return {path.name for path in (project.root / "results/raw").rglob("*.json")}


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
        run = project.start("snakemake", "small")
        project.wait_amid(run, moments[number])
        kill_group(run)
        taken = project.taken()
        assert all(taken[name] == was for name, was in seen.items()), "a finished cell was measured again"
        seen = taken
    succeeded(project.measure())
    assert project.taken().items() >= seen.items()
    records = project.records()
    assert len(records) == cells and {r["status"] for r in records.values()} == {"valid"}
    assert all(r["check"]["agreed"] and r["check"]["state"] == r["state"] for r in records.values())
    assert len(raw_files(project)) == cells, "what was measured before a kill is kept and not measured twice"
    wait_for(lambda: not processes_in(project.root), 10, "all processes to end")


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "ignored"),
    [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGINT, True)],
    ids=["Ctrl-C", "SIGTERM", "as by & in a script"],
)
def test_ctrl_c_and_sigterm_stop_cleanly_and_the_next_run_goes_on(
    project: Project, number: signal.Signals, ignored: bool
) -> None:
    """Ctrl-C comes to all processes of a group, SIGTERM to the run alone. A second state waits, and is not begun."""
    project.write_study(states__capacity=[30], cells__transfer_size=["4M"], headline=[])
    words = [sys.executable, "-m", "fsage.start", "small"]
    run = project.start(*(["sh", "-c", 'trap "" INT; exec "$@"', "sh"] if ignored else []), *words)
    project.wait_amid(run, lambda: observations(project) >= 1)
    os.kill(run.pid, number) if number == signal.SIGTERM else os.killpg(run.pid, number)
    assert run.wait(timeout=60) != 0  # a busy machine
    wait_for(lambda: not processes_in(project.root), 15, "all processes to end")
    said = project.log()
    assert "Traceback" not in said and "Exception" not in said and said.count("the same command resumes") == 1
    kept = {path.name for path in (project.home / "outbox").rglob("*.json")}
    succeeded(project.measure())
    raw = raw_files(project)
    assert len(project.records()) == len(raw) == 4 and kept <= raw


@pytest.mark.long
def test_a_window_that_closes_stops_the_run_between_cells_and_the_next_goes_on(project: Project) -> None:
    assert project.fsage("claim").returncode == 0
    end = (datetime.now().astimezone() + timedelta(seconds=22)).isoformat(timespec="seconds")
    ran = project.snakemake("--config", f"until={end}", "--", "small")
    assert ran.returncode != 0
    assert "when this run is to end" in ran.stderr and "Traceback" not in ran.stderr
    kept = [json.loads(path.read_text()) for path in (project.root / "results/raw").rglob("*.json")]
    assert len(kept) < CELLS and not list((project.mount / "measured").glob("*"))
    assert all(datetime.fromisoformat(each["began"]) < datetime.fromisoformat(end) for each in kept)
    assert project.snakemake().returncode == 0
    assert len(project.records()) == len(raw_files(project)) == CELLS, "no cell twice"


@pytest.mark.long
def test_a_second_run_on_the_same_target_is_refused_at_once_naming_the_holder(project: Project) -> None:
    project.write_study(states__capacity=[30], states__fragmentation=[0], cells__iterations=300, headline=[])
    run = project.start("snakemake", *MEASURE)  # until it is told to stop, however slow the machine is
    project.wait_amid(run, lambda: observations(project) >= 1)
    second = project.run("snakemake", "--config", "results=elsewhere", "--", "small")
    assert second.returncode != 0
    assert f"process {run.pid} on {os.uname().nodename}" in second.stderr
    assert "snakemake --omit-from report_small -- small" in second.stderr
    assert not (project.root / "elsewhere" / "records").exists()
    by_hand = project.playbook("scrub.yml", "-e", project.asked(steps=[], state="empty"))
    assert by_hand.returncode != 0
    assert "is held by run" in by_hand.stdout, by_hand.stdout + by_hand.stderr
    taken = observations(project)
    project.wait_amid(run, lambda: observations(project) > taken)
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
    for record in records.values():
        if record["state"] == "30.00@8M":
            assert record["status"] == "valid"
        else:
            assert (record["status"], record["metrics"]) == ("failed", {}) and "has room for" in record["why"]
    assert (project.root / "results/report" / project.spec["name"] / "small/index.html").exists()
    said = ran.stdout + ran.stderr
    assert "failed: 97.00@8M transfer_size-4M_i1" in said
    command = said.partition("to measure just the failed ones again: ")[2].partition("\n")[0]
    before = project.taken()
    again = project.run("bash", "-ec", command.replace("./run ", ""))
    assert again.returncode != 0 and "records quarantined" in again.stdout
    for name, taken in project.taken().items():
        assert (taken != before[name]) == name.startswith("97.00"), name


@pytest.mark.long
def test_a_lost_folder_of_results_is_measured_anew_and_the_target_kept(project: Project) -> None:
    project.write_study(states__capacity=[30], states__fragmentation=[0], headline=[])
    assert project.measure().returncode == 0
    claim = json.loads((project.home / "claim.json").read_text())
    shutil.rmtree(project.root / "results")
    succeeded(project.measure())
    assert len(project.records()) == 4
    assert json.loads((project.home / "claim.json").read_text())["id"] == claim["id"]
