"""Cells of IOR and mdtest, judged from recorded runs: they are not on every machine."""

import re

import pytest
from corpus import BY_NAME
from workload_cells import ALL, CLAIM, METADATA, SEQUENTIAL

from fsage import workloads
from fsage.parse import MIB
from fsage.workloads import metadata, sequential


def recorded(case_name, name, params, claim, **change):
    """A phase with a recorded output whose echo of the command line is that of our command."""
    case = BY_NAME[case_name]
    module = workloads.load(params["workload"])
    argv = next(p["argv"] for p in module.commands(params, claim) if p["name"] == name)
    ours = " ".join(argv[argv.index("ior") + 1 :]) if "ior" in argv else ""
    lines = [
        f"Command line        : /bin/ior {ours}" if line.startswith("Command line") and ours else line
        for line in case.stdout.splitlines()
    ]
    return {
        "name": name,
        "argv": argv,
        "rc": case.rc,
        "stderr": case.stderr,
        "stdout": "\n".join(lines),
        **change,
    }


def ior_cell(write="ior-3.3.0/w-only-nokeep", claim=CLAIM, **params):
    claim, params = {**claim, "tools": ALL}, {**SEQUENTIAL, "phases": ["write"], **params}
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
        (ior_cell("ior-3.3.0/multi-dir-at"), "write: 4 tasks of 33554432 bytes ran, not 2 of 33554432"),
        (ior_cell("ior-3.3.0/N2-of-4", {**CLAIM, "tasks": 4}), "write: 2 tasks"),
        (ior_cell("ior-3.3.0/exists-warning"), "IOR reports writes: 1, reads: 1, not one of them"),
        (ior_cell("ior-3.3.0/multiFile-m-i3-keep"), "IOR reports writes: 3"),
        (ior_cell(transfer_size=8 * MIB), "ran with transfers of 4194304 bytes, the cell's are 8388608"),
        (
            ior_cell("ior-3.3.0/D1-wearout-statusfile", {**CLAIM, "amount_mib": 600}, transfer_size=65536),
            "moved 92274688 bytes of 1258291200",
        ),
        (ior_cell("ior-main/fail-jsonfile-enospc"), "code 134: .*No space left on device"),
    ],
)
def test_ior_that_did_not_do_as_asked(cell, reason):
    outcome = sequential.read(cell)
    assert outcome.status == "failed"
    assert re.search(reason, outcome.why), outcome.why


def test_ior_of_another_command():
    cell = ior_cell()
    cell["phases"][0]["stdout"] = cell["phases"][0]["stdout"].replace(" --posix.odirect", "")
    assert "not of this command" in sequential.read(cell).why


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
@pytest.mark.parametrize("images", [None, "/images"])
def test_mdtest(version, create_per_s, images):
    outcome = metadata.read(mdtest_cell(version, images))
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
        ({"create": "fail-leftover-second-run"}, "create: .*unable to create tree directory"),
        ({"create": "fail-no-n"}, "create: mdtest measured nothing"),
        ({"create": "phase-T"}, "create: mdtest did File stat 1 times, not File creation once"),
        ({"create": "C-T-r"}, "File creation, File stat, File removal 3 times"),
        ({"create": "fail-inodes-enospc"}, "No space left on device"),
    ],
)
def test_mdtest_that_did_not_do_as_asked(change, reason):
    outcome = metadata.read(mdtest_cell("main", **change))
    assert outcome.status == "failed"
    assert re.search(reason, outcome.why), outcome.why


def test_mdtest_with_fewer_files():
    cell = mdtest_cell("main")
    cell["phases"][0]["stdout"] = cell["phases"][0]["stdout"].replace("2 tasks, 2000 files", "2 tasks, 1000 files")
    assert "create: 1000 files, with 2000 asked for" in metadata.read(cell).why
