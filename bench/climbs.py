"""How often a reader who follows `plan` through a visit climbs back to it: from the run or the records into the plan.

A climb is a line of run/ or records/ that calls a function of plan/ while a state is built and measured on a plain
directory. Paths of results and the folder of the target's declaration are looked up, and do not count. Goal: 8.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType

from fsage.plan import load_plan
from fsage.run import job

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/fsage"
PLAN = [SOURCE / "plan" / name for name in ("__init__.py", "estimates.py", "amount.py")]
STUDY = """
name: climbs
title: One state
question: How often does one climb back?
states: {recipe: paf, capacity: [10], fragmentation: [0], file_size: [8M]}
cells: {workload: sequential, phases: [write, read], transfer_size: [1M], iterations: 2}
"""

climbs: dict[str, None] = {}


def hear(frame: FrameType, event: str, _: object) -> None:
    """Note a call of the plan from a later room."""
    caller = frame.f_back
    if event != "call" or caller is None or Path(frame.f_code.co_filename) not in PLAN:
        return
    if frame.f_code.co_name == "inventory":
        return
    path = Path(caller.f_code.co_filename)
    if path.is_relative_to(SOURCE / "run") or path.is_relative_to(SOURCE / "records"):
        place = f"{path.relative_to(SOURCE)}:{caller.f_lineno}"
        climbs[f"{place} {caller.f_code.co_name} -> {frame.f_code.co_name}"] = None


def main() -> None:
    """A line for each climb, and how many they are."""
    place = Path(tempfile.mkdtemp(prefix="fsage-bench-", dir="/var/tmp"))
    try:
        study = place / "climbs.yaml"
        study.write_text(STUDY)
        inventory = place / "inventories/climbs"
        shutil.copytree(ROOT / "inventories/directory", inventory)
        spec = inventory / "group_vars/all/target.yml"
        text = spec.read_text().replace("name: directory", "name: climbs", 1)
        spec.write_text(text.replace("directory: null", f"directory: {place}/data\n  home: {place}/home", 1))
        where = ["--results", place / "results", "--studies", place, "--inventories", inventory.parent]
        subprocess.run(["./run", "fsage", *where, "--target", "climbs", "claim"], check=True, cwd=ROOT)
        plan = load_plan(study, inventory, place / "results")
        sys.setprofile(hear)
        job.visit(plan, list(plan.states))
        sys.setprofile(None)
        print(*climbs, f"{len(climbs)} climbs", sep="\n")
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
