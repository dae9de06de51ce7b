"""Series 1 over several targets: how long the longest share is to the whole.

Over 4 targets, the DAG as it is, with a `fsage` that sleeps a hundredth of what a state is estimated to take, and then
writes empty records: what is left of it is Snakemake's and fsage's own work. Goal: at most 0.3 of one
target's time. Over 16 and 64 from the plan alone: states that all targets measure are a part of each share.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import yaml
from stand_in import cloned, measured

from fsage.plan.pool import load_pool
from fsage.plan.target import load_target

ROOT = Path(__file__).resolve().parents[1]
FASTER = 100


def main() -> None:
    """A line a number of targets."""
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/var/tmp") as place:
        clone, environment = cloned(Path(place), 1 / FASTER)
        names = [declared(clone, number) for number in range(64)]
        took = {count: run(clone, environment, names[:count]) for count in (1, 4)}
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
    block = load_target(ROOT / "inventories/local").spec
    (folder / "target.yml").write_text(yaml.safe_dump({"fsage_target": {**block, "name": name}}))
    hosts = {"all": {"children": {"clients": {"hosts": {f"{name}.site": {}}}}}}
    (folder.parents[1] / "hosts.yml").write_text(yaml.safe_dump(hosts))
    return name


def run(clone: Path, environment: dict[str, str], names: list[str]) -> float:
    """Seconds of Series 1 on these targets, with results of its own."""
    config = [f"target={','.join(names)}", f"results=results{len(names)}"]
    began = time.monotonic()
    measured(["snakemake", "--cores", str(len(names)), "--config", *config, "--", "series1"], clone, environment)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
