"""An anonymous crate: no name of a person or machine is in any file of it, and its report is made again from it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pandas as pd
import preloaded
import pytest
import yaml
from records import CONFIG, make_evidence, make_records, store
from studies import blocks

from fsage import dataset
from fsage.archive import anonymous
from fsage.archive.crate import CrateError
from fsage.archive.export import export, remake
from fsage.dataset import columns
from fsage.plan import load_plan, results
from fsage.study.files import load_study

pytestmark = pytest.mark.usefixtures("figures_undrawn")
ROOT = CONFIG.parent
SECRETS = (
    "n17.acme.example",
    "n17",
    "oss-04",
    "eastwing",
    "jdoe42",
    "10.17.3.4@o2ib1",
    "10.17.3.4",
    "fd00:17::3",
    "52:54:00:12:34:56",
    "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "3f2a9c0d5b7e4a1c8d6f0e1b2c3d4e5f",
    "/scratch/acme",
    "/gpfs/secret-project/db",
    "secret-project",
    "6.18.44-acme.7",
    "acme",
)


@pytest.fixture
def asked(tmp_path):
    """A study on a site with names in all places: inventory, records, evidence, raw output, claim, study."""
    inventory, study, root = tmp_path / "inventories" / "mine", tmp_path / "quickstart.yaml", tmp_path / "results"
    declared = {"name": "mine", "kind": "directory", "directory": "/scratch/acme/fsage", "home": "/scratch/acme/home"}
    (inventory / "group_vars" / "all").mkdir(parents=True)
    (inventory / "group_vars" / "all" / "target.yml").write_text(
        f"# of jdoe42@n17.acme.example\nfsage_target: {json.dumps(declared)}\n"
    )
    (inventory / "hosts.yml").write_text("all: {children: {clients: {hosts: {n17.acme.example: {}, oss-04: {}}}}}\n")
    states = {"recipe": "paf", "capacity": [10, 80], "fragmentation": 0, "file_size": "264M", "seed": 1}
    cells = {"workload": "sequential", "transfer_size": "64M", "iterations": 2}
    question = "On n17 at /scratch/acme, what does it cost?"
    study.write_text(yaml.safe_dump(blocks(name="quickstart", question=question, states=states, cells=cells)))
    plan = load_plan(study, inventory, root)
    uuid = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    records = make_records(plan.study)
    for record in records:
        record |= {"target": "mine", "host": "n17.acme.example", "hosts": ["n17", "oss-04"], "kernel": "6.18.44-acme.7"}
        record["id"] = uuid
        record["raw"] = {"path": f"raw/mine/quickstart/{record['state']}/{record['cell']}.1.json", "sha256": "0" * 64}
        record["conditions"] |= {"mount_options": ["rw,mgs=10.17.3.4@o2ib1,addr=fd00:17::3"], "added_later": ["acme"]}
        for phase in record["phases"]:
            phase["argv"] += ["--filename=/scratch/acme/fsage/measured/f1", "--db=/gpfs/secret-project/db/x"]
        record["layout"]["notes"] = {"stripe": {"osts": 2, "server": "acme", "target": "eastwing"}, "acme": {"osts": 2}}
        said = "Machine: Linux n17\nhost=oss-04 mac 52:54:00:12:34:56\nPath: /home/jdoe42/run\njdoe42@n17: hello\n"
        wrong = "/gpfs/secret-project/db: No such file\nat /scratch/acme\n"
        phases = [{"name": "read", "stdout": said, "stderr": wrong}]
        results.write(root / record["raw"]["path"], {**record, "phases": phases})
    records[0] |= {"status": "failed", "why": "oss-04: mount /home/jdoe42/x failed, see 10.17.3.4@o2ib1"}
    store(records, root / "records")
    for path in make_evidence(plan.study, tmp_path / "evidence").values():
        results.write(plan.results.state(path.stem), json.loads(path.read_bytes()) | {"host": "n17", "uuid": uuid})
    holder = {"host": "n17", "machine": "3f2a9c0d5b7e4a1c8d6f0e1b2c3d4e5f", "command": "snakemake -d /home/jdoe42/x"}
    claim = {"id": "x", "capacity_bytes": 1 << 34, "holder": holder, "directory": "/scratch/acme/fsage"}
    results.write(plan.results.claim, claim)
    return load_plan(study, inventory, root), study, inventory


def everything(folder) -> dict[str, str]:
    """Name -> text of each file, names of files among them; of what is packed, as far as it can be read."""
    return {
        str(path.relative_to(folder)): str(path.relative_to(folder)) + path.read_bytes().decode("latin-1")
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def frame(tmp_path_factory) -> pd.DataFrame:
    records = make_records(load_study(CONFIG / "quickstart.yaml"))[:6]
    return dataset.load(store(records, tmp_path_factory.mktemp("records")))


def test_nothing_leaves_but_what_is_listed_and_the_report_is_made_again(asked, tmp_path) -> None:
    plain = "".join(everything(export(*asked, tmp_path / "plain")).values())
    assert [name for name in SECRETS if name not in plain] == [], "what is looked for is there to be found"
    crate = export(*asked, tmp_path / "crate", without_names=True)
    files = everything(crate)
    assert {name: place for name in SECRETS for place, text in files.items() if name in text} == {}
    assert not re.search("/raw/|/records/|/states/|results/targets", " ".join(files)), "these stay at home"
    target = files["inventories/mine/group_vars/all/target.yml"]
    assert "directory: /withheld/mine" in target and "home" not in target and "#" not in target
    table = dataset.read(crate / "results/records.parquet")
    plain = dataset.read(tmp_path / "plain/results/report/mine/quickstart")
    assert set(table["kernel"]) == {"6.18.44"} and set(table["mount_options"]) == {"rw"}
    private = [name for name, column in dataset.COLUMNS.items() if column.public == columns.PRIVATE]
    assert set(table[private].stack().dropna()) == {"withheld"}
    pd.testing.assert_frame_equal(table[private].isna(), plain[private].isna())
    assert not any(name in text for name in SECRETS for text in map(str, table.to_numpy().ravel()))
    assert [name for name in table.columns if name.startswith("note.")] == ["note.stripe.osts"]
    same = ["state", "cell", "status", "params", "structure", "began", "device_model", "filesystem"]
    same += [name for name in plain.columns if name.startswith(("param.", "axis.", "tool.", "tunable."))]
    same += [name for name in plain.select_dtypes("number").columns if name != "note.acme.osts"]
    pd.testing.assert_frame_equal(table[same], plain[same])
    assert remake(crate, tmp_path / "again").same


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("note.replica.found.free_percent", "0,12.5,100", "0,12.5,100"),
        ("note.replica.source", "/scratch/acme/e2freefrag", "withheld"),
        ("note.replica.held_by", "marks in block bitmaps", "marks in block bitmaps"),
        ("note.stripe.segments", "n17", "withheld"),
        ("note.acme.extents", "3", None),
        ("axis.layout", "/gpfs/secret-project/oss-a", "oss-a"),
        ("param.mount", "addr=fd00:17::3,dir=/scratch", "withheld"),
        ("tool.fio", "fio-3.33-acme", "3.33"),
        ("tool.acme", "3.33", None),
        ("tunable.read_ahead_kb", "4096", "4096"),
        ("tunable.acme.read_ahead_kb", "4096", None),
        ("mount_options", "rw,noatime; rw,mgs=10.17.3.4@o2ib1,lazystatfs", "rw,noatime; rw,lazystatfs"),
        ("commands", "fio --filename=/scratch/acme/x", "withheld"),
    ],
)
def test_a_text_leaves_as_its_column_allows(frame, name, value, left) -> None:
    found = anonymous.public(frame.assign(**{name: pd.Series(value, frame.index, "str")}))
    kept = set(found[name].dropna()) if name in found else set()
    assert kept == ({left} if left else set())


def test_cells_that_only_a_withheld_text_tells_apart_are_refused(frame) -> None:
    ways = [f"/a/{number} b" + "!" * number for number in range(1, len(frame) + 1)]
    frame = frame.assign(**{"param.way": pd.Series(ways, frame.index, "str"), "params": ways})
    with pytest.raises(CrateError, match="is no plain words"):
        anonymous.public(frame)


@pytest.mark.long
def test_export_says_what_it_discloses(asked, tmp_path) -> None:
    plan, study, inventory = asked
    where = ["--results", plan.results.root, "--studies", study.parent, "--inventories", inventory.parent]
    for more, said in ([], "--anonymous leaves them out"), (["--anonymous"], "free text stay at home"):
        words = [*where, "--target", "mine", "export", "quickstart", "--to", tmp_path / f"{len(more)}.zip", *more]
        ran = preloaded.call("fsage", *words)
        assert ran.returncode == 0 and said in ran.stderr


def test_a_state_that_is_named_by_what_stays_is_refused(asked, tmp_path) -> None:
    plan, study, inventory = asked
    found = yaml.safe_load(study.read_text())
    found["states"]["label"] = "of jdoe@acme"
    study.write_text(yaml.safe_dump(found))
    with pytest.raises((CrateError, ValueError)):
        export(plan, study, inventory, tmp_path / "crate", without_names=True)
    assert not (tmp_path / "crate").exists() and not list(tmp_path.glob(".fsage*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads all folders")
def test_a_folder_of_records_that_cannot_be_read_is_not_empty(tmp_path: Path) -> None:
    state = tmp_path / "records" / "10.00"
    state.mkdir(parents=True)
    (state / "a.json").write_text("{}")
    assert results.stored(tmp_path / "records") == [state / "a.json"] and results.stored(tmp_path / "none") == []
    state.chmod(0)
    with pytest.raises(PermissionError):
        results.stored(tmp_path / "records")
    state.chmod(0o700)
