"""Every message between hosts with hostile values: typed data, or refused in a sentence, and no file elsewhere.

Each begins as what is really sent; then some values in it are replaced, or it is no JSON at all.
"""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from records import make_store
from sent import CLAIM, STUDY, bundle, observation

from fsage import dataset
from fsage.agent import __main__ as agent
from fsage.agent.errors import Refusal
from fsage.agent.hosts import alike, answers
from fsage.agent.lustre import osts
from fsage.agent.message import DEPTH, Unacceptable
from fsage.agent.targets import lease
from fsage.agent.verbs import asked as taken
from fsage.plan import results
from fsage.plan.plan import Plan, load_plan
from fsage.records import messages, record
from fsage.report import evidence
from fsage.run import request
from fsage.site import findings, page
from fsage.site.inspect import Host, Site
from fsage.study.study import StudyError

ROOT = Path(__file__).resolve().parents[1]
STATE = "30.00@8M"
EXAMPLES = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
DEEP: Any = 1
for _ in range(60):
    DEEP = [DEEP]
HOSTILE: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [
            *("../../../inventories/x/group_vars", "..", ".", "", "/etc/passwd", "a/b", "a\\b", "a b", "-rf", "~"),
            *("\0", "a\nb", "\x1b[2J\x1b]0;x\a", "\u202e", "\ud800", "\x85", "x" * 70_000, "9" * 40),
            *("{{ lookup('pipe', 'touch ran') }}", "{% for a in b %}", "!unsafe x", "$(touch ran)", "`id`", "%s %n"),
            *(None, True, False, 0, -1, 2**31, 2**63, -(2**63), 10**19, 10**400, 0.5, 1e308, -1e308),
            *(float("nan"), float("inf"), -float("inf")),
            *([], {}, [[]], [None], [1, "a"], {"": {}}, {"../x": "../y"}, {"__class__": "x"}, DEEP),
        ]
    ),
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=6,
    ),
)


@st.composite
def spoiled(draw: st.DrawFn, value: Any) -> Any:
    """The value with one to three of its parts replaced, left out or added to."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        place = value
        while isinstance(place, (dict, list)) and place:
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            below = place[key]
            if not isinstance(below, (dict, list)) or not below or draw(st.booleans()):
                break
            place = below
        if not place or not isinstance(place, (dict, list)):
            return copy.deepcopy(draw(HOSTILE))
        how = draw(st.sampled_from(["replaced", "replaced", "replaced", "left out", "more"]))
        if how == "left out":
            del place[key]
        elif how == "more" and isinstance(place, dict):
            place[draw(st.text(max_size=5))] = copy.deepcopy(draw(HOSTILE))
        else:
            place[key] = copy.deepcopy(draw(HOSTILE))
    return value


def sent(message: Any) -> bytes:
    """As it goes over the wire, NaN and all; what has no bytes as an escape."""
    return json.dumps(message).encode()


def accepts(read: Callable[[], Any], refusal: type[Exception]) -> Any:
    """What `read` gives; None where it refuses, in one line that a terminal can show."""
    try:
        return read()
    except refusal as why:
        text = str(why)
        assert text and text.isprintable() and len(text) < 3000
        return None


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    place = tmp_path_factory.mktemp("plan")
    (place / "config").mkdir()
    (place / "inventories/here/group_vars/all").mkdir(parents=True)
    (place / "config/tiny.yaml").write_text(yaml.safe_dump(STUDY))
    target = {"fsage_target": {"name": "here", "kind": "loop"}}
    (place / "inventories/here/group_vars/all/target.yml").write_text(yaml.safe_dump(target))
    results.write(place / "results/targets/here.json", CLAIM)
    return load_plan(place / "config/tiny.yaml", place / "inventories/here", place / "results")


def files(place: Path) -> set[str]:
    """All files below a folder."""
    return {str(one.relative_to(place)) for one in place.rglob("*") if one.is_file() or one.is_symlink()}


@EXAMPLES
@given(data=st.data())
def test_an_observation_is_taken_as_what_was_asked_for_or_kept_aside(plan: Plan, data: st.DataObject) -> None:
    root, state = plan.results.root, STATE
    done = observation(plan, state, 1, why=None, status="done", id=data.draw(st.uuids().map(str)))
    evil = data.draw(st.one_of(spoiled(done).map(sent), st.binary(max_size=40), st.just(b"[" * 100_000)))
    path = bundle(plan, evil, observation(plan, state, 0))
    before = files(root.parent)
    _, refused = record.unpack(path, root, "here")
    assert all(one.isprintable() for one in refused)
    where = f"here/tiny/{state}"
    mine = (f"results/raw/{where}/", f"results/pending/{where}/", "results/refused/here/")
    added = files(root.parent) - before
    assert all(one.startswith(mine) and one.count("/") == mine[one.startswith(mine[2]) * 2].count("/") for one in added)
    assert len(refused) <= 1, "the good one is always taken"
    if refused:
        assert evil in [one.read_bytes() for one in (root / "refused/here").iterdir()], "never lost"
    if not record.hand_over(plan, state):  # a record of it, and the report's table
        paths = [plan.results.record(state, cell.name) for cell in plan.cells[state]]
        assert set(dataset.load(paths)["cell"]) == {cell.name for cell in plan.cells[state]}
        for one in paths:
            one.unlink()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_a_bundle_holds_regular_files(plan: Plan, kind: bytes) -> None:
    path = bundle(plan, observation(plan, STATE, 0))
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("../../../etc/cron.d/x")
        link.type, link.linkname = kind, "/etc/passwd"
        tar.addfile(link)
        one = sent(observation(plan, STATE, 1))
        entry = tarfile.TarInfo("/etc/x")
        entry.size = len(one)
        tar.addfile(entry, io.BytesIO(one))
    _, refused = record.unpack(path, plan.results.root, "here")
    assert len(refused) == 1 and "is no regular file" in refused[0]
    assert not list(plan.results.root.rglob("*cron*"))


def test_a_bundle_that_was_cut_short_or_is_none_is_kept(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bundle(plan, observation(plan, STATE, 0), observation(plan, STATE, 1)).read_bytes()
    for content in (
        b"",
        b"no tar",
        whole[:600],
        whole[:3000],
        whole[:2560] + b"x" * 512 + whole[3072:],
        b"\x1f\x8b" + whole,
    ):
        plan.results.bundle("any").write_bytes(content)
        _, refused = record.unpack(plan.results.bundle("any"), plan.results.root, "here")
        assert len(refused) == 1 and "cannot be read" in refused[0]
        assert content in [one.read_bytes() for one in (plan.results.root / "refused/here").iterdir()]
    monkeypatch.setattr(record, "ENTRIES", 1)
    _, refused = record.unpack(bundle(plan, *[observation(plan, STATE, n) for n in (0, 1)]), plan.results.root, "here")
    assert "is one of more than 1" in refused[0]
    monkeypatch.setattr(messages, "OBSERVATION_BYTES", 100)
    _, refused = record.unpack(bundle(plan, observation(plan, STATE, 1)), plan.results.root, "here")
    assert "bytes, and at most 100 are taken" in refused[0]


def test_what_a_lost_run_asked_for_is_taken_and_what_nobody_did_is_not(plan: Plan) -> None:
    root, lost = plan.results.root, observation(plan, "60.50@8M", 0)
    for key, value in (("attempt", 2), ("claim", "c2"), ("order", 99), ("cell", "other"), ("target", "elsewhere")):
        evil = {**lost, "id": f"x{key}", key: value}
        _, (why,) = record.unpack(bundle(plan, evil), root, "here")
        assert "asked for" in why
    evil = {**lost, "params": {**lost["params"], "workload": "os"}}
    _, (why,) = record.unpack(bundle(plan, evil), root, "here")
    assert "as params" in why and "was asked for" in why
    evil = {**lost, "nominal": {**lost["nominal"], "recipe": "../../../x"}}
    assert "as nominal" in record.unpack(bundle(plan, evil), root, "here").refused[0]
    later = plan.study.model_copy(update={"tuning": {"nomerges": 2}})  # the study was edited since
    request.make(Plan(later, plan.target, plan.results, plan.claim), "60.50@8M")
    assert record.unpack(bundle(plan, lost), root, "here") == (1, [])


@EXAMPLES
@given(data=st.data())
def test_a_claim_a_states_evidence_and_a_probe_are_saved_as_what_they_are(
    plan: Plan, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    of = {"name": "here"}
    claim = {
        **{**CLAIM, "target": "here", "kind": "loop", "host": "n1", "hosts": ["n1"], "capacity_bytes": 1 << 40},
        **{"launcher": "openmpi", "launcher_options": [], "device_model": {"kind": "none", "label": "none"}},
        **{"schema": 1, "status": "claimed", "created": "t", "kernel": "6", "containers": None, "images": {}},
        **{"declared": {}, "filesystem_state_known": True},
    }
    one = observation(plan, STATE, 0)
    asked_for = request.make(plan, STATE)
    of_state = {
        **{**one["layout"], "study": "tiny", "state": STATE, "token": {"instance": "i1", "claim": "c1"}},
        "layout": {"schema": 1, "stores": [make_store(30, 0)]},
    }
    probe = {
        **{"able": True, "missing": [], "root": True, "host": "n1", "kernel": "6", "memory_bytes": 1 << 34},
        **{"network_mbit_s": [1000], "time": 1.0e9, "tools": {"fio": "3.33", "ior": None}, "images": {}},
        **{"uid": 0, "lustre": None},
        **{"places": [{"directory": "/d", "free_gib": 1.0}], "claim": {"id": "c", "created": "t", "status": "claimed"}},
    }
    samples = {"claim": claim, "evidence": of_state, "probe": probe}
    key = data.draw(st.sampled_from(sorted(samples)))
    assert json.loads(messages.saved(key, samples[key], of, asked_for)) == json.loads(sent(samples[key]))
    value = data.draw(st.one_of(spoiled(samples[key]), HOSTILE))
    text = accepts(lambda: messages.saved(key, value, of, asked_for), Unacceptable)
    if text is None:
        return
    found = json.loads(text)
    place = tmp_path_factory.mktemp("saved")
    if key == "claim":  # what is made of it
        there = Plan(plan.study, plan.target, results.Results(place, "here", "tiny"), found)
        accepts(lambda: request.make(there, STATE, there.cells[STATE]), StudyError)
        accepts(there.line, StudyError)
    elif key == "evidence":
        (place / "e.json").write_bytes(text)
        seen = evidence.read({STATE: place / "e.json"}, {STATE: ["d"]})
        assert seen.known or seen.refused
    else:
        site = Site([Host("n1", ("clients",), found, 1.0), Host("n2", ("clients",), probe, 1.0)], ("clients",))
        assert len(page.rows(site)) == 2
        assert all(isinstance(one, str) for one in findings._clocks(site) + findings._unable(site))
        alike.differences({host.name: host.answer for host in site.hosts if host.answer})


@EXAMPLES
@given(data=st.data())
def test_a_request_is_refused_by_the_agent_or_of_its_types(plan: Plan, data: st.DataObject) -> None:
    made = json.loads(json.dumps(request.make(plan, STATE, plan.cells[STATE])))
    question = {"target": {"name": "here"}, "request": made, "hosts": {"clients": [{"name": "n1"}], "servers": []}}
    text = data.draw(st.one_of(spoiled(question).map(sent), st.binary(max_size=20), st.just(b"[" * 100_000)))
    verb = data.draw(st.sampled_from(["scrub", "measure", "evidence", "begin_step", "end_step", "hold"]))

    def read() -> dict[str, Any]:
        given_ = agent.question(text)
        got = taken.checked(given_.get("request") or {}, given_.get("hosts"))
        taken.needed(verb, got)
        return got

    got = accepts(read, Refusal)
    for one in (got or {}).get("cells", []):
        path = Path("/outbox") / got.get("study", "s") / got.get("state", "s") / f"{one['name']}.{one['attempt']}.json"
        assert len(path.parts) == 5 and ".." not in path.parts


@EXAMPLES
@given(data=st.data())
def test_what_other_hosts_answer_the_launcher(data: st.DataObject) -> None:
    samples: dict[tuple[str, str], Any] = {
        ("hello", "client"): {
            **{"root": True, "host": "n", "kernel": "6", "memory_bytes": 1 << 30, "network_mbit_s": [1]},
            **{"time": 1.5, "images": {}, "lustre": None, "missing": ["fio"], "tools": {}},
        },
        ("drop", "client"): {"seconds": 0.1, "cached_pages": 0, "method": "drop_caches=3"},
        ("drop", "server"): {"seconds": 0.1, "method": "drop_caches=3"},
        ("read", "client"): {},
        ("prealloc", "server"): {"tables": {"lustre-OST0000": "256 512 1024"}},
        ("server_cache", "server"): {"ldiskfs": [], "zfs": ["p/a"], "now": {"p/a": "none"}},
        ("serve", "client"): {},
    }
    told, role = data.draw(st.sampled_from(sorted(samples)))
    text = data.draw(st.one_of(spoiled(samples[told, role]).map(sent), st.binary(max_size=20)))
    answer = accepts(lambda: answers.checked(text, told, role), Unacceptable)
    if answer is None or "failed" in answer:
        return
    if told == "hello":
        alike.differences({"a": answer, "b": samples["hello", "client"]})
        alike.skews("n", answer["time"], 1.0, 2.0)
        assert all(isinstance(what, str) for what in answer.get("missing", ()))
    if (told, role) == ("drop", "client"):
        assert answer["cached_pages"] + 1 >= 1
    if told == "prealloc":
        assert all(isinstance(table, str) for table in answer["tables"].values())


class OfLustre:
    """A target, as far as is asked here."""

    spec = {"lustre": {"fsname": "lustre"}}  # noqa: RUF012
    claim = {"lustre": {"osts": {"lustre-OST0000": {}, "lustre-OST0001": {}}}}  # noqa: RUF012


@EXAMPLES
@given(data=st.data())
def test_what_servers_say_of_their_osts(data: st.DataObject) -> None:
    seen = [{"ost": f"lustre-OST000{number}", "store": number, "host": "oss"} for number in (0, 1)]
    hostile = json.loads(sent(data.draw(spoiled(seen)))) if data.draw(st.booleans()) else seen
    if isinstance(hostile, list):
        found = accepts(lambda: osts.every(OfLustre(), hostile), Refusal)  # type: ignore[arg-type]  # of a target only this
        assert found is None or [one["store"] for one in found][:2] == [0, 1]


def action() -> Any:
    """The action plugin."""
    spec = importlib.util.spec_from_file_location("of_fsage", ROOT / "roles/agent/action_plugins/fsage_agent.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@EXAMPLES
@given(data=st.data())
@example(data=None)
def test_an_agents_answer_is_a_tasks_result_and_nothing_that_ansible_obeys(data: st.DataObject | None) -> None:
    well = {"changed": True, "msg": "done", "proof": ["a"], "count": 2, "step": {"kind": "populate"}}
    if data is None:
        text: bytes = sent({**well, "ansible_facts": {"a": 1}, "add_host": {}, "_ansible_no_log": 1, "results": [1]})
    else:
        text = data.draw(st.one_of(spoiled(well).map(sent), st.text().map(lambda said: said.encode(errors="replace"))))
    ran = {"rc": 0, "stdout": "a banner\n" + text.decode() + "\n", "stderr": "said\n"}
    answer = action().answer_of("measure", ran)
    assert isinstance(answer["msg"], str) and all(isinstance(one, str) for one in answer.get("proof", ()))
    assert isinstance(answer["failed"], bool) and isinstance(answer["changed"], bool)
    assert not [key for key in answer if key.startswith(("ansible", "_ansible")) or key in ("add_host", "results")]


def over_ssh(module: Any, run: Callable[..., dict]) -> Any:
    """The action on a host, where `run` is the connection."""
    made = module.ActionModule.__new__(module.ActionModule)
    made._connection, made._low_level_execute_command = SimpleNamespace(transport="ssh"), run
    return made


def test_a_host_that_sends_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    module = action()
    monkeypatch.setattr(module, "HEARD_BYTES", 64 << 20)
    before = resource.getrlimit(resource.RLIMIT_AS)

    def endless(line: str, in_data: bytes | None) -> dict:
        with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as host:
            try:
                return {"stdout": host.communicate()[0]}  # as Ansible does: all of it is kept
            finally:
                host.kill()

    ran = over_ssh(module, endless)._execute("agent", None)
    assert module.answer_of("probe", ran)["msg"].endswith(
        "no answer; it last said: more than 64 MiB of memory hold; the rest was not read"
    )
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize("length", [0, 6, 7, 20, 21])
def test_a_hosts_file_comes_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, length: int) -> None:
    module, path, content = action(), tmp_path / "a 'bundle'", os.urandom(length)
    path.write_bytes(content)
    monkeypatch.setattr(module, "PART_BYTES", 7)
    monkeypatch.setattr(module, "BUNDLE_BYTES", 20)

    def shell(line: str, in_data: bytes | None) -> dict:
        ran = subprocess.run(line, shell=True, capture_output=True, text=True)
        return {"rc": ran.returncode, "stdout": ran.stdout, "stderr": ran.stderr}

    parts = over_ssh(module, shell)._fetch(str(path), sys.executable)
    if length > 20:
        with pytest.raises(Unacceptable, match="more than 20 bytes"):
            list(parts)
        return
    assert b"".join(parts) == content
    with pytest.raises(AnsibleActionFail, match=r"gone could not be fetched: .*No such file"):
        list(over_ssh(module, shell)._fetch("/gone", sys.executable))


def test_a_holder_that_a_host_names_is_looked_up_only_as_what_it_is() -> None:
    gone = {"run": "r1", "machine": lease.machine(), "pid": os.getpid(), "pid_start": 1}
    dead = action().dead_holder
    assert dead(gone) == "r1"
    assert dead({**gone, "pid_start": lease.start_of(os.getpid())}) is None
    for wrong in ({"run": "../r1"}, {"run": 1}, {"machine": []}, {"pid": "1; true"}, {"pid": True}, {"pid": None}):
        assert dead({**gone, **wrong}) is None, wrong
    assert [dead(one) for one in (None, [], "r1", {}, 1)] == [None] * 5


def test_the_bounds_are_where_they_are_said_to_be() -> None:
    nested: Any = 1
    for _ in range(DEPTH - 1):
        nested = {"a": nested}
    messages.check(nested)
    with pytest.raises(Unacceptable, match="nested deeper"):
        messages.check({"a": nested})
    with pytest.raises(Unacceptable, match="the number Infinity, which is none"):
        messages.read('{"a": Infinity}', 100)
    with pytest.raises(Unacceptable, match="the number inf, which is none"):
        messages.read('{"a": 1e999}', 100)
    with pytest.raises(Unacceptable, match="a whole number of 40 digits"):
        messages.read('{"a": ' + "9" * 40 + "}", 100)
