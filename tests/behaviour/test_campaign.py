"""A campaign of interruptions: the same command ends with the same cells, whatever was done to run, target and results.

Each cell is measured in its state, a finished one never again, and none has failed.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from project import CELLS, MEASURE, Project

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(3000)]

ENDINGS = ("kill", "kill fio first", "stop", "term", "int")
"""How a run is interrupted. A stopped one goes on after a while, and is killed then."""
DEEDS = ("nothing", "altered file", "deleted records", "deleted manifest")
"""What happens to the target and the results between two runs."""
INTERRUPTIONS, AMID = 12, 0.7


def do(deed: str, project: Project, draw: random.Random) -> None:
    """Alter the target or the results."""
    records = list(project.record_files().values())
    manifests = sorted((project.root / "results/manifests").rglob("*.json"))
    filler = sorted(path for path in (project.mount / "filler").rglob("*") if path.is_file())
    if deed == "altered file" and filler:
        with open(draw.choice(filler), "r+b") as file:
            file.truncate(draw.randrange(1 << 20))
    elif deed == "deleted records":
        for path in draw.sample(records, min(3, len(records))):
            path.unlink()
    elif deed == "deleted manifest" and manifests:
        draw.choice(manifests).unlink()


def reached(project: Project, run: subprocess.Popen, draw: random.Random) -> bool:
    """Wait for a moment of a run, most often amid measuring; whether the run was there to see it."""
    before = observations(project)
    if draw.random() < AMID:
        while observations(project) == before and run.poll() is None:
            time.sleep(0.05)
    try:
        run.wait(timeout=draw.uniform(0, 5))
    except subprocess.TimeoutExpired:
        return True
    return False


def observations(project: Project) -> int:
    """How many there are, fetched or not."""
    places = project.home / "outbox", project.root / "results/raw"
    return sum(1 for place in places for _ in place.rglob("*.json"))


def end(ending: str, run: subprocess.Popen, draw: random.Random) -> None:
    """Interrupt a run, and wait until it has ended."""
    if ending == "kill fio first":
        for process in commands_of(run.pid):
            process.kill()
    elif ending == "stop":
        os.killpg(run.pid, signal.SIGSTOP)
        time.sleep(draw.uniform(0.5, 3))
        os.killpg(run.pid, signal.SIGCONT)
        time.sleep(draw.uniform(0, 2))
    if ending == "term":
        run.terminate()
    else:
        os.killpg(run.pid, signal.SIGINT if ending == "int" else signal.SIGKILL)
    run.wait(timeout=120)


class Command(int):
    """A process of fio, by its number."""

    def kill(self) -> None:
        try:
            os.kill(self, signal.SIGKILL)
        except ProcessLookupError:
            return


def commands_of(run: int) -> list[Command]:
    """The processes of fio that descend from a run."""
    parents, names = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        names[int(entry.name)] = stat[stat.index("(") + 1 : stat.rindex(")")]
        parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = []
    for process, name in names.items():
        above = process
        while above in parents and above != run:
            above = parents[above]
        if above == run and name == "fio":
            found.append(Command(process))
    return found


def raws(project: Project) -> list[dict]:
    """All observations that came home."""
    return [json.loads(path.read_text()) for path in sorted((project.root / "results/raw").rglob("*.json"))]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
def test_the_same_command_ends_with_the_same_cells(project: Project, filesystem: str, seed: int) -> None:
    draw = random.Random(f"{filesystem} {seed}")
    project.write_target(filesystem=filesystem)
    assert project.fsage("claim").returncode == 0
    done: Counter[str] = Counter()
    seen: dict = {}
    while done.total() < INTERRUPTIONS:
        deed, ending = draw.choice(DEEDS), draw.choice(ENDINGS)
        if len(project.record_files()) == CELLS:
            deed = "deleted records"
        do(deed, project, draw)
        kept = project.taken()
        run = project.start(sys.executable, "-P", "-m", "fsage.start", *MEASURE)
        if reached(project, run, draw):
            end(ending, run, draw)
            done[f"{deed}, {ending}"] += 1
        else:
            assert run.returncode == 0, (project.root / "started.log").read_text()
        said = (project.root / "started.log").read_text()
        assert "Traceback" not in said, said
        seen = project.taken()
        assert seen.items() >= kept.items(), "a finished cell was measured again"
    ran = project.measure()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert project.taken().items() >= seen.items()
    records = project.records()
    print(filesystem, seed, done, len(raws(project)), "observations")
    assert len(records) == CELLS and {record["status"] for record in records.values()} == {"valid"}
    assert {raw["status"] for raw in raws(project)} == {"done"}, "an interrupted cell has not failed"
    assert all(record["check"]["agreed"] and record["check"]["state"] == record["state"] for record in records.values())
    planned = project.planned()
    for name, record in records.items():
        assert {key: record[key] for key in planned[name]} == planned[name]
    named = [row["record"] for manifest in project.manifests() for row in manifest["cells"]]
    assert sorted(named) == sorted(
        str(path.relative_to(project.root / "results")) for path in project.record_files().values()
    )
    dry = project.snakemake("-n", "small")
    assert re.search(r", 0 cells to measure, ", dry.stdout), dry.stdout + dry.stderr
    assert project.fsage("conclude", "small").returncode == 0
