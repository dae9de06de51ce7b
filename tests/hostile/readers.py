"""Every reader of what others hand over: samples of it, how it is called, and how it may refuse."""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import recorded
import yaml
from hypothesis import strategies as st
from records import make_evidence, make_records, store
from studies import blocks

from fsage import dataset, evidence, recipes
from fsage.advise import distribution
from fsage.analysis.groups import summarise
from fsage.archive import crate as crates
from fsage.archive import export
from fsage.base import Failure, Refusal, sizes
from fsage.base.message import Unacceptable
from fsage.layouts import inspect, terminal
from fsage.parse import BadOutput, fio, ior, mdtest, program_result
from fsage.plan import load_plan, results
from fsage.plan.target import load_target
from fsage.report import evidence as states_evidence
from fsage.report import layout
from fsage.report.compare import compare
from fsage.run import play
from fsage.studies.blast import workloads as blastn
from fsage.studies.lustre.helper import lctl
from fsage.studies.lustre.host import clients, servers, space, stripes
from fsage.studies.striping import recipe
from fsage.study import StudyError
from fsage.study.files import load_study
from hostile import bend, messages
from hostile.bend import folder

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Reader:
    """`read` raises nothing but `refuses` on whatever `inputs` draws.

    `examples`: in the short form. `one_line`: a refusal fits into a line of a terminal.
    """

    inputs: Callable[[], st.SearchStrategy[Any]]
    read: Callable[[Any], object]
    refuses: type[Exception] | tuple[type[Exception], ...]
    examples: int
    one_line: bool = False


def _file(name, content):
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _samples(pattern):
    return [path.read_bytes() for path in sorted(ROOT.glob(pattern))]


def _study(text):
    study = load_study(_file("small.yaml", text))
    for state in recipes.expand(study):
        study.cells_of(state)


def _narrowed(entry):
    load_study(ROOT / "config" / "quickstart.yaml").narrowed(entry)


def _target(text):
    place = _file("inventory/group_vars/all/target.yml", text)
    load_target(place.parents[2])


def _evidence(text):
    found = inspect.inspect(str(_file("evidence.txt", text)), 1000)
    list(terminal.tables(found["stores"][0]))
    json.dumps(found)
    evidence.page(found).encode()


def _sizes(name):
    def read(text):
        found = distribution.read(str(_file(name, text)))
        found.share_of_bytes(list(found.files)[:1])
        found.share_of_files(1 << 20)

    return read


def _output(parse):
    return lambda text: parse(text.decode(errors="replace"), "", 0)


def _text(parse):
    return lambda text: parse(text.decode(errors="replace"))


@cache
def records():
    """A few of each recorded study."""
    some = map(recorded.taken, recorded.STUDIES)
    return [record for of in some for record in of[:: max(1, len(of) // 4)]]


def _records(record):
    """A bent record beside a whole one, as table, groups and files."""
    whole = records()[0]
    (kept,) = store([whole], folder() / "records")
    bent = kept.with_name("bent.json")
    bent.write_bytes(bend.as_json(record))
    frame = dataset.load([bent, kept])
    assert len(frame) == 2, "a record that cannot be read is counted"
    dataset.write(frame, folder() / "tables")
    summarise(frame)


def _named_alike():
    name = {key: records()[0][key] for key in ("target", "study", "state")}
    return bend.values([record | name | {"cell": "bent"} for record in records()])


def _states(value):
    path = _file("state.json", bend.as_json(value))
    found = states_evidence.read({"10.00@264M": path}, {})
    layout.section(found, ["10.00@264M"], [], dataset.load([]))


def _parquet(content):
    path = _file("records.parquet", content)
    compare(path, path, folder() / "compared")


def make_crate(place):
    """A crate of a study of two states with a cell each, which was measured, file by file."""
    states = {"recipe": "paf", "capacity": [10, 80], "fragmentation": 0, "file_size": "264M", "seed": 1}
    cells = {"workload": "sequential", "transfer_size": "64M", "iterations": 1}
    path, inventory, root = place / "config/small.yaml", ROOT / "inventories/local", place / "results"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(blocks(states=states, cells=cells)))
    study = load_study(path)
    store(make_records(study), root / "records")
    make_evidence(study, root / "states" / "local" / "small")
    results.write(root / "targets/local.json", {"id": "x", "capacity_bytes": 1 << 30, "calibration": {}})
    to = export.export(load_plan(path, inventory, root), path, inventory, place / "crate")
    found = {str(path.relative_to(to)): path.read_bytes() for path in sorted(to.rglob("*")) if path.is_file()}
    return {name: content for name, content in found.items() if "/figures/" not in name}


@cache
def crate():
    """One for all inputs of a process."""
    return make_crate(folder())


def _zip(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _crates():
    """The crate as a zip: with a file of it bent as text or as JSON, or the zip itself bent."""
    whole = crate()
    drawn = [bend.texts([_zip(whole)])]
    for name, content in whole.items():
        changed = bend.texts([content])
        if name.endswith(".json"):
            changed |= bend.values([json.loads(content)]).map(bend.as_json)
        drawn.append(changed.map(lambda content, name=name: _zip({**whole, name: content})))
    return st.one_of(drawn)


def _remake(content):
    to = folder() / "remade"
    shutil.rmtree(to, ignore_errors=True)
    export.remake(_file("crate.zip", content), to)


def _unpack(content):
    with crates.unpacked(_file("crate.zip", content)):
        pass


BLASTN = b"""# BLASTN 2.12.0+
# Query: q1
# Database: /x/db
# Fields: query id, subject id
# 1 hits found
q1\ts1\t100\t0\t0\t1\t100\t1\t100\t0.0\t185
# BLAST processed 1 queries
"""
NETFLOW = {"phase": "scan", "distribution": "synchronous", "tasks": 1, "shares": 3, "least_shares": 1}
NETFLOW |= {"began": 1e9, "seconds": 1.5, "bytes": 100, "records": 5, "checksum": 7}
SIZES = (b"264M", b"8 MiB", b"1T", b"4096")
TABLE = b"size,count\n4K,400\n32M,60\n64M,40\n200M,1\n"
ANSIBLE = b'fatal: [node1]: FAILED! => \n    changed: false\n    msg: "no: such"\n'


def parquets():
    place = folder() / "parquet"
    dataset.write(dataset.load(store(records()[:6], place)), place)
    return [(place / "records.parquet").read_bytes()]


def _studies():
    """Studies of ours, called as the file that they are written to: bent as texts or as values."""
    texts = [re.sub(rb"^name: \w+$", b"name: small", text, flags=re.M) for text in _samples("config/*.yaml")]
    values = bend.values([yaml.safe_load(text) for text in texts])
    return values.map(lambda value: yaml.safe_dump(value).encode("utf-8", "surrogatepass")) | bend.texts(texts)


def _pattern(text):
    return recipe.segments([text, "B"], 1 << 40, recipe.known_patterns().types)


def _states_of_crate():
    return [json.loads(content) for name, content in crate().items() if "/states/" in name]


def bent(*samples):
    """Texts that stand here, bent."""
    return lambda: bend.texts(list(samples))


def recorded_texts(pattern, step=1):
    """Texts of the project, bent."""
    return lambda: bend.texts(_samples(pattern)[::step])


ENTRIES = [{"capacity": 80}, {"capacity": "80", "fragmentation": ["0", 50]}, {"iteration": [1, 2]}]
SIZE_LIST = b"- {size: 64M, count: 10}\n- {size: 4K, count: 1.5}\n"
READERS = {
    # What a user writes.
    "study": Reader(_studies, _study, StudyError, 40),
    "only": Reader(lambda: bend.values(ENTRIES), _narrowed, StudyError, 50),
    "target": Reader(recorded_texts("inventories/*/group_vars/all/target.yml"), _target, StudyError, 40),
    "size": Reader(bent(*SIZES), _text(sizes.parse_size), ValueError, 100),
    "pattern": Reader(bent(b"A to 1G", b"C to 512M"), _text(_pattern), ValueError, 50),
    "sizes by line": Reader(bent(b"4096\n0\n64M\n" * 5), _sizes("a.txt"), ValueError, 50),
    "sizes csv": Reader(bent(TABLE), _sizes("a.csv"), ValueError, 75),
    "sizes yaml": Reader(bent(SIZE_LIST), _sizes("a.yaml"), ValueError, 75),
    # What tools print.
    "evidence": Reader(recorded_texts("tests/data/evidence/*.txt"), _evidence, ValueError, 60),
    "fio": Reader(recorded_texts("tests/data/corpus/fio-*/*.stdout", 4), _output(fio.parse), BadOutput, 75),
    "ior": Reader(recorded_texts("tests/data/corpus/ior-*/*.stdout", 4), _output(ior.parse), BadOutput, 75),
    "mdtest": Reader(recorded_texts("tests/data/corpus/mdtest-*/*.stdout", 4), _output(mdtest.parse), BadOutput, 75),
    "blastn": Reader(bent(BLASTN), _output(blastn.parse), BadOutput, 50),
    "netflow": Reader(lambda: bend.values([NETFLOW]).map(bend.as_json), _output(program_result), BadOutput, 50),
    **{
        pattern: Reader(recorded_texts(f"tests/data/lustre/{pattern}"), _text(parse), (Failure, Refusal), 40)
        for pattern, parse in (
            ("lctl_brw_stats.txt", servers.parse_stats),
            ("lfs_df.txt", space.parse),
            ("lctl_*.txt", lctl.parse),
            ("lfs_getstripe*.txt", stripes.parse),
            ("findmnt_lustre.json", clients.parse_mounts),
        )
    },
    "ansible": Reader(bent(ANSIBLE), _text(play.reason), (), 40),
    # What hosts send.
    "observation": Reader(messages.observations, messages.read_observation, (), 20),
    **{
        f"answer: {key}": Reader(
            lambda key=key: bend.values([messages.SAVED[key]()]),
            messages.read_saved(key),
            Unacceptable,
            25,
            one_line=True,
        )
        for key in messages.SAVED
    },
    "request": Reader(messages.questions, messages.read_question, Refusal, 75, one_line=True),
    "host's answer": Reader(messages.host_answers, messages.read_host_answer, Unacceptable, 75, one_line=True),
    "OSTs": Reader(
        lambda: bend.values([messages.OSTS]).map(bend.as_json), messages.read_osts, Refusal, 50, one_line=True
    ),
    "agent's answer": Reader(messages.agent_answers, messages.read_agent_answer, (), 75),
    # What was kept or handed on.
    "records": Reader(_named_alike, _records, ValueError, 6),
    "state": Reader(lambda: bend.values(_states_of_crate()), _states, (), 6),
    "parquet": Reader(lambda: bend.texts(parquets()), _parquet, ValueError, 4),
    "unpack": Reader(_crates, _unpack, crates.CrateError, 30),
    "crate": Reader(_crates, _remake, crates.CrateError, 2),
}
