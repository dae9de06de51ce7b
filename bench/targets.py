"""Series 1 over several targets: how long the longest share is to the whole.

Over 4 targets, the DAG as it is, with a `fsage` that sleeps a hundredth of what a state is estimated to take, and then
writes empty records: what is left of it is Snakemake's and fsage's own work. Goal: at most 0.3 of one
target's time. Over 16 and 64 from the plan alone: states that all targets measure are a part of each share.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from fsage.plan.pool import load_pool
from fsage.plan.target import load_target

ROOT = Path(__file__).resolve().parents[1]
FASTER = 100
FSAGE = """#!{python}
\"\"\"Stands in for fsage: sleeps a hundredth, then writes what a job declares, empty.\"\"\"
import os, sys, time
from pathlib import Path
from fsage.plan import load_plan
from fsage.plan.pool import load_pool
results, given = Path(os.environ["FSAGE_RESULTS"]), [word for word in sys.argv[1:] if not word.startswith("-")]
target = next((word.partition("=")[2] for word in sys.argv[1:] if word.startswith("--target=")), "")
made = []
if given[0] == "claim":
    made = [results / "targets" / f"{{target}}.json"]
elif given[0] == "visit":
    plan, state = load_plan(Path("config/series1.yaml"), Path("inventories") / target, results), given[2]
    time.sleep(plan.state_seconds(state) / {faster})
    made = [plan.manifest(state), *(plan.results.record(state, cell.name) for cell in plan.cells[state])]
elif given[0] == "report":
    folders = [Path("inventories") / name for name in os.environ["FSAGE_TARGET"].split(",")]
    pool = load_pool(Path("config/series1.yaml"), folders, results)
    made = [pool.results.report / name for name in ("index.html", "records.parquet", "records.csv", "figures/x.svg")]
for path in made:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("null")
"""


def main() -> None:
    """A line a number of targets."""
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/var/tmp") as place:
        clone = Path(place) / "clone"
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, tracked.split("\0")):
            if not name.startswith(("docs/", "tests/")):
                (clone / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, clone / name, follow_symlinks=False)
        names = [declared(clone, number) for number in range(64)]
        took = {count: run(clone, Path(place), names[:count]) for count in (1, 4)}
        print(f"4 targets, sleeping: {took[4] / took[1]:.3f} of one target's {took[1]:.0f} s")
        folders = [clone / "inventories" / name for name in names]
        whole = load_pool(ROOT / "config/series1.yaml", folders[:1], Path(place) / "none").plans[0].seconds()
        for count in (4, 16, 64):
            pool = load_pool(ROOT / "config/series1.yaml", folders[:count], Path(place) / "none")
            longest = max(plan.seconds() for plan in pool.plans)
            print(f"{count} targets, as planned: {longest / whole:.3f} of one target's {whole:.0f} s")


def declared(clone: Path, number: int) -> str:
    """A target of a host of its own."""
    name = f"ssu{number + 1}"
    folder = clone / "inventories" / name / "group_vars" / "all"
    folder.mkdir(parents=True)
    block = load_target(ROOT / "inventories/local").model_dump()
    (folder / "target.yml").write_text(yaml.safe_dump({"fsage_target": {**block, "name": name}}))
    hosts = {"all": {"children": {"clients": {"hosts": {f"{name}.site": {}}}}}}
    (folder.parents[1] / "hosts.yml").write_text(yaml.safe_dump(hosts))
    return name


def run(clone: Path, place: Path, names: list[str]) -> float:
    """Seconds of Series 1 on these targets, with results of its own."""
    programs = place / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "fsage").write_text(FSAGE.format(python=sys.executable, faster=FASTER))
    (programs / "fsage").chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(clone / "src")}
    config = [f"target={','.join(names)}", f"results=results{len(names)}"]
    began = time.monotonic()
    ran = subprocess.run(
        ["snakemake", "--cores", str(len(names)), "--config", *config, "--", "series1"],
        cwd=clone,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return time.monotonic() - began


if __name__ == "__main__":
    main()
