"""Workload netflow: the file's format, its phases through the map with real tasks, what is wrong with a file or a task.

Tasks on several hosts: test_hosts_together.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import MIB
from striped import netflow_task

from fsage import workloads
from fsage.base import typed
from fsage.host.system.library import PACKAGE
from fsage.studies.netflow.host import flows
from fsage.studies.netflow.host.flows import Maker
from fsage.studies.netflow.host.work import StripedFile
from fsage.studies.netflow.model import Assignment
from fsage.studies.striping import model as striping

NETFLOW = workloads.load("netflow")
BLOCK = 65536
BLOCK_7 = Maker(1, BLOCK, 100, 0).block(7)
LAYOUTS = {
    "flat": [striping.Segment(0, 4 * MIB, 1, 4 * MIB, 0)],
    "static": [striping.Segment(0, 4 * MIB, 3, MIB // 4, 0)],
    "dynamic": [
        striping.Segment(0, MIB, 1, MIB // 2, 0),
        striping.Segment(MIB, 2 * MIB, 2, MIB // 4, 1),
        striping.Segment(2 * MIB, 4 * MIB, 4, MIB // 8, 3),
    ],
}


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**40), st.integers(1, 65536), st.sampled_from([4096, BLOCK]))
def test_a_block_holds_the_records_that_its_maker_counted(seed, number, models, block_bytes):
    maker = Maker(seed, block_bytes, models, models // 2)
    block = maker.block(number)
    assert len(block) == block_bytes and Maker(seed, block_bytes, models, 0).block(number) == block
    found = [flows.ENTRY.unpack(entry) for entry in flows.entries(block, number, seed)]
    assert all(64 <= length < 64 + 2048 and 0 <= model < models for model, _, length in found)
    assert [each[1] for each in found] == list(
        itertools.accumulate((each[2] for each in found[:-1]), initial=number * block_bytes + 32)
    )
    assert found[-1][1] + found[-1][2] > (number + 1) * block_bytes - 64 - 2048, "as full as it can be"
    assert maker.entries[0] == len(found) and maker.read[0] == sum(model < models // 2 for model, *_ in found)
    for wrong in ((number + 1, seed), (number, seed ^ 1)):
        with pytest.raises(flows.Corrupt, match="it is block"):
            flows.verify(block, *wrong)


@given(st.integers(0, BLOCK - 1), st.integers(1, 255))
def test_no_byte_of_a_block_can_change_unseen(at, change):
    spoiled = bytearray(BLOCK_7)
    spoiled[at] ^= change
    with pytest.raises(flows.Corrupt):
        flows.verify(bytes(spoiled), 7, 1)


@given(st.data())
def test_reading_through_the_map_is_reading_a_flat_file(tmp_path_factory, data):
    ends = data.draw(st.lists(st.integers(1, 16), min_size=1, max_size=4, unique=True).map(sorted))
    segments = []
    first = 0
    for begin, end in zip([0, *ends], ends, strict=False):
        stripes = data.draw(st.integers(1, 4))
        stripe_bytes = 4096 * data.draw(st.sampled_from([1, 2, 4]))
        segments.append(striping.Segment(begin * 16384, end * 16384, stripes, stripe_bytes, first))
        first += stripes
    size = ends[-1] * 16384
    place = tmp_path_factory.mktemp("map")
    flat = os.urandom(size)
    file = StripedFile(segments, [str(place / str(number)) for number in range(first)], size, direct=False)
    writer = StripedFile(segments, file.paths, size, direct=False)
    cuts = sorted({0, size, *data.draw(st.lists(st.integers(0, size), max_size=6))})
    for begin, end in itertools.pairwise(cuts):
        writer.write(begin, flat[begin:end])
    for _ in range(4):
        begin = data.draw(st.integers(0, size))
        end = data.draw(st.integers(begin, size))
        assert bytes(file.read(begin, end - begin)) == flat[begin:end]
    sizes = [each.stat().st_size for each in sorted(place.iterdir(), key=lambda each: int(each.name))]
    assert sizes == [size for size in striping.object_bytes(segments) if size]
    writer.close()
    file.close()


@given(st.integers(1, 500), st.integers(1, 16), st.integers(1, 8), st.sampled_from(["synchronous", "asynchronous"]))
def test_shares_are_the_whole_file_once(blocks_there, tasks, transfer_blocks, distribution):
    size, whole = blocks_there * BLOCK, transfer_blocks * BLOCK
    task = asked(Path("/none"), "flat", "generate", distribution, tasks=tasks, segment_bytes=2 * whole)
    shares = flows.spans(size, whole, typed.read(Assignment, json.loads(json.dumps(task))))
    assert [begin for begin, _ in shares] == [0, *(end for _, end in shares[:-1])] and shares[-1][1] == size
    lengths = [end - begin for begin, end in shares]
    if distribution == "synchronous":
        assert len(shares) == min(tasks, -(-size // whole)) and max(lengths) - min(lengths) <= whole
    else:
        assert all(length == 2 * whole for length in lengths[:-1]) and lengths[-1] <= 2 * whole


def asked(place: Path, layout: str, phase: str, distribution: str = "synchronous", **more) -> dict:
    sizes = {"transfer_bytes": MIB // 4, "segment_bytes": MIB // 2}
    tasks = {"phase": phase, "distribution": distribution, "tasks": 3, "tasks_here": 3}
    return netflow_task(str(place), LAYOUTS[layout], **{**sizes, **tasks, **more})


def command(task: dict) -> list[str]:
    path = Path(task["index"]) / "task.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(task))
    return [sys.executable, "-S", "-m", "fsage.studies.netflow.host.phase", str(path)]


ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE.parent)}


def run(task: dict) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(task), env=ENVIRONMENT, capture_output=True, text=True, timeout=30, check=False)


def phases(place: Path, layout: str, distribution: str) -> dict[str, dict]:
    found = {}
    for name in NETFLOW.PHASES:
        done = run(asked(place, layout, name, distribution if name != "generate" else "synchronous"))
        assert (done.returncode, done.stderr) == (0, "")
        found[name] = json.loads(done.stdout)
    return found


@pytest.mark.long
def test_every_layout_and_both_distributions_find_the_same_and_what_was_generated(tmp_path):
    seen = set()
    for layout, distribution in (("flat", "synchronous"), ("static", "asynchronous"), ("dynamic", "asynchronous")):
        made, index, models = phases(tmp_path / layout, layout, distribution).values()
        assert (index["bytes"], index["records"], index["checksum"]) == (4 * MIB, made["records"], made["checksum"])
        assert (models["records"], models["checksum"]) == (made["read_records"], made["read_checksum"])
        assert index["shares"] == (3 if distribution == "synchronous" else 8), "equal shares, or small ones"
        assert models["shares"] == (3 if distribution == "synchronous" else 9), "equal shares, or a model each"
        assert index["tasks"] == 3 and index["least_shares"] >= 1
        assert 0 < index["seconds"] < 30 and 0 < models["seconds"] < 30, "no longer than the run had"
        assert time.time() - 30 < index["began"] < models["began"] < time.time()
        seen.add((index["checksum"], models["checksum"], models["records"], models["bytes"]))
    assert len(seen) == 1


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    place = tmp_path_factory.mktemp("netflow") / "dynamic"
    phases(place, "dynamic", "synchronous")
    return place


def test_fewer_reads_than_tasks_are_no_measurement(generated):
    done = run(asked(generated, "dynamic", "models", "asynchronous", models_read=2))
    assert done.returncode == 1 and "2 shares of work are not enough for 3 tasks" in done.stderr


def spoil(path: Path, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


AGAIN = r"measured again \(`fsage remeasure STUDY --failed`\)"


@pytest.mark.parametrize(
    ("phase", "name", "do", "why"),
    [  # object 4 has bytes 2.125 to 2.25 MiB of the file first; in it blocks 34 and 35
        (
            "index",
            "object4",
            lambda p: spoil(p, 0, b"GIFT"),
            rf"object4, byte 0 \(byte 2228224 .*block 34 .*magic is b'GIFT'.*{AGAIN}",
        ),
        (
            "models",
            "object4",
            lambda p: spoil(p, BLOCK + 8, b"\xff" * 4),
            rf"object4, byte 65536 \(.*block 35 .* the CRC is 0x.*{AGAIN}",
        ),
        (
            "index",
            "object2",
            lambda p: os.truncate(p, p.stat().st_size - 10),
            rf"object2, byte .*: ends 10 bytes too early.*{AGAIN}",
        ),
        ("index", "object3", lambda p: p.unlink(), rf"object3, byte .*: No such file or directory.*{AGAIN}"),
        (
            "models",
            "index.1",
            lambda p: p.unlink(),
            r"index\.1: No such file .*; phase index writes it before phase models",
        ),
        ("models", "index.1", lambda p: os.truncate(p, p.stat().st_size - 1), r"index\.1 ends within an entry"),
        ("models", "index.1", lambda p: spoil(p, 11, b"\xff"), "as the index says"),
    ],
)
def test_a_file_or_index_that_is_not_as_written_is_refused_with_the_place(tmp_path, generated, phase, name, do, why):
    for path in generated.iterdir():
        if phase == "models" or not path.name.startswith("index"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    do(tmp_path / name)
    done = run(asked(tmp_path, "dynamic", phase, models_read=64))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(why, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [  # with the CRC of what is there, as a program that writes nonsense would give it
        (8, 31, "the length used is 31; allowed are 32 to 65536 bytes"),
        (8, BLOCK + 1, "the length used is 65537"),
        (12, 99, r"the record at byte \d+ has a length of 0 bytes, of \d+ that are left"),
        (12, 1, r"its 1 records end at byte \d+, not at \d+"),
        (32, 15, "the record at byte 32 has a length of 15 bytes"),
        (32, BLOCK, "the record at byte 32 has a length of 65536 bytes"),
    ],
)
def test_lengths_in_a_block_are_never_trusted(at, value, why):
    block = bytearray(BLOCK_7)
    block[at : at + 4] = value.to_bytes(4, "little")
    block[4:8] = zlib.crc32(block[8:]).to_bytes(4, "little")
    with pytest.raises(flows.Corrupt, match=why):
        flows.entries(bytes(block), 7, 1)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def endless(tmp_path):
    """A phase that would write for an hour, and its tasks at work."""
    segments = [striping.Segment(0, 1 << 40, 1, 1 << 40, 0)]
    task = {**asked(tmp_path, "flat", "generate"), "segments": segments, "paths": ["/dev/null"]}
    with subprocess.Popen(command(task), env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 10
        while not any(written(pid) > MIB for pid in children(process.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
        process.kill()


def written(pid: int) -> int:
    return int(Path(f"/proc/{pid}/io").read_text().split("wchar: ")[1].split()[0])


def test_a_task_that_dies_ends_the_phase(endless):
    dead, *others = children(endless.pid)
    os.kill(dead, signal.SIGKILL)
    _, said = endless.communicate(timeout=5)
    assert endless.returncode == 1
    assert f"a task ended before its work was done: process {dead}\n" in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in others)


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie, which the first process of a container may leave."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def test_no_task_listens_nor_outlives_a_phase_that_is_killed(endless):
    tasks = children(endless.pid)
    assert len(tasks) == 3
    listed = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    assert not [pid for pid in (endless.pid, *tasks) if f"pid={pid}," in listed]
    endless.kill()
    deadline = time.monotonic() + 30
    while any(map(runs, tasks)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_phase_ends_with_who_told_it_what_to_do(tmp_path):
    argv = command({**asked(tmp_path, "flat", "generate"), "tasks_here": 1})
    with subprocess.Popen(argv, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(b";\n0\n", timeout=10)
    assert process.returncode == 1 and out in (b"", b"next\n"), "it may have asked, and nobody answered"
