"""A search by the real blastn in a database whose volumes lie as a layout says, on real small stores."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import pytest
import striped
from hypothesis import given
from hypothesis import strategies as st
from local_targets import claimed
from lustre_site import lustre_target, recorded
from states import MIB, bring

from fsage import recipes, workloads
from fsage.base import Failure, Refusal
from fsage.host.cells import measure
from fsage.host.structure import work
from fsage.host.targets import claims
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.model.structure import ALONE, Step
from fsage.parse import BadOutput
from fsage.studies.blast import model
from fsage.studies.blast import workloads as blastn
from fsage.studies.blast.recipe import States
from fsage.studies.striping import model as striping
from fsage.studies.striping import recipe

BLAST = workloads.load("blast")
NAMES = [name for name in recipe.known_patterns().named() if name.startswith("blast.")]
VOLUMES = 13
needs_blast = pytest.mark.skipif(
    not shutil.which("blastn"), reason="blastn is not installed: package ncbi-blast+, which ./run installs"
)


def steps_of(name: str, volumes: int = VOLUMES, others: tuple[str, ...] = ("blast.3",)) -> list[Step]:
    states = States(pattern=list({name, *others}), default=name, database={"volumes": volumes, "queries": 5}, seed=7)
    (found,) = (each for each in recipes.load("blast").expand(states) if each.name == name)
    return found.steps(1, 0)


@given(
    osts=st.sampled_from([16, 64, 20, 128]),
    name=st.sampled_from(NAMES),
    count=st.integers(10, 200),
    size=st.integers(1, 10**9),
)
def test_every_byte_is_in_one_volume_and_a_segments_volumes_go_round_its_osts(osts, name, count, size):
    _, step = steps_of(name)
    volumes = model.volumes(step, osts, count, size)
    assert [volume.start_bytes for volume in volumes] == [number * size for number in range(count)]
    assert all(volume.end_bytes == volume.start_bytes + size for volume in volumes)
    counts = striping.counts(step, osts)
    begin = 0
    for number, (end, _, _) in enumerate(step.segments):
        mine = [volume for volume in volumes if volume.segment == number]
        its = [(sum(counts[:number]) + turn) % osts for turn in range(counts[number])]
        assert [each.ost for each in mine] == [its[turn % len(its)] for turn in range(len(mine))]
        share = ((end or step.nominal_bytes) - begin) / step.nominal_bytes
        assert abs(len(mine) - share * count) < 1, "as its segment, to less than a volume"
        begin = end


def test_a_segment_without_a_volume_and_counts_that_become_the_same_are_refused():
    _, step = steps_of("blast.18")
    with pytest.raises(Refusal, match=r"blast\.18: none of 2 volumes begins in its segment 2"):
        model.volumes(step, 16, 2, 100)
    with pytest.raises(Refusal, match="stripe counts 4 and 16 both become 1 on 2 OSTs"):
        model.volumes(step, 2, 79, 100)


@pytest.fixture(scope="module")
def osts(new_module_target):
    spec = {**new_module_target, "stores": 4, "amount_mib": 16}
    claimed(spec)
    return spec


def params_of(**more) -> workloads.CellParams:
    return BLAST.Params.model_validate({"workload": "blast", "iteration": 1, **more})


def measured(spec: dict, steps: list[Step], processes: int, spoil=lambda phases: None, study: str = "test") -> dict:
    """What the agent answers for one cell."""
    params = {"workload": "blast", "processes": processes, "iteration": 1}
    phases = BLAST.commands(params_of(processes=processes), open_target(spec).claim, steps)
    spoil(phases)
    cell = {"name": "one", "kind": "planned", "order": 1, "attempt": 1, "params": params, "phases": phases}
    request = {"study": study, "state": "wanted", "steps": steps, "reuse": "nested", "cells": [cell]}
    return measure.measure(spec, request, False)


def searched(spec: dict, *what) -> dict:
    """One cell's observation."""
    outbox = open_target(spec).home / "outbox"
    shutil.rmtree(outbox, ignore_errors=True)
    assert measured(spec, *what)["measured"] == 1
    (path,) = outbox.rglob("one.1.json")
    return json.loads(path.read_text())


@pytest.mark.long
@needs_blast
@pytest.mark.root
def test_every_layout_and_every_number_of_processes_finds_the_same(osts):
    found = set()
    digests = set()
    made_at = set()
    for name, processes in (("blast.1", 1), ("blast.2", 4), ("blast.10", VOLUMES)):
        steps = steps_of(name, others=("blast.2",))
        notes = bring(osts, *steps)["notes"]["database"]
        observation = searched(osts, steps, processes)
        outcome = BLAST.read(observation)
        assert outcome.status == "valid", outcome.why
        (phase,) = observation["phases"]
        assert phase["cached_pages"] == 0 and len(phase.get("beside", ())) == processes - 1
        metrics = outcome.metrics
        assert metrics["search_bytes"] == notes["bytes"] == VOLUMES * notes["sequences"] * 64 * 1024
        assert metrics["search_cpu_s"] > 0 and metrics["search_checksum"] < 2**48
        assert metrics["search_bw_mib_s"] * metrics["search_seconds"] == pytest.approx(notes["bytes"] / MIB)
        assert metrics["search_hits"] == 5
        found.add(metrics["search_checksum"])
        digests.add(notes["digest"])
        target = open_target(osts)
        made_at.add((target.home / claims.KEPT / "made.json").stat().st_mtime_ns)
        for number, (segment, ost) in enumerate(notes["volumes"]):
            assert (
                target.mounts[ost] / "filler" / f"g{segment + 1}" / f"volume{number:04d}.nsq"
            ).stat().st_size > 64 * 1024
    assert len(found) == len(digests) == len(made_at) == 1
    # nothing else is valid: hits lost, a volume left out, a process that ended early
    lost = copy.deepcopy(observation)
    task = next(each for each in lost["phases"][0]["beside"] if "# 1 hits found" in each["stdout"])
    lines = task["stdout"].splitlines()
    gone = next(line for line in lines if line[0].isdigit())
    task["stdout"] = "\n".join(line for line in lines if line != gone).replace("# 1 hits found", "# 0 hits found")
    assert "4 of 5 queries were found where they are from" in (BLAST.read(lost).why or "")
    less = copy.deepcopy(observation)
    del less["phases"][0]["beside"][-1]
    assert "12 volumes were searched, the database has 13" in (BLAST.read(less).why or "")
    with pytest.raises(BadOutput, match="cut short"):
        blastn.parse(observation["phases"][0]["stdout"].rpartition("# BLAST")[0], "", 0)


@pytest.mark.long
@needs_blast
@pytest.mark.root
def test_a_search_that_goes_wrong_fails_and_leaves_nothing(osts):
    steps = steps_of("blast.1")
    bring(osts, *steps)

    def elsewhere(phases: list[dict]) -> None:
        argv = phases[0]["beside"][0]
        argv[argv.index("-db") + 1] += "x"

    def missing(phases: list[dict]) -> None:
        phases[0]["beside"][1][0] = "no-such-blastn"

    for spoil, said in ((elsewhere, "No alias or index file found"), (missing, "no-such-blastn")):
        outcome = BLAST.read(searched(osts, steps, 4, spoil))
        assert outcome.status == "failed" and said in (outcome.why or ""), outcome.why
    target = open_target(osts)
    next((target.mounts[0] / "filler").rglob("*.nsq")).unlink()
    answer = measured(osts, steps, 4, study="other")
    assert answer["measured"] == 0 and "was changed since" in answer["lost"]
    claim.release(osts, {}, False)
    assert not (target.home / claims.KEPT).exists()


CLAIM = {
    **striped.CLAIM,
    "amount_mib": 320,
    "tools": {"fio": "3.33", "blastn": "2.12.0+", "makeblastdb": "2.12.0+"},
    "calibration": {"cell_overhead_s": 1.0, "write_mib_s": 2.0, "read_mib_s": 16.0},
}
STEPS = steps_of("blast.1", volumes=79)


def test_the_estimate_of_a_cell_is_what_it_takes():
    for name, volumes in (("blast.1", 79), ("blast.10", 27)):  # all on one OST, a segment on each of 3
        estimate = BLAST.seconds(params_of(processes=16), CLAIM, steps_of(name, volumes=79))
        assert estimate == pytest.approx(1 + 0.96 + volumes * 4 / 12.8), "of 4 MiB each"


@pytest.mark.parametrize(
    ("params", "lacks", "steps", "why"),
    [
        (
            {},
            {"tools": {"makeblastdb": "2.12.0+"}},
            STEPS,
            r"needs blastn, not found .* install the package ncbi-blast",
        ),
        ({}, {}, STEPS[:1], "a state with a database"),
        ({"processes": 80}, {}, STEPS, "processes: 80 cannot share 79 volumes"),
        ({"nodes": 2}, {}, STEPS, "nodes: 2 are more than target osts was claimed with"),
    ],
)
def test_what_no_cell_can_be_made_of_is_said(params, lacks, steps, why):
    for ask in (BLAST.commands, BLAST.seconds):
        with pytest.raises(ValueError, match=why):
            ask(params_of(**{"processes": 16, **params}), {**CLAIM, **lacks}, steps)


def test_what_a_target_does_not_have_is_unsupported():
    for lacks, why in (({"kind": "directory"}, "has no OSTs"), ({"amount_mib": 4}, "each must be of 65536 to 10")):
        with pytest.raises(workloads.Unsupported, match=why):
            BLAST.commands(params_of(processes=16), {**CLAIM, **lacks}, STEPS)


def test_on_several_clients_each_process_is_launched_where_it_works():
    (phase,) = BLAST.commands(params_of(), {**CLAIM, "hosts": ["n1", "n2"]}, steps_of("blast.2"))
    tasks = (phase["argv"], *phase["beside"])
    assert [argv[argv.index("--host") + 1] for argv in tasks] == ["n1:1", "n2:1"]
    assert [len(argv[argv.index("-db") + 1].split()) for argv in tasks] == [6, 7]


@pytest.mark.long
@needs_blast
@pytest.mark.root
def test_on_lustre_a_segments_volumes_have_its_stripes(tmp_path, site):
    spec = {**lustre_target(tmp_path, site), "amount_mib": 16}
    claim.claim(spec, {}, False)
    place = f"{spec['directory']}/filler"
    own = {"mine": ["A to 1G", "H"]}  # 4 x 1 MiB, then 4 x 4 MiB; 2 OSTs
    states = States(pattern=["mine"], default="mine", own=own, file_size="4G", database={"volumes": 4, "queries": 2})
    (state,) = recipes.load("blast").expand(states)
    step = state.steps(1, 3)[1]
    plain = recorded("lfs_getstripe_plain_dir_d.txt").splitlines()[0].replace("count:  1", "count:  2")
    lies = recorded("lfs_getstripe_y_s2_f1.txt")  # two stripes of 4 MiB
    for number, size in ((1, 1), (2, 4)):
        site.answer(f"lfs setstripe -c 2 -S {size}M -i -1 {place}/g{number}")
        site.answer(f"lfs getstripe -y -d {place}/g{number}", plain.replace("1048576", str(size * MIB)))
        site.answer(f"lfs getstripe -y {place}/g{number}/*", lies.replace(str(4 * MIB), str(size * MIB)))
    made = work(step, open_target(spec), [], ALONE, lambda: None)
    noted = made.notes
    assert noted["volumes"] == [[0, None], [1, None], [1, None], [1, None]] and made.files == 13
    assert all(path.exists() for path in step.named(open_target(spec).mounts, noted))
    (phase,) = BLAST.commands(params_of(), open_target(spec).claim, state.steps(1, 3))
    bases = phase["argv"][phase["argv"].index("-db") + 1].split()
    assert bases == [f"{place}/g1/volume0000", *(f"{place}/g2/volume000{number}" for number in (1, 2, 3))]

    site.answer(f"lfs getstripe -y {place}/g2/*", recorded("lfs_getstripe_y_plain_f1.txt"))
    with pytest.raises(Failure, match=r"3 volumes lie elsewhere: .*volume0001\.nsq has 1 stripes"):
        for path in Path(place).glob("g?/volume*"):
            path.unlink()
        work(step, open_target(spec), [], ALONE, lambda: None)
