"""Plan, request and handing over: what a job is told, and what becomes of what it brings home."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import preloaded
import pytest
import yaml
from sent import CLAIM, STUDY, bundle, observation
from typer.testing import CliRunner

from fsage import dataset, records, workloads
from fsage.cli import app
from fsage.model.device import DISTURBED
from fsage.plan import Plan, load_plan, results, words
from fsage.plan.estimates import STATE_S
from fsage.plan.pool import Pool
from fsage.plan.settings import Commands
from fsage.plan.target import load_claim, load_target
from fsage.records import store
from fsage.run import adaptive, invocation, job, progress, request, runs
from fsage.run.conclusion import conclude
from fsage.run.play import PlayFailed
from fsage.study import StudyError
from fsage.study.cells import Cell
from fsage.study.files import read_yaml

ROOT = Path(__file__).resolve().parents[1]
STATE = "30.00@8M"
LEFT_OUT = "to measure what a budget left out: ./run fsage "
HEADLINE = [{"label": "fullness", "state": "60.00", "against": "30.00"}]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    studies, inventory = tmp_path / "config", tmp_path / "inventories" / "here"
    studies.mkdir()
    (inventory / "group_vars/all").mkdir(parents=True)
    (studies / "tiny.yaml").write_text(yaml.safe_dump(STUDY))
    target = {"fsage_target": {"name": "here", "kind": "loop", "scale": {"file_size": 0.5, "tasks": 1}}}
    target["fsage_target"]["home"] = str(tmp_path / "home")
    (inventory / "group_vars/all/target.yml").write_text(yaml.safe_dump(target))
    results.write(tmp_path / "results/targets/here.json", CLAIM)
    return load_plan(studies / "tiny.yaml", inventory, tmp_path / "results")


def again(plan: Plan) -> Plan:
    """The plan as the next command sees it."""
    return Plan(plan.study, plan.target, plan.results, plan.claim)


def edited(plan: Plan, study: dict = STUDY) -> Plan:
    """The plan of a study of that name, with target and claim as they are declared now."""
    (plan.studies / "tiny.yaml").write_text(yaml.safe_dump(study))
    return load_plan(plan.studies / "tiny.yaml", plan.inventories / "here", plan.results.root)


def changed(**blocks: dict) -> dict:
    """The study with other keys in these blocks."""
    return {**STUDY, **{block: {**STUDY[block], **keys} for block, keys in blocks.items()}}


def refused_if(why: str | None) -> contextlib.AbstractContextManager[object]:
    """What is refused for this reason; None: it is not."""
    return pytest.raises(StudyError, match=why) if why else contextlib.nullcontext()


def on_target(target: str, folder: Path, **blocks: object) -> Plan:
    """The plan of the study with other blocks, on a target of the clone that is not claimed."""
    (folder / "mine.yaml").write_text(yaml.safe_dump({**STUDY, "name": "mine", **blocks}))
    return load_plan(folder / "mine.yaml", ROOT / "inventories" / target, folder)


def record_of(plan: Plan, cell: Cell) -> Path:
    """Where the record of a cell of STATE lies."""
    return plan.results.record(STATE, cell.name)


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """What the clock shows to whoever waits, as the one entry of a list."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_line_counts_and_estimates(plan):
    # a cell is 0.5 s and a second of writing and two of reading; a state is STATE_S
    assert words.line(plan).startswith(
        "plan tiny: 8 cells, 4 states, 2 populates, 0 diagnostic cells, 8 cells to measure, "
    )
    assert plan.seconds() == pytest.approx(8 * 3.5 + 4 * STATE_S)
    assert plan.bytes_written() == 8 * 64 << 20


def test_where_others_load_the_device_states_are_visited_in_turns(plan):
    declaration = plan.inventories / "here/group_vars/all/target.yml"
    on_loops = declaration.read_text()
    declaration.write_text(on_loops.replace("kind: loop", "kind: directory"))
    enough = {"states": {"seed": 7}, "cells": {"iterations": 5}}

    def planned(changes):
        return edited(plan, {**changed(**changes), "headline": HEADLINE})

    in_turns = planned(enough)
    names = list(in_turns.states)
    assert names[:4] == ["30.00+7@8M", "30.50+7@8M", "60.00+7@8M", "60.50+7@8M"]
    assert names[4:8] == ["60.50+8@8M", "60.00+8@8M", "30.50+8@8M", "30.00+8@8M"]
    assert len(names) == 20 and {len(cells) for cells in in_turns.cells.values()} == {1}
    assert "visited in turns" in words.notes(in_turns)[0]
    for other in (
        {**enough, "states": {}},  # each layout is of a seed that is known
        {**enough, "cells": {"iterations": 3}},  # nothing can become significant
        {**enough, "states": {"seed": 7, "filler": "write"}},  # takes long
    ):
        assert len(planned(other).states) == 4
    declaration.write_text(on_loops)
    assert len(planned(enough).states) == 4
    (plan.results.root / "targets/here.json").unlink()
    assert "not claimed yet. The claim makes an image" in words.notes(planned(enough))[0]
    declaration.write_text(on_loops.replace("kind: loop", "kind: uml"))
    assert not [note for note in words.notes(planned(enough)) if "claim" in note], "its claim takes nothing to keep"


def test_what_a_message_names_can_be_given_as_it_stands(plan, tmp_path, monkeypatch):
    """Study, results and inventory lie elsewhere than is usual; a cell of it failed."""
    path = record_of(plan, plan.cells[STATE][0])
    results.write(path, {"status": "failed", "attempt": 1})
    fsage, snakemake = (shlex.split(each) for each in Pool((plan,)).commands.remeasure("--failed").split(" && "))
    assert fsage[:2] == ["./run", "fsage"] and snakemake[:3] == ["./run", "snakemake", "--config"]
    done = CliRunner().invoke(app, fsage[2:])
    assert "1 record quarantined" in done.output and not path.exists(), done.output
    monkeypatch.setattr(invocation, "NOTES", tmp_path / "notes")
    given = dict(word.split("=") for word in snakemake[3 : snakemake.index("--")])
    with mock.patch.dict(os.environ):
        [planned] = invocation.begin(given, snakemake[1:], set(snakemake[-1:]), dry=True).plans
    assert planned.missing_count == 8 and planned.results == plan.results
    assert Commands.usual("quickstart", "local").measure == "./run snakemake --config target=local -- quickstart"
    aged = Commands.usual("age_0123456789ab", "local").fsage("report")
    assert aged == "./run fsage --studies=results/age/age_0123456789ab --target=local report"


@pytest.mark.parametrize(
    ("block", "change", "why"),
    [
        ("cells", {"tool": "ior"}, "tool: ior needs ior and mpirun, not found when the target was claimed"),
        ("states", {"file_size": ["264G"]}, "file_size: a file is 141733920768 bytes on this target, and 30% of its 4"),
        ("cells", {"amount_percent": 95}, r"the files of a cell take 3888 MiB, and state \S+ leaves \d+ MiB"),
        ("cells", {"iterations": 99, "places": 99}, r"places: \d+ files take \d+ MiB, and state \S+ leaves \d+ MiB"),
    ],
)
def test_what_the_claim_rules_out_is_refused_before_a_state_is_built(plan, block, change, why):
    results.write(plan.results.claim, {**CLAIM, "capacity_bytes": 4 << 30})
    impossible = edited(plan, changed(**{block: change}))
    with pytest.raises(StudyError, match=f"study tiny on target here: {why}"):
        words.line(impossible)
    with pytest.raises(StudyError, match=why):
        request.make(impossible, next(iter(impossible.states)))


@pytest.mark.parametrize(
    ("iterations", "states", "fuller", "said"),
    [
        (5, {}, [60], []),  # 0.0079 x 2 comparisons
        (3, {}, [60], ["'fullness' compares 3 samples with 3: its p is never below 0.1, 0.2 among the 2"]),
        # five layouts are five samples, of one build too
        (3, {"structures": 5, "seed": 1}, [60], ["one layout each of 30.00@8M, 60.00@8M, the same for all seeds"]),
        (5, {"capacity": [30, 50, 60, 70, 80]}, [50, 60, 70, 80], ["0.063 among the 8 primary comparisons"] * 4),
    ],
)
def test_the_plan_says_what_can_never_become_significant(plan, iterations, states, fuller, said):
    study = changed(cells={"iterations": iterations}, states=states)
    study["headline"] = [{"label": "fullness", "state": f"{percent}.00", "against": "30.00"} for percent in fuller]
    notes = words.notes(edited(plan, study))
    assert len(notes) == len(said)
    assert all(note.startswith("note tiny: ") and text in note for note, text in zip(notes, said, strict=True))


IN_PIECES = {"recipe": "defrag", "extents": 1_000_000, "file_size": "64M"}
CONTENDED = {"recipe": "iocontrol", "piece_size": "1G"}
LARGE = {"states": {**STUDY["states"], "file_size": ["8G"]}}


@pytest.mark.parametrize(
    ("declared", "of_study", "said"),
    [
        ({"amount_mib": 6}, {}, "transfer_size 4194304 does not divide the 6291456 bytes that a task moves"),
        ({"amount_mib": 8}, {}, None),
        ({"kind": "directory", "budget_gib": 1}, LARGE, r"file_size: a file is \d+ bytes .* not one"),
        ({"kind": "directory", "budget_gib": 64}, LARGE, None),
        ({"size_gib": 4}, {"states": IN_PIECES}, "1000000 extents of a file of 170917888 bytes would be less than a b"),
        (
            {"size_gib": 4},
            {"states": CONTENDED},
            "a file of 5% has 213909504 bytes, not more than a piece of 10737",
        ),
        ({"kind": "directory"}, {"mkfs": ["-b 1024"]}, "to make the file system with -b 1024 needs a file system that"),
    ],
)
def test_what_declared_numbers_rule_out_is_refused_before_the_claim(plan, declared, of_study, said):
    """Hours are estimated from a claim, and what can never be is known without."""
    plan.results.claim.unlink()
    spec = {"name": "here", "kind": "loop", **declared}
    (plan.inventories / "here/group_vars/all/target.yml").write_text(yaml.safe_dump({"fsage_target": spec}))
    unclaimed = edited(plan, {**STUDY, **of_study})
    with refused_if(said):
        words.line(unclaimed)


@pytest.mark.parametrize(
    ("study", "target", "why"),
    [
        (
            "f2fs",
            "local",
            "workload file_requests needs a guest's own disk: take a target of kind uml, such as --target kernel_f2fs",
        ),
        ("kernels", "directory", r"kernel 5\.10: cells of this target have its host's own kernel: take a target of"),
        ("kernels", "virtual", "workload new_file counts, and computes a rate: virtual seconds are for those"),
        ("random4k", "kernel", "workload random_access is timed, and a guest's seconds are not a disk's"),
        ("random4k", "virtual", None),
        (
            "allocator",
            "directory",
            "to fill to .* needs a file system that fsage made and nobody else uses, and a targ",
        ),
        ("defrag", "directory", "to make a file of 4% in 1233 extents needs a file system that fsage made"),
        ("iocontrol", "directory", "to make a file in extents of 4096 bytes and two .* needs a file system"),
        ("replica", "directory", "to lay free space as in example.gz, .* needs a file system that fsage made"),
        ("replica", "osts", "to lay free space .* needs a target with one store, and this one declares 16"),
        ("prealloc_quick", "osts", "needs a target with one store, and this one declares 16"),
        ("prealloc_quick", "directory", None),
    ],
)
def test_what_no_cell_of_a_target_can_tell_is_refused_before_a_state_is_built(tmp_path, study, target, why):
    """It would end well, with states that took minutes, and with no cell but unsupported ones."""
    unclaimed = load_plan(ROOT / f"config/{study}.yaml", ROOT / "inventories" / target, tmp_path)
    with refused_if(why):
        unclaimed.check()


@pytest.mark.parametrize(
    ("function", "wrong", "said"),
    [
        ("seconds", lambda params, claim, steps: float("nan"), r"workload sequential: seconds\(\) gives nan; a number"),
        ("seconds", lambda params: 1.0, "sequential.py: .* takes 1 positional argument but 3 were given; see docs/add"),
        ("rates", lambda params: "write_bw_mib_s", r"workload sequential: rates\(\) gives 'write_bw_mib_s'; a list"),
    ],
)
def test_a_function_of_a_workload_that_gives_something_else_is_refused(plan, monkeypatch, function, wrong, said):
    monkeypatch.setattr(workloads.load("sequential"), function, wrong)
    with pytest.raises(StudyError, match=said):
        edited(plan).check()


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"workload": "blast"}, "workload blast needs a state with a database"),
        ({"workload": "file_read", "transfer_size": "1M"}, "workload file_read needs a state with a fragmented file"),
        ({"workload": "netflow"}, "a striped file needs a state with a layout"),
        ({"workload": "new_file", "file_size": "4M", "transfer_size": "3M"}, "3145728 does not divide file_size"),
        (
            {"workload": "sqlite", "pattern": "P1", "scheduler": "none"},
            "the patterns read files that `recipe: iocontrol",
        ),
        ({"workload": "striped_file"}, "a striped file needs a state with a layout"),
        ({"workload": "weights", "pattern": "P1", "scheduler": "none"}, "the patterns read files that `recipe: iocon"),
    ],
)
def test_what_a_state_has_not_is_refused_before_the_claim(plan, cells, why):
    plan.results.claim.unlink()
    with pytest.raises(StudyError, match=why):
        edited(plan, {**STUDY, "cells": cells}).check()


@pytest.mark.long
def test_kernels_that_are_not_here_are_refused_before_anything_is_claimed_or_built(tmp_path, monkeypatch):
    """Those that are here are empty files: none is started. What another machine has is not known here."""
    monkeypatch.setenv("FSAGE_VENV", str(tmp_path / "venv"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    for name in ("bash", "sh", "which"):  # Snakemake's; linux.uml may be installed where these are
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{tmp_path}/bin")
    for name in ("6.1.176", "5.10.46"):
        (tmp_path / "venv/programs/kernels" / name).mkdir(parents=True)
        (tmp_path / "venv/programs/kernels" / name / "linux").touch()
    given = {name: os.environ[name] for name in ("FSAGE_VENV", "XDG_CACHE_HOME", "PATH")}
    done = preloaded.call("fsage", "run", "kernels", "--target", "kernel", "--results", tmp_path / "results", **given)
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "target kernel: kernel 6.12, 7.2: there is 5.10.46, 6.1.176 here. `fsage kernels" in said
    assert not (tmp_path / "cache/fsage").exists() and not list(tmp_path.glob("results/**/*.json"))
    here = load_plan(ROOT / "config/kernels.yaml", ROOT / "inventories/kernel", tmp_path / "results")
    assert "note kernels: kernel 6.12, 7.2: there is 5.10.46, 6.1.176 here" in "\n".join(words.notes(here))
    elsewhere = shutil.copytree(ROOT / "inventories/kernel", tmp_path / "inventories/kernel")
    hosts = elsewhere / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("ansible_connection: local", "ansible_connection: ssh"))
    planned = load_plan(ROOT / "config/kernels.yaml", elsewhere, tmp_path / "results")
    assert planned.why_no_kernel() is None


def test_a_device_that_never_drifts_has_no_cells_that_watch_for_it(tmp_path):
    kinds_of = {"seek": set(), "kernel": set()}
    for target, kinds in kinds_of.items():
        for study in ("quickstart", "series2"):
            planned = load_plan(ROOT / f"config/{study}.yaml", ROOT / "inventories" / target, tmp_path)
            kinds |= {cell.kind for _, cell in planned.all_cells()}
    assert kinds_of["seek"] == {"planned", "traced", "warm_up", "reference", "sentinel"}
    assert kinds_of["kernel"] == {"planned", "traced"}


MORE_NODES = "are more than the group clients of"


@pytest.mark.parametrize(("hosts", "why"), [({"a": {}, "b": {}}, MORE_NODES), ({"n[01:64]": {}}, None), ({}, None)])
def test_more_nodes_than_the_inventory_names_are_refused_before_the_claim(tmp_path, hosts, why):
    inventory = shutil.copytree(ROOT / "inventories/osts", tmp_path / "osts")
    named = {"all": {"children": {"clients": {"hosts": hosts}}}}
    (inventory / "hosts.yml").write_text(yaml.safe_dump(named))
    planned = load_plan(ROOT / "config/striping_scaling.yaml", inventory, tmp_path)
    with refused_if(why):
        planned.check()


def test_a_comparison_may_be_of_one_rate_at_some_parameters(plan):
    study = changed(cells={"iterations": 4})
    pair = {"label": "fullness", "state": "60.00", "against": "30.00"}
    turned = {"label": "emptiness", "state": "30.00", "against": "60.00"}
    study["headline"] = [{**asked, "measures": ["read_bw_mib_s"]} for asked in (pair, turned)]
    assert not words.notes(edited(plan, study)), "asked both ways, it is one test: 2 would be too many"
    [largest] = edited(plan, {**study, "headline": [{**pair, "at": {"transfer_size": "4096K"}}]}).study.headline
    assert largest.at == {"transfer_size": 4 << 20}
    for wrong, said in (
        ({"measures": ["raed_bw_mib_s"]}, r"'measures' names 'raed_bw_mib_s': the cells have read_bw_mib_s, write"),
        ({"at": {"transfer_size": 3}}, r"headline\[0\].at.transfer_size: 3 is not a size"),
        ({"at": {"transfersize": "1M"}}, r"at.transfersize: unknown key; did you mean 'transfer_size'"),
        ({"at": {"transfer_size": "1K"}}, r"no cell of the largest transfer_size, which is compared, has .*: 1K"),
        ({"at": {"transfer_size": ["4M", "1M"]}}, r"at.transfer_size: has several levels: give one"),
    ):
        with pytest.raises(StudyError, match=said):
            edited(plan, {**study, "headline": [{**pair, **wrong}]})


def test_parameters_that_cells_have_are_not_said_to_be_missing(load):
    study = yaml.safe_load((ROOT / "config/iocontrol.yaml").read_text())
    before, after = (state.name for state in load(study, "iocontrol").expanded)
    pair = {"label": "defragmentation", "state": after, "against": before, "at": {"pattern": "P6"}}
    study["headline"] = [{**pair, "measures": ["group2_bw_mib_s"]}]  # P6 has group 1 alone
    assert [line.at for line in load(study, "iocontrol").headline] == [{"pattern": "P6"}]


def test_a_seed_is_drawn_once_and_recorded(plan):
    first = request.make(plan, "30.50@8M")
    assert json.loads(plan.results.seed.read_text())["seed"] == first["steps"][0]["seed"] == first["steps"][1]["seed"]
    assert request.make(again(plan), "60.00@8M")["steps"][0]["seed"] == first["steps"][0]["seed"]
    assert first["steps"][0]["file_bytes"] == [4 << 20], "the target's scale"
    assert first["claim"] == "c1" and first["cells"] == []


def test_a_request_to_an_unclaimed_target_is_refused(plan):
    unclaimed = Plan(plan.study, plan.target, plan.results, None)
    with pytest.raises(StudyError, match="target here is not claimed"):
        request.make(unclaimed, STATE, unclaimed.cells[STATE])


def test_a_manifest_is_written_when_each_cell_has_a_record(plan):
    first, second = plan.cells[STATE]
    records.unpack(bundle(plan, observation(plan, STATE, 0)), plan.results.root, "here")
    assert store.write_manifest(plan, STATE, {}) == [second] == again(plan).to_measure(STATE)
    assert not plan.manifest(STATE).exists() and again(plan).missing[STATE] == (second,)
    records.unpack(bundle(plan, observation(plan, STATE, 1)), plan.results.root, "here")
    assert again(plan).todo[STATE] == () and STATE not in again(plan).missing
    assert [(job.name, job.cells) for job in runs.planned_jobs(again(plan), 1, False)][-1] == ("list_tiny", 0)
    assert store.write_manifest(again(plan), STATE, {}) == [] and STATE not in again(plan).todo
    rows = results.read(plan.manifest(STATE))["cells"]
    assert [plan.results.root / row["record"] for row in rows] == [record_of(plan, first), record_of(plan, second)]
    made = results.read(record_of(plan, first))
    assert made["status"] == "failed" and made["metrics"] == {} and made["structure"].startswith("PAF:30.00:")

    larger = edited(plan, changed(cells={"iterations": 3}))
    assert larger.manifest(STATE) != plan.manifest(STATE) and len(larger.todo[STATE]) == 1
    record_of(plan, second).unlink()
    assert again(plan).todo[STATE] == (second,) and plan.manifest(STATE).exists()


@pytest.mark.parametrize("written", [0, 1])
def test_what_ended_while_an_observation_was_kept_takes_it_again(plan, monkeypatch, written):
    def full(path, value):
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        room.pop()
        write(path, value)

    write = results.write
    room = [True] * written
    cell = plan.cells[STATE][0]
    sent = bundle(plan, observation(plan, STATE, 0))
    monkeypatch.setattr(results, "write", full)
    with pytest.raises(OSError, match="No space left"):
        records.unpack(sent, plan.results.root, "here")
    monkeypatch.setattr(results, "write", write)
    assert records.unpack(sent, plan.results.root, "here").new == 1
    assert record_of(plan, cell).exists() and plan.results.attempts(STATE, cell.name) == 1


def test_a_cell_with_a_reason_is_not_missing_until_it_is_struck(plan):
    first, second = plan.cells[STATE]
    results.write(record_of(plan, first), {"status": "valid", "attempt": 1})
    reason = store.Reason("not measured: the time was over", {"read_bw_mib_s_predicted": 50.0})
    assert store.write_manifest(plan, STATE, {second.name: reason}) == []
    assert STATE not in again(plan).todo and again(plan).to_measure(STATE) == []
    row = dataset.load(again(plan).files()[-len(plan.states) :]).iloc[0]
    assert (row["cell"], row["status"], row["why"], row["capacity_percent"]) == (second.name, "skipped", reason.why, 30)
    assert row["read_bw_mib_s_predicted"] == 50 and row["iteration"] == second.params["iteration"]
    plan.manifest(STATE).rename(plan.results.manifests / f"{STATE}.0123456789ab.json")  # of other cells
    assert again(plan).todo[STATE] == () and store.write_manifest(again(plan), STATE, {}) == []

    def reasons():
        return [row["why"] for row in results.read(plan.manifest(STATE))["cells"]]

    assert reasons() == [None, reason.why], "what was skipped stays so"
    assert LEFT_OUT in "\n".join(conclude(Pool((again(plan),)))[0])
    for status, struck in (("failed", 0), ("skipped", 1)):
        assert store.quarantine(again(plan), lambda state, cell: True, {status}) == struck
    assert again(plan).missing[STATE] == (second,) and record_of(plan, first).exists()
    results.write(record_of(plan, second), {})
    assert store.write_manifest(again(plan), STATE, {}) == []
    assert reasons() == [None, None]


def test_what_a_stop_rule_left_out_is_missing_once_the_rule_or_a_record_is_another_one(plan, monkeypatch):
    def with_rule(stop):
        return edited(plan, changed(cells={"iterations": 7 if stop is None else 5, "stop": stop}))

    loose = with_rule({"interval_percent": 200, "iterations_at_most": 7})
    for cell in loose.cells[STATE][:5]:
        rates = {"write_bw_mib_s": 50.0, "read_bw_mib_s": 50.0 + cell.order}
        results.write(record_of(plan, cell), {"status": "valid", "attempt": 1, "metrics": rates})
    assert store.write_manifest(loose, STATE, job.unneeded(loose, STATE)) == []
    assert again(loose).to_measure(STATE) == [] and len(again(loose).skipped(STATE)) == 2
    assert LEFT_OUT not in "\n".join(conclude(Pool((again(loose),)))[0]), "nothing would be measured"
    for stop in ({"interval_percent": 20, "iterations_at_most": 7}, None):
        other = with_rule(stop)
        left = [cell.name for cell in other.to_measure(STATE)]
        assert left == [cell.name for cell in loose.cells[STATE][5:]] and other.manifest(STATE) == loose.manifest(STATE)
        lines, code = conclude(Pool((other,)))
        assert code == 1 and {f"missing: {STATE} {name}" for name in left} <= set(lines)
    record_of(plan, loose.cells[STATE][0]).unlink()
    assert again(loose).to_measure(STATE) == [loose.cells[STATE][0], *loose.cells[STATE][5:]], "it is decided anew"
    with pytest.raises(PlayFailed, match="3 cells of state"):
        monkeypatch.setattr(job, "visit_cells", lambda *given: (PlayFailed("refused"), []))
        job.measure(again(loose), STATE)
    rates = {"write_bw_mib_s": 50.0, "read_bw_mib_s": 999.0}
    results.write(record_of(plan, loose.cells[STATE][0]), {"status": "valid", "attempt": 2, "metrics": rates})
    assert job.due(again(loose), STATE) == [loose.cells[STATE][5]], "which stay so once it is measured"


def test_an_altered_record_or_manifest_is_named_where_it_is_asked_for(plan):
    first = plan.cells[STATE][0]
    path = record_of(plan, first)

    def metrics():
        return store.metrics_of(plan, STATE, first)

    assert metrics() is None
    in_words = {"status": "valid", "metrics": {"read_bw_mib_s": "fast"}}
    for altered, look, contents in (
        (path, metrics, (["valid"], {"status": "valid"}, in_words)),
        (
            path,
            lambda: store.quarantine(plan, lambda state, cell: True, set()),
            (["failed"], {}, {"status": "failed", "attempt": "../1"}),
        ),
        (
            plan.manifest(STATE),
            lambda: again(plan).to_measure(STATE),
            ([1], {"cells": [1]}, {"cells": [{"cell": first.name, "why": "late"}]}),
        ),
        # of a crate: the report was a traceback
        (plan.results.claim, lambda: load_claim(plan.results.claim), (["claimed"], {"calibration": "fast"})),
    ):
        for content in contents:
            results.write(altered, content)
            with pytest.raises(ValueError, match=f"{re.escape(str(altered))}.*; move it away and give the same comma"):
                look()
        altered.unlink()
    for status, known in (("valid", {"read_bw_mib_s": 50}), ("failed", {})):
        results.write(path, {"status": status, "metrics": {"read_bw_mib_s": 50}})
        assert metrics() == known


def test_an_inventory_that_is_not_called_as_its_target_is_refused(plan):
    moved = (plan.inventories / "here").rename(plan.inventories / "there")
    with pytest.raises(StudyError, match=r"target.yml: fsage_target.name is 'here', .* folder, which is 'there'"):
        load_target(moved)


def test_the_jobs_of_a_run_are_decided_once_and_those_of_a_killed_one_lose_their_licence(plan, tmp_path, monkeypatch):
    plans = {"tiny": Pool((plan,))}
    me = runs.identity("snakemake tiny")
    notes = {}
    for name, of_run in {"killed": {"pid_start": 1}, "alive": {}, "far": {"host": "elsewhere", "pid_start": 1}}.items():
        notes[name] = runs.note(plans, runs.Run({**me, "run": name, **of_run}), tmp_path)
    for cell in plan.cells[STATE]:
        results.write(record_of(plan, cell), {})
    monkeypatch.setenv(runs.NOTE, str(notes["alive"]))
    first, *others = runs.jobs()["tiny"]["here"]
    assert (first.name, first.states, first.cells) == (f"populate_tiny_{STATE}", [STATE], 2) and len(others) == 3
    assert runs.gone() == {"killed": notes["killed"]}
    notes["killed"].unlink()  # as the next run does
    monkeypatch.setenv(runs.NOTE, str(notes["killed"]))
    for licensed in (runs.check, runs.jobs):
        with pytest.raises(runs.Superseded, match="another took its place"):
            licensed()


@pytest.mark.parametrize("inventory", sorted((ROOT / "inventories").iterdir()), ids=lambda inventory: inventory.name)
def test_every_inventory_has_its_target_and_clients(inventory):
    assert load_target(inventory)
    assert read_yaml(inventory / "hosts.yml")["all"]["children"]["clients"]["hosts"]


def test_progress_of_cells_that_are_elsewhere_is_what_their_host_tells(plan, clock):
    """No cell is counted that was not measured, whatever the time."""
    there = progress.Progress(plan, STATE)
    line = "tiny: {0} of 8 cells, state 30.00@8M: {0} of 2{1}"
    assert there() == (line.format(0, ""), "; about 48 s left")
    clock[0] = STATE_S + 3.5
    doing = progress.doing_of(there.log)
    doing.parent.mkdir(parents=True)
    for each, cells in (("emptying", 0), ("waiting, at most 60 minutes: stop_if: ...", 1)):
        doing.write_text(json.dumps({"doing": each, "since": 0, "cells": cells}))
        assert there().what == line.format(cells, f", {each}")
    clock[0] = 136
    assert there().left == "; 2 min since it began, longer than the 40 s that were estimated"
    doing.write_text("[]")
    assert there().what == line.format(1, ""), "a host's word is believed where it can be read"


@pytest.mark.parametrize(
    ("slower", "populating", "fragmenting", "seldom"),
    [(4, 4, 4, False), (1, 9, 0.5, False), (1, 0.2, 3, True)],
)
def test_what_is_left_is_right_within_a_factor_of_two(slower, populating, fragmenting, seldom, plan, tmp_path, clock):
    """On a clock of its own, on which cells and states take so many times longer than was estimated.

    `seldom`: all cells of a visit are seen at the same look.
    """
    plan = edited(plan, changed(states={"capacity": [30, 40, 50, 60]}))
    (tmp_path / "home/here").mkdir(parents=True)
    cell_s = slower * 3.5
    left_s = 16 * cell_s + 4 * (populating + fragmenting) * STATE_S
    written = 0
    for state, cells in plan.missing.items():
        line = progress.Progress(plan, state)
        line.folder.mkdir(parents=True)
        state_s = STATE_S * (populating if ".00@" in state else fragmenting)
        left_s -= state_s
        clock[0] += state_s
        for cell in cells:
            if not seldom:
                line()
            left_s -= cell_s
            clock[0] += cell_s
            (line.folder / f"{cell.name}.json").touch()
            write_record(plan, state, cell.name, clock[0] - cell_s, clock[0])
            written += 1
            if written > 6 and left_s > 10 and not (seldom and cell is cells[0]):  # from the second population on
                said = re.search(r"about (\d+) (s|min) left", line().left)
                assert said and left_s / 2 <= int(said[1]) * {"s": 1, "min": 60}[said[2]] <= 2 * left_s
        plan = again(plan)
    assert written == 16


def write_record(plan: Plan, state: str, cell: str, began_s: float, ended_s: float) -> None:
    """What the pace is read from, of a record."""
    began, ended = (datetime.fromtimestamp(1e9 + at, UTC).isoformat() for at in (began_s, ended_s))
    made = {"state": state, "cell": cell, "run": "r1", "began": began, "ended": ended}
    results.write(plan.results.record(state, cell), {**made, "seconds": {"total": ended_s - began_s}})


def test_a_disturbed_sample_is_taken_again_twice_at_most_and_all_are_on_record(plan, tmp_path, monkeypatch):
    model = {"label": "a model", "disturbed": DISTURBED}
    first, second = plan.cells[STATE]
    takes_s = {first.name: iter([1.2, 1.04]), second.name: iter([3.0] * 9)}

    def visit_cells(plan, state, cells, progress):
        for cell in cells:
            conditions = {"device_model": model, "tunables": {}, "seconds": next(takes_s[cell.name])}
            attempt = plan.results.attempts(state, cell.name) + 1
            number = plan.cells[state].index(cell)
            taken = observation(plan, state, number, attempt=attempt, status="done", conditions=conditions)
            records.keep(taken, plan.results.root, plan.target.name)
        return None, []

    def judged(seen):
        metrics = {"write_seconds": 0.9, "read_seconds": seen["conditions"]["seconds"]}
        return {"status": "valid", "metrics": metrics, "phases": [], "warnings": [], "model_seconds": 1.0}

    monkeypatch.setattr(job, "visit_cells", visit_cells)
    monkeypatch.setattr(records, "make_judgement", judged)
    job.measure(plan, STATE)
    once = results.read(record_of(plan, first))
    assert (once["attempt"], once["disturbed"], once["warnings"]) == (2, 1, [])
    always = results.read(record_of(plan, second))
    assert (always["attempt"], always["disturbed"]) == (3, 3)
    assert always["warnings"] == [
        "disturbed: read took 3.00 s, 200% over the 1.00 s that the device charges for its extents, as were the 2 "
        "samples before"
    ]
    assert plan.results.attempts(STATE, second.name) == 3


def test_a_budget_wants_something_to_compare(plan):
    with pytest.raises(StudyError, match="a budget measures first what `headline` compares, and it has none"):
        adaptive.check(plan, 0.03, 600)


@pytest.mark.parametrize(
    "states",
    [{"recipe": "replica", "layouts": ["ost1.gz"]}, {"recipe": "aged", "images": ["ost1.gz"], "trusted": True}],
)
def test_a_layout_that_is_not_there_is_said_before_the_target_is_claimed(tmp_path, states):
    (tmp_path / "layouts").mkdir()
    (tmp_path / "layouts/ost01.gz").touch()
    with pytest.raises(StudyError, match=r"layouts has no file 'ost1.gz'; did you mean 'ost01.gz'\?"):
        on_target("local", tmp_path, states=states).check()


@pytest.mark.parametrize(("hole", "least"), [("4K", 50), ("36K", 10)])
def test_holes_that_would_touch_are_refused_with_the_plan(tmp_path, hole, least):
    for fullness, why in ((least, None), (least - 0.1, "have no block of 4 KiB between")):
        states = {"recipe": "allocator", "fullness": fullness, "hole_size": hole}
        with refused_if(why):
            on_target("local", tmp_path, states=states).check()


@pytest.mark.parametrize(
    ("target", "cells", "said"),
    [
        ("directory", {"amount_percent": 5}, "what the device writes in about 16 s"),  # how often, the claim finds
        ("directory", {"passes": 3}, "what the device writes in about 16 s"),
        ("directory", {"amount_percent": 5, "passes": 3}, "at most 4.8 GiB written"),
        ("osts", {"amount_percent": 5, "passes": 3}, "at most 19 GiB written"),  # size_gib is of all 16 stores
    ],
)
def test_what_is_written_at_most_is_said_where_no_claim_can_make_it_more(tmp_path, target, cells, said):
    cells = {"workload": "sequential", "iterations": 4, "transfer_size": "1M", **cells}
    assert str(words.written(on_target(target, tmp_path, cells=cells))) == said
