"""PaF cells by every version of IOR and mdtest with both MPIs on one host; whatever goes wrong is a failed cell."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from builds import Build
from cells import METADATA, MIB, SEQUENTIAL, Bench, meanwhile

from fsage import parse

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(600)]
LAUNCHERS = ("orterun", "mpirun", "mpiexec.hydra", "prterun")
LONG = {"transfer_size": 4096}  # of a cell that is disturbed while it runs


@pytest.fixture
def bench(build: Build, local_target: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A target that was claimed where this build is what there is."""
    monkeypatch.setenv("PATH", f"{build.programs(tmp_path / 'bin')}:/usr/sbin:/usr/bin:/sbin:/bin")
    local_target.update(launcher=build.mpi, scale={"file_size": 0.125, "tasks": 2})
    return Bench(local_target, tmp_path)


def test_cells_are_valid_and_say_what_ran(build: Build, bench: Bench) -> None:
    cells = [
        bench.cell("direct", SEQUENTIAL),
        bench.cell("cached", SEQUENTIAL, direct=False),
        bench.cell("odd", SEQUENTIAL, transfer_size=192 << 10, amount_percent=7.3),
    ]
    if "mdtest" in build.tools:
        cells.append(bench.cell("metadata", METADATA))
    records = bench.records(*cells)
    assert {name: record["why"] for name, record in records.items()} == dict.fromkeys(records)
    for name in ("direct", "cached"):
        assert records[name]["metrics"]["write_bytes"] == records[name]["metrics"]["read_bytes"] == 2 * 64 * MIB
    moved = records["odd"]["metrics"]["write_bytes"]
    assert moved % (2 * (192 << 10)) == 0 and moved * 10 % MIB, "an amount that IOR prints rounded"
    assert moved == records["odd"]["metrics"]["read_bytes"]
    for operation in ("create", "stat", "remove") if "mdtest" in build.tools else ():
        assert records["metadata"]["metrics"][f"{operation}_files"] == 200
    version = build.name.rpartition("-")[0]
    assert re.match(version if version != "main" else r"4\.\d", bench.claim["tools"]["ior"])


def tells(build: Build, pattern: str, why: str) -> bool:
    """Whether a cell's reason is the one expected; on a busy machine MPICH's launcher loses a task's last words."""
    return bool(re.match(pattern, why)) or (build.mpi == "mpich" and why.endswith(parse.SILENT))


def why_of(record: dict) -> str:
    return str(record["why"] or record["status"])


def test_whatever_goes_wrong_is_a_failed_cell_with_a_sentence(build: Build, bench: Bench) -> None:
    cells = {
        "full": bench.cell("full", SEQUENTIAL, {"amount_mib": 640}),
        "killed": bench.cell("killed", SEQUENTIAL, {"amount_mib": 256}, **LONG),
        "ended": bench.cell("ended", SEQUENTIAL, {"amount_mib": 256}, **LONG),
    }
    whys = {"full": why_of(*bench.records(cells["full"]).values())}
    signals = {"killed": (("ior",), signal.SIGKILL), "ended": (LAUNCHERS, signal.SIGTERM)}
    if "mdtest" in build.tools:
        without = {"free_inodes_empty": None}
        inodes = bench.cell("inodes", METADATA, without, files_per_task=40_000)
        whys["inodes"] = why_of(*bench.records(inodes).values())
        cells["many"] = bench.cell("many", METADATA, without, files_per_task=25_000)
        signals["many"] = (("mdtest",), signal.SIGKILL)
    for name, (programs, number) in signals.items():
        whys[name] = why_of(*meanwhile(programs, number, lambda cell=cells[name]: bench.records(cell)).values())
    killed = "([Ss]ignal 9|KILLED|Killed|EXIT CODE: 9)"
    patterns = {
        "full": "write: IOR ended with code .*No space left on device",
        "killed": f"write: IOR ended with code .*{killed}",
        # MPICH's ends with code 0 at times
        "ended": "write: IOR('s output lacks its last line| ended with code .*(without a word|Terminated))",
        "inodes": "create: mdtest ended with code .*No space left on device",
        "many": f"(create|stat|remove): mdtest ended with code .*{killed}",
    }
    for name, why in whys.items():
        assert tells(build, patterns[name], why), (name, why)


@pytest.mark.mpi("openmpi")
def test_a_harmless_warning_of_open_mpi_is_on_record(build: Build, bench: Bench, tmp_path: Path) -> None:
    """Tasks that cannot look into each other's memory, as in containers."""
    ior = tmp_path / "bin/ior"
    ior.unlink()
    ior.write_text(f'#!/bin/sh\nexec unshare --user --map-root-user {build.folder}/bin/ior "$@"\n')
    ior.chmod(0o755)
    (record,) = bench.records(bench.cell("warned", SEQUENTIAL)).values()
    assert (record["status"], record["why"]) == ("valid", None)
    for phase in record["phases"]:
        # Open MPI gathers it from all tasks, and sometimes loses it on the way.
        assert any("vader_single_copy_mechanism CMA is" in line or "show_help" in line for line in phase["warnings"])
