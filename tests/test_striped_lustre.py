"""A layout on Lustre: the exact commands of both realisations, their recorded reading-back, a file that lies otherwise.

The IORs of a file in segments are real processes beside each other; what they print was recorded of IOR 3.3.0.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corpus import BY_NAME
from lustre_site import Site, lustre_target, recorded
from states import bring

from fsage import workloads
from fsage.base import Failure
from fsage.host.cells import measure
from fsage.host.instruments import Visit, eviction
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.system import caches
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.model.request import Phase
from fsage.studies.lustre.host import stripes
from fsage.studies.striping.model import Nominal, Segment, Stripe

MIB = 1 << 20
TYPES = (Nominal(64 * MIB, 1, 4 * MIB), Nominal(None, 2, 4 * MIB))  # as recorded
STEPS = [Stripe(1, "own", "pfl", nominal_bytes=128 * MIB, largest_count=2, segments=TYPES)]
SET = "lfs setstripe -E 64M -c 1 -S 4M -E -1 -c 2 -S 4M"


@pytest.fixture
def spec(tmp_path: Path, site: Site) -> dict:
    spec = {**lustre_target(tmp_path, site), "amount_mib": 128}
    claim.claim(spec, {}, False)
    measured = f"{spec['directory']}/measured"
    site.answer(f"{SET} {measured}")
    plain, composite = recorded("lfs_getstripe_plain_dir_d.txt"), recorded("lfs_getstripe_pfl_dir_d_yaml.txt")
    site.answer(f"lfs getstripe -y -d {measured}", plain.splitlines()[0], composite)
    return spec


@pytest.mark.long
@pytest.mark.root
def test_a_layout_that_came_otherwise_fails_the_step(spec: dict, site: Site) -> None:
    came = recorded("lfs_getstripe_pfl_dir_d_yaml.txt").replace("stripe_count:  2", "stripe_count:  1")
    plain = recorded("lfs_getstripe_plain_dir_d.txt").splitlines()[0]
    site.answer(f"lfs getstripe -y -d {spec['directory']}/measured", plain, came)
    with pytest.raises(Failure, match=r"requested components .*\(67108864, 2, 4194304\).* shows .*\(67108864, 1,"):
        bring(spec, *STEPS)


def test_a_file_of_another_layout_is_astray(tmp_path: Path, site: Site) -> None:
    asked = [Segment(0, 64 * MIB, 1, 4 * MIB, 0), Segment(64 * MIB, 128 * MIB, 2, 4 * MIB, 1)]
    declared = {"stripe_count": 1, "stripe_size_mib": 1, "first_ost": -1}
    site.answer(f"lfs getstripe -y {tmp_path}/good", recorded("lfs_getstripe_y_pfl_big.txt"))
    site.answer(f"lfs getstripe -y {tmp_path}/short", recorded("lfs_getstripe_y_pfl_small.txt"))
    site.answer(f"lfs getstripe -y {tmp_path}/plain", recorded("lfs_getstripe_y_plain_f1.txt"))
    there = [tmp_path / name for name in ("good", "short", "plain")]
    found = stripes.of_files(there, declared, 2, asked)
    assert found["stripes"] == {"0": 2, "1": 3}
    assert [each.split(" has ")[0] for each in found["astray"]] == [f"{tmp_path}/plain", f"{tmp_path}/short"]
    assert "(67108864, 0, 4194304)" in found["astray"][1], "a component that was never written has no OST"


@pytest.mark.parametrize(
    ("declared", "first", "second"),
    [({"osts": [3, 0], "pool": None}, "-o 3", "-o 0,3"), ({"osts": None, "pool": "fast"}, "-p fast", "-p fast")],
)
def test_a_pattern_lies_where_the_target_declares(
    declared: Any, first: str, second: str, tmp_path: Path, site: Site
) -> None:
    """A guest's stripes are on no OST that he did not name; the recorded file, on OSTs 0 and 1, is astray there."""
    asked = [Segment(0, 64 * MIB, 1, 4 * MIB, 0), Segment(64 * MIB, 128 * MIB, 2, 4 * MIB, 1)]
    site.answer(f"lfs setstripe -E 64M -c 1 -S 4M {first} -E -1 -c 2 -S 4M {second} {tmp_path}")
    site.answer(f"lfs getstripe -y -d {tmp_path}", recorded("lfs_getstripe_pfl_dir_d_yaml.txt"))
    stripes.compose(tmp_path, asked, declared)
    site.answer(f"lfs getstripe -y {tmp_path}/good", recorded("lfs_getstripe_y_pfl_big.txt"))
    plain: Any = {"stripe_count": 1, "stripe_size_mib": 1, "first_ost": -1}
    (astray,) = stripes.of_files([tmp_path / "good"], plain, 2, asked, [0, 3])["astray"]
    assert "lies on OSTs" in astray and astray.endswith("declared are [0, 3]")


# One IOR for each segment

STRIPED = workloads.load("striped_file")
IN_SEGMENTS = [replace(STEPS[0], realisation="segments", nominal_bytes=192 * MIB)]
TASKS = {"tasks": 6, "amount_mib": 32, "tools": {"ior": "3.3.0", "mpirun": "4.1", "srun": "23.11"}}
PARAMS = {"workload": "striped_file", "transfer_size": 4 * MIB, "iteration": 1}
RECORDED = {2: "ior-3.3.0/w-only-nokeep", 4: "ior-3.3.0/multi-dir-at"}
MPIRUN = """#!{python} -SE
import json, pathlib, sys, time
said = json.load(open({said!r}))[sys.argv[sys.argv.index("-np") + 1]]
path, reads = pathlib.Path(sys.argv[sys.argv.index("-o") + 1]), "-r" in sys.argv
said = said.replace(" -F ", " ").replace("write ", "read  ") if reads else said.replace(" -F ", " ")
path.touch()
head, row, rest = said.partition("\\nread " if reads else "\\nwrite ")
for line in head.splitlines():
    print("Command line : /bin/" + " ".join(sys.argv[sys.argv.index("ior"):]) if line.startswith("Command") else line)
sys.stdout.flush()
time.sleep(1)
print(row[1:] + rest, flush=True)
"""


def run(params: dict, claimed: Any, steps: list[Stripe]) -> list[Phase]:
    return STRIPED.commands(STRIPED.Params.model_validate(params), claimed, steps)


@pytest.fixture
def segments(tmp_path: Path, site: Site) -> dict:
    """A target on which each segment's directory and file come as asked."""
    spec = {**lustre_target(tmp_path, site), **{"amount_mib": 32}, "scale": {"file_size": 1.0, "tasks": 6}}
    claim.claim(spec, {}, False)
    said = recorded("lfs_getstripe_plain_dir_d.txt").splitlines()[0].replace("1048576", str(4 * MIB))
    for number, count in enumerate((1, 2)):
        place = f"{spec['directory']}/measured/segment{number}"
        site.answer(f"lfs setstripe -c {count} -S 4M -i -1 {place}")
        site.answer(f"lfs getstripe -y -d {place}", said.replace("stripe_count:  1", f"stripe_count:  {count}"))
    lies = [recorded("lfs_getstripe_y_plain_f1.txt").replace("1048576", str(4 * MIB))]
    lies.append(recorded("lfs_getstripe_y_s2_f1.txt"))
    for number, text in enumerate(lies):
        site.answer(f"lfs getstripe -y {spec['directory']}/measured/segment{number}/shared", text)
    site.answer("lctl get_param ldlm*", "")
    (tmp_path / "said.json").write_text(json.dumps({str(n): BY_NAME[name].stdout for n, name in RECORDED.items()}))
    mpirun = site.bin / "mpirun"
    mpirun.write_text(MPIRUN.format(python=sys.executable, said=str(tmp_path / "said.json")))
    mpirun.chmod(0o755)
    return spec


@pytest.mark.long
@pytest.mark.root
def test_an_ior_for_each_segment_runs_beside_the_others(segments: dict, site: Site) -> None:
    bring(segments, *IN_SEGMENTS)
    measured = f"{segments['directory']}/measured"
    site.commands()
    phases = run(PARAMS, {**open_target(segments).claim, **TASKS}, IN_SEGMENTS)
    cell = {"name": "one", "kind": "planned", "order": 1, "attempt": 1, "params": PARAMS, "phases": phases}
    request = {"study": "test", "state": "wanted", "steps": IN_SEGMENTS, "cells": [cell]}
    assert measure.measure(segments, request, False)["measured"] == 1
    (path,) = (Path(segments["home"]) / "scratch" / "outbox").rglob("one.1.json")
    seen = json.loads(path.read_text())
    assert (seen["status"], seen["why"]) == ("done", None)
    asked = site.commands("lfs")
    for number in (0, 1):
        assert f"lfs setstripe -c {number + 1} -S 4M -i -1 {measured}/segment{number}" in asked
        assert f"lfs getstripe -y -d {measured}/segment{number}" in asked
    write = seen["phases"][0]
    assert write["placement"] == {"files": 2, "looked_at": 2, "stripes": {"0": 1, "1": 2}, "astray": []}
    spans = []
    for each in (write, *write["beside"]):
        came = dict(zip(each["stdout"].splitlines(), each["line_s"], strict=True))
        row = next(line for line in came if line.startswith("write  "))
        assert came[row] - came["Results: "] > 0.2, "each line has the time at which it came"
        spans.append((came["Results: "], came[row]))
    assert len(spans) == 2 and max(begin for begin, _ in spans) < min(end for _, end in spans), "side by side"

    def judged(first: float, second: float) -> workloads.Outcome:
        """With rows that came at these seconds: the IORs took 0.01091 and 0.02136 s."""
        for phase in seen["phases"]:
            for each, came in zip((phase, *phase.get("beside", ())), (first, second), strict=False):
                each["line_s"] = [came] * len(each["stdout"].splitlines())
        return STRIPED.read(seen)

    found = judged(5.00, 5.01).metrics
    assert found["write_bytes"] == found["read_bytes"] == 192 * MIB
    assert found["write_seconds"] == pytest.approx(5.01 - (5.01 - 0.02136)), "from the second's start to its end"
    assert judged(5.01, 5.00).metrics["write_seconds"] == pytest.approx(5.01 - (5.00 - 0.02136))
    assert "segment 0's IOR began 0.989 s after another one had ended" in (judged(6.0, 5.0).why or "")
    del seen["phases"][1]["beside"]
    assert "read: moved 67108864 bytes, the layout's file has 201326592" in (judged(5.0, 5.0).why or "")


@pytest.mark.parametrize(
    ("launcher", "start"),
    [
        ("openmpi", "mpirun --allow-run-as-root --oversubscribe --host c1:{0},c2:{0} --map-by slot -np {1}"),
        ("mpich", "mpirun -hosts c1,c2 -ppn {0} -np {1}"),
        ("srun", "srun --mpi=pmix --overlap --nodes=2 --nodelist=c1,c2 --ntasks-per-node={0} --ntasks={1}"),
    ],
)
def test_each_clients_tasks_are_shared_out(launcher: str, start: str) -> None:
    claimed = {**TASKS, "kind": "lustre", "lustre": {"osts": [0, 1]}, "target": "scratch", "containers": None}
    claimed |= {"stores": [{"mount": "/m"}], "hosts": ["c1", "c2"], "launcher": launcher}

    write = run(PARAMS, claimed, IN_SEGMENTS)[0]
    moves = f"ior -v -t {4 * MIB} -b {32 * MIB} -w -k --posix.odirect -o /m/measured"
    assert [" ".join(argv) for argv in (write["argv"], *write["beside"])] == [
        f"{start.format(2, 4)} {moves}/segment0/shared",
        f"{start.format(4, 8)} {moves}/segment1/shared",
    ]
    with pytest.raises(ValueError, match="1 tasks a client cannot be at work in 2 segments at once"):
        run(PARAMS, {**claimed, "tasks": 1, "amount_mib": 192}, IN_SEGMENTS)
    with pytest.raises(ValueError, match=r"4 tasks cannot share 130023424 bytes of /m/measured/segment0/shared"):
        run(PARAMS, {**claimed, "tasks": 7, "amount_mib": 27}, IN_SEGMENTS)
    with pytest.raises(ValueError, match="nodes: 3 are more than target scratch was claimed with: 2"):
        run({**PARAMS, "nodes": 3}, claimed, IN_SEGMENTS)


@pytest.mark.long
@pytest.mark.root
def test_the_eviction_file_lies_on_all_osts_and_every_client_reads_it(spec: dict, site: Site, monkeypatch) -> None:
    filler = f"{spec['directory']}/filler/g1"
    site.answer(f"lfs setstripe -c -1 -S 1M -i -1 {filler}")
    everywhere = (
        recorded("lfs_getstripe_plain_dir_d.txt").splitlines()[0].replace("stripe_count:  1", "stripe_count: -1")
    )
    site.answer(f"lfs getstripe -y -d {filler}", everywhere)
    with monkeypatch.context() as small:
        small.setattr(eviction, "memory_bytes", lambda: 40 * MIB)
        state = bring(spec, replace(STEPS[0], eviction_file="memory"))
    assert state["notes"]["stripe"]["eviction_bytes"] == state["bytes"] == 32 * MIB, "16 files of whole MiB"
    target = open_target(spec)
    paths = eviction.paths(target)
    for path in paths:
        caches.give_up(path)
    client = {"python": sys.executable, "local": True, "name": "c2"}
    with contextlib.closing(
        Hosts(target.spec, target.claim, {"clients": [{"name": "c1"}, client], "servers": []})
    ) as two:
        reads = eviction.EvictionFile(Visit(target, {}, two))
        for _ in range(5):  # another test drops the machine's caches when it will
            reads.read()
            if (cached := caches.cached_pages(paths) * mmap.PAGESIZE) == 32 * MIB:
                break
        assert cached == 32 * MIB
        for path in paths:
            path.unlink()
        with pytest.raises(Failure, match=r"the state has no cache-eviction file below .*/filler to be read"):
            reads.read()
