"""A cell that makes others suffer is stopped: on a disk that charges for seeks, which a probe shares with it."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from local_targets import claimed
from test_hosts_together import fios
from test_measure import asked, observed

from fsage.host.cells import measure, probe
from fsage.host.claiming import calibrate
from fsage.host.device import seek
from fsage.host.states import state
from fsage.host.verbs import claim, create
from fsage.model import MIB, stop_if, typed
from fsage.model.answers import Busy
from fsage.model.declaration import complete
from fsage.model.errors import Failure, Refusal

LOAD_S = 900
ON_LUSTRE = {"name": "a", "kind": "lustre", "directory": "/mnt/a", "lustre": {"fsname": "a", "mgs": "10.0.0.1@tcp"}}
OTHER = """
import mmap, os, sys, time
with open(sys.argv[1], "wb") as file:
    file.write(os.urandom(1 << 20))
    os.fsync(file.fileno())
buffer, file = mmap.mmap(-1, 1 << 16), os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
with open(sys.argv[2], "w", buffering=1) as out:
    while True:
        began = time.monotonic()
        os.preadv(file, [buffer], 0)
        print(began, 1000 * (time.monotonic() - began), file=out)
        time.sleep(0.05)
"""
"""A process of others: it notes when it read 64 KiB, and how many ms that took."""


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize(("then", "clients"), [("wait", 1), ("end", 1), ("wait", 2)])
def test_a_cell_beside_which_others_suffer_is_stopped(
    then: str, clients: int, local_target: dict, tmp_path: Path, monkeypatch
):
    """Random reads, 32 at a time, on a disk where each costs 4 ms: who reads beside them waits for all of these.

    A process that has nothing to do with fsage reads there all the time.
    """
    if why := seek.Seek.unavailable_because({}):
        pytest.skip(why)
    monkeypatch.setattr(calibrate, "BACKING_MIB", 64)
    monkeypatch.setattr(probe, "EVERY_S", 0.3)
    disk = claimed({**local_target, "device_model": {"kind": "seek", "bytes_per_s": 100 * MIB, "seek_s": 0.004}})
    limits = {"slower": 2, "in_a_row": 3, "then": then, "wait_minutes": 1}
    guest = {"name": f"{local_target['name']}-g", "kind": "directory", "directory": str(disk.mounts[0] / "guest")}
    spec = {**guest, "home": str(tmp_path / "guest"), "budget_gib": 0.5, "amount_mib": 32, "stop_if": limits}
    hosts = {"clients": [{"name": "n1"}, {"name": "n2", "python": sys.executable, "local": True}][:clients]}
    create.create(spec, {"hosts": hosts}, False)
    claim.claim(spec, {"hosts": hosts}, False)
    request = asked([]) | {"steps": [], "hosts": hosts}
    state.scrub(spec, request, False)
    fio = ["fio", "--name=load", "--rw=randread", "--bs=4k", "--size=64m", "--direct=1", "--ioengine=libaio"]
    load = [*fio, "--iodepth=32", "--time_based", f"--runtime={LOAD_S}", f"--directory={guest['directory']}/measured"]
    job = "\n".join([*(word.removeprefix("--") for word in load[2:]), ""])
    both = {"argv": ["fio", "-"], "jobs": {name: f"[{name}]\n{job}" for name in ("n1", "n2")}}
    heavy = {"argv": load} if clients == 1 else both
    same = {"kind": "planned", "order": 1, "attempt": 1, "params": {}}
    cells = [
        {**same, "name": name, "phases": [{"name": "load", **phase}]}
        for name, phase in {"heavy": heavy, "light": {"argv": ["true"]}}.items()
    ]
    other = tmp_path / "other"
    with subprocess.Popen([sys.executable, "-c", OTHER, disk.mounts[0] / "other", other]) as process:
        began = time.monotonic()
        answer = measure.measure(spec, {**request, "cells": cells}, False)
        ended = time.monotonic()
        time.sleep(2)
        process.terminate()
    assert ended - began < LOAD_S and fios(spec) == [], "no client goes on"
    reads = [tuple(map(float, line.split())) for line in other.read_text().splitlines()]
    amid = sorted(ms for at, ms in reads if began < at < ended)
    after = sorted(ms for at, ms in reads if at > ended + 0.5)
    assert amid[len(amid) * 99 // 100] > 2 * after[len(after) * 99 // 100], "the other process suffered, until then"
    seen, _ = observed(spec, "heavy")
    assert seen["status"] == "stopped" and seen["why"].startswith("stop_if: others suffer: the probe (")
    taken = [sample["read"] for sample in seen["probe"]["taken"]]
    assert max(taken) > seen["probe"]["limits_ms"]["read"] == pytest.approx(2 * seen["probe"]["usual_ms"]["read"])
    assert not list(Path(guest["directory"], "measured").iterdir()), "the files of the cell are removed"
    assert not Path(guest["directory"], ".fsage/probe").exists()
    if then == "wait":
        assert observed(spec, "light")[0]["status"] == "done" and (answer["measured"], answer["stopped"]) == (2, None)
    else:
        assert (answer["measured"], answer["remaining"]) == (1, 1)
        assert answer["stopped"] == f"{seen['why']}; the same command resumes"
    create.remove(spec, {}, False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"slower": 1}, "stop_if.slower is 1: more than 1, or null, is wanted"),
        ({"slower": None}, "stop_if has no limit: give slower, stat_ms, read_ms, server_load or server_ms"),
        ({"faster": 2}, "stop_if has no key 'faster'; did you mean .* Known: slower, stat_ms"),
        ({"then": "stop"}, "stop_if.then is 'stop': end or wait is wanted"),
        ({"server_ms": 5}, "stop_if.server_ms is of Lustre's OSTs: give read_ms, or server_load"),
        ({"stat_ms": -1}, "stop_if.stat_ms is -1: a positive number is wanted"),
    ],
)
def test_a_wrong_limit_is_refused(given: dict, why: str) -> None:
    with pytest.raises(Refusal, match=why.replace("(", r"\(")):
        complete({"name": "a", "kind": "directory", "stop_if": given})


def test_a_limit_is_the_smaller_of_both_and_of_others_alone() -> None:
    given = complete({"name": "a", "kind": "directory", "stop_if": {"slower": 3, "read_ms": 20}})["stop_if"]
    assert stop_if.limits(given, {"stat": 1.0, "read": 10.0}) == {"stat": 3.0, "read": 20}
    with pytest.raises(Refusal, match="nobody else uses a target of kind loop"):
        complete({"name": "a", "kind": "loop", "stop_if": {}})


class Site:
    """Servers of which each answer is the next of those given."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = iter(answers)

    def ask_servers(self, **what: object) -> dict[str, Any]:
        assert what["do"] == "busy"
        return {"oss1": typed.read(Busy, next(self.answers))}


def load(of: float) -> dict[str, Any]:
    return {"load": of, "requests": {}}


def done(**requests: list[int]) -> dict[str, Any]:
    return {"load": 1.0, "requests": requests}


@pytest.mark.parametrize(
    ("limit", "answers", "why", "seen"),
    [
        (
            {"server_load": 4},
            [load(9), load(9), load(0.5), load(6), load(5), load(4.5)],
            "the load of a server was 6.0, 5.0, 4.5, and the limit is 4",
            [0.5, 6, 5, 4.5],
        ),
        (
            {"server_ms": 20, "in_a_row": 2},
            [
                done(a=[7, 7], b=[0, 0]),
                done(a=[10, 1_000_000], b=[0, 0]),
                done(a=[20, 1_100_000], b=[1, 500]),  # 10 ms each on a
                done(a=[20, 1_100_000], b=[2, 30_500]),  # 30 ms on b
                done(a=[40, 1_600_000], b=[2, 30_500]),  # 25 ms on a
            ],
            "in ms, a request of an OST took 30.0, 25.0, and the limit is 20",
            [10, 30, 25],
        ),
    ],
)
def test_a_server_that_has_too_much_to_do_ends_a_cell(
    limit: dict, answers: list, why: str, seen: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers as host agents give them: a server's load, or what its OSTs have counted."""
    monkeypatch.setattr(probe, "EVERY_S", 0.01)
    monkeypatch.setattr(probe, "QUIET", 2)
    (tmp_path / ".fsage").mkdir()
    target: Any = SimpleNamespace(mounts=[tmp_path])
    given: Any = complete({**ON_LUSTRE, "stop_if": {"slower": None, **limit}})["stop_if"]
    name = next(iter(limit))
    nobody: Any = SimpleNamespace(ask_servers=lambda **_: {})
    with pytest.raises(Failure, match=rf"stop_if\.{name}: the inventory names no servers"):
        probe.Probe(target, given, nobody)
    beside = probe.Probe(target, given, Site(*answers))
    with contextlib.closing(beside):
        beside.begin()
        with pytest.raises(probe.Stopped, match=re.escape(why)):
            while True:
                beside.check()
        assert [taken[name] for taken in beside.end()["servers"]] == seen


def test_a_server_without_counters_of_osts_is_refused(tmp_path: Path) -> None:
    given: Any = complete({**ON_LUSTRE, "stop_if": {"server_ms": 5}})["stop_if"]
    with pytest.raises(Failure, match=r"stop_if\.server_ms: no server has counters of OSTs"):
        probe.Busy(Site(load(1)), given)
