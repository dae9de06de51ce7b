"""Tunables of Lustre clients: set, read back and put back, whoever sets them in which order, whatever is killed."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from lustre_site import INSTANCE, NEIGHBOUR, Knobs, Site, lustre_target

from fsage.base import Failure
from fsage.host import __main__ as agent
from fsage.host.system import settings
from fsage.host.targets import lease
from fsage.host.verbs import claim, tune
from fsage.studies.lustre.helper import lctl
from fsage.studies.lustre.host import clients

pytestmark = pytest.mark.root
OST0, OST1 = (f"osc.lustre-OST000{number}-osc-{INSTANCE}" for number in (0, 1))
RPCS = "max_rpcs_in_flight"


@pytest.fixture
def spec(tmp_path: Path, site: Site) -> dict:
    """A claimed target."""
    spec = lustre_target(tmp_path, site)
    claim.claim(spec, {}, False)
    site.commands()
    return spec


@pytest.fixture
def knobs(site: Site) -> Knobs:
    return Knobs(
        site,
        max_rpcs_in_flight="8",
        max_dirty_mb="742",
        max_pages_per_rpc="1024",
        max_read_ahead_mb="256",
        max_read_ahead_per_file_mb="64",
    )


def holder(name: str, run: dict | None = None) -> settings.Holder:
    """A target beside the fixture's."""
    return {"user": os.geteuid(), "target": name, "home": f"/var/lib/fsage/{name}", "fsname": "lustre", "run": run}


def rpcs(value: int) -> dict[str, str]:
    """The value at both connections."""
    return {f"{ost}.{RPCS}": str(value) for ost in (OST0, OST1)}


def run_of(pid: int, start: int | None) -> dict[str, Any]:
    """A run of this machine."""
    return {"run": f"r{pid}", "host": "c1", "machine": lease.machine(), "pid": pid, "pid_start": start}


def test_the_studys_tunables_are_set_on_the_own_mount_read_back_and_put_back(
    spec: dict, site: Site, knobs: Knobs
) -> None:
    request = {"tuning": {RPCS: 256, "max_read_ahead_mb": 512, "read_ahead_step": 4}}
    tried = tune.tune(spec, request, True)
    assert tried["changed"] and f"{RPCS}: 8 -> 256 at 2 connections" in tried["proof"]
    assert knobs.now(RPCS) == {"8"} and site.commands("lctl set_param") == []
    answer = tune.tune(spec, request, False)
    assert answer["changed"] and answer["proof"] == tried["proof"]
    assert answer["tunables"]["read_ahead_step"] == {
        "asked": 4,
        "unsupported": "neither osc nor llite of lustre has it",
    }
    assert answer["tunables"][RPCS] == {"asked": 256, "before": rpcs(8), "now": rpcs(256)}
    assert knobs.now(RPCS) == {"256"} and knobs.now(RPCS, NEIGHBOUR) == {"8"}
    again = tune.tune(spec, request, False)
    assert not again["changed"] and again["tunables"] == answer["tunables"], "what was there before is kept"
    assert not tune.tune(spec, request, True)["changed"], "nor would it be"
    following = tune.tune(spec, {"tuning": {"max_read_ahead_mb": 512}}, False)
    assert f"{RPCS}: 256 -> 8 at 2 connections" in following["proof"], "the next study has it no more"
    assert set(following["tunables"]) == {"max_read_ahead_mb"} and knobs.now(RPCS) == {"8"}
    path = Path(spec["home"]) / "scratch" / "tunables.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "preallocation": {"asked": {}, "now": {}}}))
    (proof,) = tune.restore(spec, {}, True)["proof"]
    assert proof.startswith("max_read_ahead_mb: 512 -> 256") and knobs.now("max_read_ahead_mb") == {"512"}
    assert tune.untune(spec, {}, False)["proof"] == [proof]
    assert set(json.loads(path.read_text())) == {"preallocation"}, "which stays"
    tune.tune(spec, request, False)
    assert f"{RPCS}: 256 -> 8 at 2 connections" in claim.release(spec, {}, False)["proof"]
    assert knobs.now(RPCS) == {"8"} and knobs.now("max_read_ahead_mb") == {"256"} and not settings.NOTE.exists()


def test_a_note_that_cannot_be_read_is_not_no_note(knobs: Knobs) -> None:
    settings.NOTE.parent.mkdir()
    settings.NOTE.write_text("{")
    with pytest.raises(Failure, match=r"settings\.json cannot be read .*, so it is not known what settings of .* were"):
        lctl.tune("lustre", holder("a"), rpcs(16))
    assert knobs.now(RPCS) == {"8"}


def test_whoever_lets_go_last_restores_the_first_value(knobs: Knobs) -> None:
    for name, value in (("a", 16), ("b", 32)):
        lctl.tune("lustre", holder(name), rpcs(value))
    assert knobs.now(RPCS) == {"32"}
    lctl.tune("lustre", holder("b"), {})
    assert knobs.now(RPCS) == {"16"}, "that of who is left"
    lctl.tune("lustre", holder("a"), {})
    assert knobs.now(RPCS) == {"8"} and not settings.NOTE.exists() and not settings.NOTE.parent.exists()


def test_the_old_value_is_noted_before_it_is_set(knobs: Knobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is killed then: the next command of any target puts it back."""
    dead = run_of(os.getpid(), 1)
    put = lctl.put

    class Killed(BaseException):
        pass

    def kill(values: dict[str, str]) -> None:
        noted = settings.notes("tunables")
        assert {name: noted[name]["first"] for name in values} == rpcs(8)
        put(values)
        monkeypatch.setattr(settings, "_write", lambda whole: None)  # a killed process writes nothing any more
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(lctl, "put", kill)
        write = settings._write
        lctl.tune("lustre", holder("a", dead), rpcs(16))
    monkeypatch.setattr(settings, "_write", write)
    assert knobs.now(RPCS) == {"16"}
    tune.settle({})
    assert knobs.now(RPCS) == {"8"} and not settings.NOTE.exists()


def test_what_a_living_run_or_somebody_by_hand_has_set_stays(knobs: Knobs, tmp_path: Path) -> None:
    this_run = run_of(os.getpid(), lease.start_of(os.getpid()))
    elsewhere = {**this_run, "run": "r_there", "machine": "another", "host": "launcher"}
    home = tmp_path / "home/there"
    lctl.tune("lustre", holder("a", this_run), rpcs(16))
    lctl.tune("lustre", holder("b"), {f"{OST0}.max_dirty_mb": "64"})
    lctl.tune("lustre", {**holder("there", elsewhere), "home": str(home)}, {f"{OST1}.max_dirty_mb": "32"})
    tune.settle({})
    assert knobs.now(RPCS) == {"16"} and knobs.now("max_dirty_mb") == {"64", "32"}, "of the last one nothing is known"
    there = {"holder": {**elsewhere, "since": "now", "command": "snakemake"}}
    lease.take(home, there)
    (home / "claim.json").write_text("{}")
    tune.settle({})
    assert knobs.now("max_dirty_mb") == {"64", "32"}
    tune.settle({"gone": ["r_there"]})
    assert knobs.now("max_dirty_mb") == {"64", "742"}
    lctl.tune("lustre", {**holder("there", elsewhere), "home": str(home)}, {f"{OST1}.max_dirty_mb": "32"})
    lease.drop(home, there)
    tune.settle({})
    assert knobs.now("max_dirty_mb") == {"64", "742"}, "its run gave the target back"


def test_any_verb_of_any_target_puts_back_what_a_killed_run_left(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, knobs = lustre_target(tmp_path, site), Knobs(site, max_rpcs_in_flight="8")
    lctl.tune("lustre", holder("a", run_of(os.getpid(), 1)), rpcs(16))
    monkeypatch.setattr(agent, "end_with_parent", lambda: None)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps({"target": spec}).encode())))
    assert agent.main(["recover"]) == 0 and knobs.now(RPCS) == {"8"}
    capsys.readouterr()


def test_a_run_restores_at_its_end_and_the_next_one_what_a_killed_one_left(spec: dict, knobs: Knobs) -> None:
    """By the lease, which each run takes and gives back, whatever its study is."""
    mine = {**run_of(os.getpid(), lease.start_of(os.getpid())), "since": "now", "command": "snakemake"}
    killed = {**mine, "run": "killed", "machine": "another", "host": "launcher"}
    for run in (mine, killed):
        agent.hold(spec, {"holder": run}, False)
        tune.tune(spec, {"tuning": {RPCS: 16}, "holder": run}, False)
        assert knobs.now(RPCS) == {"16"}
        if run is mine:
            agent.hold(spec, {"holder": run, "release": True}, False)
            assert knobs.now(RPCS) == {"8"}
    agent.hold(spec, {"holder": {**mine, "run": "next"}, "gone": ["killed"]}, False)
    assert knobs.now(RPCS) == {"8"} and not settings.NOTE.exists()


def test_what_lustre_takes_and_does_not_do_fails_and_is_put_back(spec: dict, knobs: Knobs) -> None:
    """rc 0 and another value, as recorded."""
    knobs.change(clipped={f"{ost}.max_pages_per_rpc=99999": "24" for ost in (OST0, OST1)})
    with pytest.raises(Failure, match=r"max_pages_per_rpc: requested 99999; .* read back 24.*; put back"):
        tune.tune(spec, {"tuning": {"max_pages_per_rpc": 99999}}, False)
    assert knobs.now("max_pages_per_rpc") == {"1024"} and not settings.NOTE.exists()
    assert not (Path(spec["home"]) / "scratch" / "tunables.json").exists()
    knobs.change(refused=[[f"{OST1}.{RPCS}", "257"]])
    with pytest.raises(Failure, match=r"(?s)OST0001\S+ read back 8; .*result out of range; put back"):
        tune.tune(spec, {"tuning": {"max_dirty_mb": 64, RPCS: 257}}, False)
    assert knobs.now(RPCS) == {"8"} and knobs.now("max_dirty_mb") == {"742"}, "and what was set before it"


def test_a_mount_that_is_gone_holds_nothing(knobs: Knobs) -> None:
    lctl.tune("lustre", holder("a"), rpcs(16))
    assert settings.NOTE.stat().st_mode & 0o777 == 0o644, "all may read it and only its owner may write"
    assert settings.NOTE.parent.stat().st_mode & 0o777 == 0o755
    book = json.loads(knobs.path.read_text())
    knobs.path.write_text(json.dumps({**book, "known": {}}))
    assert clients.put_tunables_back(holder("a")) == [] and not settings.NOTE.exists()
