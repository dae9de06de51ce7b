"""The limits of a site: refused where they are wrong, and kept to by what is measured."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, cast

import pytest

from fsage.host.cells import allowed
from fsage.host.system.shell import run
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim, create
from fsage.model.declaration import complete
from fsage.model.errors import Failure, Refusal
from fsage.model.request import Cell, Phase
from fsage.model.target import Limits


def site(**given: Any) -> Limits:
    """The limits of a site, complete."""
    return complete({"limits": given})["limits"]


WRITE = cast(Phase, {"name": "write", "argv": []})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"bandwith_mib_s": 1}, "did you mean 'bandwidth_mib_s'"),
        ({"hours": "22-6"}, "hours such as 22:00-06:00"),
        ({"hours": "22:00-22:00"}, "hours such as 22:00-06:00"),
        ({"clients": 1.5}, r"limits\.clients is 1\.5"),
        ({"gib_a_day": 0}, r"limits\.gib_a_day is 0"),
    ],
)
def test_wrong_limits_are_refused(given: Any, says: str) -> None:
    with pytest.raises(Refusal, match=says):
        complete({"limits": given})


def test_fio_moves_no_more_than_its_share(tmp_path: Path) -> None:
    argv = ["fio", "--output-format=json", "--name=w", f"--directory={tmp_path}", "--rw=write", "--bs=256k"]
    argv += ["--size=4M", "--numjobs=2"]
    most = site(bandwidth_mib_s=8, operations_s=1000)
    kept = allowed.kept_to(most, argv, WRITE, clients=2)
    jobs = json.loads(run(kept).stdout)["jobs"]
    slowest_s = max(job["write"]["runtime"] for job in jobs) / 1000
    assert slowest_s > 0.8 * 4 / 2, "4 MiB at 2 MiB/s: a quarter of all, for 2 jobs on 2 clients"
    fewer = allowed.kept_to(site(bandwidth_mib_s=8, operations_s=4), argv, WRITE, clients=2)
    assert fewer[1] == "--rate_iops=1", "4 requests of 256 KiB are less than 8 MiB"
    assert allowed.kept_to(site(), argv, WRITE, 2) == argv
    with pytest.raises(Failure, match="mdtest of phase write cannot be kept to it: only fio"):
        allowed.kept_to(most, ["mdtest", "-n", "1"], WRITE, 1)


def test_a_cell_waits_for_the_hours_and_the_next_day(directory_target: dict[str, Any]) -> None:
    create.create(directory_target, {}, False)
    claim.claim(directory_target, {}, False)
    clock = [time.strftime("%H:%M", time.localtime(time.time() + hours * 3600)) for hours in (-2, -1, 1)]
    cell = cast(Cell, {"name": "one", "estimate_s": 60, "makes_bytes": 300 << 20})

    def begun(**given: Any) -> str | None:
        return allowed.why_not_now(open_target({**directory_target, "limits": given}), cell)

    assert "hours is" in str(begun(hours=f"{clock[0]}-{clock[1]}"))
    assert begun(hours=f"{clock[1]}-{clock[2]}", gib_a_day=0.5) is None
    assert "0.59 GiB would be written today" in str(begun(gib_a_day=0.5)), "the bytes of the cell before count"
    with pytest.raises(Refusal, match=r"names 3 clients, and fsage_target.limits\.clients is 2"):
        allowed.check_clients(site(clients=2), 3)
