"""Several targets in one study: who measures what, what is refused, what is never measured at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from sent import CLAIM

from fsage.plan import results
from fsage.plan.pool import MOST_TARGETS, Pool, common_states, load_pools, names_of
from fsage.run import resources, runs
from fsage.study import StudyError

STUDY: dict[str, Any] = {
    "name": "tiny",
    "title": "t",
    "question": "q",
    "targets": "share",
    "states": {"recipe": "paf", "capacity": [20, 40, 60, 80], "fragmentation": [0, 20, 40, 50], "file_size": ["8M"]},
    "cells": {"workload": "sequential", "transfer_size": ["4M"], "iterations": 5},
    "headline": [{"label": "fragmentation", "state": "80.50", "against": "40.00"}],
}
COMMON = ["40.00@8M", "80.50@8M"]


class Site:
    """Inventories and results in a folder of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.study()

    def study(self, **changes: Any) -> None:
        (self.root / "config").mkdir(exist_ok=True)
        (self.root / "config/tiny.yaml").write_text(yaml.safe_dump({**STUDY, **changes}))

    def target(self, name: str, claim: dict[str, Any] | None = None, host: str = "", **declared: Any) -> None:
        """Declare a target, claimed where `claim` says how it differs from others."""
        folder = self.root / "inventories" / name / "group_vars" / "all"
        folder.mkdir(parents=True, exist_ok=True)
        shares = declared.pop("shares", None)
        block = {"fsage_target": {"name": name, "kind": "loop", **declared}}
        (folder / "target.yml").write_text(yaml.safe_dump(block | ({"fsage_target_shares": shares} if shares else {})))
        named = {host: {}} if host else {"localhost": {"ansible_connection": "local"}}
        hosts = {"all": {"children": {"clients": {"hosts": named}}}}
        (folder.parents[1] / "hosts.yml").write_text(yaml.safe_dump(hosts))
        if claim is not None:
            whole = {**CLAIM, "capacity_bytes": 1 << 34, "kernel": "6.18.0", **claim}
            results.write(self.root / f"results/targets/{name}.json", whole)

    def pool(self, *names: str, lost: tuple[str, ...] = ()) -> Pool:
        """The study on these targets."""
        folders = [self.root / "inventories" / name for name in names]
        return load_pools([self.root / "config/tiny.yaml"], folders, self.root / "results", lost=lost)["tiny"]

    def measured(self, pool: Pool, target: str, states: list[str], cells: int = 100) -> None:
        """Let there be records of the first `cells` cells of some states of a target."""
        plan = next(plan for plan in pool.plans if plan.target.name == target)
        for state in states:
            for cell in plan.cells[state][:cells]:
                results.write(plan.results.record(state, cell.name), {})


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    for name in ("a", "b", "c", "d"):
        made.target(name)
    return made


def parts(pool: Pool) -> dict[str, list[str]]:
    return {plan.target.name: list(plan.states) for plan in pool.plans}


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c", "d"]])
def test_a_share_is_the_common_states_and_a_run_of_the_others(site, names):
    pool = site.pool(*names)
    found = parts(pool)
    whole = list(site.pool("a").plans[0].states)
    assert common_states(pool.study, whole) == COMMON
    assert all(set(COMMON) <= set(part) for part in found.values())
    others = [state for part in found.values() for state in part if state not in COMMON]
    assert sorted(others) == sorted(set(whole) - set(COMMON)), "each of the others once"
    lengths = [len(part) for part in found.values()]
    assert max(lengths) - min(lengths) <= 1, "equally long"
    assert all(part == [state for state in whole if state in part] for part in found.values()), "in planned order"


@pytest.fixture
def shared(site) -> tuple[Pool, list[str]]:
    """The study on a and b, and the states that b alone measures."""
    pool = site.pool("a", "b")
    return pool, [state for state in parts(pool)["b"] if state not in COMMON]


def test_what_was_begun_stays_and_what_is_left_is_dealt_anew(site, shared):
    first, mine = shared
    site.measured(first, "b", mine[:1], cells=2)  # half a state
    site.measured(first, "b", mine[1:2])  # a whole one
    pool = site.pool("a", "b", "c")
    after = parts(pool)
    assert set(mine[:2]) <= set(after["b"]) and not set(mine[:2]) & {*after["a"], *after["c"]}
    left_s = [plan.seconds() for plan in pool.plans]
    assert max(left_s) - min(left_s) <= site.pool("a").plans[0].state_seconds("20.00@8M")


def test_the_others_take_over_what_a_lost_target_has_left(site, shared):
    first, mine = shared
    site.measured(first, "b", [*COMMON, mine[0]])
    site.measured(first, "b", mine[1:2], cells=2)
    after = site.pool("a", "b", lost=("b",))
    assert parts(after)["b"] == [state for state in first.plans[1].states if state in (*COMMON, mine[0])]
    assert set(mine[1:]) <= set(parts(after)["a"]), "what is not whole is measured anew"
    assert not after.plans[1].missing and not after.plans[1].unreached


def test_a_lost_target_of_which_nobody_knows_how_it_compares_counts_for_nothing(site, shared):
    first, mine = shared
    site.measured(first, "b", [COMMON[0], mine[0]])
    assert parts(site.pool("a", "b", lost=("b",))) == {"a": list(site.pool("a").plans[0].states), "b": []}


def test_an_axis_is_bound_to_targets(site):
    site.study(targets={"bind": "capacity"}, headline=[])
    assert {state[:2] for state in parts(site.pool("a", "b"))["a"]} == {"20", "60"}
    site.target("e")
    with pytest.raises(StudyError, match="a level of capacity: it has 4 levels, and 5 targets were named"):
        site.pool("a", "b", "c", "d", "e")


def test_each_measures_all(site):
    site.study(targets="repeat")
    pool = site.pool("a", "b")
    assert parts(pool)["a"] == parts(pool)["b"] == list(site.pool("a").plans[0].states)
    said = "\n".join(pool.lines())
    assert "together tiny: 2 targets, each measures all; 160 cells to measure, about " in said
    assert "compares 2 samples with 2: its p is never below 0.33" in said, "a target is a sample"


@pytest.mark.parametrize(
    ("claim", "declared", "why"),
    [
        ({}, {"filesystem": "xfs"}, "filesystem: ext4 on a, xfs on b"),
        ({"kernel": "6.19.1"}, {}, "kernel: 6.18.0 on a, 6.19.1 on b"),
        ({"capacity_bytes": 1 << 33}, {}, "capacity: 16 GiB on a, 8 GiB on b"),
        ({"amount_mib": 128}, {}, "amount mib: 64 on a, 128 on b"),
    ],
)
def test_unlike_targets_do_not_share(site, claim, declared, why):
    site.target("a", {})
    site.target("b", claim, **declared)
    with pytest.raises(StudyError, match=f"are to be alike, and these are not: {why}"):
        site.pool("a", "b")
    site.study(targets="repeat")
    assert f"note tiny: the targets differ: {why}" in site.pool("a", "b").lines()
    if "capacity_bytes" in claim:
        site.target("b", {"capacity_bytes": (1 << 34) - (100 << 20)})
        assert "differ" not in "".join(site.pool("a", "b").lines()), "so little is alike"


def test_one_target_under_two_names_is_refused(site):
    store = {"mount": "/m", "image_id": {"dev": 7, "ino": 8, "bytes": 9}, "uuids": ["u"]}
    for name in "ab":
        site.target(name, {"machine": "m", "stores": [store]})
    with pytest.raises(StudyError, match="targets a and b are two names of one: both have"):
        site.pool("a", "b")
    with pytest.raises(StudyError, match="names a twice"):
        names_of("a,b,a")


@pytest.mark.parametrize(
    ("text", "why"),
    [("a,,b", "empty name"), ("", "empty name"), (",".join(f"t{n}" for n in range(MOST_TARGETS + 1)), "65 targets")],
)
def test_a_list_of_targets_that_is_none(text, why):
    with pytest.raises(StudyError, match=why):
        names_of(text)


def test_lost_targets_that_cannot_be(site):
    with pytest.raises(StudyError, match="lost: 'c' is none of the targets that this run has: a, b"):
        site.pool("a", "b", lost=("c",))
    with pytest.raises(StudyError, match="no target is left: a, b are all said to be lost"):
        site.pool("a", "b", lost=("a", "b"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"headline": []}, "targets: targets that share states all measure those that 'headline' compares"),
        ({"targets": {"bind": "capacty"}}, "targets.bind: 'capacty' is not allowed; did you mean 'capacity'?"),
        ({"targets": "shared"}, "targets: 'shared' is not allowed; did you mean 'share'?"),
    ],
)
def test_a_study_that_targets_cannot_share_or_be_bound_by(refused, change, why):
    assert why in refused({**STUDY, "name": "small", **change})


def test_the_note_of_a_run_deals_once(site, monkeypatch, tmp_path):
    pool = site.pool("a", "b")
    run = runs.Run(runs.identity("snakemake tiny"), lost=("b",))
    noted = runs.note({"tiny": pool}, run, tmp_path / "notes")
    monkeypatch.setenv(runs.NOTE, str(noted))
    assert {name: list(part) for name, part in runs.current().parts["tiny"].items()} == parts(pool)
    assert runs.current().lost == ("b",)
    site.measured(pool, "a", ["20.00@8M"])
    folders = [site.root / "inventories" / name for name in ("a", "b")]
    again = load_pools([site.root / "config/tiny.yaml"], folders, site.root / "results", parts=runs.current().parts)
    assert parts(again["tiny"]) == parts(pool)
    assert next(job.cells for job in runs.jobs()["tiny"]["a"] if "20.00@8M" in job.states) == 5


def test_what_targets_have_in_common(site):
    folder = site.root / "inventories"
    site.target("far", host="oss[1:2].site", shares=["switch-3"])
    site.target("near", host="oss2.site")
    site.target("other", host="oss9.site", shares=["switch-3"])
    names = ("a", "b", "far", "near", "other")
    assert resources.shared([folder / name for name in names]) == {
        "a": {resources.HERE},
        "b": {resources.HERE},
        "far": {"oss2.site", "switch-3 (declared)"},
        "near": {"oss2.site"},
        "other": {"switch-3 (declared)"},
    }
    assert resources.shared([folder / "a"]) == {"a": set()}, "alone on its machine"
    site.target("far", host="x", shares="switch-3")
    with pytest.raises(StudyError, match="fsage_target_shares: 'switch-3' is not a list of names"):
        resources.shared([folder / "a", folder / "far"])


def test_a_name_for_many():
    plans = [SimpleNamespace(target=SimpleNamespace(name=f"target{number}")) for number in range(40)]
    few, many = Pool(plans[:2]), Pool(plans)  # type: ignore[arg-type]  # of a plan only this
    assert few.name == "target0+target1"
    assert many.name.startswith("40-targets-") and len(many.name) < 40
