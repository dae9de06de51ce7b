"""A clone with a `fsage` that stands in for the real one: what is left is Snakemake's and the DAG's own work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLAIM = {
    "id": "bench",
    "kind": "loop",
    "stores": [{"mount": "/mnt", "image_id": {"dev": 1, "ino": 1, "bytes": 16 << 30}}],
    "amount_mib": 64,
    "tasks": 1,
    "tools": {"fio": "3.33"},
    "calibration": {"cell_overhead_s": 0.5, "write_mib_s": 64.0, "read_mib_s": 32.0},
}
FSAGE = """#!{python}
\"\"\"Stands in for fsage: sleeps a part of the estimates, and writes what a job declares, empty.\"\"\"
import json, os, sys, time
from pathlib import Path
from fsage.plan.pool import load_pool
results, given = Path(os.environ["FSAGE_RESULTS"]), [word for word in sys.argv[1:] if not word.startswith("-")]
named = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith("--target=")]
targets = (named or [os.environ["FSAGE_TARGET"]])[0].split(",")
made = []
if given[0] == "claim":
    made = [results / "targets" / f"{{targets[0]}}.json"]
elif given[0] in ("visit", "report"):
    pool = load_pool(Path("config/series1.yaml"), [Path("inventories") / name for name in targets], results)
    plan = pool.plans[0]
    for state in given[2:]:
        time.sleep({share} * plan.state_seconds(state))
        made += [plan.manifest(state), *(plan.results.record(state, cell.name) for cell in plan.cells[state])]
    if given[0] == "report":
        names = "index.html", "records.parquet", "records.csv", "figures/x.svg"
        made = [pool.results.report / name for name in names]
for path in made:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({claim!r} | {{"machine": targets[0]}} if given[0] == "claim" else None))
"""


def cloned(place: Path, share: float = 0) -> tuple[Path, dict[str, str]]:
    """The clone below a folder, and the environment with this `fsage`, which sleeps a `share` of the estimates."""
    clone = place / "clone"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        if not name.startswith(("docs/", "tests/")):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name, follow_symlinks=False)
    programs = place / "bin"
    programs.mkdir()
    (programs / "fsage").write_text(FSAGE.format(python=sys.executable, share=share, claim=CLAIM))
    (programs / "fsage").chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return clone, {**os.environ, "PATH": path, "PYTHONPATH": str(clone / "src")}


def measured(command: list[str], clone: Path, environment: dict[str, str]) -> str:
    """Run a command that measures Series 1 there; what it said on standard error."""
    ran = subprocess.run(
        command, cwd=clone, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stderr
