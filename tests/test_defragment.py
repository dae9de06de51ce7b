"""The agent defragments real files with the real tools, keeps its time limit, and says what was not done."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_filesystems import MIB, fragmented, small

from fsage.base import Refusal
from fsage.layouts import fiemap, fragmentation
from fsage.layouts.fragmentation import Extent
from fsage.model import filesystems
from fsage.studies.defrag.host import defragmentation


@pytest.fixture(scope="module", params=filesystems.names())
def mounted(request, tmp_path_factory):
    with small(request.param, tmp_path_factory.mktemp("small") / "mnt") as made:
        yield made.filesystem, made.point


@pytest.mark.root
def test_a_whole_file_system_is_defragmented_worst_first(mounted):
    filesystem, point = mounted
    folder = point / "whole"
    folder.mkdir()
    contents = {path: path.read_bytes() for path in fragmented({folder / f"f{n}": 20 * n for n in (1, 2, 3)})}
    (folder / "also f3").hardlink_to(folder / "f3")
    (folder / "contiguous").write_bytes(os.urandom(MIB))
    (folder / "empty").touch()
    done = defragmentation.defragment([point], filesystem, 60)
    assert [(file["extents_before"], file["extents_after"]) for file in done["files"]] == [(60, 1), (40, 1), (20, 1)]
    before, after = done["before"], done["after"]
    assert (before["extents"], before["files"], before["bytes"]) == (121, 5, 120 * (1 << 14) + MIB)
    assert before["fragmentation_factor"] == pytest.approx(117 / 121)
    assert after["extents"] == 4 and after["fragmentation_factor"] == 0 and not done["left"]
    assert done["moved_bytes"] == sum(file["moved_bytes"] for file in done["files"]) > MIB
    assert all(file["status"] == 0 for file in done["files"])
    assert filesystem == "btrfs" or "60" in done["files"][0]["said"]  # btrfs says nothing
    assert any(part.isdigit() for part in done["version"])
    assert {path: path.read_bytes() for path in contents} == contents
    again = defragmentation.defragment([point], filesystem, 60)
    assert again["files"] == [] and again["moved_bytes"] == 0 and again["before"] == again["after"]


@pytest.mark.root
def test_the_time_limit_is_kept_and_what_was_left_is_said(mounted):
    filesystem, point = mounted
    (path,) = fragmented({point / "large": 800})
    content = path.read_bytes()
    for limit_s, words in ((0, "not begun, the time was over"), (0.003, "when the time was over")):
        done = defragmentation.defragment([path], filesystem, limit_s)
        assert done["files"][0]["seconds"] < limit_s + 1
        left = done["after"]["extents"] > 1  # what the kernel has begun it may end
        assert left or limit_s
        assert not left or (words in done["left"][0] and str(path) in done["left"][0])
        assert path.read_bytes() == content
        assert [entry.name for entry in path.parent.iterdir() if "fsr" in entry.name or "defrag" in entry.name] == []
    done = defragmentation.defragment([path], filesystem, 60)
    assert done["after"]["extents"] == 1 or (filesystem == "btrfs" and "status 0" in done["left"][0])
    assert path.read_bytes() == content


@pytest.mark.root
def test_a_file_for_which_no_free_run_is_long_enough(tmp_path):
    with small("xfs", tmp_path / "mnt") as made:
        (path,) = fragmented({made.point / "large": 512}, 1 << 15)
        fillers = []
        with pytest.raises(OSError, match="No space"):
            while True:  # every other megabyte, up to the end
                fillers.append(made.point / f"filler{len(fillers)}")
                with open(fillers[-1], "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, MIB)
        for filler in fillers[::2]:
            filler.unlink()
        os.sync()
        done = defragmentation.defragment([path], "xfs", 60)
        assert 1 < done["after"]["extents"] < 512
        longest = done["largest_free_bytes"]
        assert longest < 16 * MIB
        assert f"of {16 * MIB} bytes, and no free run was longer than {longest}" in done["left"][0]


def test_only_what_a_killed_tool_left_is_cleared(tmp_path):
    for name in ("x", "x.defrag", ".fsr77", ".fsr78", ".fsrx", "y.defrag"):
        (tmp_path / name).touch()
    (tmp_path / ".fsr78").write_bytes(b"somebody's")
    now = time.time()
    for filesystem, began, left in (
        ("xfs", now + 60, []),
        ("xfs", now - 60, [str(tmp_path / ".fsr77")]),
        ("ext4", now - 60, [str(tmp_path / "x.defrag")]),
        ("btrfs", now - 60, []),
    ):
        assert defragmentation.clear_temporaries(tmp_path / "x", filesystem, began) == left


def test_missing_tools_and_other_file_systems_are_refused(tmp_path, monkeypatch):
    with pytest.raises(Refusal, match="files of tmpfs cannot be defragmented; those of btrfs, ext4, xfs can"):
        defragmentation.defragment([tmp_path], "tmpfs", 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    for filesystem, package in (("ext4", "e2fsprogs"), ("xfs", "xfsprogs"), ("btrfs", "btrfs-progs")):
        with pytest.raises(Refusal, match=f"install {package}"):
            defragmentation.defragment([tmp_path], filesystem, 1)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 30)), max_size=12), st.integers(0, 2**32)
)
def test_moved_bytes_are_those_with_another_place(shape, seed):
    """Against a map of single blocks."""

    def laid_out(places):
        at, pieces = 0, []
        for hole, length, place in places:
            at += hole
            pieces.append(Extent(at, place * 10, length, False))
            at += length
        return pieces

    def blocks(pieces):
        return {piece.logical + n: piece.physical + n for piece in pieces for n in range(piece.length)}

    before = laid_out(shape)
    after = fiemap.merged(
        laid_out([(hole, length, place ^ (seed >> n & 1)) for n, (hole, length, place) in enumerate(shape)])
    )
    old, new = blocks(before), blocks(after)
    assert fragmentation.moved_bytes(before, after) == sum(old[at] != place for at, place in new.items())
    found = fragmentation.of_file(before)
    assert found.extents == sum(old.get(at - 1) != place - 1 for at, place in old.items())
    assert found.ideal_extents == sum(at - 1 not in old for at in old)
