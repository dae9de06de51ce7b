"""A cell that makes others suffer is stopped: on a disk that charges for seeks, which a probe shares with it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from local_targets import claimed
from test_measure import asked, observed

from fsage.host.cells import measure, probe
from fsage.host.claiming import calibrate
from fsage.host.device import seek
from fsage.host.states import state
from fsage.host.verbs import claim, create
from fsage.model import MIB, stop_if
from fsage.model.declaration import complete
from fsage.model.errors import Refusal

LOAD_S = 900


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("then", ["wait", "end"])
def test_a_cell_beside_which_others_suffer_is_stopped(then: str, local_target: dict, tmp_path: Path, monkeypatch):
    """Random reads, 32 at a time, on a disk where each costs 4 ms: who reads beside them waits for all of these."""
    if why := seek.Seek.unavailable_because({}):
        pytest.skip(why)
    monkeypatch.setattr(calibrate, "BACKING_MIB", 64)
    monkeypatch.setattr(probe, "EVERY_S", 0.3)
    disk = claimed({**local_target, "device_model": {"kind": "seek", "bytes_per_s": 100 * MIB, "seek_s": 0.004}})
    limits = {"slower": 2, "in_a_row": 3, "then": then, "wait_minutes": 1}
    guest = {"name": f"{local_target['name']}-g", "kind": "directory", "directory": str(disk.mounts[0] / "guest")}
    spec = {**guest, "home": str(tmp_path / "guest"), "budget_gib": 0.5, "amount_mib": 64, "stop_if": limits}
    create.create(spec, {}, False)
    claim.claim(spec, {}, False)
    request = asked([]) | {"steps": []}
    state.scrub(spec, request, False)
    fio = ["fio", "--name=load", "--rw=randread", "--bs=4k", "--size=64m", "--direct=1", "--ioengine=libaio"]
    load = [*fio, "--iodepth=32", "--time_based", f"--runtime={LOAD_S}", f"--directory={guest['directory']}/measured"]
    names = {"heavy": load, "light": ["true"]}
    cells = [
        {
            "name": name,
            "kind": "planned",
            "order": 1,
            "attempt": 1,
            "params": {},
            "phases": [{"name": "load", "argv": argv}],
        }
        for name, argv in names.items()
    ]
    began = time.monotonic()
    answer = measure.measure(spec, {**request, "cells": cells}, False)
    assert time.monotonic() - began < LOAD_S
    seen, _ = observed(spec, "heavy")
    assert seen["status"] == "stopped" and seen["why"].startswith("stop_if: others suffer: the last 3 probes (")
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
        ({"slower": None}, "stop_if has no limit: give slower, stat_ms or read_ms"),
        ({"faster": 2}, "stop_if has no key 'faster'; did you mean .* Known: slower, stat_ms"),
        ({"then": "stop"}, "stop_if.then is 'stop': end or wait is wanted"),
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
