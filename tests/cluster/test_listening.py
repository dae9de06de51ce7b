"""What listens on the hosts before, during and after a run: nothing of ours but what docs/security.md lists."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_project import ClusterProject
from listeners import Listener, listed, listeners
from project import MEASURE
from test_hosts import IN_ORDER, SMALL, shared  # noqa: F401 - a fixture
from testbed import NETWORK, Testbed

from fsage import workloads
from fsage.host.netflow.greeting import KEY
from fsage.host.system.library import PACKAGE

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]
ATTACK = """\
[global]
exec_prerun=touch {place}/as-root
[job]
ioengine=null
size=1m
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that all hosts share and everybody may write to."""
    with tempfile.TemporaryDirectory(prefix="fsage-test-", dir="/var/tmp") as made:
        Path(made).chmod(0o777)
        yield Path(made)


@pytest.mark.long
def test_nothing_listens_while_fio_is_at_work_on_three_clients_and_nobody_can_give_it_a_job(
    shared: ClusterProject,  # noqa: F811
    place: Path,
) -> None:
    assert shared.testbed
    shared.write_study(**{**SMALL, "cells__iterations": 8})
    (place / "job").write_text(ATTACK.format(place=place))
    job = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "timeout", "2", "fio"]
    before, during, codes = listeners(shared.testbed), set[Listener](), list[int]()
    run = shared.start("snakemake", *MEASURE)
    while run.poll() is None:
        time.sleep(0.1)
        during |= listeners(shared.testbed)
        if len(codes) < 6 and list((shared.home / "outbox").rglob("*.json")):
            client = f"--client={IN_ORDER[len(codes) % 3]}"
            attack = shared.testbed.inside("ip", "netns", "exec", "n4", *job, client, place / "job")
            codes.append(subprocess.run(attack, capture_output=True).returncode)
    assert run.returncode == 0, (shared.root / "started.log").read_text()
    new = {(one.host, one.port, *one.programs) for one in during - before}
    assert not new, "somebody listened"
    assert listeners(shared.testbed) <= before
    assert codes and 0 not in codes and not (place / "as-root").exists(), "a stranger's job was run"
    records = [one for one in shared.records().values() if "by_host" in one["phases"][0]]
    assert records and all(sorted(one["phases"][0]["by_host"]) == sorted(IN_ORDER) for one in records)
    shared.write_study(**SMALL)


@pytest.mark.long  # it looks while tasks come, and wants a machine for itself
@pytest.mark.parametrize("launcher", ["openmpi", "mpich"])
def test_a_netflow_phase_listens_where_the_other_clients_reach_it_until_they_have(
    testbed: Testbed, place: Path, launcher: str
) -> None:
    netflow = workloads.load("netflow")
    claim = {"hosts": IN_ORDER, "tasks": 2, "launcher": launcher, "tools": {"mpirun": "some"}, "stores": [{}]}
    task = {
        **{"distribution": "asynchronous", "tasks": 6, "seed": 5, "models": 64, "models_read": 9, "direct": False},
        **{"block_bytes": 65536, "transfer_bytes": 1 << 20, "segment_bytes": 1 << 20, "towards": "n1"},
        **{"segments": [[0, 64 << 20, 1, 64 << 20, 0]], "paths": [f"{place}/object0"], "index": str(place)},
    }
    start = netflow._launcher(claim)
    start[0] = {"openmpi": "mpirun", "mpich": "mpiexec.hydra"}[launcher]  # where both are installed
    before, during, keys, commands, found = listeners(testbed), set[Listener](), set[bytes](), set[bytes](), {}
    for phase in netflow.PHASES:
        (place / "task.json").write_text(json.dumps({**task, "phase": phase}))
        program = [sys.executable, "-S", "-m", "fsage.host.netflow", f"{place}/task.json"]
        there = testbed.inside("ssh", "n2", shlex.join(["env", f"PYTHONPATH={PACKAGE.parent}", *program, *start]))
        with subprocess.Popen(there, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            while run.poll() is None:
                during |= listeners(testbed)
                look_for_keys(keys, commands)
            out, said = run.communicate()
            assert run.returncode == 0, said
        found[phase] = json.loads(out)
        assert found[phase]["hosts"] == dict.fromkeys(IN_ORDER, 2)
    assert (found["index"]["records"], found["index"]["checksum"]) == tuple(
        found["generate"][name] for name in ("records", "checksum")
    )
    assert found["models"]["checksum"] == found["generate"]["read_checksum"]
    new, allowed = during - before, listed()
    assert new and not [one for one in new if not one.programs & allowed.keys()]
    ours = {one for one in new if one.programs == {"python"}}
    assert {(one.host, one.address) for one in ours} <= {("n2", f"{NETWORK}.2")}, ours
    assert listeners(testbed) <= before
    assert len(keys) == 3, "each phase has one of its own"
    assert not [one for one in commands for key in keys if key in one], "a key is on a command line"


def look_for_keys(keys: set[bytes], commands: set[bytes]) -> None:
    """Note the keys of phases in the environments of all processes, and everybody's command line."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            keys |= set(re.findall(rb"%s=(\w{64})" % KEY.encode(), (process / "environ").read_bytes()))
            commands.add((process / "cmdline").read_bytes())
        except OSError:
            continue
