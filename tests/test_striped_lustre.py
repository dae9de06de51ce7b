"""A layout on Lustre: the exact `lfs setstripe -E`, its recorded reading-back, and a file that lies otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from lustre_site import Site, lustre_target, recorded
from states import bring

from fsage import workloads
from fsage.agent import claim
from fsage.agent.errors import Failure
from fsage.agent.lustre import stripes
from fsage.agent.striping import Segment
from fsage.agent.target import open_target

MIB = 1 << 20
TYPES = [[64 * MIB, 1, 4 * MIB], [None, 2, 4 * MIB]]  # as recorded
STEP = {"kind": "stripe", "generation": 1, "pattern": "own", "nominal_bytes": 128 * MIB, "largest_count": 2}
STEPS = [{**STEP, "segments": TYPES}]
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


@pytest.mark.root
def test_the_layout_is_set_and_read_back(spec: dict, site: Site) -> None:
    noted = bring(spec, *STEPS)["notes"]["stripe"]
    assert noted == {"osts": 2, "segments": [[0, 64 * MIB, 1, 4 * MIB, 0], [64 * MIB, 128 * MIB, 2, 4 * MIB, 1]]}
    measured = f"{spec['directory']}/measured"
    commands = [command for command in site.commands("lfs") if command.endswith(measured)]
    assert commands[-2:] == [f"{SET} {measured}", f"lfs getstripe -y -d {measured}"]
    claimed = {**open_target(spec).claim, "tasks": 4, "tools": {"ior": "4.0.0", "mpirun": "4.1"}}
    params = {"workload": "striped_file", "transfer_size": MIB, "iteration": 1}
    write, read = workloads.load("striped_file").commands(params, claimed, STEPS)
    start = "mpirun --allow-run-as-root --oversubscribe -np 4 ior -v -t 1048576 -b 134217728"
    assert " ".join(write["argv"]) == f"{start} -w -k --posix.odirect -o {measured}/shared"
    several = {**claimed, "hosts": ["c1", "c2", "c3", "c4"]}
    half = workloads.load("striped_file").commands({**params, "nodes": 2}, several, STEPS)[0]["argv"]
    assert {"c1:4,c2:4", "8", str(256 * MIB)} <= set(half), "the same file of 2 GiB by 8 tasks"
    assert " ".join(read["argv"]) == f"{start} -r -k --posix.odirect -o {measured}/shared"


@pytest.mark.root
def test_a_layout_that_came_otherwise_fails_the_step(spec: dict, site: Site) -> None:
    came = recorded("lfs_getstripe_pfl_dir_d_yaml.txt").replace("stripe_count:  2", "stripe_count:  1")
    plain = recorded("lfs_getstripe_plain_dir_d.txt").splitlines()[0]
    site.answer(f"lfs getstripe -y -d {spec['directory']}/measured", plain, came)
    with pytest.raises(Failure, match=r"asked for components .*\(67108864, 2, 4194304\).* shows .*\(67108864, 1,"):
        bring(spec, *STEPS)


def test_a_file_of_another_layout_is_astray(tmp_path: Path, site: Site) -> None:
    asked = [Segment(0, 64 * MIB, 1, 4 * MIB, 0), Segment(64 * MIB, 128 * MIB, 2, 4 * MIB, 1)]
    declared = {"stripe_count": 1, "stripe_size_mib": 1, "first_ost": -1}
    site.answer(f"lfs getstripe -y {tmp_path}/good", recorded("lfs_getstripe_y_pfl_big.txt"))
    site.answer(f"lfs getstripe -y {tmp_path}/short", recorded("lfs_getstripe_y_pfl_small.txt"))
    site.answer(f"lfs getstripe -y {tmp_path}/plain", recorded("lfs_getstripe_y_plain_f1.txt"))
    there = [tmp_path / name for name in ("good", "short", "plain")]
    found = stripes.placement(there, declared, 2, asked)
    assert found["stripes"] == {"0": 2, "1": 3}
    assert [one.split(" has ")[0] for one in found["astray"]] == [f"{tmp_path}/plain", f"{tmp_path}/short"]
    assert "(67108864, 0, 4194304)" in found["astray"][1], "a component that was never written has no OST"
