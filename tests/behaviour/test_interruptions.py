"""Killed, stopped, failing, held by another: the same command again ends with the same cells."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from project import Project, descendants, kill_group, succeeded
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
        lambda: any((project.mount / "measured").glob("*")) and project.observed(),  # amid an I/O command
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
    project.whole(cells)
    assert len(project.fetched()) == cells, "what was measured before a kill is kept and not measured twice"
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
    project.wait_amid(run, lambda: project.observed())
    os.kill(run.pid, number) if number == signal.SIGTERM else os.killpg(run.pid, number)
    assert run.wait(timeout=60) != 0  # a busy machine
    wait_for(lambda: not processes_in(project.root), 15, "all processes to end")
    said = project.log()
    assert "Traceback" not in said and "Exception" not in said and said.count("the same command resumes") == 1
    kept = project.observed()
    succeeded(project.measure())
    assert kept <= project.fetched() and len(project.records()) == len(project.fetched()) == 4


@pytest.mark.long
def test_a_cell_that_fails_is_named_and_the_rest_goes_on(project: Project) -> None:
    project.write_study(states__capacity=[30], states__fragmentation=[0, 50], cells__transfer_size=["4M"], headline=[])
    run = project.start("snakemake", "small")
    project.wait_amid(run, lambda: project.observed() and descendants(run.pid, "fio"))
    for pid in descendants(run.pid, "fio"):
        os.kill(pid, signal.SIGKILL)
    assert run.wait(timeout=300) != 0
    records = project.records()
    assert len(records) == 4
    (failed,) = (record for record in records.values() if record["status"] != "valid")
    assert (failed["status"], failed["metrics"]) == ("failed", {}) and "killed by signal 9" in failed["why"]
    assert (project.root / "results/report" / project.spec["name"] / "small/index.html").exists()
    said = project.log()
    assert f"failed: {failed['state']} {failed['cell']}" in said
    command = said.partition("to measure just the failed ones again: ")[2].partition("\n")[0]
    before = project.taken()
    again = succeeded(project.run("bash", "-ec", command.replace("./run ", "")))
    assert "1 record quarantined" in again.stdout, again.stdout
    for name, taken in project.taken().items():
        assert (taken != before[name]) == (failed["state"] in name and failed["cell"] in name), name


@pytest.mark.long
def test_a_lost_folder_of_results_is_measured_anew_and_the_target_kept(project: Project) -> None:
    project.write_study(states__capacity=[30], states__fragmentation=[0], headline=[])
    assert project.measure().returncode == 0
    claim = json.loads((project.home / "claim.json").read_text())
    shutil.rmtree(project.root / "results")
    succeeded(project.measure())
    assert len(project.records()) == 4
    assert json.loads((project.home / "claim.json").read_text())["id"] == claim["id"]
