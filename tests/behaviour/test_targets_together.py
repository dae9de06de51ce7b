"""Several real targets in one run: each its share, never two at once, one report, a killed run, a lost target."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest
from local_targets import claim_file, claimed
from project import MEASURE, Project, kill_group

from fsage.host.system import files
from fsage.host.targets import lease
from fsage.plan import results

pytestmark = pytest.mark.root
COMMON = {"30.00@8M", "60.00@8M"}
LEAST_S = 180


class Several:
    """A project with several targets that share its study."""

    def __init__(self, project: Project, others: list[dict[str, Any]]) -> None:
        self.project, self.specs = project, [project.spec, *others]
        self.names = [spec["name"] for spec in self.specs]
        for other in others:
            project.declare(other)
        project.write_study(targets="share")
        self.target = f"target={','.join(self.names)}"

    def records(self, name: str) -> dict[str, dict[str, Any]]:
        """state/cell -> record on one target."""
        folder = self.project.root / "results/records" / name / "small"
        return {str(path.relative_to(folder))[:-5]: json.loads(path.read_text()) for path in folder.glob("*/*.json")}

    def states(self, name: str) -> set[str]:
        return {path.partition("/")[0] for path in self.records(name)}

    def leases(self) -> list[Path]:
        """Those that are held."""
        home = Path(self.project.spec["home"])
        return [home / name / lease.NOTE for name in self.names if (home / name / lease.NOTE).exists()]


@pytest.fixture
def both(project: Project, other_targets: list[dict[str, Any]]) -> Several:
    return Several(project, other_targets[:1])


@pytest.mark.long
@pytest.mark.parametrize("others", [1, 3])
def test_each_measures_its_share_and_never_two_at_once(
    project: Project, other_targets: list[dict[str, Any]], others: int
) -> None:
    several = Several(project, other_targets[:others])
    ran = project.run("snakemake", "--config", several.target, "--", "small")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    measured = [several.states(name) for name in several.names]
    assert set.intersection(*measured) == COMMON
    assert sorted(state for of_one in measured for state in of_one - COMMON) == ["30.50@8M", "60.50@8M"]
    records = [each for name in several.names for each in several.records(name).values()]
    taken = sorted((record["began"], record["ended"]) for record in records)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(taken)), "they share a disk"
    report = project.root / f"results/report/{'+'.join(several.names)}/small/index.html"
    assert "The targets share the states" in report.read_text()
    assert f"{report.relative_to(project.root)}" in ran.stdout
    assert several.leases() == []
    again = project.run("snakemake", "--config", several.target, "--", "small")
    assert again.returncode == 0 and again.stdout.count(", 0 cells to measure, ") == 1 + others


@pytest.mark.long
def test_within_a_budget_each_predicts_what_is_left_of_its_share(both: Several) -> None:
    ran = both.project.measure("--config", both.target, "precision=50%")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for name in both.names:
        assert f"budget small on {name}: about " in ran.stdout
        assert {each["status"] for each in both.records(name).values()} == {"valid"} and both.states(name) >= COMMON
        manifests, skipped = both.project.manifests(name), both.project.skipped(name)
        assert skipped and len(both.records(name)) + len(skipped) == 4 * len(manifests), "each cell of its share"


@pytest.mark.long
def test_the_others_go_on_without_a_lost_target_after_a_kill(both: Several) -> None:
    first, second = both.names
    both.project.write_study(targets="share", cells__transfer_size=["4M"])
    started = both.project.start("snakemake", "--config", both.target, *MEASURE)
    deadline = time.monotonic() + LEAST_S
    while not both.records(second) and started.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    kill_group(started)
    kept = both.records(second)
    assert kept, (both.project.root / "started.log").read_text()
    assert len(both.leases()) == 2
    ran = both.project.run("snakemake", "--config", both.target, f"lost={second}", *MEASURE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert both.states(first) == COMMON | {"30.50@8M", "60.50@8M"}
    assert both.records(second) == kept, "what was measured there is as it was"
    assert not (Path(both.project.spec["home"]) / first / lease.NOTE).exists()


def test_where_one_target_is_held_none_is_taken(both: Several) -> None:
    first, second = both.names
    for name, spec in zip(both.names, both.specs, strict=True):
        claimed(spec)
        results.write(both.project.root / f"results/targets/{name}.json", files.read_json(claim_file(spec)))
    me = {"run": "another", "host": "far", "machine": "far", "pid": 1, "pid_start": 1, "command": "c", "since": "s"}
    home = Path(both.project.spec["home"]) / second
    lease.take(home, {"holder": me})  # type: ignore[typeddict-item]  # the least it needs
    ran = both.project.run("snakemake", "--config", both.target, *MEASURE)
    assert ran.returncode != 0
    assert f"target {second} is held by run another" in ran.stdout + ran.stderr
    assert both.leases() == [home / lease.NOTE] and not both.records(first)
    lease.drop(home, {"holder": me})  # type: ignore[typeddict-item]  # the least it needs
