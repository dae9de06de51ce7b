"""A cell that makes others suffer is stopped: on a disk that charges for seeks, which a probe shares with it."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from local_targets import claimed
from measuring import STEPS, asked, observed
from test_hosts_together import fios

from fsage.base import MIB, Failure, Refusal, typed
from fsage.host import claiming, instruments, states
from fsage.host.cells import measure
from fsage.host.instruments import Instrument, Instruments, Stopped, Visit
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.model import limits
from fsage.model.answers import Busy
from fsage.model.declaration import complete
from fsage.studies.neighbours.instruments import limits as of_site
from fsage.studies.neighbours.instruments import neighbours, probe
from fsage.studies.slowdisk.host import seek

LOAD_S = 900
ON_LUSTRE = {"name": "a", "kind": "lustre", "directory": "/mnt/a", "lustre": {"fsname": "a", "mgs": "10.0.0.1@tcp"}}


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("then", ["wait", "end"])
def test_a_cell_beside_which_others_suffer_is_stopped(then: str, local_target: dict, tmp_path: Path, monkeypatch):
    """Random reads of two clients, 32 at a time, on a disk where each costs 4 ms: who reads beside them waits."""
    if why := seek.Seek.unavailable_because({}):
        pytest.skip(why)
    monkeypatch.setattr(claiming, "BACKING_MIB", 64)
    monkeypatch.setattr(neighbours, "PROBE_EVERY_S", 0.3)
    disk = claimed({**local_target, "device_model": {"kind": "seek", "bytes_per_s": 100 * MIB, "seek_s": 0.004}})
    limits = {"slower": 2, "in_a_row": 3, "then": then, "wait_minutes": 1}
    guest = {"name": f"{local_target['name']}-g", "kind": "directory", "directory": str(disk.mounts[0] / "guest")}
    spec = {**guest, "home": str(tmp_path / "guest"), "budget_gib": 0.5, "amount_mib": 32, "stop_if": limits}
    hosts = {"clients": [{"name": "n1"}, {"name": "n2", "python": sys.executable, "local": True}]}
    claim.create(spec, {"hosts": hosts}, False)
    claim.claim({**spec, "stop_if": None}, {"hosts": hosts}, False)
    request = asked([]) | {"steps": [], "hosts": hosts}
    states.scrub(spec, request, False)
    fio = ["fio", "--name=load", "--rw=randread", "--bs=4k", "--size=64m", "--direct=1", "--ioengine=libaio"]
    load = [*fio, "--iodepth=32", "--time_based", f"--runtime={LOAD_S}", f"--directory={guest['directory']}/measured"]
    job = "\n".join([*(word.removeprefix("--") for word in load[2:]), ""])
    both = cells("heavy", "light", argv=("true",))
    jobs = {name: f"[{name}]\n{job}" for name in ("n1", "n2")}
    both[0]["phases"] = [{"name": "load", "argv": ["fio", "-"], "jobs": jobs}]
    began = time.monotonic()
    answer = measure.measure(spec, {**request, "cells": both}, False)
    assert time.monotonic() - began < LOAD_S and fios(spec) == [], "no client goes on"
    seen, _ = observed(spec, "heavy")
    assert seen["status"] == "stopped" and seen["why"].startswith("stop_if: others suffer: the probe (")
    taken = [sample["read"] for sample in seen["probe"]["taken"]]
    assert max(taken) > seen["probe"]["limits_ms"]["read"] == pytest.approx(2 * seen["probe"]["usual_ms"]["read"])
    assert not list(Path(guest["directory"], "measured").iterdir()), "the files of the cell are removed"
    if then == "wait":
        assert observed(spec, "light")[0]["status"] == "done" and (answer["measured"], answer["stopped"]) == (2, None)
    else:
        assert (answer["measured"], answer["remaining"]) == (1, 1)
        assert answer["stopped"] == f"{seen['why']}; the same command resumes"
    claim.remove(spec, {}, False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"slower": 1}, "stop_if.slower is 1: more than 1, or null, is wanted"),
        ({"slower": None}, "stop_if has no limit: give slower, stat_ms, read_ms, write_ms, server_load or server_ms"),
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
    usual = {"stat": 1.0, "read OST0000": 10.0, "write": 0.01}
    assert neighbours.probe_limits(given, usual) == {"stat": 3.0, "read OST0000": 20, "write": pytest.approx(0.21)}
    with pytest.raises(Refusal, match="nobody else uses a target of kind loop"):
        complete({"name": "a", "kind": "loop", "stop_if": {}})


CALM, BAD = {"stat": 1.0, "read": 5.0, "write": 5.0}, {"stat": 1.0, "read": 11.0, "write": 5.0}


class Looks:
    """Looks that are taken without a disk: `beside` some work one each time that somebody listens, as given."""

    def __init__(self, target: Any) -> None:
        self.folder, self.working, self.answered = target.mounts[0] / ".fsage/probe", False, time.monotonic()
        self.folder.mkdir(exist_ok=True)

    beside: ClassVar[list[dict[str, float]]] = []
    alone: ClassVar[list[dict[str, float]]] = []

    def go(self) -> None:
        self.working = True

    def rest(self) -> None:
        self.working = False

    def seen(self, beside: bool, wait_s: float = 0.0) -> list[dict[str, float]]:
        self.answered = time.monotonic()
        return [{"at": self.answered, **self.beside.pop(0)}] if beside and self.working and self.beside else []

    def once(self, check_alive: Callable[[], None]) -> dict[str, float]:
        check_alive()
        return {"at": time.monotonic(), **(self.alone.pop(0) if self.alone else CALM)}

    def end(self) -> None:
        pass


@pytest.fixture
def guest(directory_target: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A claimed directory whose disk is made up: reads of more than 10 ms are too slow."""
    monkeypatch.setattr(neighbours, "Looks", Looks)
    monkeypatch.setattr(neighbours, "QUIET_EVERY_S", 0.0)
    monkeypatch.setattr(neighbours, "PROBE_EVERY_S", 0.05)
    monkeypatch.setattr(instruments, "CHECK_EVERY_S", 0.0)
    monkeypatch.setattr(Looks, "beside", [])
    monkeypatch.setattr(Looks, "alone", [])
    claimed(directory_target)
    return {**directory_target, "stop_if": {"slower": None, "read_ms": 10}}


def built(spec: dict[str, Any], request: dict[str, Any]) -> None:
    """Have its state."""
    states.scrub(spec, request, False)
    if states.begin("populate", spec, request, False):
        states.work(spec, request, STEPS[0])
        states.end(spec, request, STEPS[0])


def cells(*names: str, argv: tuple[str, ...] = ("sleep", "0.05")) -> list[dict[str, Any]]:
    same = {"kind": "planned", "order": 1, "attempt": 1, "params": {}}
    return [{**same, "name": name, "phases": [{"name": "load", "argv": list(argv)}]} for name in names]


def of(run: str) -> dict[str, Any]:
    holder = {"run": run, "host": "elsewhere", "machine": "m", "pid": 1, "pid_start": 1, "since": "", "command": ""}
    return {"holder": holder, "gone": ["first"]}


@pytest.mark.long
def test_below_a_limit_that_nothing_keeps_nothing_is_done(
    directory_target: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a real disk: neither calibrated nor emptied nor filled nor measured."""
    monkeypatch.setattr(neighbours, "QUIET", 5)
    monkeypatch.setattr(neighbours, "QUIET_EVERY_S", 0.0)
    monkeypatch.setattr(neighbours, "PROBE_EVERY_S", 0.05)
    claim.create(directory_target, {}, False)
    place = Path(directory_target["directory"])
    never = {"slower": None, "read_ms": 0.001, "stat_ms": 0.0001}
    spec = {**directory_target, "stop_if": never}
    why = r"was not calibrated: stop_if: others suffer: the probe \((stat|read)\) took .*resumes"
    with pytest.raises(Failure, match=why):
        claim.claim(spec, {}, False)
    assert not place.exists(), "nothing stays"
    claimed(directory_target)
    request = asked(cells("one"))
    with pytest.raises(Failure, match=r"emptying did not begin: stop_if: .* the same command resumes"):
        states.scrub(spec, request, False)
    states.scrub(directory_target, request, False)
    states.begin("populate", spec, request, False)
    with pytest.raises(Failure, match=r"populate .* did not begin: stop_if: .*resumes"):
        states.work(spec, request, STEPS[0])
    built(directory_target, request)
    answer = measure.measure({**spec, "stop_if": {**never, "then": "wait", "wait_minutes": 0.001}}, request, False)
    assert answer["measured"] == 0 and answer["undone"].endswith("the same command resumes")
    assert doing(spec).startswith("waiting, at most 0.001 minutes: stop_if: others suffer")


def test_a_calibration_that_always_makes_others_suffer_ends_with_that_reason(guest: dict[str, Any]) -> None:
    """They no longer suffer when it has ended: so it would begin anew for ever."""

    class Suffer(instruments.Instrument):
        def check(self) -> None:
            raise Stopped("stop_if: others suffer")

    target = open_target(guest)
    with pytest.raises(Failure, match=r"ended 5 times, at last because stop_if: others suffer\. Declare a smaller"):
        claiming.measured(target, Instruments([Suffer(Visit(target, {}))]), 64, 1)


def doing(spec: dict[str, Any]) -> str:
    return json.loads(Path(spec["home"], spec["name"], "doing.json").read_text())["doing"]


@pytest.mark.long
def test_looks_go_on_over_cells_and_what_is_usual_stays(guest: dict[str, Any]) -> None:
    """Each cell is so short that one look is taken beside it: the third in a row stops the third cell."""
    request = asked(cells("one", "two", "three", "four")) | of("first")
    built({**guest, "stop_if": None}, request)
    spec = {**guest, "stop_if": {"slower": 2, "then": "end"}}
    Looks.beside[:] = [BAD] * 3
    answer = measure.measure(spec, request, False)
    assert (answer["measured"], answer["remaining"]) == (3, 1)
    assert [observed(spec, name)[0]["status"] for name in ("one", "two", "three")] == ["done", "done", "stopped"]
    probe = observed(spec, "three")[0]["probe"]
    assert probe["usual_ms"]["read"] == 5 and probe["limits_ms"]["read"] == 10
    assert [look["read"] for look in probe["taken"]] == [11]
    assert "the probe (read) took 11, 11, 11 ms beside phase load of cell three" in answer["stopped"]
    busier = {"stat": 1.0, "read": 9.0, "write": 5.0}
    for run, usual in (("first", 5), ("second", 9)):
        Looks.alone[:] = [busier] * 30
        Looks.beside.clear()
        measure.measure(spec, asked(cells("four", run)) | of(run), False)
        assert observed(spec, run)[0]["probe"]["usual_ms"]["read"] == usual, "once for each run"
    Looks.beside[:] = [BAD, CALM, CALM] * 10
    measure.measure(guest, asked(cells("slow", argv=("sleep", "60"))) | of("second"), False)
    taken = [look["read"] for look in observed(guest, "slow")[0]["probe"]["taken"]]
    assert taken == [11, 5, 5, 11, 5, 5, 11], "a tenth may be slow: the third of twenty stops it"


@pytest.mark.long
def test_a_fill_waits_and_that_is_on_record(guest: dict[str, Any]) -> None:
    spec = {**guest, "stop_if": {**guest["stop_if"], "then": "wait"}}
    request = asked(cells("one", "two")) | of("first")
    states.scrub(spec, request, False)
    states.begin("populate", spec, request, False)
    Looks.beside[:] = [BAD] * 3
    Looks.alone[:] = [CALM, BAD, BAD]
    states.work(spec, request, replace(STEPS[0]))
    assert doing(spec) == "populate generation 1 to 30%"
    states.end(spec, request, STEPS[0])
    measure.measure(spec, request, False)
    (wait,) = observed(spec, "one")[0]["probe"]["waits"]
    assert wait["during"] == "populate generation 1 to 30%" and "took 11, 11, 11 ms" in wait["why"]
    assert observed(spec, "two")[0]["probe"]["waits"] == []


def test_a_fill_that_is_stopped_is_resumed(guest: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    request = asked(cells("one")) | of("first")
    states.scrub(guest, request, False)
    states.begin("populate", guest, request, False)

    def filled() -> list[Path]:
        return sorted(Path(guest["directory"]).glob("filler/*/*"))

    def seen(looks: Looks, beside: bool, wait_s: float = 0.0) -> list[dict[str, float]]:
        return [{"at": 1.0, **BAD}] if beside and len(filled()) > 7 else []

    monkeypatch.setattr(Looks, "seen", seen)
    with pytest.raises(Failure, match=r"populate .* was stopped: stop_if: .*; the same command resumes"):
        states.work(guest, request, STEPS[0])
    made = filled()
    assert 7 < len(made) < 30
    kept = {path: path.stat().st_ino for path in made[:7]}
    built({**guest, "stop_if": None}, request)
    assert {path: path.stat().st_ino for path in made[:7]} == kept, "what was made stays"


def test_what_is_under_way_when_the_hours_end_is_ended(guest: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not measured: the same command measures it."""
    spec = {**guest, "stop_if": None, "limits": {"hours": "22:00-06:00"}}
    left_s = iter([*[100.0] * 12, *[0.0] * 1000])
    monkeypatch.setattr(of_site, "LOOK_EVERY_S", 0.0)
    request = asked(cells("one", argv=("sh", "-c", "echo x >f; exec sleep 60")))
    built(guest, request)
    monkeypatch.setattr(limits, "closes_in_s", lambda *_: next(left_s))
    answer = measure.measure(spec, request, False)
    assert (answer["measured"], answer["remaining"]) == (0, 1)
    assert "limits.hours is 22:00-06:00, and these hours have ended; the same command" in answer["undone"]
    assert not list(Path(spec["directory"], "measured").iterdir())
    with pytest.raises(Failure, match=r"emptying did not begin: limits\.hours is"):
        states.scrub(spec, asked([]) | {"steps": [], "state": "empty"}, False)


def test_all_clients_of_a_step_stop_where_one_is_told_by_servers(
    guest: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that launches asks them, and the others see that in its note."""
    monkeypatch.setattr(neighbours, "TOLD_EVERY_S", 0.0)
    target, site = open_target(guest), Site(load(1), load(1), *[load(9)] * 20)
    target.spec["stop_if"] = complete({**ON_LUSTRE, "stop_if": {"slower": None, "server_load": 4}})["stop_if"]
    first = Instruments([neighbours.Neighbours(Visit(target, {}, site))])
    elsewhere: Any = SimpleNamespace(mounts=target.mounts, home=tmp_path, spec=target.spec, osts=target.osts)
    other = Instruments([neighbours.Neighbours(Visit(elsewhere, {}, site))])
    with first.beside("populate"), other.beside("populate"):
        assert other.ended() is None
        assert first.held_up() and str(other.ended()) in first.held_up()


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
            [load(each) for each in (9, 9, 0.5, 9, 6, 9, 5, 9, 4.5)],
            "the load of a server was 6, 5, 4.5 beside phase 4, and the limit is 4",
            [0.5, 6, 5, 4.5],
        ),
        (
            {"server_ms": 20, "in_a_row": 2},
            [
                done(a=[7, 7], b=[0, 0]),
                done(a=[10, 1_000_000], b=[0, 0]),
                done(a=[20, 1_100_000], b=[1, 500]),  # 10 ms each on a
                done(a=[20, 1_100_000], b=[1, 500]),
                done(a=[20, 1_100_000], b=[2, 30_500]),  # 30 ms on b
                done(a=[20, 1_100_000], b=[2, 30_500]),
                done(a=[40, 1_600_000], b=[2, 30_500]),  # 25 ms on a
            ],
            "in ms, a request of an OST took 30, 25 beside phase 3, and the limit is 20",
            [10, 30, 25],
        ),
    ],
)
def test_a_server_that_has_too_much_to_do_ends_what_runs(
    limit: dict, answers: list, why: str, seen: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers as host agents give them: a server's load, or what its OSTs have counted. They count on over cells."""
    monkeypatch.setattr(neighbours, "QUIET_EVERY_S", 0.0)
    monkeypatch.setattr(neighbours, "Looks", Looks)
    (tmp_path / ".fsage").mkdir()
    (tmp_path / "claim.json").touch()
    target: Any = SimpleNamespace(mounts=[tmp_path], home=tmp_path)
    target.spec = complete({**ON_LUSTRE, "stop_if": {"slower": None, **limit}})
    name = next(iter(limit))
    nobody: Any = SimpleNamespace(ask_servers=lambda **_: {})
    with pytest.raises(Failure, match=rf"stop_if\.{name}: the inventory names no servers"):
        neighbours.Neighbours(Visit(target, {}, nobody))
    failing = neighbours.Neighbours(Visit(target, {}, Site(*answers)))
    failing._count([{"at": 0.0, "failed": "Input/output error"}, {"at": 0.0, name: 0.0}])
    with pytest.raises(Stopped, match="the probe beside  failed: Input/output error"):
        failing.check()
    beside = Instruments([neighbours.Neighbours(Visit(target, {}, Site(*answers)))])
    taken = []
    cell: Any = {"name": "one"}
    while not beside.ended():
        with beside.around(lambda each: each.around_cell(cell)) as looked, beside.beside(f"phase {len(taken) + 1}"):
            beside.check()
        taken += [look[name] for look in looked["probe"]["servers"]]
    assert taken == seen
    with pytest.raises(Stopped, match=re.escape(why)):
        beside.check()


def test_a_server_without_counters_of_osts_is_refused() -> None:
    given: Any = complete({**ON_LUSTRE, "stop_if": {"server_ms": 5}})["stop_if"]
    visit: Any = SimpleNamespace(servers=lambda: contextlib.nullcontext(Site(load(1))))
    with pytest.raises(Failure, match=r"stop_if\.server_ms: no server has counters of OSTs"):
        probe.Busy(visit, given, contextlib.ExitStack())


def test_what_began_is_ended_where_the_next_instrument_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Begun(Instrument):
        @classmethod
        def wanted(cls, visit: Visit) -> bool:
            return True

        def close(self) -> None:
            closed.append(self)

    class Not(Begun):
        def __init__(self, visit: Visit) -> None:
            raise Failure("no")

    monkeypatch.setattr(instruments, "found", lambda: [Begun, Not])
    visit: Any = SimpleNamespace(target=None)
    with pytest.raises(Failure, match="no"), instruments.opened(visit):
        pass
    assert len(closed) == 1
