"""Where nobody tells what others do: a sample of the files is looked at between cells, and every directory."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from local_targets import claimed
from measuring import asked, cell, observed
from states import bring, populate

from fsage.host.cells import measure
from fsage.host.states.structure_check import LOOKS, SIZE, Sample, StructureCheck, seen
from fsage.host.structure import fillers
from fsage.host.targets import claims
from fsage.host.targets.opening import open_target


def drawn(folder: Path, seed: int = 1) -> Sample:
    """A sample of the files of a store's one generation."""
    sample = Sample(seed)
    for path in sorted((folder / "filler/g1").iterdir()):
        sample.add(str(path), seen(path.stat()))
    sample.freeze([folder])
    return sample


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A thousand files, as a state has them."""
    (tmp_path / "filler/g1").mkdir(parents=True)
    for number in range(1000):
        (tmp_path / f"filler/g1/{number:07d}").write_bytes(b"1")
    return tmp_path


@pytest.mark.parametrize("act", ["make", "replace", "folder"])
def test_a_sample_tells_at_once_of_names(store: Path, act: str) -> None:
    sample = drawn(store)
    assert not sample.differs()
    if act == "make":
        (store / "filler/g1/stranger").touch()
    elif act == "replace":
        (store / "beside").write_bytes(b"2")
        (store / "beside").rename(store / "filler/g1/0000000")
    else:
        (store / "filler/g2").mkdir()
    assert sample.differs()


def test_a_file_changed_in_place_is_found_in_as_many_looks_as_take_in_all(store: Path) -> None:
    sample = drawn(store)
    assert sample.unseen_share == 1 - 256 / 1000
    (store / "filler/g1/0000500").write_bytes(b"more")
    found = [sample.differs() for _ in range(8)]
    assert sum(found[:4]) == sum(found[4:]) == 1, "each file is in one of four looks"


def test_a_sample_takes_no_more_memory_than_its_part() -> None:
    sample = Sample(1)
    for number in range(100_000):
        sample.add(str(number), (number, 1, 1, 1))
    assert len(sample._kept) == SIZE * LOOKS
    early = sum(int(path) < 50_000 for path, _ in sample._kept)
    assert 0.45 < early / len(sample._kept) < 0.55, "early and late files alike"


def test_where_nobody_tells_a_sample_is_looked_at_and_that_is_said(directory_target: dict) -> None:
    claimed(directory_target)
    bring(directory_target, populate(40, sizes=(1 << 20,)))
    target = open_target(directory_target)
    now = claims.read_token(target.mounts[0])
    assert now
    with contextlib.closing(StructureCheck(target)) as check:
        assert check.differs(now) == (None, "files")
        assert check.differs(now) == (None, "sample") and 0 < check.unseen_share < 1
        stranger = Path(next(fillers(target.mounts[0])).path).with_name("stranger")
        stranger.touch()
        why, looked_at = check.differs(now)
        assert why and looked_at == "files"
        stranger.unlink()


@pytest.mark.long
def test_cells_that_a_look_at_all_files_casts_doubt_on_are_failed(
    directory_target: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(directory_target)
    steps = [populate(40, sizes=(1 << 20,))]
    bring(directory_target, *steps)
    cells = [cell(directory_target, name) for name in "abc"]
    request = {**asked(cells), "steps": steps, "state": "wanted"}
    changed = list(fillers(open_target(directory_target).mounts[0]))[7].path
    real = Sample.differs

    def missed(sample: Sample) -> bool:
        """A stranger comes after the first look, and none tells of it."""
        assert not real(sample)
        with open(changed, "r+b") as file:
            file.write(b"x")
        monkeypatch.setattr(Sample, "differs", lambda sample: False)
        return False

    monkeypatch.setattr(Sample, "differs", missed)
    answer = measure.measure(directory_target, request, False)
    assert answer["measured"] == 3
    assert "the state changed" in answer["lost"]
    found = {name: observed(directory_target, name)[0] for name in "abc"}
    assert [found[name]["check"]["looked_at"] for name in "abc"] == ["files", "sample", "sample"]
    assert 0 < found["b"]["check"]["unseen_share"] < 1
    assert [found[name]["status"] for name in "abc"] == ["done", "failed", "failed"]
    assert "Only a sample of them was examined" in found["c"]["why"]
