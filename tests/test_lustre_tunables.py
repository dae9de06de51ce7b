"""Tunables of Lustre clients: set, read back, compared and put back, with every trap of the recorded session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lustre_site import Site, lustre_target, session

from fsage.host.verbs import claim, tune
from fsage.model.errors import Failure, Refusal

pytestmark = pytest.mark.root
RECORDED = session("lctl_get_param_n_tunables.txt")
SETTING = session("lctl_set_param.txt")
ALL = next(answers[0]["stdout"] for command, answers in RECORDED.items() if "-n" not in command and "dirty" in command)
OST0, OST1 = (f"osc.lustre-OST000{number}-osc-ff11000110ffb000" for number in (0, 1))
LLITE = "llite.lustre-ff11000110ffb000"


@pytest.fixture
def spec(tmp_path: Path, site: Site) -> dict:
    spec = lustre_target(tmp_path, site)
    claim.claim(spec, {}, False)
    site.commands()
    return spec


def asked(name: str) -> str:
    return f"lctl get_param osc.lustre-OST*.{name} llite.lustre-*.{name}"


def holds(site: Site, name: str, *values: str) -> None:
    """What the parameters of a name are at one look after the other; that there is none of llite or osc is no error."""
    recorded = "".join(line + "\n" for line in ALL.splitlines() if f".{name}=" in line)
    before = recorded.split("=")[-1].strip()
    missing = "osc" if recorded.startswith("llite") else "llite"
    error = f"error: get_param: param_path '{missing}/lustre-*/{name}': No such file or directory\n"
    recorded += f"llite.lustre-two-ff11000110ffb000.{name}=1\n"  # another file system, which the glob reaches
    looks = [recorded.replace(f"={before}\n", f"={value}\n") for value in (before, *values)]
    site.answers({asked(name): [{"stdout": look, "stderr": error, "rc": 2} for look in looks]})


def test_the_studys_tunables_are_set_by_name_read_back_and_put_back(spec: dict, site: Site) -> None:
    holds(site, "max_rpcs_in_flight", "256")
    holds(site, "max_read_ahead_mb", "512")
    missing = RECORDED["lctl get_param osc.*.read_ahead_step"][0]
    site.answers({asked("read_ahead_step"): [missing]})
    setting = [
        f"lctl set_param -n {LLITE}.max_read_ahead_mb=512",
        f"lctl set_param -n {OST0}.max_rpcs_in_flight=256 {OST1}.max_rpcs_in_flight=256",
    ]
    for command in setting:
        site.answer(command)
    request = {"tuning": {"max_rpcs_in_flight": 256, "max_read_ahead_mb": 512, "read_ahead_step": 4}}
    answer = tune.tune(spec, request, False)
    assert answer["changed"]
    assert answer["tunables"]["read_ahead_step"] == {
        "asked": 4,
        "unsupported": "neither osc nor llite of lustre has it",
    }
    assert answer["tunables"]["max_rpcs_in_flight"] == {
        "asked": 256,
        "before": {f"{OST0}.max_rpcs_in_flight": "8", f"{OST1}.max_rpcs_in_flight": "8"},
        "now": {f"{OST0}.max_rpcs_in_flight": "256", f"{OST1}.max_rpcs_in_flight": "256"},
    }
    assert [command for command in site.commands() if "set_param" in command] == setting
    again = tune.tune(spec, request, False)
    assert not again["changed"]
    assert again["tunables"] == answer["tunables"], "what was there before is kept"

    back = [
        f"lctl set_param -n {LLITE}.max_read_ahead_mb=256",
        f"lctl set_param -n {OST0}.max_rpcs_in_flight=8 {OST1}.max_rpcs_in_flight=8",
    ]
    for command in back:
        site.answer(command)
    for name, old, new in (("max_rpcs_in_flight", "8", "256"), ("max_read_ahead_mb", "256", "512")):
        holds(site, name, old)
        answers = site.left()[asked(name)]
        first = {**answers[0], "stdout": answers[0]["stdout"].replace(f"={old}\n", f"={new}\n")}
        site.answers({asked(name): [first, answers[0]]})
    site.commands()
    proof = claim.release(spec, {}, False)["proof"]
    assert "max_rpcs_in_flight: 256 -> 8 at 2 connections" in proof
    assert [command for command in site.commands() if "set_param" in command] == back


@pytest.mark.parametrize(
    ("name", "asks", "becomes", "says"),
    [
        ("max_pages_per_rpc", 99999, "24", "max_pages_per_rpc read back 24; put back"),
        ("max_read_ahead_per_file_mb", 512, "256", "per_file_mb read back 256; put back"),
    ],
)
def test_what_lustre_takes_and_does_not_do_fails_and_is_put_back(
    spec: dict, site: Site, name: str, asks: int, becomes: str, says: str
) -> None:
    """rc 0 and another value, as recorded."""
    holds(site, name, becomes)
    full = [line.split("=")[0] for line in ALL.splitlines() if f".{name}=" in line]
    before = {line.split("=")[0]: line.split("=")[1] for line in ALL.splitlines()}
    site.answer("lctl set_param -n " + " ".join(f"{one}={asks}" for one in full))
    back = "lctl set_param -n " + " ".join(f"{one}={before[one]}" for one in full)
    site.answer(back)
    with pytest.raises(Failure, match=says):
        tune.tune(spec, {"tuning": {name: asks}}, False)
    assert site.commands("lctl set_param")[-1] == back
    assert not (Path(spec["home"]) / "scratch" / "tunables.json").exists()


def test_what_is_set_in_part_is_put_back(spec: dict, site: Site) -> None:
    holds(site, "max_rpcs_in_flight")
    looks = site.left()[asked("max_rpcs_in_flight")]
    part = {
        **looks[0],
        "stdout": looks[0]["stdout"].replace(f"{OST0}.max_rpcs_in_flight=8", f"{OST0}.max_rpcs_in_flight=257"),
    }
    site.answers({asked("max_rpcs_in_flight"): [looks[0], part]})
    refused = SETTING["lctl set_param osc.*.max_rpcs_in_flight=257"][0]
    command = f"lctl set_param -n {OST0}.max_rpcs_in_flight=257 {OST1}.max_rpcs_in_flight=257"
    site.answers({command: [refused]})
    site.answer(f"lctl set_param -n {OST0}.max_rpcs_in_flight=8")
    with pytest.raises(Failure, match=r"(?s)OST0001\S+ read back 8; .*result out of range; put back"):
        tune.tune(spec, {"tuning": {"max_rpcs_in_flight": 257}}, False)
    assert site.commands("lctl set_param")[-1] == f"lctl set_param -n {OST0}.max_rpcs_in_flight=8"


def test_check_changes_nothing_and_odd_values_are_refused(spec: dict, site: Site) -> None:
    holds(site, "max_dirty_mb")
    answer = tune.tune(spec, {"tuning": {"max_dirty_mb": 1024}}, True)
    assert set(answer["tunables"]["max_dirty_mb"]["now"].values()) == {"742"}
    assert answer["proof"] == ["max_dirty_mb: 742 -> 1024 at 2 connections"]
    assert answer["changed"] and site.commands("lctl set_param") == []
    for tuning in ({"max_dirty_mb": "1G"}, {"*": 1}):
        with pytest.raises(Refusal, match=r"tuning\b"):
            tune.tune(spec, {"tuning": tuning}, False)


def test_tunables_are_put_back_without_a_release_and_preallocation_stays(spec: dict, site: Site) -> None:
    holds(site, "max_rpcs_in_flight", "256")
    both = (f"{OST0}.max_rpcs_in_flight={{0}}", f"{OST1}.max_rpcs_in_flight={{0}}")
    for value in (8, 256):
        site.answer("lctl set_param -n " + " ".join(both).format(value))
    tune.tune(spec, {"tuning": {"max_rpcs_in_flight": 256}}, False)
    path = Path(spec["home"]) / "scratch" / "tunables.json"
    noted = json.loads(path.read_text())
    path.write_text(json.dumps({**noted, "preallocation": {"asked": {"size": "4MiB"}, "before": {}, "now": {}}}))
    wanted = "max_rpcs_in_flight: 256 -> 8 at 2 connections"
    assert tune.restore(spec, {}, True)["proof"] == [wanted]
    assert set(json.loads(path.read_text())) == {"max_rpcs_in_flight", "preallocation"}
    looks = site.left()[asked("max_rpcs_in_flight")]
    site.answers(
        {asked("max_rpcs_in_flight"): [looks[-1], {**looks[-1], "stdout": looks[-1]["stdout"].replace("256", "8")}]}
    )
    site.commands()
    assert tune.restore(spec, {}, False)["proof"] == [wanted]
    assert site.commands("lctl set_param") == ["lctl set_param -n " + " ".join(both).format(8)]
    assert set(json.loads(path.read_text())) == {"preallocation"}
    assert not tune.restore(spec, {}, False)["changed"]
