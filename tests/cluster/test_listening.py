"""What listens on the hosts before, during and after a run: only what docs/background/security.md lists."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_project import ClusterProject
from listeners import Listener, listeners
from project import MEASURE
from striped import netflow_phases
from test_hosts import IN_ORDER, SMALL, shared  # noqa: F401 - a fixture

from fsage import workloads
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
    new = {(each.host, each.port, *each.programs) for each in during - before}
    assert not new, "somebody listened"
    assert listeners(shared.testbed) <= before
    assert codes and 0 not in codes and not (place / "as-root").exists(), "a stranger's job was run"
    records = [each for each in shared.records().values() if "by_host" in each["phases"][0]]
    assert records and all(sorted(record["phases"][0]["by_host"]) == sorted(IN_ORDER) for record in records)
    shared.write_study(**SMALL)


LAUNCHER = """
import json, sys
from contextlib import closing
from fsage.host.remote.remote_hosts import Hosts
from fsage.host.targets.opening import open_target
spec, hosts, phases = json.load(sys.stdin)
target = open_target(spec)
(target.mounts[0] / "measured").mkdir(exist_ok=True)  # where no test has claimed it yet
with closing(Hosts(target.spec, target.claim, hosts)) as others:
    for phase in phases:
        print(json.dumps({**phase, **others.together(phase, target, others.alive)}))
"""


@pytest.mark.long
def test_nothing_listens_while_netflows_tasks_on_three_clients_share_their_work(
    shared: ClusterProject,  # noqa: F811
    place: Path,
) -> None:
    assert shared.testbed
    netflow, before, during = workloads.load("netflow"), listeners(shared.testbed), set[Listener]()
    phases = [{**phase, "timeout_s": 60.0} for phase in netflow_phases(str(place), IN_ORDER, 2)]
    clients = [{"name": name, "python": sys.executable, "local": False} for name in IN_ORDER]
    program = ["env", f"PYTHONPATH={PACKAGE.parent}", sys.executable, "-c", LAUNCHER]
    there = shared.testbed.inside("ssh", "n2", shlex.join(program))
    (place / "phases").write_text(json.dumps([shared.spec, {"clients": clients, "servers": []}, phases]))
    with (
        (place / "phases").open() as given,
        subprocess.Popen(there, stdin=given, stdout=subprocess.PIPE, text=True) as run,
    ):
        assert run.stdout
        while run.poll() is None:
            during |= listeners(shared.testbed)
        made, index, models = (netflow._result(json.loads(line)) for line in run.stdout)
    assert run.returncode == 0
    assert (index.tasks, index.shares, index.records, index.checksum) == (6, 16, made.records, made.checksum)
    assert (models.records, models.checksum) == (made.read_records, made.read_checksum)
    assert during and not {(each.host, each.port, *each.programs) for each in during - before}, "somebody listened"
