"""PaF cells by every version of IOR and mdtest with both MPIs on one host; whatever goes wrong is a failed cell."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from builds import Build, builds
from cells import METADATA, MIB, SEQUENTIAL, Bench, between, meanwhile

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


def test_whatever_goes_wrong_with_ior_is_a_failed_cell_with_a_sentence(build: Build, bench: Bench) -> None:
    whys = {
        name: record["why"] if record["status"] == "failed" else record["status"]
        for name, record in bench.records(
            bench.cell("full", SEQUENTIAL, {"amount_mib": 640}),
            between(bench.cell("cut", SEQUENTIAL), "write", "truncate", "-s", "1M", bench.measured("f.00000001")),
            between(bench.cell("gone", SEQUENTIAL), "write", "rm", bench.measured("f.00000000")),
        ).items()
    }
    for name, programs, number in (
        ("killed", ("ior",), signal.SIGKILL),
        ("ended", LAUNCHERS, signal.SIGTERM),
        ("interrupted", LAUNCHERS, signal.SIGINT),
    ):
        cell = bench.cell(name, SEQUENTIAL, {"amount_mib": 256}, **LONG)
        (record,) = meanwhile(programs, number, lambda cell=cell: bench.records(cell)).values()
        whys[name] = record["why"] if record["status"] == "failed" else record["status"]
    print("\n".join(f"{build.name} {name}: {why}" for name, why in whys.items()))
    for name, pattern in {
        "full": "write: IOR ended with code .*No space left on device",
        "cut": "read: IOR ended with code .*(EOF|read)",
        "gone": "read: IOR ended with code .*No such file or directory",
        "killed": "write: IOR ended with code .*([Ss]ignal 9|KILLED|Killed|EXIT CODE: 9)",
        # MPICH's ends with code 0 at times
        "ended": "write: IOR('s output lacks its last line| ended with code .*(without a word|Terminated))",
        "interrupted": "write: IOR ended with code .*(without a word|[Ss]ignal 2|Ctrl-C)",
    }.items():
        assert tells(build, pattern, whys[name]), (name, whys[name])


def test_whatever_goes_wrong_with_mdtest_is_a_failed_cell_with_a_sentence(build: Build, bench: Bench) -> None:
    if "mdtest" not in build.tools:
        pytest.skip(f"{build.name} has no mdtest")
    cells = [
        bench.cell("inodes", METADATA, {"free_inodes_empty": None}, files_per_task=40_000),
        between(
            bench.cell("one_less", METADATA),
            "create",
            *("sh", "-c", f"rm $(find {bench.measured('many')} -type f | sort | tail -1)"),
        ),
        between(bench.cell("one_more", METADATA), "create", "touch", bench.measured("many/other")),
    ]
    whys = {name: record["why"] or record["status"] for name, record in bench.records(*cells).items()}
    cell = bench.cell("killed", METADATA, {"free_inodes_empty": None}, files_per_task=25_000)
    (record,) = meanwhile(("mdtest",), signal.SIGKILL, lambda: bench.records(cell)).values()
    whys["killed"] = record["why"] or record["status"]
    print("\n".join(f"{build.name} {name}: {why}" for name, why in whys.items()))
    assert whys.pop("one_more") == "valid", "what is not the cell's own is not its business"
    for name, pattern in {
        "inodes": "create: mdtest ended with code .*No space left on device",
        "one_less": "stat: mdtest ended with code .*([Uu]nable to stat|No such file)",
        "killed": "(create|stat|remove): mdtest ended with code .*([Ss]ignal 9|KILLED|Killed|EXIT CODE: 9)",
    }.items():
        assert tells(build, pattern, whys[name]), (name, whys[name])


def test_another_build_than_the_claims_and_another_mpi_fail_a_cell(
    build: Build, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [other for other in builds() if other.mpi == build.mpi and other.name != build.name]
    other = next(each for each in reversed(others) if each.tools == ["ior", "mdtest"])
    monkeypatch.setenv("PATH", f"{other.programs(tmp_path / 'other')}:/usr/sbin:/usr/bin:/sbin:/bin")
    old_options = bench.claim["tools"]["ior"].startswith(("3.0", "3.2"))
    records = bench.records(bench.cell("other", SEQUENTIAL, direct=not old_options))
    assert re.match(
        r"write: ior 4\S+ ran, and the target was claimed with ior \S+: put that one back", records["other"]["why"]
    ) or build.name.startswith("main"), records["other"]["why"]
    unlike = {"openmpi": "mpich", "mpich": "openmpi"}[build.mpi]
    monkeypatch.setenv("PATH", f"{build.programs(tmp_path / 'unlike', unlike)}:/usr/sbin:/usr/bin:/sbin:/bin")
    (record,) = bench.records(bench.cell("unlike", SEQUENTIAL, {"launcher": unlike})).values()
    assert re.match("write: 2 processes of IOR ran, and each believed that it was alone. ", record["why"])


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
