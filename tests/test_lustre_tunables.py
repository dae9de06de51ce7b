"""Tunables of Lustre clients: set, read back and put back, whoever sets them in which order, whatever is killed."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from lustre_site import INSTANCE, NEIGHBOUR, Knobs, Site, lustre_target

from fsage.base import Failure, Refusal
from fsage.host import __main__ as agent
from fsage.host.system import lctl, settings
from fsage.host.targets import lease
from fsage.host.verbs import claim, tune
from fsage.studies.lustre.host import clients

pytestmark = pytest.mark.root
OST0, OST1 = (f"osc.lustre-OST000{number}-osc-{INSTANCE}" for number in (0, 1))
RPCS = "max_rpcs_in_flight"


@pytest.fixture
def spec(tmp_path: Path, site: Site) -> dict:
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


def test_the_studys_tunables_are_set_on_the_own_mount_read_back_and_put_back(spec: dict, knobs: Knobs) -> None:
    request = {"tuning": {RPCS: 256, "max_read_ahead_mb": 512, "read_ahead_step": 4}}
    answer = tune.tune(spec, request, False)
    assert answer["changed"] and f"{RPCS}: 8 -> 256 at 2 connections" in answer["proof"]
    assert answer["tunables"]["read_ahead_step"] == {
        "asked": 4,
        "unsupported": "neither osc nor llite of lustre has it",
    }
    assert answer["tunables"][RPCS] == {"asked": 256, "before": rpcs(8), "now": rpcs(256)}
    assert knobs.now(RPCS) == {"256"} and knobs.now(RPCS, NEIGHBOUR) == {"8"}
    again = tune.tune(spec, request, False)
    assert not again["changed"] and again["tunables"] == answer["tunables"], "what was there before is kept"
    proof = claim.release(spec, {}, False)["proof"]
    assert f"{RPCS}: 256 -> 8 at 2 connections" in proof
    assert knobs.now(RPCS) == {"8"} and knobs.now("max_read_ahead_mb") == {"256"} and not settings.NOTE.exists()


@pytest.mark.long
def test_the_next_study_has_none_of_the_tunables_of_the_last_one(spec: dict, knobs: Knobs) -> None:
    tune.tune(spec, {"tuning": {RPCS: 16, "max_dirty_mb": 64}}, False)
    tried = tune.tune(spec, {"tuning": {"max_dirty_mb": 64}}, True)
    assert tried["changed"] and f"{RPCS}: would be put back" in tried["proof"] and knobs.now(RPCS) == {"16"}
    answer = tune.tune(spec, {"tuning": {"max_dirty_mb": 64}}, False)
    assert f"{RPCS}: 16 -> 8 at 2 connections" in answer["proof"] and set(answer["tunables"]) == {"max_dirty_mb"}
    assert tune.tune(spec, {}, False)["tunables"] == {}
    assert knobs.now(RPCS) == {"8"} and knobs.now("max_dirty_mb") == {"742"} and not settings.NOTE.exists()


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_whoever_lets_go_last_restores_the_first_value(knobs: Knobs, order: tuple[str, str]) -> None:
    values = {"a": 16, "b": 32}
    for name, value in values.items():
        lctl.tune("lustre", holder(name), rpcs(value))
    assert knobs.now(RPCS) == {"32"}
    first, last = order
    lctl.tune("lustre", holder(first), {})
    assert knobs.now(RPCS) == {str(values[last])}, "that of who is left"
    lctl.tune("lustre", holder(last), {})
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
    lease.take(home, {"holder": {**elsewhere, "since": "now", "command": "snakemake"}})
    (home / "claim.json").write_text("{}")
    tune.settle({})
    assert knobs.now("max_dirty_mb") == {"64", "32"}
    tune.settle({"gone": ["r_there"]})
    assert knobs.now("max_dirty_mb") == {"64", "742"}
    lctl.tune("lustre", {**holder("there", elsewhere), "home": str(home)}, {f"{OST1}.max_dirty_mb": "32"})
    lease.drop(home, {"holder": {**elsewhere, "since": "now", "command": "snakemake"}})
    tune.settle({})
    assert knobs.now("max_dirty_mb") == {"64", "742"}, "its run gave the target back"


def test_any_verb_of_any_target_puts_back_what_a_killed_run_left(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, knobs = lustre_target(tmp_path, site), Knobs(site, max_rpcs_in_flight="8")
    lctl.tune("lustre", holder("a", run_of(os.getpid(), 1)), rpcs(16))
    monkeypatch.setattr(agent, "end_with_parent", lambda: None)
    for words, value in ((["--check", "recover"], "16"), (["recover"], "8")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps({"target": spec}).encode())))
        assert agent.main(words) == 0 and knobs.now(RPCS) == {value}
    capsys.readouterr()


def test_a_run_restores_at_its_end_and_the_next_one_what_a_killed_one_left(spec: dict, knobs: Knobs) -> None:
    """By the lease, which each run takes and gives back, whatever its study is."""
    mine = {**run_of(os.getpid(), lease.start_of(os.getpid())), "since": "now", "command": "snakemake"}
    killed = {**mine, "run": "killed", "machine": "another", "host": "launcher"}
    for holder_of, values in ((mine, ["16", "8"]), (killed, ["16", "16"])):
        agent.hold(spec, {"holder": holder_of}, False)
        tune.tune(spec, {"tuning": {RPCS: 16}, "holder": holder_of}, False)
        seen = [*knobs.now(RPCS)]
        if holder_of is mine:
            agent.hold(spec, {"holder": holder_of, "release": True}, False)
        assert [*seen, *knobs.now(RPCS)] == values
    agent.hold(spec, {"holder": {**mine, "run": "next"}, "gone": ["killed"]}, False)
    assert knobs.now(RPCS) == {"8"} and not settings.NOTE.exists()


@pytest.mark.parametrize(
    ("name", "asks", "becomes", "says"),
    [
        ("max_pages_per_rpc", 99999, "24", "max_pages_per_rpc: requested 99999; .* read back 24.*; put back"),
        ("max_read_ahead_per_file_mb", 512, "64", "per_file_mb: requested 512; .* read back 64; put back"),
    ],
)
def test_what_lustre_takes_and_does_not_do_fails_and_is_put_back(
    spec: dict, knobs: Knobs, name: str, asks: int, becomes: str, says: str
) -> None:
    """rc 0 and another value, as recorded."""
    before = knobs.now(name)
    every = json.loads(knobs.path.read_text())["known"]
    knobs.change(clipped={f"{full}={asks}": becomes for full in every if full.endswith(f".{name}")})
    with pytest.raises(Failure, match=says):
        tune.tune(spec, {"tuning": {name: asks}}, False)
    assert knobs.now(name) == before and not settings.NOTE.exists()
    assert not (Path(spec["home"]) / "scratch" / "tunables.json").exists()


@pytest.mark.long
def test_what_is_set_in_part_is_put_back(spec: dict, knobs: Knobs) -> None:
    knobs.change(refused=[[f"{OST1}.{RPCS}", "257"]])
    with pytest.raises(Failure, match=r"(?s)OST0001\S+ read back 8; .*result out of range; put back"):
        tune.tune(spec, {"tuning": {"max_dirty_mb": 64, RPCS: 257}}, False)
    assert knobs.now(RPCS) == {"8"} and knobs.now("max_dirty_mb") == {"742"}, "and what was set before it"


def test_check_changes_nothing_and_odd_values_are_refused(spec: dict, site: Site, knobs: Knobs) -> None:
    answer = tune.tune(spec, {"tuning": {"max_dirty_mb": 1024}}, True)
    assert set(answer["tunables"]["max_dirty_mb"]["now"].values()) == {"742"}
    assert answer["proof"] == ["max_dirty_mb: 742 -> 1024 at 2 connections"]
    assert answer["changed"] and site.commands("lctl set_param") == []
    for tuning in ({"max_dirty_mb": "1G"}, {"*": 1}):
        with pytest.raises(Refusal, match=r"tuning\b"):
            tune.tune(spec, {"tuning": tuning}, False)


@pytest.mark.long
def test_tunables_are_put_back_without_a_release_and_preallocation_stays(spec: dict, knobs: Knobs) -> None:
    tune.tune(spec, {"tuning": {RPCS: 256}}, False)
    path = Path(spec["home"]) / "scratch" / "tunables.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "preallocation": {"asked": {}, "now": {}}}))
    wanted = f"{RPCS}: 256 -> 8 at 2 connections"
    assert tune.restore(spec, {}, True)["proof"] == [wanted] and knobs.now(RPCS) == {"256"}
    assert set(json.loads(path.read_text())) == {RPCS, "preallocation"}
    assert tune.untune(spec, {}, False)["proof"] == [wanted] and knobs.now(RPCS) == {"8"}
    assert set(json.loads(path.read_text())) == {"preallocation"}
    assert not tune.restore(spec, {}, False)["changed"] and not tune.untune(spec, {}, False)["changed"]


def test_a_mount_that_is_gone_holds_nothing(knobs: Knobs) -> None:
    lctl.tune("lustre", holder("a"), rpcs(16))
    book = json.loads(knobs.path.read_text())
    knobs.path.write_text(json.dumps({**book, "known": {}}))
    assert clients.put_tunables_back(holder("a")) == [] and not settings.NOTE.exists()


def test_a_note_that_cannot_be_read_is_not_no_note(spec: dict, knobs: Knobs) -> None:
    settings.NOTE.parent.mkdir()
    settings.NOTE.write_text("{")
    with pytest.raises(Failure, match=r"settings\.json cannot be read .*, so it is not known what settings of .* were"):
        tune.tune(spec, {"tuning": {RPCS: 16}}, False)
    assert knobs.now(RPCS) == {"8"}


def test_all_may_read_the_note_and_only_its_owner_may_write(knobs: Knobs) -> None:
    lctl.tune("lustre", holder("a"), rpcs(16))
    assert settings.NOTE.stat().st_mode & 0o777 == 0o644 and settings.NOTE.parent.stat().st_mode & 0o777 == 0o755
