"""What a user asks of root for Lustre: exact commands on recorded answers, and what is refused before any is run."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from lustre_site import Site, brw_stats

from fsage.host import helper
from fsage.host.__main__ import main
from fsage.host.lustre import servers
from fsage.host.system import privilege
from fsage.model.errors import Failure, Refusal

OSC = "lustre-OST0000-osc-ff11000110ffb000"
LLITE = "llite.lustre-ff11000110ffb000"


def test_the_helper_runs_these_commands_and_no_others(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # who runs the helper
    wanted = [
        f"lctl set_param -n ldlm.namespaces.{OSC}.lru_size=clear",
        f"lctl set_param -n osc.{OSC}.max_rpcs_in_flight=256 {LLITE}.max_read_ahead_mb=512",
        "lctl set_param -n osd-*.lustre-*.force_sync=1",
        "lctl get_param -n osp.lustre-OST*.destroys_in_flight",
        "lctl get_param osd-*.lustre-OST*.brw_stats",
    ]
    for command, said in zip(wanted, ("", "", "", "0\n3\n", brw_stats(7)), strict=True):
        site.answer(command, said)
    helper.OF_LUSTRE["lustre-locks"]({"connections": [f"ldlm.namespaces.{OSC}"]})
    values = {f"osc.{OSC}.max_rpcs_in_flight": "256", f"{LLITE}.max_read_ahead_mb": "512"}
    helper.OF_LUSTRE["lustre-tune"]({"values": values})
    assert helper.OF_LUSTRE["lustre-sync"]({"fsname": "lustre"}) == "0\n3\n"
    assert helper.OF_LUSTRE["lustre-counters"]({"fsname": "lustre"}) == brw_stats(7)
    assert site.commands() == wanted


@pytest.mark.parametrize(
    ("verb", "given", "said"),
    [
        ("locks", {"connections": ["ldlm.namespaces.*"]}, "'ldlm.namespaces.*' is no connection of a Lustre client"),
        ("locks", {"connections": [f"ldlm.namespaces.{OSC}.lru_size=0 jobid_var"]}, "is no connection"),
        ("locks", {"connections": []}, "[] is no list of connections"),
        ("tune", {"values": {"osc.*.max_rpcs_in_flight": "8"}}, "is no tunable of a Lustre client that is known"),
        ("tune", {"values": {f"osc.{OSC}.active": "0"}}, "is no tunable of a Lustre client that is known"),
        ("tune", {"values": {f"osc.{OSC}.checksums\n": "0"}}, "is no tunable of a Lustre client that is known"),
        ("tune", {"values": {f"osc.{OSC}.checksums": "0 nis.x=1"}}, "'0 nis.x=1' is no value of"),
        ("tune", {"values": {f"osc.{OSC}.checksums": 0}}, "0 is no value of"),
        ("sync", {"fsname": "*"}, "'*' is not the name of a Lustre file system"),
        ("counters", {"fsname": "a;id"}, "'a;id' is not the name of a Lustre file system"),
        ("counters", {}, "None is not the name of a Lustre file system"),
    ],
)
def test_what_is_no_clients_parameter_or_number_is_refused(site: Site, verb: str, given: dict, said: str) -> None:
    with pytest.raises(Refusal) as why:
        helper.OF_LUSTRE[f"lustre-{verb}"](given)
    assert said in str(why.value) and not site.commands()


def test_a_server_asks_its_helper_where_the_agent_is_a_users(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    spec, ask = {"name": "scratch", "lustre": {"fsname": "lustre"}}, f"sudo -n {privilege.HELPER} lustre-sync"
    shutil.copy(site.bin / "lctl", site.bin / "sudo")
    site.answer(ask, json.dumps({"value": "0\n3\n"}))
    assert servers.commit(spec) == [0, 3]
    for said, kind, words in (
        (json.dumps({"value": "many\n"}), Failure, "destroys_in_flight is 'many', and numbers are wanted"),
        (json.dumps({"refused": "no"}), Refusal, "no"),
        (json.dumps({"failed": "lctl"}), Failure, "lctl"),
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
    assert not shutil.which("blkid")
    assert main(["no-such-verb"]) == 2 and "no verb" in capsys.readouterr().out
    assert shutil.which("blkid") and shutil.which("ls") == "/usr/bin/ls", "what PATH had comes first"
