"""Workloads: what they run, for real with fio; no observation of a run gone wrong becomes a number."""

import copy
import inspect
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from corpus import BY_NAME
from studies import blocks
from workload_cells import ALL, CLAIM, METADATA, SEQUENTIAL

from fsage import workloads
from fsage.base import MIB
from fsage.host.device import models
from fsage.model.declaration import device_model
from fsage.parse import BadOutput
from fsage.workloads import metadata, random_access, sequential, shared

RANDOM = {"workload": "random_access", "transfer_size": 4096, "iteration": 1}
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")


# The registry


def test_a_rate_that_no_report_takes_is_refused_when_the_study_is_read(monkeypatch, refused):
    monkeypatch.setattr(sequential, "rates", lambda params: ["appends_s"])
    said = refused(blocks())
    assert "rates() names 'appends_s', which no report takes" in said, said
    assert "ends in _bw_mib_s or _per_s, such as appends_per_s" in said, said


def test_workloads_are_found_by_name():
    names = workloads.names()
    assert {"sequential", "metadata", "netflow"} < set(names) and not [name for name in names if name.startswith("_")]
    for name in names:
        module = workloads.load(name)
        assert all(hasattr(module, part) for part in ("Params", "commands", "read", "seconds"))
        for part in (module.commands, module.seconds):  # as a request and a plan call them
            assert list(inspect.signature(part).parameters) == ["params", "claim", "steps"], name


def test_an_unknown_workload_is_refused():
    with pytest.raises(ValueError, match=r"'sequental': available are .*; did you mean 'sequential'\?"):
        workloads.load("sequental")
    with pytest.raises(ValueError, match="available are"):
        workloads.load("_shared")


# Commands


def commands(params, claim=CLAIM):
    """The phases of a cell of these parameters."""
    module = workloads.load(params["workload"])
    return module.commands(module.Params.model_validate(params), claim)


def arguments(params, claim=CLAIM):
    return [" ".join(phase["argv"]) for phase in commands(params, claim)]


def test_fio_writes_and_reads_in_processes_of_their_own():
    write, read = commands(SEQUENTIAL)
    assert (write["name"], write["reads"], read["name"], read["reads"]) == ("write", False, "read", True)
    assert write["argv"][:2] == ["fio", "--output-format=json"]  # before --name, or a banner precedes the JSON
    for option in ("--rw=write", "--directory=/m/0/measured:/m/1/measured", "--size=33554432", "--bs=4194304",
                   "--numjobs=2", "--direct=1", "--group_reporting", "--fallocate=none"):  # fmt: skip
        assert option in write["argv"]
    assert "--allow_file_create=0" in read["argv"]
    assert not any(word.startswith(("--loops", "--end_fsync")) for word in write["argv"] + read["argv"])


@pytest.mark.parametrize(
    ("change", "claim", "in_write", "in_read"),
    [
        ({"direct": False}, {}, "--direct=0", "--direct=0"),
        ({"direct": False}, {}, "--end_fsync=1", "--rw=read"),
        ({}, {"passes": 4}, "--loops=4", "--loops=4"),
        ({"passes": 3}, {"tools": ALL}, "--loops=3", "--loops=3"),  # IOR goes over a file once, so auto is fio
        ({}, {"tools": {**ALL, "ior": "IOR-4.1.0+dev"}}, " -b 33554432 -w -k --posix.odirect -o ", " --posix.odirect "),
        ({}, {"tools": {**ALL, "ior": "3.2.1"}}, " -w -k -B -o ", " -r -k -B -o "),
        ({"direct": False}, {"tools": ALL}, " -w -e -k -o ", " -r -k -o /m/0/measured/f@/m/1/measured/f"),
        ({"tool": "fio"}, {"tools": ALL}, "fio ", "fio "),
    ],
)
def test_options_follow_parameters_and_claim(change, claim, in_write, in_read):
    write, read = arguments({**SEQUENTIAL, **change}, {**CLAIM, **claim})
    assert in_write in write
    assert in_read in read


IOR_READ = "ior -v -F -t 4194304 -b 33554432 -r -k --posix.odirect -o /m/0/measured/f@/m/1/measured/f"
FOUR = {"hosts": ["c2", "c1", "c3", "c4"], "tasks": 16}


@pytest.mark.parametrize(
    ("claim", "launched"),
    [
        ({}, "mpirun --allow-run-as-root --oversubscribe -np 2"),
        ({"launcher": "srun"}, "srun --mpi=pmix --overlap --ntasks=2"),
        (
            {**FOUR, "launcher_options": ["--mca", "btl_tcp_if_include", "ib0"]},
            "mpirun --allow-run-as-root --oversubscribe --host c2:16,c1:16,c3:16,c4:16 --map-by slot "
            "--mca btl_tcp_if_include ib0 -np 64",
        ),
        (
            {**FOUR, "launcher_options": ["--map-by", "ppr:16:node"]},
            "mpirun --allow-run-as-root --oversubscribe --host c2:16,c1:16,c3:16,c4:16 --map-by ppr:16:node -np 64",
        ),
        ({**FOUR, "launcher": "mpich"}, "mpirun -hosts c2,c1,c3,c4 -ppn 16 -np 64"),
        (
            {**FOUR, "launcher": "srun", "launcher_options": ["--mpi=pmi2"]},
            "srun --mpi=pmix --overlap --nodes=4 --nodelist=c2,c1,c3,c4 --ntasks-per-node=16 --mpi=pmi2 --ntasks=64",
        ),
    ],
)
def test_ior_and_mdtest_are_launched_on_all_clients(claim, launched):
    claim = {**CLAIM, "tools": {**ALL, "srun": "22.05.8"}, **claim}
    write, read = arguments(SEQUENTIAL, claim)
    assert write.startswith(f"{launched} ior ") and read == f"{launched} {IOR_READ}"
    for line in arguments({**METADATA, "files_per_task": 5}, claim):
        assert line.startswith(f"{launched} mdtest ")
    nodes = len(claim.get("hosts", ["here"]))
    assert shared.launched(read.split()) == (nodes * claim["tasks"], nodes, claim["tasks"])


def test_each_client_runs_a_fio_of_its_own_which_is_told_its_job():
    write, read = commands(SEQUENTIAL, {**CLAIM, **FOUR})
    assert write["argv"] == read["argv"] == ["fio", "--output-format=json", "--eta=never", "-"]
    assert list(read["jobs"]) == FOUR["hosts"] and "files" not in read
    lines = read["jobs"]["c3"].splitlines()
    assert lines[0] == "[measured.c3]"
    assert {"rw=read", "numjobs=16", "directory=/m/0/measured:/m/1/measured", "size=33554432"} <= set(lines)


@pytest.mark.parametrize(
    ("cell", "claim", "reason"),
    [
        ({"transfer_size": 3 * MIB}, {}, "3145728 does not divide the 33554432 bytes .*: use a transfer_size that"),
        ({"tool": "ior"}, {"tools": ALL, "launcher": "srun"}, "needs srun, not found when the target was claimed"),
        ({}, {"tools": {"fio": None}}, "tool: auto needs fio, not found .*there are none"),
        ({"transfer_size": 0}, {}, "greater than 0"),
        ({"passes": 2, "tool": "ior"}, {"tools": ALL}, "passes: 2 needs fio"),
        ({}, {"stores": [{"mount": "/m:0"}]}, "/m:0/measured holds ':'"),
        ({}, {"stores": [{"mount": "/m@0"}], "tools": ALL}, "/m@0/measured holds '@'"),
        ({**METADATA, "files_per_task": 600}, {}, "600 for 2 tasks are 1200 files, the empty target has room for 1000"),
        ({**RANDOM, "transfers": 8193}, {}, "transfers: 8193 of 4096 bytes at different places need a larger file"),
        ({"phases": ["read", "write"]}, {}, r"allowed are \[write\], \[read\] and \[write, read\]"),
        ({**METADATA, "operations": ["stat", "create"]}, {}, "in this order"),
        ({**METADATA, "operations": ["remove"]}, {}, "allowed are create"),
    ],
)
def test_what_cannot_run_is_refused(cell, claim, reason):
    with pytest.raises(ValueError, match=reason):
        commands({**SEQUENTIAL, **cell} if "workload" not in cell else cell, {**CLAIM, **claim})


def test_metadata_commands():
    create, stat, remove = arguments(METADATA, {**CLAIM, "tools": ALL})
    assert create.endswith(" mdtest -n 50 -F -u -C -d /m/0/measured/many@/m/1/measured/many")
    assert " -T " in stat
    assert " -r " in remove


def test_estimates():
    for change, written, seconds in (({"passes": 2}, 128, 1 + 1 + 2), ({"phases": ["write"]}, 64, 1 + 0.5)):
        params = sequential.Params.model_validate({**SEQUENTIAL, **change})
        assert sequential.bytes_written(params, CLAIM) == written * MIB
        assert sequential.seconds(params, CLAIM) == pytest.approx(seconds)
    params = metadata.Params.model_validate(METADATA)
    assert workloads.bytes_of(params, CLAIM) == (0, 0), "its files are empty"
    assert 1 < metadata.seconds(params, CLAIM) < 2


# For real


def ran(phase):
    """What a host tells of a phase that it runs."""
    done = subprocess.run(phase["argv"], capture_output=True, text=True, errors="replace", check=False)
    return {
        "name": phase["name"],
        "argv": phase["argv"],
        "rc": done.returncode,
        "stdout": done.stdout,
        "stderr": done.stderr,
    }


def measure(params, tmp_path):
    """An observation as the agent makes it, of a run in this directory."""
    stores = [tmp_path / name for name in "ab"]
    for store in stores:
        (store / "measured").mkdir(parents=True)
    phases = []
    for phase in commands(params, {**CLAIM, "stores": [{"mount": str(store)} for store in stores]}):
        for folder in phase.get("folders", ()):
            Path(folder).mkdir(exist_ok=True)
        phases.append(ran(phase))
    return {"status": "done", "why": None, "params": params, "phases": phases}


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """A sequential cell, really measured."""
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    return measure({**SEQUENTIAL, "direct": False}, tmp_path_factory.mktemp("observed"))


def test_a_sequential_cell(observed):
    outcome = sequential.read(observed)
    assert (outcome.status, outcome.why) == ("valid", None)
    metrics = outcome.metrics
    named = ("bw_mib_s", "seconds", "bytes", "latency_p50_ms")
    assert sorted(metrics) == sorted(f"{phase}_{name}" for phase in ("write", "read") for name in named)
    assert metrics["write_bytes"] == metrics["read_bytes"] == 64 * MIB
    for phase in ("write", "read"):
        assert metrics[f"{phase}_bw_mib_s"] * metrics[f"{phase}_seconds"] == pytest.approx(64)


@needs_fio
def test_passes_and_reading_only(tmp_path):
    outcome = sequential.read(measure({**SEQUENTIAL, "phases": ["read"], "passes": 2}, tmp_path))
    assert outcome.status == "valid", outcome.why
    assert set(outcome.metrics) == {"read_bw_mib_s", "read_seconds", "read_bytes", "read_latency_p50_ms"}
    assert 0 < outcome.metrics["read_latency_p50_ms"] < 1000 * outcome.metrics["read_seconds"]
    assert outcome.metrics["read_bytes"] == 128 * MIB
    assert sorted(p.name for p in tmp_path.rglob("measured.*")) == ["measured.0.0", "measured.1.0"]


@needs_fio
def test_random_transfers_are_of_a_file_that_was_written_whole(tmp_path):
    outcome = random_access.read(measure({**RANDOM, "transfers": 50}, tmp_path))
    assert outcome.status == "valid", outcome.why
    assert outcome.metrics["write_bytes"] == outcome.metrics["read_bytes"] == 2 * 50 * 4096
    assert {"write_bw_mib_s", "read_bw_mib_s", "read_latency_p50_ms"} <= set(outcome.metrics)
    assert {path.stat().st_size for path in tmp_path.rglob("measured.*")} == {32 * MIB}


@needs_fio
def test_a_metadata_cell(tmp_path):
    observation = measure({**METADATA, "files_per_task": 300}, tmp_path)
    outcome = metadata.read(observation)
    assert outcome.status == "valid", outcome.why
    for operation in ("create", "stat", "remove"):
        assert outcome.metrics[f"{operation}_files"] == 600
        assert outcome.metrics[f"{operation}_per_s"] * outcome.metrics[f"{operation}_seconds"] == pytest.approx(600)
    assert list(tmp_path.rglob("measured.*")) == []
    observation["phases"][1] = ran(observation["phases"][1])  # of files that are not there any more
    outcome = metadata.read(observation)
    assert outcome.status == "failed"
    assert "err=2" in outcome.why  # fio cuts its own message at 128 characters


def test_rates_of_a_guest_follow_from_its_counts(observed):
    """Its seconds are no disk's: where the file lies decides alone, and one jump leads to it."""
    observation = copy.deepcopy(observed)
    observation["conditions"] = {"device_model": models.computed(device_model({})), "filesystem": "ext4"}
    observation["params"]["direct"] = True
    moved_bytes = 64 * MIB
    lies = {"files": 1, "bytes": moved_bytes, "extents": 3, "jumps": 2, "mean_position": 0.5}
    observation["phases"][0]["extents"] = lies
    found = sequential.read(observation).metrics
    requests = 64 + 2
    seconds = moved_bytes / 190e6 + requests * (1 / 20_000 - 4096 / 190e6) + 3 * (1 / 100 - 1 / 20_000)
    for phase in ("write", "read"):
        assert found[f"{phase}_seconds"] == pytest.approx(seconds)
        assert found[f"{phase}_bw_mib_s"] == pytest.approx(64 / seconds)
    lies["files"] = 2
    assert "is computed for one file" in sequential.read(observation).why


# Lies


def test_another_fio_or_blastn_than_the_claims(observed):
    """IOR and mdtest: tests/test_workloads_recorded.py."""
    outcome = sequential.read({**observed, "conditions": {"tools": {"fio": "9.99"}}})
    assert outcome.status == "failed"
    assert re.match(r"write: fio \S+ ran, and the target was claimed with fio 9\.99: put that one back", outcome.why)
    first = {"argv": ["blastn"], "stdout": "# BLASTN 2.12.0+\n"}
    for claimed in ({"blastn": "2.12.0+"}, {"blastn": None}, {}):
        shared.check_version(first, claimed)
    other = {"argv": ["mpirun", "-np", "1", "blastn"], "stdout": "# BLASTN 2.9.0+\n"}
    with pytest.raises(BadOutput, match=r"blastn 2\.9\.0\+ ran, and the target was claimed with blastn 2\.12\.0\+"):
        shared.check_version({**first, "beside": [other]}, {"blastn": "2.12.0+"})


FULL = BY_NAME["fio-3.33/fail-enospc-fallocate-none"]


@pytest.mark.parametrize(
    ("change", "of_write", "status", "reason"),
    [
        ({}, {"rc": 1}, "failed", "write: fio ended with code 1"),
        ({}, {"stdout": BY_NAME["fio-3.33/write-bs8m-nj1"].stdout}, "failed", "write: the output is not of this comm"),
        ({}, {"io_bytes": (67108864, 67104768)}, "failed", "write: moved 67104768 bytes of 67108864"),
        ({}, {"numjobs": ('"2"', '"1"')}, "failed", "--numjobs was 2, fio reports 1"),
        ({"status": "unsupported", "why": "no scheduler", "phases": []}, {}, "unsupported", "no scheduler"),
        ({"status": "failed", "why": "read: exit code 1", "phases": []}, {}, "failed", "read: exit code 1"),
        ({"status": "failed", "why": "the lease was lost"}, {}, "failed", "the lease was lost"),
        ({"phases": []}, {}, "failed", "phase write is missing; there are none"),
        ({"status": "odd"}, {}, "failed", "status is 'odd'"),
        ({"params": {**SEQUENTIAL, "transfer_size": 8 * MIB}}, {}, "failed", "ran with transfers of 4194304 bytes"),
        (
            {"status": "failed", "why": "write: exit code 1"},
            {"rc": FULL.rc, "stdout": FULL.stdout, "stderr": FULL.stderr},
            "failed",
            "write: fio ended with code 1: .*No space left on device",
        ),
    ],
)
def test_observations_that_are_no_samples(observed, change, of_write, status, reason):
    """`of_write`: what its phase has instead, or fio says in its output: a key's value, and another one."""
    write, read = observed["phases"]
    bent = dict(write)
    for key, value in of_write.items():
        if isinstance(value, tuple):
            old, new = (f'"{key}" : {number}' for number in value)
            assert old in write["stdout"]
            bent["stdout"] = write["stdout"].replace(old, new)
        else:
            bent[key] = value
    outcome = sequential.read({**observed, "phases": [bent, read], **change})
    assert (outcome.status, outcome.metrics) == (status, {})
    assert re.search(reason, outcome.why)
