"""Exported results: another person's clone makes the same report from them, and says what is not theirs."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from records import CONFIG, make_evidence, make_records, store

from fsage.archive.crate import CrateError
from fsage.archive.export import Credit, export, remake
from fsage.host.system import mounting
from fsage.plan import load_plan
from fsage.records.store import Reason, write_manifest

pytestmark = pytest.mark.usefixtures("figures_undrawn")
STUDY = CONFIG / "quickstart.yaml"
INVENTORY = CONFIG.parent / "inventories" / "local"
MS_RDONLY = 1


@pytest.fixture(scope="module")
def plan(figures_undrawn, tmp_path_factory):
    """A study that was measured, with raw output and evidence."""
    root = tmp_path_factory.mktemp("results")
    found = load_plan(STUDY, INVENTORY, root)
    store(make_records(found.study), root / "records")
    for path in make_evidence(found.study, root / "evidence").values():
        place = found.results.state(path.stem)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    raw = found.results.raw("10.00@264M", "transfer_size-64M_i1", 1)
    raw.parent.mkdir(parents=True)
    raw.write_text("{}")
    return load_plan(STUDY, INVENTORY, root)


@pytest.fixture(scope="module")
def crate(plan, tmp_path_factory):
    """The study, exported with its raw output."""
    return export(plan, STUDY, INVENTORY, tmp_path_factory.mktemp("exported") / "crate")


def test_the_same_report_is_made_from_a_crate(plan, crate, tmp_path) -> None:
    assert remake(crate, tmp_path / "again").same
    there = crate / "results/report/local/quickstart"
    files = sorted(path.relative_to(there) for path in there.rglob("*") if path.is_file())
    assert len(files) > 10
    for path in files:
        assert (tmp_path / "again" / path).read_bytes() == (there / path).read_bytes(), path


@contextmanager
def small_disk(place, flags=0) -> Iterator[None]:
    """A file system of 64 KiB at a place."""
    mounting.mount_call("fsage-test", str(place), "tmpfs", flags, "size=64k")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.root
@pytest.mark.parametrize("name", ["made", "made.zip"])
def test_on_a_full_disk_nothing_is_half_made_and_it_is_named(plan, crate, tmp_path, capfd, name) -> None:
    with small_disk(tmp_path):
        with pytest.raises(CrateError, match=rf"/{name}: No space left on device$"):
            export(plan, STUDY, INVENTORY, tmp_path / name)
        with pytest.raises(OSError, match="No space left on device"):
            remake(crate, tmp_path / name)
        assert not list(tmp_path.iterdir()) and not capfd.readouterr().err


def test_ctrl_c_in_a_zip_leaves_nothing_and_says_nothing(plan, tmp_path, monkeypatch, capfd) -> None:
    def interrupted(entity, chunk_size=0):
        yield "results/one", b"begun"
        raise KeyboardInterrupt

    monkeypatch.setattr("rocrate.model.dataset.Dataset.stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(plan, STUDY, INVENTORY, tmp_path / "made.zip")
    gc.collect()
    assert not list(tmp_path.iterdir()) and not capfd.readouterr().err


@pytest.mark.root
def test_a_folder_that_cannot_be_written_is_named_and_nothing_hidden_in_it(plan, crate, tmp_path) -> None:
    with small_disk(tmp_path, MS_RDONLY):
        for make in (lambda to: export(plan, STUDY, INVENTORY, to), lambda to: remake(crate, to)):
            with pytest.raises(CrateError, match=f"/made: this user cannot write to {tmp_path}; name another place"):
                make(tmp_path / "made")


@pytest.mark.long
def test_a_cell_that_was_skipped_is_in_the_report_that_is_made_again(tmp_path) -> None:
    made = load_plan(STUDY, INVENTORY, tmp_path / "results")
    *records, left = make_records(made.study)
    store(records, made.results.root / "records")
    reason = Reason("a budget left it out")
    made = load_plan(STUDY, INVENTORY, made.results.root)
    assert not write_manifest(made, left["state"], {left["cell"]: reason})
    made = load_plan(STUDY, INVENTORY, made.results.root)
    assert remake(export(made, STUDY, INVENTORY, tmp_path / "crate", raw=False), tmp_path / "again").same
    assert reason.why in (tmp_path / "again" / "records.csv").read_text()


def graph_of(crate) -> dict[str, dict]:
    """What the crate says of itself."""
    return {entry["@id"]: entry for entry in json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]}


def test_a_crate_describes_what_is_in_it_and_holds_no_host(crate) -> None:
    graph = graph_of(crate)
    assert graph["ro-crate-metadata.json"]["conformsTo"]["@id"] == "https://w3id.org/ro/crate/1.1"
    parts = [part["@id"] for part in graph["./"]["hasPart"]]
    assert all((crate / part).exists() for part in parts) and "results/records/local/quickstart/" in parts
    assert graph["#measurement"]["instrument"]["@id"] == "#fsage"
    assert {part["@id"] for key in ("object", "result") for part in graph["#measurement"][key]} == set(parts)
    inventory = crate / "inventories/local"
    assert (inventory / "group_vars/all/target.yml").exists() and not (inventory / "hosts.yml").exists()
    assert list(crate.glob("results/raw/*"))


@pytest.mark.long
def test_a_crate_names_who_measured_and_what_others_may_do(plan, tmp_path) -> None:
    orcid, ror = "https://orcid.org/0000-0002-1825-0097", "https://ror.org/05gq02987"
    credit = Credit(f"Josiah Carberry <{orcid}>", "CC-BY-4.0", f"Brown University <{ror}>")
    graph = graph_of(export(plan, STUDY, INVENTORY, tmp_path / "crate", raw=False, credit=credit))
    assert graph["./"]["author"] == {"@id": orcid} and graph[orcid]["name"] == "Josiah Carberry"
    assert graph["./"]["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    assert graph[orcid]["affiliation"] == graph["./"]["publisher"] == {"@id": ror}
    assert graph[ror] == {"@id": ror, "@type": "Organization", "name": "Brown University", "url": ror}
    with pytest.raises(CrateError, match="an anonymous crate names nobody"):
        export(plan, STUDY, INVENTORY, tmp_path / "other", without_names=True, credit=credit)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("author", "x <http://elsewhere>"),
        ("license", "free for all"),
        ("affiliation", "x <http://elsewhere>"),
        ("affiliation", "of nobody"),
    ],
)
def test_a_credit_that_cannot_be_is_refused(key, value) -> None:
    with pytest.raises(CrateError, match=f"{key} '.*': (allowed are|it is|of whom)"):
        Credit(**{key: value})


@pytest.mark.long
def test_a_record_changed_by_hand_shows(crate, tmp_path) -> None:
    changed = shutil.copytree(crate, tmp_path / "changed")
    path = next((changed / "results/records").rglob("transfer_size-64M_i1.json"))
    record = json.loads(path.read_text())
    record["metrics"]["write_bw_mib_s"] *= 2
    path.write_text(json.dumps(record))
    assert not remake(changed, tmp_path / "again").same


@pytest.mark.long
def test_what_cannot_be_exported_or_made_again_is_refused(plan, tmp_path) -> None:
    there, torn = tmp_path / "there", tmp_path / "torn.zip"
    there.mkdir()
    with pytest.raises(CrateError, match=r"there exists: name a folder or a \.zip that does not"):
        export(plan, STUDY, INVENTORY, there)
    with pytest.raises(CrateError, match="has no record in"):
        export(load_plan(STUDY, INVENTORY, tmp_path / "none"), STUDY, INVENTORY, tmp_path / "crate")
    with pytest.raises(CrateError, match="not an RO-Crate"):
        remake(there, tmp_path / "again")
    whole = export(plan, STUDY, INVENTORY, tmp_path / "whole.zip", raw=False)
    assert not any("results/raw" in name for name in zipfile.ZipFile(whole).namelist())
    torn.write_bytes(whole.read_bytes()[:5000])
    with pytest.raises(CrateError, match="neither a folder nor a zip that can be read"):
        remake(torn, tmp_path / "again")
    assert {path.name for path in tmp_path.iterdir()} == {"there", "torn.zip", "whole.zip"}, "nothing half-made"
