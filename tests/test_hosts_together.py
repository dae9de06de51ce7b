"""fio and netflow on several clients, each under its host's agent: begun together, judged apart, ended together.

The other hosts are Pythons of this machine; over SSH and in networks of their own: tests/cluster.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import local_targets
import pytest
from measuring import asked, cell, observed
from session import agent_at_work, another_host, wait_until
from states import MIB, bring, populate
from states import asked as asked_of_state
from striped import netflow_phases
from tiers import first_of, first_row_of

from fsage.base import Refusal, typed
from fsage.host import claiming, states
from fsage.host.cells import measure
from fsage.host.remote import remote_hosts
from fsage.host.targets import claims
from fsage.host.verbs import claim
from fsage.model.claim import BUILDING, READY
from fsage.studies.netflow import workloads as netflow
from fsage.workloads import metadata, sequential

pytestmark = pytest.mark.root
NAMES = ["n1", "n2", "n3"]
METADATA = {"workload": "metadata", "tool": "fio", "files_per_task": 20}
STEP = populate(10, sizes=(MIB,), request_bytes=MIB)


@pytest.fixture
def several(directory_target, tmp_path, monkeypatch):
    """A target of three clients, in a state, and what changes one of them."""
    monkeypatch.setattr(claiming, "_pair", local_targets.remembered)
    spec = {**directory_target, "amount_mib": 8}
    lies = dict.fromkeys(NAMES[1:], "")

    def hosts() -> dict:
        others = [another_host(tmp_path, name, lie) for name, lie in lies.items()]
        return {"clients": [{"name": "n1"}, *others], "servers": []}

    claim.create(spec, {}, False)
    claim.claim(spec, {"hosts": hosts()}, False)
    bring(spec, STEP, hosts=hosts())
    return spec, lies, hosts


def request_of(spec: dict, hosts: dict, *cells: dict) -> dict:
    made = [cell(spec, f"cell{order}", **params) for order, params in enumerate(cells, 1)]
    return asked(made, state="wanted", steps=[STEP], hosts=hosts)


def measured(spec: dict, request: dict) -> list[dict]:
    assert measure.measure(spec, request, False)["measured"] == len(request["cells"])
    return [observed(spec, each["name"])[0] for each in request["cells"]]


def fios(spec: dict) -> list[int]:
    """Processes of fio that work at a target, or wait to."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (
                os.readlink(entry / "cwd") == f"{spec['directory']}/measured"
                and b"fio" in (entry / "comm").read_bytes()
            ):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_step_is_shared_by_all_clients(several):
    spec, lies, hosts = several
    steps = [STEP, replace(STEP, generation=2, percent=20)]
    lies["n3"] = "sys.exit('no network')"
    with pytest.raises(Refusal, match="host n3 does not answer: no network; nothing was touched"):
        states.apply_step(spec, asked_of_state(*steps, hosts=hosts()), False)
    before = claims.read_token(Path(spec["directory"]))
    assert before and before.status == READY
    lies["n3"] = ""
    done = states.apply_step(spec, asked_of_state(*steps, hosts=hosts(), state="20.00"), False)
    assert done["changed"] and claims.read_token(Path(spec["directory"])).state == "20.00"


@pytest.mark.long
@pytest.mark.parametrize("lost", first_of("launcher", "host"))
def test_a_shared_step_ends_on_all_clients_with_any_of_them_and_is_resumed(several, lost):
    """The others notice by the connection: each file is one operation of four a second."""
    spec, _, hosts = several
    place = Path(spec["directory"])
    steps = [STEP, replace(STEP, generation=2, percent=60)]
    request = asked_of_state(*steps, state="60.00")
    sent = {**request, "steps": [step.to_json() for step in steps]}
    slow = {**spec, "limits": {"operations_s": 4}}
    files = len(list(place.glob("filler/*/*"))) + 4
    with agent_at_work("apply_step", target=slow, request=sent, hosts=hosts()) as process:
        assert process.stdout
        others = others_at_work(process.pid, place, files)
        assert len(others) == 2
        if lost == "host":
            os.kill(others[0], signal.SIGKILL)
            assert process.wait(20) == 2
            assert "host n2 was lost" in json.loads(process.stdout.read())["msg"]
        else:
            process.kill()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in others), 20)
    assert claims.read_token(place).status == BUILDING
    made = {path: path.stat().st_ino for path in place.glob("filler/*/*")}
    states.apply_step(spec, {**request, "hosts": hosts()}, False)
    assert claims.read_token(place).state == "60.00"
    assert made.items() <= {path: path.stat().st_ino for path in place.glob("filler/*/*")}.items(), "it stays"


def others_at_work(launcher: int, place: Path, files: int) -> list[int]:
    """The host agents of a launcher, once the clients have made so many files together."""
    wait_until(lambda: len(list(place.glob("filler/*/*"))) >= files)
    return list(map(int, Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()))


@pytest.mark.long
def test_a_cell_is_of_all_hosts_from_the_first_start_to_the_last_end(several, monkeypatch):
    spec, _, hosts = several
    monkeypatch.setattr(remote_hosts, "SAY_EVERY_S", 0.0)  # as in a long phase
    first, other = measured(spec, request_of(spec, hosts(), {}, METADATA))
    outcome = sequential.read(first)
    assert (outcome.status, outcome.why) == ("valid", None)
    assert outcome.metrics["write_bytes"] == outcome.metrics["read_bytes"] == 3 * 8 * MIB
    for phase in first["phases"]:
        assert phase["argv"] == ["fio", "--output-format=json", "--eta=never", "-"]
        assert list(phase["by_host"]) == list(phase["jobs"]) == NAMES
        own = [json.loads(each["stdout"])["jobs"][0] for each in phase["by_host"].values()]
        assert [job["jobname"] for job in own] == [f"measured.{name}" for name in NAMES]
        spread_s = outcome.metrics[f"{phase['name']}_start_spread_ms"] / 1000
        longest_s = max(job[phase["name"]]["runtime"] for job in own) / 1000
        seconds = outcome.metrics[f"{phase['name']}_seconds"]
        assert longest_s - 0.001 <= seconds <= longest_s + spread_s + 0.001 and 0 <= spread_s < 5
    outcome = metadata.read(other)
    assert (outcome.status, outcome.why) == ("valid", None)
    assert outcome.metrics["create_files"] == 3 * 20 and outcome.metrics["create_start_spread_ms"] >= 0

    def told(host: str, **changes: object) -> str:
        spoiled = copy.deepcopy(first)
        spoiled["phases"][0]["by_host"][host] |= changes
        judged = sequential.read(spoiled)
        assert judged.status == "failed" and not judged.metrics
        return judged.why

    write = first["phases"][0]
    another = write["by_host"]["n3"]["stdout"]
    assert told("n2", stdout=another) == "write: host n2: the output is of another host's job: measured.n3"
    other_size = another.replace('"4194304"', '"4096"')
    assert "not of this command: --bs was 4194304, fio reports 4096" in told("n3", stdout=other_size)
    assert "host n3: its clock was set while the phase ran" in told("n3", clock_ahead_s=7.0)
    del write["by_host"]["n3"]
    assert sequential.read(first).why == "write: of the clients n1, n2, n3 there is output of n1, n2"


@pytest.mark.long
@pytest.mark.parametrize(
    ("lie", "why"),
    first_row_of(
        (
            "os.environ['PATH'] = '{late}:' + os.environ['PATH']",
            "write: host n2: fio ended with code 7: no space for you",
        ),
        ("os.environ['PATH'] = '/none'", "write: n2: fio does not start on"),
    ),
)
def test_a_host_whose_fio_fails_is_named_and_the_next_cell_is_measured(several, tmp_path, lie, why):
    spec, lies, hosts = several
    once = f'[ -e {tmp_path}/failed ] && exec /usr/bin/fio "$@"\ntouch {tmp_path}/failed\n'
    fio = tmp_path / "late" / "fio"
    fio.parent.mkdir()
    fio.write_text(f"#!/bin/sh\n{once}cat >/dev/null; echo no space for you >&2; exit 7\n")
    fio.chmod(0o755)
    lies["n2"] = lie.format(late=fio.parent)
    first, second = measured(spec, request_of(spec, hosts(), {}, {"iteration": 2}))
    outcome = sequential.read(first)
    assert outcome.status == "failed" and outcome.why.startswith(why), outcome.why
    assert "none" in lie or sequential.read(second).status == "valid", sequential.read(second).why
    assert fios(spec) == []
    if "late" in lie:
        assert "exit code 7 on n2" in first["why"]
        assert first["phases"][0]["by_host"]["n3"]["rc"] == 0, "what the others gave is kept"


@pytest.mark.long
def test_netflows_tasks_on_all_hosts_share_the_work(several):
    spec, _, hosts = several
    place = f"{spec['directory']}/measured"
    request = request_of(spec, hosts(), {}, {"iteration": 2})
    request["cells"][0]["phases"] = netflow_phases(place, NAMES, 2)
    request["cells"][1]["phases"] = netflow_phases(place, NAMES[:2], 2)
    whole, fewer = measured(spec, request)
    for observation, clients in ((whole, NAMES), (fewer, NAMES[:2])):
        assert observation["why"] is None
        assert all(list(phase["by_host"]) == clients for phase in observation["phases"])
        made, index, models = (netflow._result(phase) for phase in observation["phases"])
        assert (index.tasks, index.shares, index.bytes) == (2 * len(clients), 16, 16 * MIB)
        assert (index.records, index.checksum) == (made.records, made.checksum)
        assert (models.records, models.checksum) == (made.read_records, made.read_checksum)
        assert all(each.least_shares >= 1 and 0 < each.seconds < 20 for each in (made, index, models))


LAUNCHER = """
import json, sys
from fsage.host.verbs import checks
from fsage.host.cells import measure
spec, request = json.load(sys.stdin)
measure.measure(spec, checks.checked(request, request.pop("hosts")), False)
"""


@pytest.mark.long
def test_what_the_hosts_started_ends_with_a_launcher_that_is_killed(several):
    spec, _, hosts = several
    request = request_of(spec, hosts(), {})
    for phase in request["cells"][0]["phases"]:
        phase["jobs"] = {name: f"{job}time_based\nruntime=600\n" for name, job in phase["jobs"].items()}
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], stdin=subprocess.PIPE, text=True) as launcher:
        launcher.stdin.write(json.dumps([spec, typed.to_json(request)]))
        launcher.stdin.close()
        wait_until(lambda: len(list(Path(spec["directory"]).glob("measured/measured.*"))) == len(NAMES))
        own = [pid for pid in fios(spec) if parent(pid) == launcher.pid]
        assert len(own) == 1 and len(fios(spec)) == len(NAMES)
        launcher.kill()
    wait_until(lambda: not set(fios(spec)) - set(own))
    for pid in own:
        os.kill(pid, signal.SIGKILL)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
