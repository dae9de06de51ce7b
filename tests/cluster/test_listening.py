"""What listens on the hosts before, during and after a run: only what docs/background/security.md lists."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_project import SMALL, ClusterProject
from listeners import Listener, listeners
from project import MEASURE
from test_hosts import IN_ORDER, shared  # noqa: F401 - a fixture

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
    assert run.returncode == 0, shared.log()
    new = {(each.host, each.port, *each.programs) for each in during - before}
    assert not new, "somebody listened"
    assert listeners(shared.testbed) <= before
    assert codes and 0 not in codes and not (place / "as-root").exists(), "a stranger's job was run"
    records = [each for each in shared.records().values() if "by_host" in each["phases"][0]]
    assert records and all(sorted(record["phases"][0]["by_host"]) == sorted(IN_ORDER) for record in records)
    shared.write_study(**SMALL)
