"""Workload netflow: the file's format, its phases through the map with real tasks, what is wrong with a file or a task.

MPI does not run here: its launcher's place takes a shell that starts the same program as often, which gets all of the
agent over the connection as it would on another host.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from multiprocessing.connection import wait
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from states import MIB

from fsage import workloads
from fsage.host.netflow import blocks, share
from fsage.host.netflow.assignment import Assignment
from fsage.host.netflow.door import Door
from fsage.host.netflow.generate import Maker
from fsage.host.netflow.striped import StripedFile
from fsage.host.structure import striping
from fsage.host.system.library import PACKAGE
from fsage.model import typed

NETFLOW = workloads.load("netflow")
BLOCK = 65536
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
@settings(max_examples=50, deadline=None)
def test_a_block_holds_the_records_that_its_maker_counted(seed, number, models, block_bytes):
    maker = Maker(seed, block_bytes, models, models // 2)
    block = maker.block(number)
    assert len(block) == block_bytes and Maker(seed, block_bytes, models, 0).block(number) == block
    found = [blocks.ENTRY.unpack(entry) for entry in blocks.entries(block, number, seed)]
    assert all(64 <= length < 64 + 2048 and 0 <= model < models for model, _, length in found)
    assert [one[1] for one in found] == list(
        itertools.accumulate((one[2] for one in found[:-1]), initial=number * block_bytes + 32)
    )
    assert found[-1][1] + found[-1][2] > (number + 1) * block_bytes - 64 - 2048, "as full as it can be"
    assert maker.entries[0] == len(found) and maker.read[0] == sum(model < models // 2 for model, *_ in found)
    for wrong in ((number + 1, seed), (number, seed ^ 1)):
        with pytest.raises(blocks.Corrupt, match="it is block"):
            blocks.verify(block, *wrong)


@given(st.integers(0, BLOCK - 1), st.integers(1, 255))
@settings(max_examples=100, deadline=None)
def test_no_byte_of_a_block_can_change_unseen(at, change):
    spoiled = bytearray(Maker(1, BLOCK, 100, 0).block(7))
    spoiled[at] ^= change
    with pytest.raises(blocks.Corrupt):
        blocks.verify(bytes(spoiled), 7, 1)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_reading_through_the_map_is_reading_a_flat_file(tmp_path_factory, data):
    ends = data.draw(st.lists(st.integers(1, 16), min_size=1, max_size=4, unique=True).map(sorted))
    segments, first = [], 0
    for begin, end in zip([0, *ends], ends, strict=False):
        stripes, stripe_bytes = data.draw(st.integers(1, 4)), 4096 * data.draw(st.sampled_from([1, 2, 4]))
        segments.append(striping.Segment(begin * 16384, end * 16384, stripes, stripe_bytes, first))
        first += stripes
    size, place = ends[-1] * 16384, tmp_path_factory.mktemp("map")
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
    sizes = [one.stat().st_size for one in sorted(place.iterdir(), key=lambda one: int(one.name))]
    assert sizes == [size for size in striping.object_bytes(segments) if size]
    writer.close()
    file.close()


@given(st.integers(1, 500), st.integers(1, 16), st.integers(1, 8), st.sampled_from(["synchronous", "asynchronous"]))
def test_shares_are_the_whole_file_once(blocks_there, tasks, transfer_blocks, distribution):
    size, whole = blocks_there * BLOCK, transfer_blocks * BLOCK
    task = asked(Path("/none"), "flat", "generate", distribution, tasks=tasks, segment_bytes=2 * whole)
    shares = share.spans(size, whole, typed.read(Assignment, json.loads(json.dumps(task))))
    assert [begin for begin, _ in shares] == [0, *(end for _, end in shares[:-1])] and shares[-1][1] == size
    lengths = [end - begin for begin, end in shares]
    if distribution == "synchronous":
        assert len(shares) == min(tasks, -(-size // whole)) and max(lengths) - min(lengths) <= whole
    else:
        assert all(length == 2 * whole for length in lengths[:-1]) and lengths[-1] <= 2 * whole


def asked(place: Path, layout: str, phase: str, distribution: str = "synchronous", **more) -> dict:
    segments = LAYOUTS[layout]
    objects = segments[-1].first + segments[-1].stripes
    return {
        **{"phase": phase, "distribution": distribution, "tasks": 3, "seed": 5, "models": 64, "models_read": 9},
        **{
            "block_bytes": BLOCK,
            "transfer_bytes": MIB // 4,
            "segment_bytes": MIB // 2,
            "direct": False,
            "towards": None,
        },
        **{"segments": segments, "paths": [str(place / f"object{number}") for number in range(objects)]},
        **{"index": str(place), **more},
    }


def command(task: dict, *launcher: str) -> list[str]:
    path = Path(task["index"]) / "task.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(task))
    return [sys.executable, "-S", "-m", "fsage.host.netflow", str(path), *launcher]


ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE.parent)}


def run(task: dict, *launcher: str) -> subprocess.CompletedProcess[str]:
    argv = command(task, *launcher)
    return subprocess.run(argv, env=ENVIRONMENT, capture_output=True, text=True, timeout=30, check=False)


def phases(place: Path, layout: str, distribution: str, *launcher: str) -> dict[str, dict]:
    found = {}
    for name in NETFLOW.PHASES:
        done = run(asked(place, layout, name, distribution if name != "generate" else "synchronous"), *launcher)
        assert (done.returncode, done.stderr) == (0, "")
        found[name] = json.loads(done.stdout)
    return found


def test_every_layout_and_both_distributions_find_the_same_and_what_was_generated(tmp_path):
    seen = set()
    shell = ("sh", "-c", 'unset PYTHONPATH; cd /; for task in 1 2 3; do "$@" & done; wait', "launcher")
    for layout, distribution, launcher in (
        ("flat", "synchronous", ()),
        ("static", "asynchronous", ()),
        ("dynamic", "asynchronous", shell),
    ):
        found = phases(tmp_path / f"{layout}.{distribution}", layout, distribution, *launcher)
        made, index, models = (found[name] for name in NETFLOW.PHASES)
        assert (index["bytes"], index["records"], index["checksum"]) == (4 * MIB, made["records"], made["checksum"])
        assert (models["records"], models["checksum"]) == (made["read_records"], made["read_checksum"])
        assert index["shares"] == (3 if distribution == "synchronous" else 8), "equal shares, or small ones"
        assert models["shares"] == (3 if distribution == "synchronous" else 9), "equal shares, or a model each"
        assert sum(index["hosts"].values()) == 3 and index["least_shares"] >= 1 and index["seconds"] > 0
        assert index["seconds"] < 30 > models["seconds"] > 0, "no longer than the run had"
        seen.add((index["checksum"], models["checksum"], models["records"], models["bytes"]))
    assert len(seen) == 1


def test_fewer_reads_than_tasks_are_no_measurement(tmp_path):
    for name in NETFLOW.PHASES:
        done = run(asked(tmp_path, "flat", name, models=1 << 20, models_read=60))
    assert done.returncode == 1 and "shares of work are not enough for 3 tasks" in done.stderr


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    place = tmp_path_factory.mktemp("netflow") / "dynamic"
    phases(place, "dynamic", "synchronous")
    return place


def spoil(path: Path, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


AGAIN = r"measured again \(`fsage remeasure STUDY --failed`\)"


@pytest.mark.parametrize("phase", ["index", "models"])
@pytest.mark.parametrize(
    ("name", "do", "why"),
    [  # object 4 has bytes 2.125 to 2.25 MiB of the file first; in it blocks 34 and 35
        ("object4", lambda p: spoil(p, 0, b"GIFT"), r"object4, byte 0 \(byte 2228224 .*block 34 .*magic is b'GIFT'"),
        ("object4", lambda p: spoil(p, BLOCK + 8, b"\xff" * 4), r"object4, byte 65536 \(.*block 35 .* the CRC is 0x"),
        ("object4", lambda p: spoil(p, 100, b"spoiled"), r"block 34 is corrupt, the CRC is 0x\w{8}, and 0x\w{8} was"),
        ("object4", lambda p: p.write_bytes(p.read_bytes()[BLOCK:]), r"it is block \d+ of seed 5, not block \d+"),
        ("object2", lambda p: os.truncate(p, p.stat().st_size - 10), "object2, byte .*: ends 10 bytes too early"),
        ("object3", lambda p: p.unlink(), "object3, byte .*: No such file or directory"),
    ],
)
def test_a_file_that_is_not_as_generated_is_refused_with_the_place(tmp_path, generated, phase, name, do, why):
    for path in generated.iterdir():
        if phase == "models" or not path.name.startswith("index"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    do(tmp_path / name)
    everything = {"models_read": 64}
    done = run(asked(tmp_path, "dynamic", phase, **everything))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(why, done.stderr) and re.search(AGAIN, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [  # with the CRC of what is there, as a program that writes nonsense would give it
        ("used", 31, "the length used is 31; allowed are 32 to 65536 bytes"),
        ("used", BLOCK + 1, "the length used is 65537"),
        ("count", 99, r"the record at byte \d+ has a length of 0 bytes, of \d+ that are left"),
        ("count", 1, r"its 1 records end at byte \d+, not at \d+"),
        ("length", 15, "the record at byte 32 has a length of 15 bytes"),
        ("length", BLOCK, "the record at byte 32 has a length of 65536 bytes"),
    ],
)
def test_lengths_in_a_block_are_never_trusted(field, value, why):
    block = bytearray(Maker(1, BLOCK, 100, 0).block(0))
    place = {"used": 8, "count": 12, "length": 32}[field]
    block[place : place + 4] = value.to_bytes(4, "little")
    block[4:8] = zlib.crc32(block[8:]).to_bytes(4, "little")
    with pytest.raises(blocks.Corrupt, match=why):
        blocks.entries(bytes(block), 0, 1)


@pytest.mark.parametrize(
    ("do", "why"),
    [
        (lambda p: p.unlink(), "index.1: No such file or directory; phase index writes it before phase models"),
        (lambda p: os.truncate(p, p.stat().st_size - 1), "index.1 ends within an entry"),
        (lambda p: spoil(p, 11, b"\xff"), "as the index says"),
    ],
)
def test_an_index_that_is_not_as_written_is_refused(tmp_path, generated, do, why):
    for path in generated.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    do(tmp_path / "index.1")
    done = run(asked(tmp_path, "dynamic", "models", models_read=64))
    assert done.returncode == 1 and why in done.stderr and done.stderr.count("\n") == 1


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


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
    assert f"a task ended before its work was done: process {dead} on {os.uname().nodename}" in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in others)


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie, which the first process of a container may leave."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def test_no_task_outlives_a_coordinator_that_is_killed(endless):
    tasks = children(endless.pid)
    assert len(tasks) == 3
    endless.kill()
    deadline = time.monotonic() + 30
    while any(map(runs, tasks)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_launcher_that_fails_ends_the_phase_with_what_it_said(tmp_path):
    done = run(asked(tmp_path, "flat", "generate"), "sh", "-c", "echo there are not enough slots >&2; exit 1")
    assert done.returncode == 1 and "a task ended before it had begun: there are not enough slots" in done.stderr
    done = run(asked(tmp_path, "flat", "generate"), "no-such-launcher")
    assert done.returncode == 1 and "no-such-launcher does not start" in done.stderr


GATE = """
for word; do port=$word; done
echo "$port" >port.new; mv port.new port
while [ ! -e go ]; do sleep 0.02; done
for task in 1 2 3; do "$@" & done; wait
"""
HUGE = b"\x7f\xff\xff\xff" + b"\xff" * 60
"""A length of 2 GiB, where a length is expected; as long as what a task says."""


class Strangers:
    """Who has not got the key, on as many connections as you like."""

    def __init__(self, port: int) -> None:
        self.port, self.there = port, list[socket.socket]()
        self.done = threading.Event()

    def come(self, count: int, say: bytes = b"") -> list[socket.socket]:
        came = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]
        for one in came:
            one.sendall(say)
        self.there += came
        return came

    def drip(self, slow: list[socket.socket]) -> None:
        """Say a byte at a time, so that each looks alive; come again when dropped, as long as the port is open."""
        while not self.done.wait(0.1):
            for number, one in enumerate(slow):
                try:
                    one.sendall(b"x")
                except OSError:
                    try:
                        (slow[number],) = self.come(1)
                    except OSError:
                        return

    def leave(self) -> None:
        self.done.set()
        for one in self.there:
            one.close()


def ended(one: socket.socket) -> bool:
    """Whether the other side has closed; what it said before is left out."""
    one.settimeout(5)
    try:
        while one.recv(100):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_strangers_do_not_hold_up_the_tasks(tmp_path):
    wanted = json.loads(run(asked(tmp_path / "alone", "dynamic", "generate")).stdout)
    argv = command(asked(tmp_path, "dynamic", "generate"), "sh", "-c", GATE, "launcher")
    with subprocess.Popen(argv, env=ENVIRONMENT, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 20
        while not (tmp_path / "port").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (launcher,) = children(process.pid)
        (key,) = re.findall(rb"FSAGE_NETFLOW_KEY=(\w{64})", Path(f"/proc/{launcher}/environ").read_bytes())
        assert not [one for one in (process.pid, launcher) if key in Path(f"/proc/{one}/cmdline").read_bytes()]
        strangers = Strangers(int((tmp_path / "port").read_text()))
        try:
            slow = strangers.come(40)
            idle, rude = strangers.come(300), strangers.come(40, HUGE)
            strangers.come(40, HUGE[:50])  # nearly as much as is waited for
            threading.Thread(target=strangers.drip, args=(slow,)).start()
            began = time.monotonic()
            (tmp_path / "go").touch()
            out, _ = process.communicate(timeout=25)
            assert time.monotonic() - began < 20, "in bounded time"
            assert all(ended(one) for one in (*idle, *rude))
            with pytest.raises(ConnectionRefusedError):
                strangers.come(1)
        finally:
            strangers.leave()
    assert process.returncode == 0
    found = json.loads(out)
    for name in ("bytes", "records", "checksum", "read_records", "read_checksum"):
        assert found[name] == wanted[name]


def test_a_stranger_is_dropped_within_a_second_and_what_is_wrong_at_once():
    door = Door(b"key", 1, None)
    with (
        socket.create_connection((door.address, door.port)) as idle,
        socket.create_connection((door.address, door.port)) as rude,
    ):
        rude.sendall(HUGE)
        began = time.monotonic()
        while door.strangers or time.monotonic() < began + 0.2:
            for one in wait(door.waits_for(), 0.05):
                assert list(door.enter(one)) == []
            door.drop_late()
            if len(door.strangers) == 1 and time.monotonic() > began + 0.5:
                assert ended(rude) and next(iter(door.strangers)).getpeername() == idle.getsockname()
        assert ended(idle) and 1 <= time.monotonic() - began < 2
    door.close()


LIAR = """
import sys
exec(sys.argv[-3].partition("import sys")[0])
greet(sys.argv[-2], int(sys.argv[-1])).send_bytes(bytes(1 << 20))
time.sleep(20)
"""
NO_KEY = "import os, sys; os.environ['FSAGE_NETFLOW_KEY'] = '00' * 32; os.execvp(sys.argv[1], sys.argv[1:])"


@pytest.mark.long
def test_a_task_says_no_more_than_it_may_and_only_with_the_key(tmp_path):
    began = time.monotonic()
    done = run(asked(tmp_path, "flat", "generate"), sys.executable, "-c", LIAR)
    assert time.monotonic() - began < 15
    assert done.returncode == 1 and "a task ended before it had begun" in done.stderr
    argv = command(asked(tmp_path, "flat", "generate"), sys.executable, "-c", NO_KEY)
    with subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        time.sleep(3)
        assert process.poll() is None, "not one of the tasks has come"
        process.terminate()
        assert process.communicate()[0] == ""


def test_on_one_host_nothing_listens(endless):
    tasks = children(endless.pid)
    listed = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listed.splitlines() for pid in (endless.pid, *tasks) if f"pid={pid}," in line]
