"""Several real targets in one run: each its share, never two at once, one report.

A lost target: tests/cluster/test_targets_on_hosts.py.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from local_targets import claim_file, claimed
from project import MEASURE, Project, succeeded

from fsage.host.system import files
from fsage.host.targets import lease
from fsage.plan import results

pytestmark = pytest.mark.root
COMMON = {"30.00@8M", "60.00@8M"}


def declared(project: Project, others: list[dict[str, Any]]) -> list[str]:
    """The names of the targets that share the project's study."""
    for other in others:
        project.declare(other)
    project.write_study(targets="share")
    return [spec["name"] for spec in (project.spec, *others)]


def leases(project: Project, names: list[str]) -> list[str]:
    """Targets that are held."""
    return [name for name in names if Path(project.spec["home"], name, lease.NOTE).exists()]


@pytest.mark.long
def test_each_measures_its_share_and_never_two_at_once(project: Project, other_targets: list[dict[str, Any]]) -> None:
    names = declared(project, other_targets)
    words = ("snakemake", "--config", f"target={','.join(names)}", "--", "small")
    ran = succeeded(project.run(*words))
    measured = [project.states(name) for name in names]
    assert set.intersection(*measured) == COMMON
    own = [state for states in measured for state in states - COMMON]
    assert sorted(own) == ["30.50@8M", "60.50@8M"]
    records = [record for name in names for record in project.records(name).values()]
    taken = sorted((record["began"], record["ended"]) for record in records)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(taken)), "they share a disk"
    report = project.root / f"results/report/{'+'.join(names)}/small/index.html"
    assert "The targets share the states" in report.read_text()
    assert f"{report.relative_to(project.root)}" in ran.stdout
    assert leases(project, names) == []
    again = project.run(*words)
    assert again.returncode == 0 and again.stdout.count(", 0 cells to measure, ") == len(names)


@pytest.mark.long
def test_within_a_budget_each_predicts_what_is_left_of_its_share(
    project: Project, other_targets: list[dict[str, Any]]
) -> None:
    names = declared(project, other_targets[:1])
    ran = succeeded(project.measure("--config", f"target={','.join(names)}", "precision=50%"))
    for name in names:
        assert f"budget small on {name}: about " in ran.stdout
        records = project.records(name)
        assert {record["status"] for record in records.values()} == {"valid"} and project.states(name) >= COMMON
        skipped = project.skipped(name)
        assert skipped and len(records) + len(skipped) == 4 * len(project.manifests(name)), "each cell of its share"


def test_where_one_target_is_held_none_is_taken(project: Project, other_targets: list[dict[str, Any]]) -> None:
    names = declared(project, other_targets[:1])
    for spec in (project.spec, other_targets[0]):
        claimed(spec)
        results.write(project.root / f"results/targets/{spec['name']}.json", files.read_json(claim_file(spec)))
    me = {"run": "another", "host": "far", "machine": "far", "pid": 1, "pid_start": 1, "command": "c", "since": "s"}
    home = Path(project.spec["home"], names[1])
    lease.take(home, {"holder": me})  # type: ignore[typeddict-item]  # the least it needs
    ran = project.run("snakemake", "--config", f"target={','.join(names)}", *MEASURE)
    assert ran.returncode != 0
    assert f"target {names[1]} is held by run another" in ran.stdout + ran.stderr
    assert leases(project, names) == names[1:] and not project.records(names[0])
    lease.drop(home, {"holder": me})  # type: ignore[typeddict-item]  # the least it needs
