"""The verdict of `fsage evidence` and `fragments`: sentences that follow from numbers, on which scripts can fail."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fsage.base import GIB, MIB
from fsage.cli import app
from fsage.layouts import filesystems, machine, placement, saved
from fsage.layouts import verdict as said_of
from fsage.layouts.fragmentation import Extent, FileLayouts
from fsage.layouts.verdict import NAMES, of_fragments, parse_limits, reached, verdict

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "tests" / "data" / "evidence"
EXAMPLE = ROOT / "config" / "layouts" / "example.gz"


def store(classes, filesystem="ext4", used_bytes=GIB):
    """A store with free extents: from so many bytes, so many of them, so many bytes in all."""
    rows = [{"from_bytes": low, "extents": count, "bytes": size} for low, (count, size) in sorted(classes.items())]
    free_bytes = sum(row["bytes"] for row in rows)
    return {
        "filesystem": filesystem,
        "device_bytes": used_bytes + free_bytes,
        "used_bytes": used_bytes,
        "free_bytes": free_bytes,
        "fullness_percent": 100 * used_bytes / (used_bytes + free_bytes),
        "free_extents": {
            "count": sum(row["extents"] for row in rows),
            "largest_bytes": max((row["bytes"] // row["extents"] for row in rows), default=0),
            "histogram": rows,
        },
        "bitmap": {"bin_bytes": MIB},
        "files": None,
        "absent": {},
    }


def new_files(aged, direct=False):
    return placement.new_files(filesystems.of_store(aged), aged, None, direct)


AGED = store({4096: (1000, 6 * MIB), MIB: (100, 150 * MIB), 8 * MIB: (10, 100 * MIB)})


def test_where_it_is_not_known_how_a_file_system_chooses_new_files_lie_between_bounds():
    _, of_64_mib, of_1_gib = new_files({**AGED, "filesystem": "zfs"})
    assert (of_64_mib.low, of_64_mib.high) == (6, 278)
    assert of_1_gib.high is None, "there are 256 MiB"


OF_XFS = (
    (512, 1, 662),
    (256, 1, 318),
    (128, 3, 513),
    (64, 11, 1000),
    (32, 12, 568),
    (16, 9, 206),
    (8, 9, 106),
    (4, 6, 38),
)


def test_on_xfs_writes_past_the_cache_lie_in_more_pieces_and_the_verdict_says_for_which_it_holds():
    """An XFS of 6 GiB, filled and emptied for long, and what files of 64 MiB and 1 GiB got there in four places."""
    aged = store({low * MIB: (count, mib * MIB) for low, count, mib in OF_XFS}, "xfs")
    cached, direct = new_files(aged), new_files(aged, direct=True)
    assert [each.high for each in cached] == [1, 1, 3], "found: 1, 1, 1, 1 and 3, 3, 3, 3"
    assert [(each.low, each.high) for each in direct] == [(1, 1), (1, 3), (16, 33)], (
        "found: 3, 3, 2, 1 and 5, 30, 18, 15"
    )
    said = " ".join(verdict(aged, "x", None).sentences)
    assert "at once through the cache, of up to 64 MiB, would have 1 extent" in said
    assert "past the cache (O_DIRECT), as fsage age measures, one of 1 MiB would have 1 extent, of 64 MiB in 1" in said
    assert "Worth measuring, for a new file of 64 MiB that is written past the cache would have 1 to 3" in said
    assert not new_files({**aged, "filesystem": "ext4"}, direct=True), "there it makes no difference"


def counted(**numbers):
    """What statvfs(2) says of AGED."""
    free = {"free_bytes": AGED["free_bytes"], "available_bytes": AGED["free_bytes"]}
    return {"bytes": AGED["device_bytes"], **free, "inodes": 1000, "free_inodes": 999, **numbers}


@pytest.mark.parametrize(
    ("mounted", "says"),
    [
        (None, "80.0% full: 1 GiB of 1.25 GiB are in use, the file system's own blocks among them. "),
        (counted(), "the file system's own blocks among them. "),
        (
            counted(available_bytes=128 * MIB),
            "(df says 89%: it counts 128 MiB that users cannot have as used)",
        ),
        (
            counted(bytes=AGED["device_bytes"] - 512 * MIB),
            "(df says 67%: it leaves out 512 MiB that the file system keeps",
        ),
        (None, "lie in 1,110 extents: half of them in extents of 1 MiB and more, the largest 10 MiB."),
        (None, "At 87.8% full, the last free extent of 8 MiB may be used up."),
        (counted(available_bytes=56 * MIB, free_inodes=500), "first refused at 81.8 to 84.4% full: no block is left"),
        (counted(free_inodes=10), "is first refused at 80.6 to 81.0% full: no inode is left."),
        (
            None,
            "Worth measuring, for a new file of 64 MiB would have about 8 extents, and 1 on an empty file system",
        ),
    ],
)
def test_what_a_verdict_says(mounted, says):
    said = " ".join(verdict(AGED, "/mnt/scratch", mounted).sentences)
    assert says in said, said


def test_one_number_for_full_and_no_advice_without_evidence():
    whole = verdict(store({GIB: (4, 6 * GIB)}), "x", None).sentences
    assert whole[-1].startswith("A measurement is not worthwhile: new files, each written alone and at once, would be")
    assert "at once through the cache or past it, of up to 1 GiB, would have 1 extent" in whole[1]
    header = saved.read(io.BytesIO((TEXTS / "dumpe2fs_h.txt").read_bytes())).summary(0)
    assert verdict(header, "x", None).sentences == [
        "8.3% full: 677 MiB of 8 GiB are in use, the file system's own blocks among them.",
        "How free space lies is not known: dumpe2fs -h and tune2fs -l list no groups.",
    ]
    nowhere = {**AGED, "bitmap": None}
    assert "Where the extents lie this text does not say, so that is drawn" in verdict(nowhere, "x", None).sentences[-1]
    assert "Nothing is free." in verdict(store({}), "x", None).sentences[0]


def test_the_command_begins_with_it_and_what_it_names_can_be_run(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    said = CliRunner().invoke(app, ["evidence", str(EXAMPLE)], env={"COLUMNS": "4000"}).output.splitlines()
    assert said[0].endswith("ext4, 16 GiB, 70.35% full") and said[1].startswith("70.4% full: 11.3 GiB of 16 GiB")
    command = shlex.split(re.search(r"`([^`]+)`", said[3])[1])
    assert command[:3] == ["./run", "fsage", "age"]
    places = ["--target", "local", "--results", str(tmp_path)]
    done = CliRunner().invoke(app, [*places, *command[2:], "--prepare"])
    assert done.exit_code == 0 and list(tmp_path.glob("age/*/*.yaml"))


@pytest.mark.parametrize(
    ("limits", "code", "says"),
    [
        ("full=90", 0, ""),
        ("full=70.35", 3, "fsage: full is 70.35, at or above the limit of 70.35 (--fail-on)\n"),
        ("extents_64M=3", 3, "fsage: extents_64M is 3, at or above the limit of 3 (--fail-on)\n"),
        ("inodes=90", 1, "--fail-on inodes: that is not known here"),
        ("fulll=90", 1, "such as full=90; names are full, inodes, extents_1M, extents_64M, extents_1G"),
        ("full=nan", 1, "it is NAME=NUMBER"),
        ("full=1,full=2", 1, "each once"),
    ],
)
def test_a_script_can_fail_on_the_numbers(limits, code, says):
    done = CliRunner().invoke(app, ["evidence", str(EXAMPLE), "--json", "--fail-on", limits])
    assert done.exit_code == code
    if code == 1:
        assert says in str(done.exception)
        return
    assert says in done.stderr
    assert json.loads(done.stdout)["verdicts"][0]["values"]["extents_64M"] == 3


def test_what_does_not_fit_is_more_than_any_limit():
    values = verdict(AGED, "x", None).values
    assert set(values) == set(NAMES)
    (said,) = reached(values, parse_limits("extents_1G=9e9", NAMES))
    assert said == "extents_1G is more than fits, at or above the limit of 9e+09 (--fail-on)"


def test_a_command_runs_with_evidence_beside_it_and_its_exit_code_is_passed_on(tmp_path):
    out = tmp_path / "out.json"
    for words, code in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["/none"], 127)):
        done = CliRunner().invoke(app, ["evidence", str(EXAMPLE), "--beside", str(out), "--", *words])
        assert done.exit_code == code, done.output
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    first, _, not_there = lines
    assert [line["exit_code"] for line in lines] == [7, -9, 127]
    assert not_there["absent"]["exit_code"] == "/none: No such file or directory"
    assert first["before"] == first["after"] and first["before"]["verdict"]["extents_64M"] == 3
    assert first["before"]["fullness_percent"] == pytest.approx(70.35, abs=0.01)
    assert first["command"] == ["sh", "-c", "exit 7"]
    for words in (
        ["x", "--", "true"],
        [str(EXAMPLE), "--beside", "/none/x", "--", "true"],
        ["/none", "--beside", str(tmp_path / "none"), "--", "true"],
        [str(EXAMPLE), "--json", "--beside", str(out), "--", "true"],
    ):
        assert CliRunner().invoke(app, ["evidence", *words]).exit_code == 1
    assert not (tmp_path / "none").exists() and len(out.read_text().splitlines()) == 3


def test_ctrl_c_beside_evidence_is_the_commands(tmp_path):
    """A benchmark that prints its result then was killed after 0.25 s, and its line was lost."""
    out = tmp_path / "out.json"
    command = ["sh", "-c", "trap 'sleep 1; exit 4' INT; echo ready; while :; do sleep 0.1; done"]
    words = [sys.executable, "-m", "fsage", "evidence", EXAMPLE, "--beside", out, "--", *command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
    assert process.returncode == json.loads(out.read_text())["exit_code"] == 4


@pytest.mark.skipif(
    all(mount.point != "/" for mount in machine.mounts()), reason="the root is no mount, as in a chroot"
)
def test_fragments_begins_with_the_files_and_each_file_system(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 5000)
    os.sync()
    words = ["fragments", str(tmp_path), str(tmp_path / "file"), "--seek-ms", "9", "--rate-mb-s", "200"]
    done = CliRunner().invoke(app, [*words, "--fail-on", "full=0"], env={"COLUMNS": "4000"})
    first, second = done.stdout.splitlines()[:2]
    assert first.startswith("0 of 1 files (0.0%) have more extents than they need")
    assert re.match(rf"{tmp_path}: \d+\.\d% full: .* in use, the file system's own blocks among them", second)
    assert done.exit_code == 3 and done.stderr.count("fsage: full is ") == 1, "one file system"


def test_files_without_an_extent_are_named_and_not_counted_as_whole():
    """Just written: the kernel has given them no place yet (delayed allocation)."""
    layouts = FileLayouts(4096)
    for extents in ([], [Extent(0, 0, 4096, False)], [], []):
        layouts.add(extents)
    files = {"found": layouts.summary()}
    [sentence, *_] = said_of._of_files({"files": files, "source": {}}, "/data")
    assert "3 of 4 have none: they are empty or one hole, lie in their inodes, or were just written" in sentence
    said = of_fragments({"all": {"files": 3, "extents": 0}, "files_in_pieces": 0})
    assert said.sentences == [f"None of 3 files has an extent: {said_of.WITHOUT}."]
