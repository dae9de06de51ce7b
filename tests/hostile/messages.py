"""Readers of what hosts send each other: typed data, or refused in one line, and no file elsewhere."""

import importlib.util
import json
import shutil
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import yaml
from hypothesis import strategies as st
from records import make_store
from sent import CLAIM, STUDY, bundle, observation

from fsage import dataset, records
from fsage.base import message
from fsage.host import __main__ as agent
from fsage.host.verbs import checks
from fsage.model import answers
from fsage.model.hosts import differences, skews
from fsage.plan import Plan, load_plan, results, words
from fsage.records import messages
from fsage.report import evidence
from fsage.run import request
from fsage.site import inspect, page
from fsage.site.inspect import Host, Site
from fsage.studies.lustre.host import servers
from fsage.study import StudyError
from hostile import bend
from hostile.bend import folder

ROOT = Path(__file__).resolve().parents[2]
STATE = "30.00@8M"
JUNK = st.one_of(st.binary(max_size=40), st.just(b"[" * 100_000))
"""Bytes that are no message at all."""


def make_plan(place):
    """The plan of a small study on a target that was claimed."""
    (place / "config").mkdir(parents=True)
    (place / "config/tiny.yaml").write_text(yaml.safe_dump(STUDY))
    target = place / "inventories/here/group_vars/all/target.yml"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(yaml.safe_dump({"fsage_target": {"name": "here", "kind": "loop"}}))
    results.write(place / "results/targets/here.json", CLAIM)
    return load_plan(place / "config/tiny.yaml", place / "inventories/here", place / "results")


@cache
def plan():
    """One for all inputs of a process."""
    return make_plan(folder() / "plan")


def files_below(place):
    """All files below a folder."""
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() or path.is_symlink()}


def sent(*samples):
    """Samples as they go over the wire, bent, or what is no message at all."""
    return bend.values(list(samples)).map(bend.as_json) | JUNK


def observations():
    """Observations of a cell that was measured, each of an identity of its own."""
    done = observation(plan(), STATE, 1, why=None, status="done")
    return st.uuids().flatmap(lambda identity: sent(done | {"id": str(identity)}))


def read_observation(content):
    """Beside a good one in a bundle: taken as what was asked for, or kept aside, and the good one is always taken.

    What came is forgotten afterwards, so that each input is the first answer to its request, and none costs more.
    """
    results_of = plan().results
    root = results_of.root
    path = bundle(plan(), content, observation(plan(), STATE, 0))
    before = files_below(root.parent)
    _, refused = records.unpack(path, root, "here")
    assert all(why.isprintable() for why in refused)
    of_state = f"here/tiny/{STATE}"
    places = {f"results/{place}" for place in (f"raw/{of_state}", f"records/{of_state}", "refused/here")}
    assert {str(Path(added).parent) for added in files_below(root.parent) - before} <= places
    assert len(refused) <= 1, "the good one is always taken"
    if refused:
        assert content in [path.read_bytes() for path in (root / "refused/here").iterdir()], "never lost"
    names = [cell.name for cell in plan().cells[STATE]]
    paths = [results_of.record(STATE, name) for name in names]
    if all(path.exists() for path in paths):  # the report's table
        assert sorted(dataset.load(paths)["cell"]) == sorted(names)
    for kind in ("raw", "records", "refused"):
        shutil.rmtree(root / kind, ignore_errors=True)


def _claim():
    of_hosts = {"host": "n1", "hosts": ["n1"], "launcher": "openmpi", "launcher_options": [], "kernel": "6"}
    of_target = {"target": "here", "kind": "loop", "capacity_bytes": 1 << 40, "declared": {}, "created": "t"}
    of_target["device_model"] = {"kind": "none", "label": "none"}
    known = {"schema": 1, "status": "claimed", "containers": None, "images": {}, "filesystem_state_known": True}
    return CLAIM | of_hosts | of_target | known


def _evidence():
    of_state = {"study": "tiny", "state": STATE, "token": {"instance": "i1", "claim": "c1"}}
    layout = {"schema": 1, "stores": [make_store(30, 0)]}
    return {**observation(plan(), STATE, 0)["layout"], **of_state, "layout": layout}


def _probe():
    return {
        "able": True,
        "images": {},
        "places": [{"directory": "/d", "free_gib": 1.0}],
        "claim": {"id": "c", "created": "t", "status": "claimed"},
        **ANSWERS["hello", "client"],
        "missing": [],
    }


SAVED = {"claim": _claim, "evidence": _evidence, "probe": _probe}
"""What a host answers and the launcher keeps."""


@cache
def made_request():
    """The request that an answer belongs to."""
    made = json.loads(json.dumps(request.make(plan(), STATE, plan().cells[STATE])))
    return made


def saved(key, value):
    """What is kept of an answer. Raises Unacceptable."""
    sent = message.read(bend.as_json(value), action().ANSWER_BYTES)
    return json.loads(messages.saved(key, sent, {"name": "here"}, made_request()))


def read_saved(key):
    """The reader of an answer that is kept, and of what is made of it."""

    def read(value):
        kept = saved(key, value)
        place = folder() / "kept.json"
        place.write_text(json.dumps(kept))
        if key == "claim":
            root = folder() / "none"  # nothing that was noted for another claim
            shutil.rmtree(root, ignore_errors=True)
            of_it = Plan(plan().study, plan().target, results.Results(root, "here", "tiny"), kept)
            try:
                request.make(of_it, STATE, of_it.cells[STATE])
                words.line(of_it)
            except StudyError as why:
                bend.assert_one_line(why)
        elif key == "evidence":
            seen = evidence.read({STATE: place}, {STATE: ["d"]})
            assert seen.known or seen.refused
        else:
            hosts = [Host("n1", ("clients",), kept, 1.0), Host("n2", ("clients",), _probe(), 1.0)]
            site = Site(hosts, ("clients",))
            assert len(page.rows(site)) == 2
            assert all(isinstance(text, str) for text in inspect._clocks(site) + inspect._unable(site))
            differences({host.name: host.answer for host in hosts if host.answer})

    return read


def questions():
    """A question to an agent, bent, and the verb that it comes with."""
    hosts = {"clients": [{"name": "n1"}], "servers": []}
    whole = {"target": {"name": "here"}, "request": made_request(), "hosts": hosts}
    verbs = st.sampled_from(["scrub", "measure", "evidence", "apply_step", "hold"])
    return st.tuples(sent(whole), verbs)


def read_question(drawn):
    """As an agent does: of its types, and no cell's file lies elsewhere."""
    text, verb = drawn
    question = agent.question(text)
    taken = checks.checked(question.get("request") or {}, question.get("hosts"))
    checks.needed(verb, taken)
    for cell in taken.get("cells", []):
        folders = (taken.get("study", "s"), taken.get("state", "s"))
        path = Path("/outbox", *folders, f"{cell['name']}.{cell['attempt']}.json")
        assert len(path.parts) == 5 and ".." not in path.parts


ANSWERS = {
    ("hello", "client"): {
        "uid": 0,
        "root": True,
        "host": "n1",
        "kernel": "6",
        "memory_bytes": 1 << 34,
        "network_mbit_s": [1000],
        "time": 1.0e9,
        "images": {},
        "lustre": None,
        "missing": ["fio"],
        "tools": {"fio": "3.33", "ior": None},
    },
    ("drop", "client"): {
        "seconds": 0.1,
        "method": "drop_caches=3",
        "cached_pages": 0,
        "cached_names": 0,
        "metadata": "cold",
    },
    ("drop", "server"): {"seconds": 0.1, "method": "drop_caches=3"},
    ("read", "client"): {},
    ("prealloc", "server"): {"tables": {"lustre-OST0000": "256 512 1024"}},
    ("server_cache", "server"): {"ldiskfs": [], "zfs": ["p/a"], "now": {"p/a": "none"}},
    ("serve", "client"): {},
}
"""What other hosts answer the first client, by what they were told and their role."""


def host_answers():
    """One of them, bent."""
    return st.sampled_from(sorted(ANSWERS)).flatmap(lambda each: st.tuples(st.just(each), sent(ANSWERS[each])))


def read_host_answer(drawn):
    """Every host's answer serves the comparisons that are made with it."""
    (verb, role), text = drawn
    answer = answers.checked(text, verb, role)
    if "failed" in answer:
        return
    if verb == "hello":
        differences({"a": answer, "b": ANSWERS["hello", "client"]})
        skews("n", answer["time"], 1.0, 2.0)
        assert all(isinstance(what, str) for what in answer.get("missing", ()))
    if (verb, role) == ("drop", "client"):
        assert answer["cached_pages"] + 1 >= 1
    if verb == "prealloc":
        assert all(isinstance(table, str) for table in answer["tables"].values())


OSTS = [{"ost": f"lustre-OST000{number}", "store": number, "host": "oss"} for number in (0, 1)]


OF_LUSTRE = SimpleNamespace(
    spec={"lustre": {"fsname": "lustre"}}, claim={"lustre": {"osts": dict.fromkeys(ost["ost"] for ost in OSTS)}}
)
"""A target, as far as its OSTs go."""


def read_osts(text):
    """What servers say of their OSTs names each store once."""
    answer = json.loads(text)
    if isinstance(answer, list):
        assert [ost["store"] for ost in servers.every(OF_LUSTRE, answer)][:2] == [0, 1]


@cache
def action():
    """The action plugin."""
    spec = importlib.util.spec_from_file_location("of_fsage", ROOT / "plugins/action/agent.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OBEYED = {"ansible_facts": {"a": 1}, "add_host": {}, "_ansible_no_log": 1, "results": [1]}
AGENT_ANSWER = {"changed": True, "msg": "done", "proof": ["a"], "count": 2, "step": {"kind": "populate"}}


def agent_answers():
    """What an agent prints: with keys that Ansible obeys, bent, or any text."""
    return sent(AGENT_ANSWER, AGENT_ANSWER | OBEYED) | st.text().map(lambda text: text.encode(errors="replace"))


def read_agent_answer(text):
    """A task's result and nothing that Ansible obeys."""
    ran = {"rc": 0, "stdout": f"a banner\n{text.decode(errors='replace')}\n", "stderr": "said\n"}
    answer = action().answer_of("measure", ran)
    assert isinstance(answer["msg"], str) and all(isinstance(line, str) for line in answer.get("proof", ()))
    assert isinstance(answer["failed"], bool) and isinstance(answer["changed"], bool)
    assert not [key for key in answer if key.startswith(("ansible", "_ansible")) or key in ("add_host", "results")]
