"""Every reader of what others hand over (hostile/readers.py), on real samples that were bent; and special attacks.

A reader takes what was bent or says why not. It may use 500 MiB more than it began with, and 10 seconds an input.
Inputs are drawn alike each time; `./run pytest -m long tests/test_hostile.py` draws many more.
"""

import dataclasses
import io
import json
import os
import re
import resource
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ansible.errors import AnsibleActionFail
from hostile import bend
from hostile.messages import SAVED, STATE, action, files_below, made_request, make_plan, saved
from hostile.readers import READERS, parquets
from sent import CLAIM, bundle, observation
from tiers import first_of

from fsage import dataset, records, seam
from fsage.archive import crate
from fsage.base.message import DEPTH, Unacceptable, check, read
from fsage.host.targets import lease
from fsage.plan import Plan, results
from fsage.records import messages
from fsage.run import request

HERE = Path(__file__).parent
LONG = 160
EVIL = "../../../inventories/x/group_vars"
Read = Callable[[str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def bent_samples(tmp_path_factory):
    """Let a reader read so many times its examples, in a process of its own; what became of them."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", "-m", "hostile"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    tables = HERE.parent / ".hypothesis"  # of all characters, which take seconds to make
    surroundings = {**os.environ, "PYTHONPATH": path, "HYPOTHESIS_STORAGE_DIRECTORY": str(tables)}
    where = {"cwd": tmp_path_factory.mktemp("hostile"), "env": surroundings}
    with subprocess.Popen(command, **where, **pipes) as process:

        def read(name, times):
            print(json.dumps([name, times, str(tmp_path_factory.mktemp("hostile"))]), file=process.stdin, flush=True)
            answer = json.loads(process.stdout.readline())
            assert "failed" not in answer, answer["failed"]
            return answer

        yield read
        process.stdin.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("times", first_of(1, LONG))
@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_what_was_bent_or_says_why_not(name, times, bent_samples, record_property):
    record_property("bent", bent_samples(name, times))


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return make_plan(tmp_path_factory.mktemp("plan"))


def unpacked(plan, *observations):
    """Why observations in a bundle were refused."""
    return records.unpack(bundle(plan, *observations), plan.results.root, "here").refused


def kept_aside(plan):
    """What was refused, as it came."""
    return [path.read_bytes() for path in (plan.results.root / "refused/here").iterdir()]


# what is packed


def parquet_of(rows, text_bytes=0, **how):
    """A table of so many rows that packs well: each column has one value, `why` has a text of so many bytes."""
    table = pq.read_table(io.BytesIO(parquets()[0])).take(pa.array([0] * rows))
    for place, column in enumerate(table.columns):
        if pa.types.is_large_string(column.type):  # words of a dictionary: a row that is repeated costs no memory
            table = table.set_column(place, table.column_names[place], column.dictionary_encode())
    text = pa.DictionaryArray.from_arrays(pa.array(bytes(rows), pa.uint8()), ["x" * text_bytes])
    table = table.set_column(table.schema.get_field_index("why"), "why", text)
    buffer = io.BytesIO()
    group_rows = how.pop("row_group_size", None)
    with pq.ParquetWriter(buffer, table.schema, **{"store_schema": False, "compression": "snappy", **how}) as writer:
        writer.write_table(table, group_rows)
        writer.add_key_value_metadata(table.schema.metadata)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"rows": 100_000, "text_bytes": 40_000}, "it has more than 209,715,200 bytes unpacked"),
        ({"rows": 1, "text_bytes": 2_000_000}, "why has a text of 2,000,000 bytes; allowed are 1,048,576"),
        ({"rows": 100_001}, "it has 100,001 rows of "),
        ({"rows": 2, "row_group_size": 1}, "columns in 2 groups; allowed are "),
        ({"rows": 2, "compression": "zstd"}, "it is packed by ZSTD; allowed are SNAPPY and UNCOMPRESSED"),
        ({"rows": 2, "store_schema": True}, "has a column of another type than ours: why is dictionary<"),
    ],
)
def test_a_table_that_unpacks_to_more_than_allowed(tmp_path, monkeypatch, how, said):
    monkeypatch.chdir(tmp_path)  # where samples are made
    content = parquet_of(**how)
    assert len(content) < 200_000
    (tmp_path / "records.parquet").write_bytes(content)
    with pytest.raises(dataset.DatasetError, match=re.escape(said)):
        dataset.read(tmp_path)


def test_a_crate_has_stored_and_deflated_files_alone(tmp_path):
    with zipfile.ZipFile(tmp_path / "crate.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("results/i1.json", b"{}")
    refused = r"i1.json' in it is packed by method 14; only stored \(0\) and deflated \(8\) files are taken"
    with pytest.raises(crate.CrateError, match=refused), crate.unpacked(tmp_path / "crate.zip"):
        pass


# what a host sends


@pytest.mark.parametrize("key", SAVED)
def test_an_answer_that_nobody_bent_is_saved_as_it_is(key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where samples are made
    assert saved(key, SAVED[key]()) == json.loads(bend.as_json(SAVED[key]()))
    assert made_request()["state"] == STATE


def test_a_claim_of_an_unknown_device_model_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where samples are made
    for model, said in (({"kind": "x\x1b"}, r"kind is 'x\x1b'"), ({"kind": "computed", "of": []}, "of is []")):
        with pytest.raises(Unacceptable, match=re.escape(f"device_model.{said}: one of none, ")):
            saved("claim", {**SAVED["claim"](), "device_model": model})


@pytest.mark.parametrize("key", ["study", "state", "cell"])
def test_an_observation_makes_no_file_elsewhere(key, tmp_path):
    plan = make_plan(tmp_path)
    good, evil = observation(plan, STATE, 0), observation(plan, STATE, 1) | {key: EVIL}
    path, before = bundle(plan, evil, good), files_below(tmp_path)
    records.unpack(path, plan.results.root, "here")
    added = {file for file in files_below(tmp_path) - before if "/refused/" not in file}
    cell = f"here/tiny/{STATE}/{good['cell']}"
    assert added == {f"results/raw/{cell}.1.json", f"results/records/{cell}.json"}, "the good one alone"
    assert [json.loads(content) for content in kept_aside(plan)] == [evil]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_a_bundle_holds_regular_files(plan, kind):
    path = bundle(plan, observation(plan, STATE, 0))
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("../../../etc/cron.d/x")
        link.type = kind
        link.linkname = "/etc/passwd"
        tar.addfile(link)
    _, refused = records.unpack(path, plan.results.root, "here")
    assert len(refused) == 1 and "is no regular file" in refused[0]
    assert not list(plan.results.root.rglob("*cron*"))


def test_a_bundle_that_was_cut_short_or_is_none_is_kept(plan, monkeypatch):
    both = [observation(plan, STATE, number) for number in (0, 1)]
    whole = bundle(plan, *both).read_bytes()
    in_the_middle = whole[:2560] + b"x" * 512 + whole[3072:]
    for content in (b"", b"no tar", whole[:600], whole[:3000], in_the_middle, b"\x1f\x8b" + whole):
        plan.results.bundle("any").write_bytes(content)
        _, refused = records.unpack(plan.results.bundle("any"), plan.results.root, "here")
        assert len(refused) == 1 and "cannot be read" in refused[0]
        assert content in kept_aside(plan)
    monkeypatch.setattr(records, "ENTRIES", 1)
    assert "is one of more than 1" in unpacked(plan, *both)[0]
    monkeypatch.setattr(messages, "OBSERVATION_BYTES", 100)
    assert "bytes, and at most 100 are taken" in unpacked(plan, both[1])[0]


def test_what_a_lost_run_asked_for_is_taken_and_what_nobody_did_is_not(plan):
    lost = observation(plan, "60.50@8M", 0)
    for change in (
        {"attempt": 2},
        {"claim": "c2"},
        {"order": 99},
        {"cell": "other"},
        {"target": "elsewhere"},
        {"params": {**lost["params"], "workload": "os"}},
        {"nominal": {**lost["nominal"], "recipe": "../../../x"}},
        {"layout": {**lost["layout"], "steps": []}},
    ):
        (why,) = unpacked(plan, {**lost, "id": "x", **change})
        assert ("'here' was requested" if "target" in change else "answers no request to target here") in why
    (why,) = unpacked(plan, observation(plan, "60.00@8M", 1, requested_attempt=1))
    assert "has requested_attempt, which the launcher alone writes" in why
    later = plan.study.model_copy(update={"tuning": {"nomerges": 2}})  # the study was edited since
    request.make(Plan(later, plan.target, plan.results, plan.claim), "60.50@8M")
    assert records.unpack(bundle(plan, lost), plan.results.root, "here") == (1, [])


def test_what_a_bundle_brought_is_safe_before_the_bundle_goes(tmp_path, monkeypatch):
    plan = make_plan(tmp_path)
    safe = []
    path = bundle(plan, observation(plan, "60.50@8M", 0))
    raw = plan.results.raw("60.50@8M", plan.cells["60.50@8M"][0].name, 1)
    monkeypatch.setattr(seam, "flush", lambda root: safe.append((root, path.exists(), raw.exists())))
    assert records.unpack(path, plan.results.root, "here").new == 1
    assert safe == [(plan.results.root, True, True)] and not path.exists()


def test_an_error_in_a_workloads_code_fails_the_cell_and_names_the_line(tmp_path):
    plan = make_plan(tmp_path)
    odd = observation(plan, STATE, 0)
    del odd["phases"][0]["stdout"]
    good = observation(plan, STATE, 1)
    assert records.unpack(bundle(plan, odd, good), plan.results.root, "here") == (2, [])
    kept = results.read(plan.results.record(STATE, odd["cell"]))
    assert kept["status"] == "failed"
    said = r'workload sequential cannot judge it: KeyError "\'stdout\'" \(by_fio\.py, line \d+\)'
    assert re.fullmatch(said, kept["why"]), kept["why"]


def test_one_observation_is_taken_of_each_attempt_that_was_requested(tmp_path):
    plan, copies = make_plan(tmp_path), 300
    first = observation(plan, STATE, 0)
    anew = dataclasses.replace(plan, claim={**CLAIM, "id": "c2"})  # claimed again before that came home
    second = observation(anew, STATE, 0, id="y")
    path = bundle(plan, *({**first, "id": f"x{number}"} for number in range(copies)))
    new, refused = records.unpack(path, plan.results.root, "here")
    assert (new, len(refused), len(kept_aside(plan))) == (1, copies - 1, copies - 1), "never lost"
    assert "is a second answer to one request: study 'tiny', state" in refused[0]
    assert plan.results.attempts(STATE, first["cell"]) == 1
    (why,) = unpacked(plan, second, {**second, "id": "z"})
    assert why.startswith("an observation from target here is a second answer")
    assert records.unpack(bundle(plan, first | {"id": "x0"}, second), plan.results.root, "here") == (0, [])
    raw = results.read(plan.results.raw(STATE, first["cell"], 2))
    assert (raw["id"], raw["claim"], raw["attempt"], raw["requested_attempt"]) == ("y", "c2", 2, 1)


def over_ssh(run):
    """The action on a host, where `run` is the connection."""
    made = action().ActionModule.__new__(action().ActionModule)
    made._connection, made._low_level_execute_command = SimpleNamespace(transport="ssh"), run
    return made


def test_a_host_that_sends_without_an_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(action(), "HEARD_BYTES", 64 << 20)
    before = resource.getrlimit(resource.RLIMIT_AS)

    def endless(line, in_data):
        with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as host:
            try:
                return {"stdout": host.communicate()[0]}  # as Ansible does: all of it is kept
            finally:
                host.kill()

    ran = over_ssh(endless)._execute("agent", None)
    said = "no answer; it last said: more than 64 MiB of memory hold; the rest was not read"
    assert action().answer_of("probe", ran)["msg"].endswith(said)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_what_a_host_says_steers_no_terminal():
    ran = {"stdout": "", "stderr": "started\n\x1b[2Jgone\u202e", "rc": 1}
    assert action().answer_of("probe", ran)["msg"].endswith(r"it last said: \x1b[2Jgone\u202e")
    ran["stdout"] = json.dumps({"msg": "two\nlines\u202e\x9b"})
    assert action().answer_of("probe", ran)["msg"] == "two\nlines\\u202e\\x9b"


@pytest.mark.parametrize("length", [0, 7, 20, 21])
def test_a_hosts_file_comes_in_parts(monkeypatch, tmp_path, length):
    path, content = tmp_path / "a 'bundle'", os.urandom(length)
    path.write_bytes(content)
    monkeypatch.setattr(action(), "PART_BYTES", 7)
    monkeypatch.setattr(action(), "BUNDLE_BYTES", 20)

    def shell(line, in_data):
        ran = subprocess.run(line, shell=True, capture_output=True, text=True)
        return {"rc": ran.returncode, "stdout": ran.stdout, "stderr": ran.stderr}

    parts = over_ssh(shell)._fetch(str(path), sys.executable)
    if length > 20:
        with pytest.raises(Unacceptable, match="more than 20 bytes"):
            list(parts)
        return
    assert b"".join(parts) == content
    with pytest.raises(AnsibleActionFail, match=r"gone could not be fetched: .*No such file"):
        list(over_ssh(shell)._fetch("/gone", sys.executable))


def test_a_holder_that_a_host_names_is_looked_up_only_as_what_it_is():
    gone = {"run": "r1", "machine": lease.machine(), "pid": os.getpid(), "pid_start": 1}
    dead = action().dead_holder
    assert dead(gone) == "r1"
    assert dead({**gone, "pid_start": lease.start_of(os.getpid())}) is None
    for wrong in ({"run": "../r1"}, {"machine": []}, {"pid": "1; true"}, {"pid": True}):
        assert dead({**gone, **wrong}) is None, wrong
    assert dead(None) is dead([]) is None


def test_the_bounds_are_where_they_are_said_to_be():
    nested = 1
    for _ in range(DEPTH - 1):
        nested = {"a": nested}
    check(nested)
    with pytest.raises(Unacceptable, match="nested deeper"):
        check({"a": nested})
    for number, message in (
        ("Infinity", "the number Infinity, which is none"),
        ("1e999", "the number inf, which is none"),
        ("9" * 40, "a whole number of 40 digits"),
    ):
        with pytest.raises(Unacceptable, match=message):
            read(f'{{"a": {number}}}', 100)
