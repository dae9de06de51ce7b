"""`fsage fragments` and `fsage defragment` on real file systems: refusals, proofs, and interruptions at any moment."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_filesystems import MIB, Small, fragmented, small

from fsage.agent.evidence import fiemap, fragmentation
from fsage.agent.stores import filesystems
from fsage.cli import main
from fsage.defrag import guard, look, rewrite
from fsage.defrag.bound import Device
from fsage.defrag.identity import Verdict, identity, verdict
from fsage.defrag.journal import Journal, alone

SEED = 20261121
NOTHING_TO_DO = "nothing to do: none of 2 files is in more extents than it has to be\n"
RUN = """
import sys
from pathlib import Path
from fsage.defrag import look, rewrite
for outcome in rewrite.rewrite(look.Look([Path(sys.argv[1])], 10**9), Path(sys.argv[2]), 600):
    assert outcome.verdict == "whole", outcome
"""


@pytest.fixture(scope="module", params=filesystems.names())
def mounted(request, tmp_path_factory):
    with small(request.param, tmp_path_factory.mktemp("small") / "mnt") as made:
        yield made


@pytest.fixture
def fsage(tmp_path, monkeypatch, capfd):
    """The command: exit status, what it prints, what it complains of."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fsage", "--results", str(tmp_path), *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as ended:
            main()
        return (int(ended.value.code or 0), *capfd.readouterr())

    return run


def everything(folder: Path) -> dict[str, tuple]:
    """All that must stay, by name."""
    found = {}
    for path in folder.iterdir():
        stat = path.stat()
        kept = (stat.st_mtime_ns, stat.st_mode, stat.st_uid, stat.st_gid, os.listxattr(path))
        found[path.name] = (hashlib.sha256(path.read_bytes()).hexdigest(), *kept)
    return found


def several(folder: Path, files: int, pieces: int = 48) -> dict[str, tuple]:
    """Files in pieces, with all that must stay."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number, path in enumerate(fragmented({folder / f"f {number}": pieces + number for number in range(files)})):
        os.chmod(path, 0o4640 + number)
        os.chown(path, 1000 + number, 7)
        os.setxattr(path, "user.of", b"mine" * 20)
        os.utime(path, ns=(1, 1234567890123456789 + number))
    os.sync()
    return everything(folder)


@pytest.mark.root
def test_the_commands_look_ask_defragment_and_verify(mounted: Small, tmp_path: Path, fsage) -> None:
    folder = mounted.point / "mine"
    several(folder, 3)
    os.rename(folder / "f 1", folder / "f 1 \udcff")
    (folder / "contiguous \udcff").write_bytes(os.urandom(16 * MIB))  # no UTF-8
    held = everything(folder)
    os.sync()

    found = json.loads(fsage("fragments", folder, "--json", "--worst", 2)[1])
    assert [Path(one["path"]).name for one in found["worst"]] == ["f 2", "f 1 \udcff"]
    assert found["all"]["files"] == 4 and found["all"]["extents"] >= 148 and found["files_in_pieces"] >= 3
    assert found["device"]["seek_s"] > 0 and found["device"]["bytes_per_s"] > 1e6
    assert found["worst"][0]["gain_s_at_most"] == pytest.approx(49 * found["device"]["seek_s"])
    assert sum(one["files"] for one in found["histogram"]) == 4
    code, said, _ = fsage("fragments", folder / "f 0", "--seek-ms", 10, "--rate-mb-s", 100)
    assert code == 0 and "0.47 s at most" in said and "no forecast" in said and str(folder / "f 0") in said

    code, said, complaint = fsage("defragment", folder)
    assert code == 1 and "nothing was changed" in complaint and "f 2: 50 extents" in said
    assert ("warning" in complaint) == (mounted.filesystem == "xfs")
    assert everything(folder) == held and not (tmp_path / "defragment").exists()

    code, said, complaint = fsage("defragment", folder, "--yes-rewrite-my-data")
    assert code == 0 and "f 2: 50 -> 1 extents; is whole" in said, complaint
    assert everything(folder) == held
    assert all(fragmentation.of_file(fiemap.extents(folder / name)).extents <= 2 for name in held)
    code, said, _ = fsage("defragment", "--verify")
    assert code == 0 and said.count("is whole") >= 3
    shutil.rmtree(folder)


def test_wrong_input_is_said_in_a_sentence(tmp_path: Path, fsage) -> None:
    on_memory = Path("/dev/shm")
    for arguments, words in (
        (["fragments", tmp_path / "gone"], f"{tmp_path}/gone: No such file"),
        (["fragments", tmp_path, "--by", "size"], "there are extents, ratio"),
        (["fragments", tmp_path, "--seek-ms", "0"], "--seek-ms 0.0: allowed is a number above 0"),
        (["defragment", tmp_path, "--time-limit-s", "inf"], "--time-limit-s inf: allowed are 0 to 1000000 seconds"),
        (["defragment"], "give files or folders to defragment, or --verify alone"),
        (["defragment", "--verify"], "no run of `fsage defragment` has left a journal"),
        (["defragment", on_memory, "--yes-rewrite-my-data"], "/dev/shm is on tmpfs; only files on btrfs, ext4, xfs"),
    ):
        code, _, complaint = fsage(*arguments)
        assert code == 1 and words in complaint


@pytest.mark.root
def test_what_must_not_be_touched_is_not(mounted: Small, tmp_path: Path) -> None:
    folder = mounted.point / "guarded"
    several(folder, 1)
    path = folder / "f 0"
    assert guard.why_not(path) is None
    with open(path, "r+b") as file:
        assert guard.why_not(path) == "is open for writing"
        mapped = mmap.mmap(file.fileno(), 4096)
    assert guard.why_not(path) == "is open for writing"  # by its mapping
    mapped.close()
    for letter, words in (("i", "immutable"), ("a", "append-only")):
        subprocess.run(["chattr", f"+{letter}", str(path)], check=True)
        assert words in str(guard.why_not(path))
        (outcome,) = rewrite.rewrite(look.Look([path], 1), tmp_path / "journal", 60)
        assert not outcome.good and words in outcome.words and outcome.verdict is None
        subprocess.run(["chattr", f"-{letter}", str(path)], check=True)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        assert "ulimit -f" in str(guard.why_not(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (folder / "link").symlink_to(path)
    assert "is a link" in str(guard.why_not(folder / "link"))
    swaps = tmp_path / "swaps"
    swaps.write_text(f"Filename Type\n{str(path).replace(' ', chr(92) + '040')} file 1 0 -2\n")
    assert guard.is_swap(os.stat(path), swaps) and not guard.is_swap(os.stat(folder), swaps)
    if mounted.filesystem != "ext4":
        subprocess.run(["cp", "--reflink=always", str(path), str(folder / "twin")], check=True)
        assert "shares extents" in str(guard.why_not(path))
    if mounted.filesystem == "xfs":
        (folder / "twin").unlink()
        subprocess.run(["xfs_io", "-c", "chattr +f", str(path)], check=True)
        assert "marked" in str(guard.why_not(path))
        with open(mounted.point / "filler", "wb") as filler:
            free = os.statvfs(mounted.point)
            os.posix_fallocate(filler.fileno(), 0, free.f_bavail * free.f_frsize - 64 * 4096)
        subprocess.run(["xfs_io", "-c", "chattr -f", str(path)], check=True)
        assert "are free for a second copy" in str(guard.why_not(path))
        (mounted.point / "filler").unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(mounted.point)], check=True)
    assert "mounted read-only" in str(guard.why_not(path))
    subprocess.run(["mount", "-o", "remount,rw", str(mounted.point)], check=True)
    shutil.rmtree(folder)


@pytest.mark.root
def test_what_a_loss_of_power_risks_is_known(tmp_path: Path) -> None:
    for name, options in (("with", "rmapbt=1"), ("without", "rmapbt=0")):
        with small("xfs", tmp_path / name, "-m", options) as made:
            risk = filesystems.of("xfs").risk(str(made.point))
            assert (risk is None) == (name == "with"), risk


def test_damage_is_told_from_change(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a" * 10_000)
    noted = identity(path)
    assert verdict(path, noted)[0] is Verdict.WHOLE
    path.chmod(0o600)
    assert verdict(path, noted) == (Verdict.WHOLE, "is whole; other than before: mode")
    path.write_bytes(b"a" * 9_999 + b"b")
    assert verdict(path, noted)[0] is Verdict.CHANGED
    os.utime(path, ns=(noted["mtime_ns"], noted["mtime_ns"]))
    found, words = verdict(path, noted)
    assert found is Verdict.DAMAGED and noted["sha256"] in words and "backup" in words
    path.unlink()
    assert verdict(path, noted)[0] is Verdict.GONE


@pytest.mark.root
def test_damage_of_an_interrupted_run_ends_the_next_one(mounted: Small, tmp_path: Path) -> None:
    folder = mounted.point / "damaged"
    several(folder, 2)
    victim = folder / "f 0"
    journal_folder = tmp_path / "journal"
    journal_folder.mkdir()
    journal = Journal.begin(journal_folder)
    journal.note("before", path=str(victim), filesystem=mounted.filesystem, **identity(victim))
    with open(journal.path, "a", encoding="utf-8") as torn:
        torn.write('{"kind": "aft')
    before, other = identity(victim), fiemap.extents(folder / "f 1")
    with open(victim, "r+b") as file:
        file.write(bytes(4096))
    os.utime(victim, ns=(before["mtime_ns"], before["mtime_ns"]))
    outcomes = list(rewrite.rewrite(look.Look([folder], 9), journal_folder, 60))
    assert [outcome.verdict for outcome in outcomes] == [Verdict.DAMAGED] and not outcomes[0].good
    assert fiemap.extents(folder / "f 1") == other
    shutil.rmtree(folder)


@pytest.mark.root
def test_the_next_run_says_of_the_interrupted_one_whether_its_file_is_whole(
    mounted: Small, tmp_path: Path, fsage
) -> None:
    folder = mounted.point / "again"
    held = several(folder, 2)
    (tmp_path / "defragment").mkdir()
    journal = Journal.begin(tmp_path / "defragment")
    journal.note("before", path=str(folder / "f 0"), filesystem=mounted.filesystem, **identity(folder / "f 0"))
    left = {"ext4": "f 0.defrag", "xfs": ".fsr4711"}.get(mounted.filesystem)
    if left:
        (folder / left).touch()  # as a tool leaves it that is killed in between
    code, said, complaint = fsage("defragment", folder, "--yes-rewrite-my-data")
    assert code == 0, complaint
    assert "f 0: was at work when a run was interrupted: is whole" in said
    assert not left or f"removed an empty file that its tool had left: {folder / left}" in said
    assert said.count(" extents") >= 2 and everything(folder) == held
    if mounted.filesystem != "btrfs":  # which may leave two extents
        assert fsage("defragment", folder, "--yes-rewrite-my-data")[:2] == (0, NOTHING_TO_DO)
    shutil.rmtree(folder)


def test_two_runs_at_a_time_are_refused_even_while_only_a_tool_lives(tmp_path: Path) -> None:
    with alone(tmp_path):
        tool = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with pytest.raises(ValueError, match="is at work, or a tool of it"), alone(tmp_path):
            pass
    finally:
        tool.kill()
        tool.wait()
    with alone(tmp_path):
        pass


def test_the_bound_is_the_model() -> None:
    device = Device(0.01, 1e8, "given")
    file = fragmentation.Fragmentation(1, 100, 2, 10**8)
    assert device.read_s(file) == pytest.approx(2.0)
    assert device.gain_s(file) == pytest.approx(0.98)
    assert device.ratio(file) == pytest.approx(2 / 1.02)
    assert device.ratio(fragmentation.NONE) == 1


def interrupted(made: Small, journal: Path, rounds: int, crash: bool) -> list[int]:
    """Interrupt a run at seeded random moments, each on new files; return how many files each had begun."""
    folder, chance, begun = made.point / "mine", random.Random(f"{SEED} {made.filesystem} {crash}"), []
    argv = [sys.executable, "-c", RUN, str(folder), str(journal)]
    several(folder, 5)
    began = time.monotonic()
    subprocess.run(argv, check=True)
    whole_s = time.monotonic() - began
    shutil.rmtree(journal)
    for _ in range(rounds):
        held = several(folder, 5)
        run = subprocess.Popen(argv, start_new_session=True, stderr=subprocess.PIPE, text=True)
        time.sleep(chance.uniform(0.3, 1.05) * whole_s)
        if crash:
            made.shut_down()
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        await_tools(journal)
        if crash:
            made.remount()
        assert {name: of for name, of in everything(folder).items() if name in held} == held
        outcomes = rewrite.verify(journal) if list(journal.glob("*.jsonl")) else []
        assert all(outcome.verdict is Verdict.WHOLE and outcome.good for outcome in outcomes)
        assert everything(folder) == held, "nothing else lies there"
        begun.append(len(outcomes))
        shutil.rmtree(journal, ignore_errors=True)
    return begun


def await_tools(journal: Path) -> None:
    """Wait for a killed tool: the kernel ends the call that it is in."""
    deadline = time.monotonic() + 30
    while True:
        try:
            with alone(journal):
                return
        except ValueError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.root
def test_killed_at_any_moment_no_byte_is_lost(mounted: Small, tmp_path: Path) -> None:
    interrupted(mounted, tmp_path / "journal", 3, crash=False)


@pytest.mark.root
@pytest.mark.long
def test_killed_at_very_many_moments(mounted: Small, tmp_path: Path) -> None:
    begun = interrupted(mounted, tmp_path / "journal", 60, crash=False)
    assert len(set(begun)) >= 4, "the moments are spread over the run"


@pytest.mark.root
@pytest.mark.long
@pytest.mark.parametrize("filesystem, options", [("ext4", []), ("xfs", ["-m", "rmapbt=1"])])
def test_power_lost_at_very_many_moments(tmp_path: Path, filesystem: str, options: list[str]) -> None:
    """Not for XFS without rmapbt (`FileSystem.risk`), nor for btrfs, which this kernel cannot shut down."""
    with small(filesystem, tmp_path / "mnt", *options) as made:
        begun = interrupted(made, tmp_path / "journal", 60, crash=True)
    assert len(set(begun)) >= 4, "the moments are spread over the run"
