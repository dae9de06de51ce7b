"""What Snakemake and Slurm cost a cell, in Series 1's shape: 64 states of 39 cells each, batches as in profiles/slurm.

`snakemake --profile slurm series1` as typed, on a Slurm of its own (tests/testbed), with a `fsage` that writes
empty records at once: what is left is Snakemake's, Slurm's and the profile's own time. Goal: at most 0.3 s a cell.
Snakemake notices the end of a job late; for long jobs that is up to 180 s for each, which is added to the worst case.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/testbed"))
from testbed import Testbed  # noqa: E402 - the tests' cluster

LATE_S = 180  # snakemake-executor-plugin-slurm: the longest time between two looks at a job
FSAGE = """#!{python}
\"\"\"Stands in for fsage: what a job declares, at once and empty.\"\"\"
import os, sys
from pathlib import Path
from fsage.plan import load_plan
results, target = Path(os.environ["FSAGE_RESULTS"]), os.environ["FSAGE_TARGET"]
verb, _, *states = (word for word in [*sys.argv[1:], ""] if not word.startswith("-"))
made = []
if verb == "claim":
    made = [results / "targets" / f"{{target}}.json"]
elif verb in ("visit", "report"):
    plan = load_plan(Path("config/series1.yaml"), Path("inventories") / target, results)
    states = states[:-1]
    made = [plan.manifest(state) for state in states]
    made += [plan.results.record(state, cell.name) for state in states for cell in plan.cells[state]]
    if verb == "report":
        names = "index.html", "records.parquet", "records.csv", "figures/x.svg"
        made = [plan.results.report / name for name in names]
for path in made:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("null")
"""


def main() -> None:
    """One line each: all of it, a cell's share, and the worst case."""
    with tempfile.TemporaryDirectory(prefix="fsage-bed-", dir="/tmp") as place, Testbed(Path(place) / "bed") as bed:
        clone, programs = Path(place) / "clone", Path(place) / "bin"
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, tracked.split("\0")):
            if not name.startswith(("docs/", "tests/")):
                (clone / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, clone / name, follow_symlinks=False)
        programs.mkdir()
        (programs / "fsage").write_text(FSAGE.format(python=sys.executable))
        (programs / "fsage").chmod(0o755)
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(clone / "src")}
        began = time.monotonic()
        ran = subprocess.run(
            bed.inside("snakemake", "--profile", "slurm", "series1", folder=clone),
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        took_s = time.monotonic() - began
        assert ran.returncode == 0, ran.stdout + ran.stderr
        cells = len(list((clone / "results/records").glob("*/series1/*/*.json")))
        jobs = len(re.findall(r"has been submitted with SLURM jobid", ran.stderr))
    print(f"{cells} cells in {jobs} Slurm jobs: {took_s:.0f} s, {took_s / cells:.3f} s a cell")
    worst_s = took_s + jobs * LATE_S
    print(f"where each job is long, and its end noticed {LATE_S} s late: at most {worst_s / cells:.3f} s a cell")


if __name__ == "__main__":
    main()
