"""Cells of IOR and mdtest, judged from recorded runs: they are not on every machine (where they are: tests/real)."""

import re
import shlex

import pytest
from corpus import BY_NAME
from workload_cells import ALL, CLAIM, METADATA, SEQUENTIAL

from fsage import parse, workloads
from fsage.base import MIB
from fsage.workloads import metadata, sequential


def recorded(case_name, name, params, claim):
    """A phase with a recorded output whose echo of the command line is that of our command."""
    case = BY_NAME[case_name]
    module = workloads.load(params["workload"])
    argv = next(p["argv"] for p in module.commands(module.Params.model_validate(params), claim) if p["name"] == name)
    tool = next(tool for tool in ("ior", "mdtest") if tool in argv)
    ours = shlex.join([f"/bin/{tool}", *argv[argv.index(tool) + 1 :]])
    stdout = re.sub(r"(?m)^(Command line(?: used)? *: ).*", lambda found: found[1] + ours, case.stdout)
    return {"name": name, "argv": argv, "rc": case.rc, "stderr": case.stderr, "stdout": stdout}


def ior_cell(write="ior-3.3.0/w-only-nokeep", claim=CLAIM, **params):
    claim = {**claim, "tools": ALL}
    params = {**SEQUENTIAL, "phases": ["write"], **params}
    return {"status": "done", "params": params, "phases": [recorded(write, "write", params, claim)]}


@pytest.mark.parametrize("images", [None, "/images"])
def test_ior(images):
    outcome = sequential.read(ior_cell(claim={**CLAIM, "containers": images}))
    assert outcome == workloads.Outcome(
        "valid", None, {"write_bw_mib_s": 5867.61, "write_seconds": 0.01091, "write_bytes": 64 * MIB}
    )


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (
            ior_cell("ior-3.3.0/fail-optB"),
            "write: IOR ended with code 0 but tells of trouble: .*argument: -B",
        ),
        (ior_cell("ior-3.3.0/multi-dir-at"), "write: 4 tasks ran of 2 requested"),
        (ior_cell("ior-3.3.0/exists-warning"), "IOR reports writes: 1, reads: 1, not one of them"),
        (ior_cell(transfer_size=8 * MIB), "ran with transfers of 4194304 bytes, the cell's are 8388608"),
        (
            ior_cell("ior-3.3.0/D1-wearout-statusfile", {**CLAIM, "amount_mib": 600}, transfer_size=65536),
            "moved 92274688 bytes of 1258291200",
        ),
        (
            ior_cell("ior-main/fail-unlike-mpi"),
            "write: 2 processes of IOR ran, and each believed that it was alone. The launcher does not belong",
        ),
        (ior_cell("ior-main/fail-jsonfile-enospc"), "code 134: .*No space left on device"),
    ],
)
def test_ior_that_did_not_do_as_asked(cell, reason):
    outcome = sequential.read(cell)
    assert outcome.status == "failed"
    assert re.search(reason, outcome.why), outcome.why


def bent(cell, *changes, phase=0):
    """The same, where a phase has other output."""
    for old, new in changes:
        found = cell["phases"][phase]["stdout"]
        cell["phases"][phase]["stdout"] = re.sub(old, new, found)
    return cell


FOUR = {"hosts": ["c1", "c2", "c3", "c4"], "tasks": 1}


def placed(nodes, on_first):
    """The cell of a run of 4 tasks that says that it ran on so many nodes, with so many tasks on the first."""
    cell = ior_cell("ior-main/w-192k-np4", {**CLAIM, **FOUR, "amount_mib": 3}, transfer_size=65536)
    return bent(
        cell,
        (" 196608 ", " 3145728 "),
        (" 0.8 POSIX", "12.0 POSIX"),
        (r"(?m)^(nodes +: )1$", rf"\g<1>{nodes}"),
        (r"(?m)^(write .* 0 +4 +)4( )", rf"\g<1>{on_first}\2"),
    )


def test_tasks_that_ran_elsewhere_or_otherwise_than_asked_for():
    assert sequential.read(placed(4, 1)).status == "valid"
    assert sequential.read(placed(1, 4)).why == (
        "write: 4 tasks ran on 1 nodes, 4 of them on the first; requested were 4 nodes with 1 on each: the launcher "
        "(a job's nodes, a site's fsage_target.launcher_options) places them differently"
    )
    assert "ran on 4 nodes, 3 of them on the first" in sequential.read(placed(4, 3)).why
    cell = bent(mdtest_cell("main"), ("Nodemap: 11", "Nodemap: 10"), phase=1)
    assert "stat: 2 tasks ran on 1 nodes, 1 of them on the first; requested were 1 nodes" in metadata.read(cell).why
    assert "not of this command" in sequential.read(bent(ior_cell(), (" --posix.odirect", ""))).why
    fewer = bent(mdtest_cell("main"), ("2 tasks, 2000 files", "2 tasks, 1000 files"))
    assert "create: 1000 files, requested 2000" in metadata.read(fewer).why


def test_a_tool_of_another_version_than_the_claims():
    good = {**ior_cell(), "conditions": {"tools": {"fio": "3.33", "ior": "3.3.0"}}}
    assert sequential.read(good).status == "valid"
    other = {**good, "conditions": {"tools": {"fio": "3.33", "ior": "4.0.0"}}}
    assert sequential.read(other).why == (
        "write: ior 3.3.0 ran, and the target was claimed with ior 4.0.0: put that one back, or release the target and "
        "claim it again"
    )
    cell = {**mdtest_cell("main"), "conditions": {"tools": {"mdtest": "3.3.0"}}}
    assert "create: mdtest 4.1.0+dev ran, and the target was claimed with mdtest 3.3.0" in metadata.read(cell).why


# As Open MPI 4.1 prints it beside a run that goes well; each message's first line is in harmless.yaml.
OPENFABRICS = """\
--------------------------------------------------------------------------
WARNING: There was an error initializing an OpenFabrics device.

  Local host:   c1
  Local device: mlx5_0
--------------------------------------------------------------------------
--------------------------------------------------------------------------
[[32519,1],0]: A high-performance Open MPI point-to-point messaging module
was unable to find any relevant network interfaces:

Module: OpenFabrics (openib)
  Host: c1

Another transport will be used instead, although this may result in
lower performance.
--------------------------------------------------------------------------
[c1:01815] 1 more process has sent help message help-mpi-btl-openib.txt / error in device init
"""


def test_a_warning_that_is_known_to_be_harmless_is_kept_and_fails_no_cell():
    cell = ior_cell()
    cell["phases"][0]["stderr"] = OPENFABRICS
    assert sequential.read(cell).status == "valid"
    assert parse.harmless(OPENFABRICS) == [
        "WARNING: There was an error initializing an OpenFabrics device.",
        "[[32519,1],0]: A high-performance Open MPI point-to-point messaging module",
    ]
    cell["phases"][0]["stderr"] += "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\n"
    assert sequential.read(cell).why == (
        "write: IOR ended with code 0 but tells of trouble: "
        "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This"
    )


def mdtest_cell(version, images=None, **change):
    claim = {**CLAIM, "free_inodes_empty": None, "tools": ALL, "containers": images}
    params = {**METADATA, "files_per_task": 1000}
    names = {"create": "phase-C", "stat": "phase-T", "remove": "phase-r", **change}
    return {
        "status": "done",
        "params": params,
        "phases": [recorded(f"mdtest-{version}/{case}", name, params, claim) for name, case in names.items()],
    }


@pytest.mark.parametrize(
    ("version", "create_per_s"), [("3.3.0", 94448.64), ("4.0.0", 114843.218), ("main", 124316.192)]
)
def test_mdtest(version, create_per_s):
    outcome = metadata.read(mdtest_cell(version, "/images" if version == "main" else None))
    assert outcome.status == "valid", outcome.why
    assert outcome.metrics["create_per_s"] == pytest.approx(create_per_s)
    assert outcome.metrics["create_files"] == outcome.metrics["stat_files"] == 2000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"stat": "fail-stat-without-create"},
            "stat: mdtest ended with code 0 but tells of trouble: .*unable to stat",
        ),
        ({"create": "fail-no-n"}, "create: mdtest measured nothing"),
        ({"create": "W1-C"}, "create: 1798 files, requested 2000, 1000 by each task"),
        ({"create": "f1-l2"}, "create: mdtest's output has 2 tables of rates"),
        ({"create": "fail-unlike-mpi"}, "create: 2 processes of mdtest ran, and each believed that it was alone"),
        ({"create": "phase-T"}, "create: mdtest did File stat 1 times, not File creation once"),
        ({"create": "fail-inodes-enospc"}, "No space left on device"),
    ],
)
def test_mdtest_that_did_not_do_as_asked(change, reason):
    outcome = metadata.read(mdtest_cell("main", **change))
    assert outcome.status == "failed"
    assert re.search(reason, outcome.why), outcome.why
