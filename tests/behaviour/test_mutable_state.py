"""A target's state is mutable while results are files: what must hold whatever happens in between.

Each test works on one finished study, does something to it or to its target, runs the same command again, and
looks at which cells were measured, in which state, in which order.
"""

from __future__ import annotations

import json
import os
import re

import pytest
from project import FEW, FEW_CELLS, Project, printed, succeeded

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]


def measured_again(before: dict, project: Project) -> set[str]:
    """Cells whose record is another one than before."""
    now = project.taken()
    return {name for name in now if now[name] != before.get(name)}


def test_every_cell_was_taken_in_its_state_and_in_planned_order(finished: Project) -> None:
    records = finished.whole(FEW_CELLS).values()
    assert all(r["metrics"]["write_bytes"] == r["metrics"]["read_bytes"] == 64 << 20 for r in records)
    taken = [(r["state"], r["order"]) for r in sorted(records, key=lambda r: r["began"])]
    assert taken == sorted(taken), "each state is visited once, its cells in their order"
    layouts = {(r["state"], r["layout"]["digest"]) for r in records}
    assert {state for state, _ in layouts} == {"30.00@8M", "30.50@8M"}
    assert len(layouts) == len({digest for _, digest in layouts}) == 2
    places = {(r["state"], r["phases"][0]["extents"]["digest"]) for r in records}
    assert len(places) == 2, "a mount starts the allocator anew: iterations lie at the same place"
    for log in (finished.root / f"results/logs/{finished.spec['name']}/small").glob("visit_*.log"):
        assert "measured 2 of 2 cells" in log.read_text(), "the last play of a state, which is the only one"


def test_run_again_has_nothing_to_measure(finished: Project) -> None:
    before = finished.taken()
    ran = succeeded(finished.snakemake())
    assert not measured_again(before, finished)
    assert "ansible-playbook" not in ran.stderr and "and measure" not in ran.stderr
    assert "0 cells to measure" in ran.stdout


@pytest.mark.long
def test_one_more_iteration_and_one_more_transfer_size_run_only_the_new_cells(finished: Project) -> None:
    before = finished.taken()
    finished.write_study(**{**FEW, "cells__iterations": 3, "cells__transfer_size": ["4M", "16M"]})
    dry = finished.snakemake("-n", "small")
    assert "12 cells, 2 states, 1 populate, 0 diagnostic cells, 8 cells to measure" in dry.stdout
    assert finished.measure("--config", "only={capacity: 30, fragmentation: 0}").returncode == 0
    new = measured_again(before, finished)
    assert len(new) == 4 and all("_i3" in name or "-16M" in name for name in new)
    assert {name.partition("/")[0] for name in new} == {"30.00@8M"}
    finished.write_study(**FEW)
    for name in new:
        finished.record_files()[name].unlink()


@pytest.mark.long
def test_what_was_asked_for_again_is_measured_alone_whatever_code_was_edited(finished: Project) -> None:
    """A state by one command, and a record that was deleted; code of the report makes only the report again."""
    before = finished.taken()
    finished.own_source()
    for edited in ("figures/style.py", "host/cells/measure.py"):
        with open(finished.root / "src/fsage" / edited, "a") as out:
            out.write("\n# edited\n")
    dry = finished.snakemake("-n", "--verbose", "small")
    assert dry.returncode == 0 and ", 0 cells to measure, " in dry.stdout
    table = (dry.stdout + dry.stderr).partition("Job stats:")[2].partition("\n\n")[0]
    assert set(re.findall(r"^(\w+) +\d+$", table, re.MULTILINE)) == {"report_small", "small", "total"}
    finished.shared_source()
    deleted = "30.50@8M/transfer_size-4M_i1"
    again = {name for name in before if name.startswith("30.00@8M/")}
    assert finished.fsage("remeasure", "small", "--state", "30.00@8M").returncode == 0
    finished.record_files()[deleted].unlink()
    rules = finished.root / "workflow/rules/states.smk"
    rules.write_text(rules.read_text().replace("Bring the target into", "Lead the target into"))
    for edited in ("roles/measure/tasks/main.yml", "playbooks/measure.yml", "Snakefile"):
        with open(finished.root / edited, "a") as out:
            out.write("\n# edited\n")
    succeeded(finished.measure())
    assert measured_again(before, finished) == again | {deleted} and len(again) == 2
    records = finished.whole(FEW_CELLS)
    assert records[deleted]["attempt"] == 2, "the first attempt's raw output is kept beside it"


def test_a_deleted_manifest_is_written_again_and_nothing_is_measured(finished: Project) -> None:
    before = finished.taken()
    path = next((finished.root / "results/manifests").rglob("30.50@8M.*.json"))
    content = path.read_text()
    path.unlink()
    assert ", 0 cells to measure, " in succeeded(finished.measure()).stdout
    assert path.read_text() == content and not measured_again(before, finished)


def test_a_target_altered_by_hand_is_noticed_and_rebuilt(finished: Project) -> None:
    name = "30.50@8M/transfer_size-4M_i1"  # the target was left at 30.50
    digest = finished.records()[name]["layout"]["digest"]
    before = finished.taken()
    finished.record_files()[name].unlink()
    (finished.mount / "filler" / "g1" / "0000000.more").write_bytes(os.urandom(1 << 20))
    assert finished.measure().returncode == 0
    record = finished.records()[name]
    assert measured_again(before, finished) == {name}
    assert record["check"]["rebuilt"]
    assert record["layout"]["digest"] == digest, "fallocated by one thread in index order: the same extents"


def test_exit_0_means_that_every_planned_record_exists(finished: Project) -> None:
    (name, path), (_, another), *_ = finished.record_files().items()
    aside = path.read_text()
    anothers = another.read_text()
    then = path.stat()
    path.write_text(aside.replace('"direct": true', '"direct": false'))
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))  # no newer than the report, which is not made again
    ran = finished.snakemake()
    assert ran.returncode != 0
    assert "taken for another plan" in ran.stdout + ran.stderr and name.split("/")[1] in ran.stdout
    path.write_text("{half a rec")
    another.write_text("[1]")
    ran = finished.fsage("conclude", "small")
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    for altered in (path, another):
        assert f"{altered.relative_to(finished.root)}: not a readable record: " in ran.stdout
    path.write_text(aside)
    another.write_text(anothers)
    evidence = finished.root / "results/states" / finished.spec["name"] / f"small/{name.split('/')[0]}.json"
    kept = evidence.read_text()
    evidence.write_text('"steps"')
    ran = finished.fsage("conclude", "small")
    assert ran.returncode == 1 and "Traceback" not in ran.stderr and evidence.name in ran.stderr, ran.stderr
    evidence.write_text(kept)
    assert finished.fsage("conclude", "small").returncode == 0


@pytest.mark.long
def test_evidence_is_of_the_state_as_the_study_has_it_now(finished: Project) -> None:
    """A state that keeps its name and is reached by other steps: nothing is mixed; set aside, it is looked at again."""
    before, state = finished.taken(), "30.00@8M"
    evidence = finished.root / "results/states" / finished.spec["name"] / "small" / f"{state}.json"
    finished.write_study(**FEW, states__request_size=["1M"], cells__iterations=3)
    only = ("--config", "only={capacity: 30, fragmentation: 0}")
    for ran in (finished.measure(*only), finished.fsage("conclude", "small")):
        assert ran.returncode != 0 and "Traceback" not in ran.stdout + ran.stderr
        said = printed(ran)
        assert str(evidence.name) in said and f"remeasure small --state {state}` sets its evidence" in said
    assert not measured_again(before, finished)
    assert finished.fsage("remeasure", "small", "--state", state).returncode == 0
    assert not evidence.exists()
    assert finished.measure(*only).returncode == 0
    assert json.loads(evidence.read_text())["steps"][0]["request_bytes"] == 1 << 20
    records = [record for record in finished.records().values() if record["state"] == state]
    assert len(records) == 3 and {record["check"]["rebuilt"] for record in records} == {False}
