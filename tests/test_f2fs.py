"""F2FS: which targets can have it, how files come to lie in pieces on it, and what reading them takes."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from guests import KERNELS, ask, asked_of, cell, observations, target
from test_images import shown

from fsage.base import MIB, Failure, Refusal
from fsage.host.structure.quota import Quota
from fsage.host.targets import Target
from fsage.layouts import filesystems
from fsage.model import declaration
from fsage.studies.defrag.model import Defragment
from fsage.studies.f2fs import report
from fsage.studies.f2fs import workloads as file_requests
from fsage.studies.iocontrol.model import ContendedFiles
from fsage.studies.kernels import images
from fsage.studies.kernels.host import uml
from fsage.studies.kernels.model import boot, programs
from fsage.studies.kernels.model import images as kept

needs_f2fs = pytest.mark.skipif(
    not KERNELS or not shutil.which("mkfs.f2fs"),
    reason="no kernel that is a program, or no mkfs.f2fs, is here (fsage kernels --fetch bookworm)",
)


def test_only_a_target_in_guests_can_have_it():
    assert declaration.complete({"name": "a", "kind": "uml", "filesystem": "f2fs"})["filesystem"] == "f2fs"
    with pytest.raises(Refusal, match=r"'f2fs': allowed are btrfs, ext4, xfs; a target of kind uml can have it"):
        declaration.complete({"name": "a", "filesystem": "f2fs"})
    with pytest.raises(ValueError, match="file system 'zfs': allowed are btrfs, ext4, f2fs, xfs"):
        images.recipe("80.50", 1, "zfs", 512 * MIB, "33M")
    assert {step.to_json()["method"] for step in images.recipe("80.00", 1, "f2fs", 1 << 30, "33M").steps} == {"write"}


def test_without_its_mkfs_or_its_module_it_is_lacking_in_words(monkeypatch):
    spec = declaration.complete({"name": "a", "kind": "uml", "filesystem": "f2fs"})
    monkeypatch.setenv("PATH", "/nowhere")
    kept.mkfs.cache_clear()
    [why] = uml.Uml.lacking(spec).missing
    assert why == (
        "mkfs.f2fs is not here: it makes the image. Install f2fs-tools, or have `fsage kernels --fetch bookworm` "
        "unpack it"
    )
    kept.mkfs.cache_clear()
    monkeypatch.setattr(kept, "mkfs", lambda name: "mkfs.f2fs 1.15.0")
    monkeypatch.setattr(programs, "here", lambda: [programs.Kernel("5.4", Path("/linux"))])
    ended = boot.Ended([{"kernel": "5.4", "why_not": "the kernel does not know it"}], None, "")
    monkeypatch.setattr(programs, "boot", lambda *of: ended)
    assert uml.Uml.lacking(spec).missing == ["kernel 5.4: f2fs: the kernel does not know it"]


def test_modules_are_loaded_after_those_that_they_need(tmp_path):
    (tmp_path / "modules.dep").write_text(
        "kernel/fs/f2fs/f2fs.ko.xz: kernel/lib/lz4.ko.xz kernel/lib/zlib.ko.xz\n"
        "kernel/crypto/crc32_generic.ko.xz:\nkernel/fs/ext4/ext4.ko.xz:\n"
    )
    found = [str(path.relative_to(tmp_path / "kernel")) for path in programs.module_files(tmp_path, "f2fs")]
    assert found == ["crypto/crc32_generic.ko.xz", "lib/zlib.ko.xz", "lib/lz4.ko.xz", "fs/f2fs/f2fs.ko.xz"]
    assert programs.module_files(tmp_path, "bfq") == [] == programs.module_files(tmp_path / "none", "f2fs")


def test_what_is_reserved_lies_nowhere_so_it_is_refused():
    limits = SimpleNamespace(slack_bytes=0)
    of_f2fs = SimpleNamespace(filesystem="f2fs", mounts=[], capacity_bytes=MIB, limits=lambda: limits)
    quota = Quota(cast(Target, of_f2fs))
    with pytest.raises(Failure, match=r"/a: F2FS gives a block its place when it is written.*filler: write"):
        quota.fallocate(Path("/a"), MIB)


def test_free_blocks_are_read_from_bitmaps_of_segments():
    lines = ["0  3|2  | 80 01", "1  0|16 | ff ff", "2  0|0  | 00 00 | 0"]  # with a time since Linux 7.2
    assert list(filesystems.free_of_segments(lines, 16, 100)) == [(101, 14), (132, 16)]


@pytest.mark.long
@needs_f2fs
def test_more_requests_for_the_same_data_and_one_after_defragmentation(tmp_path, monkeypatch):
    spec, claimed = target(tmp_path, monkeypatch, filesystem="f2fs", size_gib=0.75)
    pieces, whole = ContendedFiles(1, 1, 4096), Defragment(1, "file", 60)
    metrics: dict[str, dict[str, float]] = {}
    for name, steps in (("before", [pieces]), ("after", [pieces, whole])):
        about = asked_of(claimed, name, *steps)
        cells = []
        for pattern, scheduler in (("P5", "none"), ("P6", "bfq")):
            params = file_requests.Params(pattern=pattern, scheduler=scheduler, iteration=1)
            phases = file_requests.commands(params, claimed)
            cells.append(cell(pattern, params.model_dump(), phases))
        assert ask(spec, "measure", **about, cells=cells)["undone"] is None
        [store] = ask(spec, "evidence", **about)["evidence"]["layout"]["stores"]
        assert store["filesystem"] == "f2fs" and store["free_extents"]["largest_bytes"] > 64 * MIB
        assert store["groups"]["kind"] == "segment" and 0 < store["fullness_percent"] < 50
    for path, seen in observations(tmp_path):
        outcome = file_requests.read(seen)
        assert outcome.status == "valid", outcome.why
        found = metrics[f"{path.parent.name} {path.name[:2]}"] = outcome.metrics
        assert found["group1_requests_a_read"] == (16 if path.parent.name == "before" else 1)
        assert found["group1_requests"] == found["group1_requests_by_map"]
    shared = metrics["before P5"]
    assert shared["group2_requests_a_read"] == 1 and shared["group1_reads"] == 2 * shared["group2_reads"]
    assert metrics["after P6"]["group1_extents"] < 8 < 512 < metrics["before P6"]["group1_extents"]


def row(stage: str, pattern: str, requests: int, iteration: int = 1, extents: int = 1024) -> dict[str, object]:
    """Of a file of 64 reads, group 2's whole."""
    about = {
        "kind": "planned",
        "workload": "file_requests",
        "status": "valid",
        "why": None,
        "iteration": iteration,
        "param.pattern": pattern,
        "param.scheduler": "none",
        "param.transfer_size": 1 << 16,
        "axis.piece_bytes": 4096,
        "axis.stage": stage,
        "group1_extents": extents,
        "group2_extents": 64,
        "most_request_kib": 127.0,
    }
    for name, count in (("1", requests), ("2", 64)):
        of = {"reads": 64, "requests": count, "jumps": count, "jump_bytes": 4096 * count, "computed_bw_mib_s": 1.0}
        about |= {f"group{name}_{key}": value for key, value in of.items()}
        about[f"group{name}_requests_a_read"] = count / 64
    return about


def test_the_first_sentence_says_how_many_requests():
    rows = [row("before", "P1", 0), row("before", "P4", 1024), row("before", "P6", 1024), row("after", "P4", 64)]
    data = shown([*rows, row("after", "P6", 64, extents=1), row("after", "P6", 65, 2)])
    said = report.answer(data)
    assert said and said.sentences == [
        "Reading the same data takes 16 requests instead of 1 for each 64K where the file is fragmented in pieces of "
        "4K; after defragmentation 1, because the file has 1 extent instead of 1,024.",
        "At equal weights and equal bytes the group that reads the pieces has 94% of all requests, and afterwards 50%.",
        "Measured again on the same image, 1 of 1 cells differ in a count.",
    ]
    section = report.table(data)
    assert section and section.table[1][2:8] == ["64K", "2 (100)", "whole", "64", "1", "1"]


def test_a_read_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="transfer_size 98304 does not divide 1 MiB"):
        file_requests.check(file_requests.Params(pattern="P6", transfer_size=98304, iteration=1), [])
