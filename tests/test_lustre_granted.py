"""What a user asks of root for Lustre: exact commands on recorded answers, and what is refused before any is run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from lustre_site import Knobs, Site, brw_stats

from fsage.base import Failure, Refusal
from fsage.host import helper
from fsage.host.__main__ import main
from fsage.host.system import privilege, settings
from fsage.studies.lustre.helper import VERBS
from fsage.studies.lustre.host import servers

OSC = "lustre-OST0000-osc-ff11000110ffb000"
LLITE = "llite.lustre-ff11000110ffb000"


HOLDER = {"target": "own", "home": "/home/ada/fsage/own", "run": None}
EVERY = {**VERBS[helper.CLIENTS], **VERBS[helper.SERVERS]}


@pytest.fixture(autouse=True)
def unhurried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper's notes of how often it was asked."""
    monkeypatch.setattr(helper, "PACED", tmp_path / "run" / "helper.json")


def ask(verb: str, **given: object) -> object:
    """A verb, asked by a user for the file system `lustre`."""
    return EVERY[f"lustre-{verb}"]({"fsname": "lustre", "user": 1000, **given})


@pytest.mark.root
def test_the_helper_runs_these_commands_and_no_others(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # who runs the helper
    names = f"{LLITE}.max_read_ahead_mb osc.{OSC}.max_rpcs_in_flight"
    both = f"lctl get_param {names}"
    wanted = [
        f"lctl set_param -n ldlm.namespaces.{OSC}.lru_size=clear",
        both,
        f"lctl set_param -n {LLITE}.max_read_ahead_mb=512",
        f"lctl get_param {LLITE}.max_read_ahead_mb",
        f"lctl set_param -n osc.{OSC}.max_rpcs_in_flight=256",
        both,
        "lctl set_param -n osd-*.lustre-*.force_sync=1",
        "lctl get_param -n osp.lustre-OST*.destroys_in_flight",
        "lctl get_param osd-*.lustre-OST*.brw_stats",
    ]
    values = f"{LLITE}.max_read_ahead_mb={{}}\nosc.{OSC}.max_rpcs_in_flight={{}}\n"
    said = ("", "", "", f"{LLITE}.max_read_ahead_mb=512\n", "", "", "", "0\n3\n", brw_stats(7))
    for command, text in zip(wanted, said, strict=True):
        site.answer(command, text)
    site.answer(both, values.format(256, 8), values.format(512, 256))
    ask("locks", connections=[f"ldlm.namespaces.{OSC}"])
    steps = ask(
        "tune", holder=HOLDER, values={f"osc.{OSC}.max_rpcs_in_flight": "256", f"{LLITE}.max_read_ahead_mb": "512"}
    )
    assert steps == [[f"{LLITE}.max_read_ahead_mb", "256", "512"], [f"osc.{OSC}.max_rpcs_in_flight", "8", "256"]]
    assert ask("sync") == "0\n3\n"
    assert ask("counters") == brw_stats(7)
    assert site.commands() == wanted
    (other,) = settings.notes("tunables")[f"osc.{OSC}.max_rpcs_in_flight"]["set"]
    assert (other["user"], other["fsname"], other["target"]) == (1000, "lustre", "own"), "not as whom he says he is"


@pytest.mark.root
def test_an_administrator_puts_back_what_users_set(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    knobs = Knobs(site, max_rpcs_in_flight="8")
    for user, value in ((1000, "16"), (1001, "32")):
        ask("tune", user=user, holder=HOLDER, values={f"osc.{OSC}.max_rpcs_in_flight": value})
    ask("tune", user=1001, holder=HOLDER, values={})
    assert knobs.now("max_rpcs_in_flight") == {"16", "8"}, "a user lets go of his own alone"
    assert helper.undo({}) == [f"osc.{OSC}.max_rpcs_in_flight: 16 -> 8"] and not helper.undo({})
    assert knobs.now("max_rpcs_in_flight") == {"8"}


@pytest.mark.root
def test_what_costs_others_something_is_done_at_a_limited_rate(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    slept: list[float] = []
    clock = SimpleNamespace(sleep=lambda seconds: slept.append(round(seconds)), monotonic=lambda: 100.0)
    monkeypatch.setattr(helper, "time", clock)
    monkeypatch.setattr(helper, "AT_ONCE", 3)
    site.commits()
    for _ in range(helper.AT_ONCE + 3):
        ask("sync")
    assert slept == [0] * helper.AT_ONCE + [1, 2, 3]
    with pytest.raises(Refusal, match="lustre-sync was called more than 3 times in 3 s; wait a minute"):
        for _ in range(helper.AT_ONCE):
            ask("sync")


OWN = {"holder": HOLDER}


@pytest.mark.parametrize(
    ("verb", "given", "said"),
    [
        ("locks", {"connections": ["ldlm.namespaces.*"]}, "'ldlm.namespaces.*' is no connection of a Lustre client"),
        ("locks", {"connections": [f"ldlm.namespaces.{OSC}.lru_size=0 jobid_var"]}, "is no connection"),
        ("locks", {"connections": [f"ldlm.namespaces.{OSC}".replace("lustre-", "home-")]}, "client to lustre"),
        ("tune", {**OWN, "values": {f"osc.{OSC}.active": "0"}}, "is no tunable of a Lustre client of lustre that"),
        ("tune", {**OWN, "values": {f"osc.{OSC}.checksums\n": "0"}}, "is no tunable of a Lustre client of lustre that"),
        ("tune", {**OWN, "values": {f"osc.{OSC}.checksums".replace("lustre-", "home-"): "0"}}, "is no tunable"),
        ("tune", {**OWN, "values": {f"osc.{OSC}.checksums": "0 nis.x=1"}}, "'0 nis.x=1' is no value of"),
        ("tune", {**OWN, "values": {f"osc.{OSC}.max_rpcs_in_flight": "2048"}}, "is 2048: a user may have 1 to 256 set"),
        ("tune", {"holder": {"target": "x"}, "values": {}}, "does not say for which target tunables are set"),
        ("sync", {"fsname": "*"}, "'*' is not the name of a Lustre file system"),
        ("counters", {"fsname": "a;id"}, "'a;id' is not the name of a Lustre file system"),
        ("free-space", {"ost": "home-OST0000"}, "'home-OST0000' is not the name of an OST of lustre"),
    ],
)
def test_what_is_no_clients_parameter_or_number_is_refused(
    site: Site, verb: str, given: dict[str, object], said: str
) -> None:
    with pytest.raises(Refusal) as why:
        ask(verb, **given)
    assert said in str(why.value) and not site.commands()


def test_a_server_asks_its_helper_where_the_agent_is_a_users(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    monkeypatch.setattr(privilege, "unavailable_because", lambda: None)
    spec, ask = {"name": "scratch", "lustre": {"fsname": "lustre"}}, f"sudo -n {privilege.HELPER} lustre-sync lustre"
    shutil.copy(site.bin / "lctl", site.bin / "sudo")
    site.answer(ask, json.dumps({"value": "0\n3\n"}))
    assert servers.commit(spec) == [0, 3]
    for said, kind, words in (
        (json.dumps({"value": "many\n"}), Failure, "destroys_in_flight is 'many', and numbers are wanted"),
        (json.dumps({"refused": "no"}), Refusal, "no"),
        ("[" * 99, Failure, "gave an answer that"),
        ("7", Failure, "gave no answer: 7"),
        ("", Refusal, "may not call"),
    ):
        site.answer(ask, said, rc=1)
        with pytest.raises(kind, match=words):
            servers.commit(spec)


def test_a_user_whose_path_lacks_sbin_has_its_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On Debian no ordinary user's PATH has /usr/sbin, where lctl lies."""
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    assert not shutil.which("wipefs")
    assert main(["no-such-verb"]) == 2 and "no verb" in capsys.readouterr().out
    assert shutil.which("wipefs") and shutil.which("ls") == "/usr/bin/ls", "what PATH had comes first"
