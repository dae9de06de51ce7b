"""The limits of a site: refused where they are wrong, lifted by nobody, and kept to by all that is written."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from measuring import asked
from session import PREFIX
from test_plan import plan as plan

from fsage.base import GIB, MIB, Refusal
from fsage.base.shell import run
from fsage.host import claiming, states
from fsage.host.cells import measure
from fsage.host.states import inspection
from fsage.host.targets import budget
from fsage.host.targets.budget import Pace
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.model import declaration, limits
from fsage.model.declaration import complete
from fsage.model.request import Phase
from fsage.model.target import Limits
from fsage.plan import Plan, load_plan, words
from fsage.run import runs
from fsage.study import StudyError

IOR: Any = {"tools": {"fio": "3.33", "ior": "4.0", "mdtest": None, "mpirun": "4.1"}}


def site(**given: Any) -> Limits:
    """The limits of a site, complete."""
    return complete({"limits": given})["limits"]


def hours(begin: float, end: float) -> str:
    """Hours that begin and end so many hours from now."""
    clock = [time.strftime("%H:%M", time.localtime(time.time() + 3600 * away)) for away in (begin, end)]
    return "-".join(clock)


def phase(*argv: str, **more: Any) -> Phase:
    return cast(Phase, {"name": "write", "argv": list(argv), **more})


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A claimed directory, before anybody limits it."""
    place = Path(tempfile.mkdtemp(prefix="fsage-test-limits-", dir="/var/tmp"))
    spec = {"name": f"{PREFIX}limits", "kind": "directory", "directory": str(place / "target"), "amount_mib": 64}
    spec |= {"home": str(place / "home")}
    claim.create(spec, {}, False)
    claim.claim(spec, {}, False)
    yield spec
    shutil.rmtree(place)


@pytest.fixture
def roots_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a host in which root allows less, here an empty place; and the note of the bytes of the day."""
    if os.geteuid() != 0:
        pytest.skip("the file of a site's limits is root's")
    monkeypatch.setattr(limits, "FILE", tmp_path / "etc/limits.json")
    monkeypatch.setattr(declaration, "usual_home", lambda: tmp_path / "usual")
    limits.FILE.parent.mkdir()
    return limits.FILE


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
def test_wrong_limits_are_refused_wherever_they_stand(given, says, roots_file):
    with pytest.raises(Refusal, match=says):
        complete({"limits": given})
    roots_file.write_text(json.dumps(given))
    with pytest.raises(Refusal, match=rf"limits\.json: .*{says}"):
        budget.of_host()


@pytest.mark.root
def test_roots_file_is_roots_and_the_stricter_of_both_holds(roots_file):
    assert budget.effective(site(clients=4)) == site(clients=4), "no file"
    roots_file.write_text(json.dumps({"clients": 2, "hours": "22:00-06:00", "bandwidth_mib_s": 500}))
    both = budget.effective(site(clients=4, hours="20:00-04:00", bandwidth_mib_s=100, gib_a_day=7))
    assert both == site(clients=2, bandwidth_mib_s=100, gib_a_day=7) | {"hours": "20:00-04:00 and 22:00-06:00"}
    os.seteuid(12345)
    try:
        with pytest.raises(Refusal, match=r"Permission denied: what root allows is not known, so nothing was touched"):
            budget.of_host()
    finally:
        os.seteuid(0)
    roots_file.chmod(0o666)  # each way to spoil it is in test_places
    with pytest.raises(Refusal, match="others"):
        budget.of_host()


def test_fio_moves_no_more_than_its_share(tmp_path):
    argv = ["fio", "--output-format=json", "--name=w", f"--directory={tmp_path}", "--rw=write", "--bs=256k"]
    argv += ["--size=4M", "--numjobs=2"]
    most = site(bandwidth_mib_s=8, operations_s=1000)
    kept = limits.kept_to(most, phase(*argv), clients=2)
    stdout = run(kept["argv"]).stdout
    slowest_s = max(job["write"]["runtime"] for job in json.loads(stdout)["jobs"]) / 1000
    assert slowest_s > 0.8 * 4 / 2, "4 MiB at 2 MiB/s: a quarter of all, for 2 jobs on 2 clients"
    fewer = limits.kept_to(site(bandwidth_mib_s=8, operations_s=4), phase(*argv), clients=2)
    assert fewer["argv"][1] == "--rate_iops=1", "4 requests of 256 KiB are less than 8 MiB"
    assert limits.kept_to(site(), phase(*argv), 2) == phase(*argv)
    assert limits.rest_s(site(bandwidth_mib_s=4), stdout, 0.5, clients=1) == pytest.approx(8 / 4 - 0.5, abs=0.01)
    assert limits.rest_s(site(operations_s=1), stdout, 0.5, clients=2) == pytest.approx(2 * 32 - 0.5, abs=0.01)
    assert limits.rest_s(site(), stdout, 0, 1) == limits.rest_s(most, "no JSON", 0, 1) == 0
    by_host = limits.kept_to(most, phase("fio", "-", jobs={"a": "[w]\nnumjobs=2\nbs=262144\n"}), clients=2)
    assert by_host["jobs"] == {"a": "[w]\nnumjobs=2\nbs=262144\nrate=2048k\n"}
    for tool in ("ior", "python3"):
        assert f"and {tool} of phase write cannot be kept to it" in str(limits.why_not_kept(most, phase(tool)))
        assert limits.why_not_kept(site(clients=2), phase(tool)) is None


def test_what_cannot_be_kept_to_a_rate_is_refused_before_anything_is_made(guest, roots_file):
    """Whatever the inventory says: no step is begun for cells of IOR, and none of them is measured."""
    roots_file.write_text(json.dumps({"operations_s": 1000}))
    request = asked([{"name": "one", "phases": [phase("mpirun", "ior", "-w")]}]) | {"steps": []}
    why = r"cell one: .* ior of phase write cannot be kept to it.*nothing was touched"
    for verb in (states.scrub, measure.measure):
        with pytest.raises(Refusal, match=why):
            verb(guest, request, False)
    assert not list(Path(guest["directory"]).glob("filler*"))


def test_what_fsage_writes_makes_and_deletes_keeps_to_its_pace(guest, roots_file):
    roots_file.write_text(json.dumps({"bandwidth_mib_s": 300, "operations_s": 400}))
    target = open_target(guest)
    pair = claiming.measured(target, claiming.NONE, 64, 1)
    assert max(pair["write_mib_s"], pair["read_mib_s"]) < 1.1 * 300
    began, pace = time.monotonic(), Pace(target.spec["limits"], share=2)
    for _ in range(10):
        pace.spend(4 * MIB)
    assert time.monotonic() - began > 0.9 * 40 / 150
    inspection.remove_measured(target)
    for index in range(100):
        (target.mounts[0] / f"measured/{index}").touch()
    began = time.monotonic()
    inspection.remove_measured(target)
    assert time.monotonic() - began > 0.9 * 100 / 400


def test_the_bytes_of_a_day_are_of_claims_states_and_cells_of_all_targets(directory_target, roots_file):
    roots_file.write_text(json.dumps({"gib_a_day": 0.25}))
    claim.create(directory_target, {}, False)
    claim.claim(directory_target, {}, False)
    note = declaration.usual_home() / budget.WRITTEN
    assert sum(json.loads(note.read_text()).values()) == 64 * MIB, "the claim wrote them"
    allowed = open_target(directory_target).spec["limits"]
    assert budget.why_not_now(allowed, "cell one", 0, 150 * MIB) is None
    assert "0.26 GiB would be written today" in str(budget.why_not_now(allowed, "cell two", 0, 50 * MIB))
    claim.release(directory_target, {}, False)
    assert note.exists(), "or a release and a claim would begin the day anew"
    claim.create(directory_target, {}, False)
    with pytest.raises(Refusal, match=r"with calibrating, .* limits\.gib_a_day is 0\.25"):
        claim.claim(directory_target, {}, False)
    note.write_text(json.dumps({"2026-01-01": GIB}))
    assert budget.forget() == [] and not note.exists()


def test_hours_guard_claims_states_and_cells(directory_target, guest, roots_file):
    claim.create(directory_target, {}, False)
    with pytest.raises(Refusal, match=r"the claim of target .* limits\.hours is .*Nothing was touched"):
        claim.claim({**directory_target, "limits": {"hours": hours(-2, -1)}}, {}, False)
    request = asked([]) | {"reach_s": 2 * 3600.0}
    states.scrub(guest, request, False)
    roots_file.write_text(json.dumps({"hours": hours(-1, 1)}))
    with pytest.raises(Refusal, match=r"step populate of state .* takes about 7200 s, and limits\.hours is"):
        states.begin("populate", guest, request, False)
    assert states.begin("populate", guest, request | {"reach_s": 60.0}, False)


def test_the_plan_says_before_what_will_not_fit(plan, roots_file):
    claimed = json.loads(plan.results.claim.read_text())

    def limited(**given: Any) -> Plan:
        """The plan on a target whose host had these limits when it was claimed."""
        plan.results.claim.write_text(json.dumps({**claimed, "limits": site(**given)}))
        return load_plan(plan.studies / "tiny.yaml", plan.inventories / "here", plan.results.root)

    day = " ".join(words.notes(limited(gib_a_day=0.2)))
    assert "it writes 0.5 GiB, and limits.gib_a_day is 0.2: 3 days; the run ends when the limit is reached" in day
    night = limited(hours=hours(1, 3))
    assert "nothing begins before" in " ".join(words.notes(night))
    with pytest.raises(runs.WindowClosed, match=r"state 30\.00 takes about 20 s, and limits\.hours"):
        runs.check_window(night, "state 30.00", 20)
    with pytest.raises(StudyError, match=r"cell .* writes 0\.06 GiB, and limits\.gib_a_day is 0\.01"):
        limited(gib_a_day=0.01).check()
    rated = limited(bandwidth_mib_s=100)
    rated.check()
    axes = replace(plan.study.cells, fixed={**plan.study.cells.fixed, "tool": "ior"})
    rated = replace(rated, study=plan.study.model_copy(update={"cells": axes}), claim={**rated.claim, **IOR})
    with pytest.raises(StudyError, match=r"ior of phase write cannot be kept to it: only fio can .*nothing was touche"):
        rated.check()
