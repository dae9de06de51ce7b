"""A campaign of interruptions: the same command ends with the same cells, whatever was done to run, target and results.

Each cell is measured in its state, a finished one never again, and none has failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from project import CELLS, MEASURE, Project, descendants, succeeded

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
    before = project.observed()
    if draw.random() < AMID:
        while project.observed() == before and run.poll() is None:
            time.sleep(0.05)
    try:
        run.wait(timeout=draw.uniform(0, 5))
    except subprocess.TimeoutExpired:
        return True
    return False


def end(ending: str, run: subprocess.Popen, draw: random.Random) -> None:
    """Interrupt a run, and wait until it has ended."""
    if ending == "kill fio first":
        for process in descendants(run.pid, "fio"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
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


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
def test_the_same_command_ends_with_the_same_cells(project: Project, filesystem: str, seed: int) -> None:
    draw = random.Random(f"{filesystem} {seed}")
    project.write_target(filesystem=filesystem)
    assert project.fsage("claim").returncode == 0
    done = 0
    seen: dict = {}
    while done < INTERRUPTIONS:
        deed, ending = draw.choice(DEEDS), draw.choice(ENDINGS)
        if len(project.record_files()) == CELLS:
            deed = "deleted records"
        do(deed, project, draw)
        kept = project.taken()
        run = project.start(sys.executable, "-P", "-m", "fsage.start", *MEASURE)
        if reached(project, run, draw):
            end(ending, run, draw)
            done += 1
        else:
            assert run.returncode == 0, project.log()
        assert "Traceback" not in project.log(), project.log()
        seen = project.taken()
        assert seen.items() >= kept.items(), "a finished cell was measured again"
    succeeded(project.measure())
    assert project.taken().items() >= seen.items()
    project.whole(CELLS)
    raws = [json.loads(path.read_text()) for path in (project.root / "results/raw").rglob("*.json")]
    assert {raw["status"] for raw in raws} == {"done"}, "an interrupted cell has not failed"
    named = {row["record"] for manifest in project.manifests() for row in manifest["cells"]}
    results = project.root / "results"
    assert named == {str(path.relative_to(results)) for path in project.record_files().values()}
    dry = project.snakemake("-n", "small")
    assert ", 0 cells to measure, " in dry.stdout, dry.stdout + dry.stderr
    assert project.fsage("conclude", "small").returncode == 0
