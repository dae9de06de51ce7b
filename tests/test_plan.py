"""Plan, request and handing over: what a job is told, and what becomes of what it brings home."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import preloaded
import pytest
import yaml
from sent import CLAIM, STUDY, bundle, observation

from fsage import dataset
from fsage.model.device import DISTURBED
from fsage.plan import results, settings, words
from fsage.plan.estimates import STATE_S
from fsage.plan.plan import Plan, load_plan
from fsage.plan.pool import Pool, load_pools
from fsage.plan.settings import Commands
from fsage.plan.target import load_target, target_of
from fsage.records import record, store
from fsage.run import adaptive, job, progress, request, runs
from fsage.study.files import load_study
from fsage.study.study import StudyError

ROOT = Path(__file__).resolve().parents[1]
HEADLINE = [{"label": "fullness", "state": "60.00", "against": "30.00"}]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    studies, inventory = tmp_path / "config", tmp_path / "inventories" / "here"
    studies.mkdir()
    (inventory / "group_vars/all").mkdir(parents=True)
    (studies / "tiny.yaml").write_text(yaml.safe_dump(STUDY))
    target = {"fsage_target": {"name": "here", "kind": "loop", "scale": {"file_size": 0.5, "tasks": 1}}}
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

    def states(**changes):
        found = edited(plan, {**changed(**changes), "headline": HEADLINE})
        return found, [state.name for state in found.states.values()]

    enough = {"states": {"seed": 7}, "cells": {"iterations": 5}}
    found, names = states(**enough)
    assert names[:8] == [f"{state}+7@8M" for state in ("30.00", "30.50", "60.00", "60.50")] + [
        f"{state}+8@8M" for state in ("60.50", "60.00", "30.50", "30.00")
    ]
    assert len(names) == 20 and {len(cells) for cells in found.cells.values()} == {1}
    assert "visited in turns" in words.notes(found)[0] and "never be significant" not in "".join(words.notes(found))
    for other in (
        {**enough, "states": {}},  # each layout is of a seed that is known
        {**enough, "cells": {"iterations": 3}},  # nothing can become significant
        {**enough, "states": {"seed": 7, "filler": "write"}},  # takes long
    ):
        assert states(**other)[1] == ["30.00@8M", "30.50@8M", "60.00@8M", "60.50@8M"]
    declaration.write_text(on_loops)
    assert len(states(**enough)[1]) == 4


def test_what_a_message_names_can_be_given_as_it_stands(plan):
    """Study, results and inventory lie elsewhere than is usual; a cell of it failed."""
    state, cell = next(plan.all_cells())
    path = plan.results.record(state, cell.name)
    results.write(path, {"status": "failed", "attempt": 1})
    command = Pool((plan,)).commands.remeasure("--failed").replace("./run ", "").replace("-- tiny", "-n -- tiny")
    env = preloaded.environment()
    done = subprocess.run(["bash", "-ec", command], cwd=ROOT, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert "1 record quarantined" in done.stdout and "8 cells to measure" in done.stdout and not path.exists()
    assert Commands.usual("quickstart", "local").measure == "./run snakemake --config target=local -- quickstart"
    aged = Commands.usual("age_0123456789ab", "local").fsage("report")
    assert aged == "./run fsage --studies=results/age/age_0123456789ab --target=local report"


@pytest.mark.parametrize(
    ("block", "change", "why"),
    [
        ("cells", {"tool": "ior"}, "tool: ior needs ior and mpirun, not found when the target was claimed"),
        ("states", {"file_size": ["264G"]}, "file_size: a file is 141733920768 bytes on this target, and 30% of its 4"),
    ],
)
def test_what_the_claim_rules_out_is_refused_before_a_state_is_built(plan, block, change, why):
    results.write(plan.results.claim, {**CLAIM, "capacity_bytes": 4 << 30})
    impossible = edited(plan, changed(**{block: change}))
    with pytest.raises(StudyError, match=f"study tiny on target here: {why}"):
        words.line(impossible)
    with pytest.raises(StudyError, match=why):
        request.make(impossible, "30.00@264G" if block == "states" else "30.00@8M")


def test_places_for_which_a_state_has_no_room_are_refused(plan):
    results.write(plan.results.claim, {**CLAIM, "capacity_bytes": 1 << 30})
    crowded = edited(plan, changed(cells={"iterations": 50, "places": 50}))
    with pytest.raises(StudyError, match=r"places: \d+ files take \d+ MiB, and state 30.00@8M leaves \d+ MiB; give"):
        words.line(crowded)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cells": {"iterations": 5}}, []),  # 0.0079 x 2 comparisons
        (
            {"cells": {"iterations": 3}},
            ["'fullness' compares 3 samples with 3: its p is never below 0.1, 0.2 among the 2"],
        ),
        (  # five layouts are five samples, of one build too
            {"cells": {"iterations": 3}, "states": {"structures": 5, "seed": 1}},
            ["one layout each of 30.00@8M, 60.00@8M, the same for all seeds"],
        ),
        (
            {"cells": {"iterations": 5}, "states": {"capacity": [30, 50, 60, 70, 80]}, "fuller": [50, 60, 70, 80]},
            ["0.063 among the 8 primary comparisons"] * 4,
        ),
        # Asked both ways, it is one test.
        ({"cells": {"iterations": 5}, "fuller": [60] * 4}, []),
    ],
)
def test_the_plan_says_what_can_never_become_significant(plan, changes, said):
    blocks = dict(changes)
    pairs = [(f"{percent}.00", "30.00") for percent in blocks.pop("fuller", [60])]
    study = changed(**blocks)
    study["headline"] = [
        {"label": "fullness", **dict(zip(("state", "against"), pair[:: (-1) ** number], strict=True))}
        for number, pair in enumerate(pairs)
    ]
    notes = words.notes(edited(plan, study))
    assert len(notes) == len(said)
    assert all(note.startswith("note tiny: ") and words in note for note, words in zip(notes, said, strict=True))


@pytest.mark.parametrize("study", sorted(path.stem for path in (ROOT / "config").glob("*.yaml")))
def test_no_shipped_study_is_unable_to_reach_its_own_verdict(study, tmp_path, monkeypatch):
    target = target_of([ROOT / f"config/{study}.yaml"]) or "local"
    planned = load_plan(ROOT / f"config/{study}.yaml", ROOT / "inventories" / target, tmp_path)
    monkeypatch.setattr("fsage.plan.target._declared_clients", lambda hosts_file: None)  # a site that is large enough
    assert not [note for note in words.notes(planned) if "never be significant" in note]


@pytest.mark.parametrize(
    ("declared", "of_study", "said"),
    [
        ({}, {}, None),
        ({"amount_mib": 6}, {}, "transfer_size 4194304 does not divide the 6291456 bytes that a task moves"),
        ({"amount_mib": 8}, {}, None),
        ({"size_gib": 16}, {"file_size": ["100T"]}, r"file_size: a file is \d+ bytes on this target, and 30% of its"),
        ({"kind": "directory", "budget_gib": 1}, {"file_size": ["8G"]}, "not one file fits"),
        ({"kind": "directory", "budget_gib": 64}, {"file_size": ["8G"]}, None),
    ],
)
def test_what_declared_numbers_rule_out_is_refused_before_the_claim(plan, declared, of_study, said):
    """Hours are estimated from a claim, and what can never be is known without."""
    plan.results.claim.unlink()
    spec = {"name": "here", "kind": "loop", **declared}
    (plan.inventories / "here/group_vars/all/target.yml").write_text(yaml.safe_dump({"fsage_target": spec}))
    unclaimed = edited(plan, changed(states=of_study))
    for question in (unclaimed.check, lambda: words.line(unclaimed)):
        with pytest.raises(StudyError, match=said) if said else contextlib.nullcontext():
            question()


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
        ("series1", "kernel", None),
        ("limits", "local", None),
    ],
)
def test_what_no_cell_of_a_target_can_tell_is_refused_before_a_state_is_built(tmp_path, study, target, why):
    """It would end well, with states that took minutes, and with no cell but unsupported ones."""
    unclaimed = load_plan(ROOT / f"config/{study}.yaml", ROOT / "inventories" / target, tmp_path)
    with pytest.raises(StudyError, match=why) if why else contextlib.nullcontext():
        unclaimed.check()


@pytest.mark.long
def test_kernels_that_are_not_here_are_refused_before_anything_is_claimed_or_built(tmp_path, monkeypatch):
    """Those that are here are empty files: none is started. What another machine has is not known here."""
    monkeypatch.setenv("FSAGE_VENV", str(tmp_path / "venv"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    for name in ("bash", "sh", "which"):  # Snakemake's; linux.uml may be installed where these are
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{tmp_path}/bin")
    shutil.copytree(ROOT / "inventories/kernel", tmp_path / "inventories/kernel")

    def check_kernels(plan):
        plan.target.check_kernels(plan.inventories, plan.missing_cells())

    planned = load_plan(ROOT / "config/kernels.yaml", tmp_path / "inventories/kernel", tmp_path / "results")
    with pytest.raises(StudyError, match=r"kernel 5\.10, 6\.1, 6\.12, 7\.2: there is none here\."):
        check_kernels(planned)
    for name in ("6.1.176", "5.10.46"):
        (tmp_path / "venv/programs/kernels" / name).mkdir(parents=True)
        (tmp_path / "venv/programs/kernels" / name / "linux").touch()
    words = ["run", "kernels", "--target", "kernel", "--results", str(tmp_path / "results")]
    given = {name: os.environ[name] for name in ("FSAGE_VENV", "XDG_CACHE_HOME", "PATH")}
    done = preloaded.call("fsage", *words, **given)
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "target kernel: kernel 6.12, 7.2: there is 5.10.46, 6.1.176 here. `fsage kernels" in said
    assert not (tmp_path / "cache/fsage").exists() and not list(tmp_path.glob("results/**/*.json"))
    dry = preloaded.call("fsage", *words, "--dry-run", **given)
    assert dry.returncode == 0, dry.stderr
    part = {"kernels": {"kernel": ["5.10", "6.1"]}}
    check_kernels(load_plan(ROOT / "config/kernels.yaml", ROOT / "inventories/kernel", tmp_path / "results", part))
    hosts = tmp_path / "inventories/kernel/hosts.yml"
    hosts.write_text(hosts.read_text().replace("ansible_connection: local", "ansible_connection: ssh"))
    check_kernels(load_plan(ROOT / "config/kernels.yaml", tmp_path / "inventories/kernel", tmp_path / "results"))


@pytest.mark.parametrize("target", ["kernel", "virtual"])
def test_a_device_that_never_drifts_has_no_cells_that_watch_for_it(tmp_path, target):
    study = ROOT / "config/series1.yaml"
    kinds_of = {
        name: {cell.kind for _, cell in load_plan(study, ROOT / "inventories" / name, tmp_path / name).all_cells()}
        for name in ("seek", target)
    }
    assert kinds_of == {"seek": {"planned", "reference", "traced", "warm_up"}, target: {"planned", "traced"}}


@pytest.mark.parametrize(("hosts", "refused"), [({"a": {}, "b": {}}, True), ({"n[01:64]": {}}, False), ({}, False)])
def test_more_nodes_than_the_inventory_names_are_refused_before_the_claim(tmp_path, hosts, refused):
    inventory = tmp_path / "inventories/osts"
    shutil.copytree(ROOT / "inventories/osts", inventory)
    named = {"all": {"children": {"clients": {"hosts": hosts}}}}
    (inventory / "hosts.yml").write_text(yaml.safe_dump(named))
    planned = load_plan(ROOT / "config/striping_scaling.yaml", inventory, tmp_path / "results")
    with pytest.raises(StudyError, match="are more than the group clients of") if refused else contextlib.nullcontext():
        planned.check()
    (inventory / "hosts.yml").write_text(yaml.safe_dump({}))  # a file that was edited is read again
    load_plan(ROOT / "config/striping_scaling.yaml", inventory, tmp_path / "results").check()


def test_a_comparison_may_be_of_one_rate_at_some_parameters(plan):
    study = changed(cells={"iterations": 5})
    pair = {"label": "fullness", "state": "60.00", "against": "30.00"}
    study["headline"] = [{**pair, "measures": ["read_bw_mib_s"]}] * 6
    assert not words.notes(edited(plan, study))
    for wrong, said in (
        ({"measures": ["raed_bw_mib_s"]}, r"'measures' names 'raed_bw_mib_s': the cells have read_bw_mib_s, write"),
        ({"at": {"transfer_size": 3}}, r"no cell has the parameters in 'at'"),
    ):
        with pytest.raises(StudyError, match=said):
            edited(plan, {**study, "headline": [{**pair, **wrong}]})


def test_parameters_that_cells_have_are_not_said_to_be_missing(tmp_path):
    study = yaml.safe_load((ROOT / "config/iocontrol.yaml").read_text())
    before, after = (state.name for state in load_study(ROOT / "config/iocontrol.yaml").expanded)
    pair = {"label": "defragmentation", "state": after, "against": before, "at": {"pattern": "P6"}}
    study["headline"] = [{**pair, "measures": ["group2_bw_mib_s"]}]  # P6 has group 1 alone
    (tmp_path / "iocontrol.yaml").write_text(yaml.safe_dump(study))
    assert [line.at for line in load_study(tmp_path / "iocontrol.yaml").headline] == [{"pattern": "P6"}]


def test_a_seed_is_drawn_once_and_recorded(plan):
    first = request.make(plan, "30.50@8M")
    assert json.loads(plan.results.seed.read_text())["seed"] == first["steps"][0]["seed"] == first["steps"][1]["seed"]
    assert request.make(again(plan), "60.00@8M")["steps"][0]["seed"] == first["steps"][0]["seed"]
    assert first["steps"][0]["file_bytes"] == [4 << 20], "the target's scale"
    assert first["claim"] == "c1" and first["cells"] == []


def test_unknown_states_and_unclaimed_targets_are_refused(plan):
    with pytest.raises(StudyError, match=r"no state '30\.05@8M'; it has 30\.00@8M"):
        request.make(plan, "30.05@8M")
    unclaimed = Plan(plan.study, plan.target, plan.results, None)
    with pytest.raises(StudyError, match="target here is not claimed"):
        request.make(unclaimed, "30.00@8M", unclaimed.cells["30.00@8M"])


def test_a_manifest_is_written_when_each_cell_has_a_record(plan):
    state = "30.00@8M"
    first, second = plan.cells[state]
    assert record.unpack(bundle(plan, observation(plan, state, 0)), plan.results.root, "here") == (1, [])
    assert store.write_manifest(plan, state, {}) == [second] == again(plan).to_measure(state)
    assert not plan.manifest(state).exists() and again(plan).missing[state] == (second,)
    record.unpack(bundle(plan, observation(plan, state, 1)), plan.results.root, "here")
    assert again(plan).todo[state] == () and state not in again(plan).missing
    assert [(job.name, job.cells) for job in runs.planned_jobs(again(plan), 1, False)][-1] == ("list_tiny", 0)
    assert store.write_manifest(again(plan), state, {}) == []
    rows = results.read(plan.manifest(state))["cells"]
    assert [plan.results.root / row["record"] for row in rows] == [
        plan.results.record(state, cell.name) for cell in (first, second)
    ]
    made = results.read(plan.results.record(state, first.name))
    assert made["status"] == "failed" and made["metrics"] == {} and made["structure"].startswith("PAF:30.00:")
    assert state not in again(plan).todo


def test_a_record_that_was_deleted_or_is_new_in_the_plan_gives_its_state_a_job(plan):
    state = "30.00@8M"
    for cell in plan.cells[state]:
        results.write(plan.results.record(state, cell.name), {})
    store.write_manifest(plan, state, {})
    plan.results.record(state, plan.cells[state][1].name).unlink()
    assert again(plan).todo[state] == (plan.cells[state][1],) and plan.manifest(state).exists()
    results.write(plan.results.record(state, plan.cells[state][1].name), {})
    larger = edited(plan, changed(cells={"iterations": STUDY["cells"]["iterations"] + 1}))
    assert larger.manifest(state) != plan.manifest(state) and len(larger.todo[state]) == 1
    plan.manifest(state).unlink()
    assert again(plan).todo[state] == (), "its job writes the manifest alone"


def test_a_cell_with_a_reason_is_not_missing_until_it_is_struck(plan):
    state = "30.00@8M"
    first, second = plan.cells[state]
    results.write(plan.results.record(state, first.name), {"status": "valid", "attempt": 1})
    reason = store.Reason("not needed", {"read_bw_mib_s_predicted": 50.0})
    assert store.write_manifest(plan, state, {second.name: reason}) == []
    assert state not in again(plan).todo and again(plan).to_measure(state) == []
    row = dataset.load(again(plan).files()[-len(plan.states) :]).iloc[0]
    assert (row["cell"], row["status"], row["why"], row["capacity_percent"]) == (second.name, "skipped", reason.why, 30)
    assert row["read_bw_mib_s_predicted"] == 50 and row["iteration"] == second.params["iteration"]
    plan.manifest(state).rename(plan.results.manifests / f"{state}.0123456789ab.json")  # of other cells
    assert again(plan).todo[state] == () and store.write_manifest(again(plan), state, {}) == []
    assert results.read(plan.manifest(state))["cells"][1]["why"] == reason.why, "what was skipped stays so"
    assert store.quarantine(again(plan), lambda state, cell: True, {"failed"}) == 0
    assert store.quarantine(again(plan), lambda state, cell: True, {"skipped"}) == 1
    assert again(plan).missing[state] == (second,) and plan.results.record(state, first.name).exists()
    results.write(plan.results.record(state, second.name), {})
    assert store.write_manifest(again(plan), state, {}) == []
    assert [row["why"] for row in results.read(plan.manifest(state))["cells"]] == [None, None]


def test_an_altered_record_is_named_where_its_rates_are_asked_for(plan):
    state = "30.00@8M"
    first = plan.cells[state][0]
    path = plan.results.record(state, first.name)
    assert store.metrics_of(plan, state, first) is None
    for content in (None, ["valid"], {"status": "valid"}, {"status": "valid", "metrics": {"read_bw_mib_s": "fast"}}):
        results.write(path, content)
        with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*; move it away and give the same command again"):
            store.metrics_of(plan, state, first)
    results.write(path, {"status": "valid", "metrics": {"read_bw_mib_s": 50}})
    assert store.metrics_of(plan, state, first) == {"read_bw_mib_s": 50}


def test_an_observation_comes_home_once_and_never_over_another(plan):
    state = "30.00@8M"
    first = observation(plan, state, 0)
    assert record.unpack(bundle(plan, first), plan.results.root, "here") == (1, [])
    assert record.unpack(bundle(plan, first), plan.results.root, "here") == (0, [])
    other = observation(plan, state, 0, id="another")  # requested again
    assert record.unpack(bundle(plan, other), plan.results.root, "here") == (1, [])
    assert [path.name for path in sorted((plan.results.root / "raw").rglob("*.json"))] == [
        f"{first['cell']}.1.json",
        f"{first['cell']}.2.json",
    ]


def test_an_inventory_that_is_not_called_as_its_target_is_refused(plan, tmp_path):
    (tmp_path / "inventories/here").rename(tmp_path / "inventories/there")
    with pytest.raises(StudyError, match=r"target.yml: fsage_target.name is 'here', .* folder, which is 'there'"):
        load_pools(sorted((tmp_path / "config").glob("*.yaml")), [tmp_path / "inventories/there"], plan.results.root)


def test_the_jobs_of_a_run_are_decided_once(plan, tmp_path, monkeypatch):
    plans = load_pools(sorted((tmp_path / "config").glob("*.yaml")), [tmp_path / "inventories/here"], plan.results.root)
    noted = runs.note(plans, runs.Run(runs.identity("snakemake tiny")), tmp_path / "notes")
    for cell in plan.cells["30.00@8M"]:
        results.write(plan.results.record("30.00@8M", cell.name), {})
    monkeypatch.setenv(runs.NOTE, str(noted))
    first, *others = runs.jobs()["tiny"]["here"]
    assert (first.name, first.states, first.cells) == ("populate_tiny_30.00@8M", ["30.00@8M"], 2)
    assert len(others) == 3 and runs.planned_jobs(again(plan), 1, adaptive=False)[0].states != ("30.00@8M",)
    noted.unlink()
    with pytest.raises(runs.Superseded, match="another took its place"):
        runs.jobs()


def test_the_jobs_of_a_killed_run_lose_their_licence(plan, tmp_path, monkeypatch):
    plans, notes = {"tiny": Pool((plan,))}, tmp_path / "notes"
    me = runs.identity("snakemake tiny")
    killed = runs.note(plans, runs.Run({**me, "run": "killed", "pid_start": 1}), notes)
    runs.note(plans, runs.Run({**me, "run": "alive"}), notes)
    runs.note(plans, runs.Run({**me, "run": "far", "host": "elsewhere", "pid_start": 1}), notes)
    monkeypatch.setenv(runs.NOTE, str(runs.note(plans, runs.Run(me), notes)))
    assert runs.gone() == {"killed": killed}
    killed.unlink()  # as the next run does
    monkeypatch.setenv(runs.NOTE, str(killed))
    with pytest.raises(runs.Superseded):
        runs.check()


@pytest.mark.parametrize("inventory", sorted(path.name for path in (ROOT / "inventories").iterdir()))
def test_every_inventory_has_its_target_and_every_group_that_playbooks_name(inventory) -> None:
    folder = ROOT / "inventories" / inventory
    assert load_target(folder).name == inventory
    groups = yaml.safe_load((folder / "hosts.yml").read_text())["all"]["children"]
    assert groups.keys() - {"watched"} == {"launcher", "clients", "servers"} and groups["clients"]["hosts"]
    assert groups["servers"]["children"].keys() >= {"mds", "oss"}


def test_progress_of_cells_that_are_elsewhere_is_what_their_host_tells(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cell is counted that was not measured, whatever the time."""
    plan = replace(plan, target=plan.target.having(home=str(tmp_path / "home")))
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    there = progress.Progress(plan, "30.00@8M")
    line = "tiny: {0} of 8 cells, state 30.00@8M: {0} of 2{1}"
    assert there() == (line.format(0, ""), "; about 48 s left")
    now[0] = STATE_S + 3.5
    doing = there.doing.path
    doing.parent.mkdir(parents=True)
    for each, cells in (("emptying", 0), ("measuring", 1), ("waiting, at most 60 minutes: stop_if: ...", 1)):
        doing.write_text(json.dumps({"doing": each, "since": 0, "cells": cells}))
        assert there().what == line.format(cells, f", {each}")
    now[0] = 136
    assert there().left == "; 2 min since it began, longer than the 40 s that were estimated"
    doing.write_text("[]")
    assert there().what == line.format(1, ""), "a host's word is believed where it can be read"


@pytest.mark.parametrize("seldom", [False, True])
@pytest.mark.parametrize(("slower", "populating", "fragmenting"), [(1, 1, 1), (4, 4, 4), (1, 5, 0.5), (1, 0.2, 3)])
def test_what_is_left_is_right_within_a_factor_of_two(
    slower: float,
    populating: float,
    fragmenting: float,
    seldom: bool,
    plan: Plan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a clock of its own, on which cells and states take so many times longer than was estimated.

    `seldom`: all cells of a visit are seen at the same look.
    """
    plan = edited(plan, changed(states={"capacity": [30, 40, 50, 60]}))
    plan = replace(plan, target=plan.target.having(home=str(tmp_path / "home")))
    (tmp_path / "home/here").mkdir(parents=True)
    now, shown = [0.0], list[tuple[int, float, float]]()
    whole_s = 16 * slower * 3.5 + 4 * (populating + fragmenting) * STATE_S
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    written = 0
    for state, cells in plan.missing.items():
        line = progress.Progress(plan, state)
        line.folder.mkdir(parents=True)
        now[0] += STATE_S * (populating if state.partition("@")[0].endswith(".00") else fragmenting)
        for cell in cells:
            if not seldom:
                line()
            now[0] += slower * 3.5
            (line.folder / f"{cell.name}.json").touch()
            write_record(plan, state, cell.name, now[0] - slower * 3.5, now[0])
            written += 1
            if seldom and cell is not cells[-1]:
                continue
            left = re.search(r"about (\d+) (s|min) left", line().left)
            shown.append((written, whole_s - now[0], int(left[1]) * {"s": 1, "min": 60}[left[2]] if left else 0.0))
        plan = again(plan)
    wrong = [
        entry for entry in shown if entry[0] > 6 and entry[1] > 10 and not entry[1] / 2 <= entry[2] <= 2 * entry[1]
    ]
    assert len(shown) == (8 if seldom else 16) and wrong == [], "from the second population on"


def test_the_pace_of_guests_is_by_the_clock_and_of_the_last_run(plan: Plan) -> None:
    """Their cells have a disk's seconds, and two states are visited at once."""
    plan = replace(plan, target=plan.target.having(kind="uml"))
    began_s = 1e9
    states = list(plan.missing)[:2]
    request_file = plan.results.request(f"visit_{states[0]}")
    results.write(request_file, {})
    os.utime(request_file, (began_s, began_s))
    estimated_s = 0.0
    for state, ended_s in zip(states, (began_s + 40, began_s + 60), strict=True):
        estimated_s += plan.estimates.reach(state).seconds
        for number, cell in enumerate(plan.missing[state]):
            estimated_s += plan.estimates.cell(state, cell).seconds
            write_record(plan, state, cell.name, 0, 0.1, "r1" if number else "r0")  # the run before was stopped
            os.utime(plan.results.record(state, cell.name), (ended_s + number, ended_s + number))
    last_s = 60 + len(plan.missing[states[1]]) - 1
    assert progress.known_pace(plan, plan.outlook()) == pytest.approx((last_s / estimated_s,) * 3)


def write_record(plan: Plan, state: str, cell: str, began_s: float, ended_s: float, run: str = "r1") -> None:
    """What the pace is read from, of a record."""
    began, ended = (datetime.fromtimestamp(1e9 + at, UTC).isoformat() for at in (began_s, ended_s))
    record = {"state": state, "cell": cell, "run": run, "began": began, "ended": ended}
    results.write(plan.results.record(state, cell), {**record, "seconds": {"total": ended_s - began_s}})


def test_only_studies_that_a_command_line_mentions_get_rules():
    names = ["defrag", "prealloc", "prealloc_quick", "series1"]
    assert settings.mentioned(["-n", "series1"], names) == ["series1"]
    assert settings.mentioned(["results/records/local/defrag/0/i1.json", "series1"], names) == ["defrag", "series1"]
    assert settings.mentioned(["report_prealloc_quick"], names) == ["prealloc", "prealloc_quick"], "a rule's name"
    assert settings.mentioned(["--list"], names) == names


def test_a_disturbed_sample_is_taken_again_twice_at_most_and_all_are_on_record(plan, tmp_path, monkeypatch):
    model = {"label": "a model", "disturbed": DISTURBED}
    first, second = plan.cells["30.00@8M"]
    takes_s = {first.name: iter([1.2, 1.04]), second.name: iter([1.3] * 9)}

    def visit_cells(plan, state, cells, inventory, progress):
        for cell in cells:
            conditions = {"device_model": model, "tunables": {}, "seconds": next(takes_s[cell.name])}
            number, attempt = plan.cells[state].index(cell), plan.results.attempts(state, cell.name) + 1
            taken = observation(plan, state, number, attempt=attempt, status="done", conditions=conditions)
            record.keep(taken, plan.results.root, plan.target.name)
        return None, []

    def judged(seen):
        metrics = {"write_seconds": 0.9, "read_seconds": seen["conditions"]["seconds"]}
        return {"status": "valid", "metrics": metrics, "phases": [], "warnings": [], "model_seconds": 1.0}

    monkeypatch.setattr(job, "visit_cells", visit_cells)
    monkeypatch.setattr(record, "make_judgement", judged)
    job.measure(plan, "30.00@8M", tmp_path)
    once, always = (results.read(plan.results.record("30.00@8M", cell.name)) for cell in plan.cells["30.00@8M"])
    assert (once["attempt"], once["disturbed"], once["warnings"]) == (2, 1, [])
    assert (always["attempt"], always["disturbed"]) == (3, 3)
    assert always["warnings"] == [
        "disturbed: read took 1.30 s, 30% over the 1.00 s that the device charges for its extents, as were the 2 "
        "samples before"
    ]
    assert all(plan.results.raw("30.00@8M", always["cell"], attempt).exists() for attempt in (1, 2, 3))


def test_a_budget_wants_something_to_compare(plan):
    with pytest.raises(StudyError, match="a budget measures first what `headline` compares, and it has none"):
        adaptive.check(plan, 0.03, 600)
