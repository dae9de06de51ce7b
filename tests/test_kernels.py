"""Kernels that run as programs: what is refused; what a panic, a hang and a kill leave; what one that works does."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fsage.model.errors import Refusal
from fsage.studies.kernels import images, tables
from fsage.studies.kernels.model import boot, programs
from fsage.studies.kernels.model.boot import Kernel

KERNELS = programs.here()
needs_kernel = pytest.mark.skipif(
    not KERNELS, reason="no kernel that is a program is here (fsage kernels --fetch bookworm)"
)


def newest() -> Kernel:
    return KERNELS[-1]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"#!/bin/sh\n", "is no program (not ELF)"),
        (b"\x7fELF" + bytes(14) + b"\xf3\x00", "is for another architecture (ELF machine 243)"),
        (None, "No such file"),
    ],
)
def test_what_is_no_kernel_is_refused(tmp_path: Path, content: bytes | None, why: str) -> None:
    program = tmp_path / "linux"
    if content is not None:
        program.write_bytes(content)
    with pytest.raises(Refusal) as refused:
        boot.boot(Kernel("a", program), [], [])
    assert why in str(refused.value)


def test_a_program_that_is_no_kernel_ends_without_an_answer(tmp_path: Path) -> None:
    ended = boot.boot(Kernel("true", Path("/bin/true").resolve()), [{"do": "try"}], [])
    assert ended.answers == [] and ended.why == "kernel true ended without an answer (status 0): it printed nothing"


def test_no_memory_place_is_a_refusal_that_names_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "_places", lambda: [Path("/proc")])
    with pytest.raises(Refusal, match=r"/proc .*plain directory"):
        boot.memory_place(256)


def test_an_unknown_kernel_and_release_are_refused() -> None:
    with pytest.raises(Refusal, match=r"kernel '2\.2': there is .* here"):
        programs.named("2.2")
    with pytest.raises(Refusal, match="the name of a release is wanted"):
        programs.fetch("../x")


@needs_kernel
def test_a_kernel_makes_mounts_and_reads_each_file_system() -> None:
    release, reasons = programs.attempt(newest())
    assert release.startswith(newest().name.split("-")[0]) and reasons["ext4"] is None
    assert set(reasons) >= {"ext4", "xfs", "btrfs"}


@needs_kernel
def test_a_panic_and_a_hang_are_answers() -> None:
    panicked = boot.boot(newest(), [{"do": "nothing that there is", "disk": 0}], [])
    assert panicked.why and "the kernel panicked (Kernel panic - not syncing" in panicked.why
    assert "KeyError" in panicked.why, "the last lines are kept"
    hung = boot.boot(newest(), [{"do": "try"}], [], limit_s=0.2)
    assert hung.why and "did not end within 0.2 s, and was ended" in hung.why


@needs_kernel
def test_a_kill_leaves_no_guest(tmp_path: Path) -> None:
    """Of fsage, by SIGKILL: the guest's processes go, and the next guest removes the folder."""
    code = (
        "from fsage.studies.kernels.model import boot, programs\n"
        "boot.boot(programs.here()[-1], [{'do': 'try', 'disk': 0, 'filesystem': 'ext4'}], [])\n"
    )
    mine = {**os.environ, "TMPDIR": str(tmp_path)}
    fsage = subprocess.Popen([sys.executable, "-c", code], env=mine)
    assert eventually(lambda: guests(tmp_path)), "it has begun"
    fsage.send_signal(signal.SIGKILL)
    fsage.wait()
    assert eventually(lambda: not guests(tmp_path))
    [left] = tmp_path.glob(f"{boot.PREFIX}*")
    os.utime(left, (0, 0))
    again = "from fsage.studies.kernels.model import boot\nwith boot.folder(): pass"
    subprocess.run([sys.executable, "-c", again], env=mine, check=True)
    assert not list(tmp_path.glob(f"{boot.PREFIX}*"))


def guests(place: Path) -> list[str]:
    """Processes of guests whose folder is below `place`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(f"uml_dir={place}".encode()) for word in words):
            found.append(path.parent.name)
    return found


def eventually(true: object) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


@pytest.mark.long
@needs_kernel
def test_an_image_is_the_same_each_time_and_its_cells_are_counted_once(tmp_path: Path) -> None:
    """`image` makes it, fsck finds it clean, and `extents` counts on a copy: the image is as it was."""
    mine = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [
        "image",
        "80.50",
        "-o",
        str(tmp_path / "a.img"),
        "--size",
        "512M",
        "--file-size",
        "4M",
        "--file-extents",
        "7",
    ]
    first = fsage(words, mine)
    [image] = (tmp_path / "cache/fsage/images").glob("*.img")
    assert (tmp_path / "a.img").stat().st_blocks * 512 < 64 << 20, "sparse"
    assert "exists, and is left as it is" in fsage(words, mine, 1)
    image.unlink()
    words[3] = str(tmp_path / "b.img")
    assert fsage(words, mine).split()[-1] == first.split()[-1], "the layout's digest"
    pieces = subprocess.run(["debugfs", "-R", "ex /pieces", words[3]], capture_output=True, text=True, check=True)
    assert pieces.stdout.count("Uninit") == 7

    count = ["extents", "80.50", "--kernels", newest().name, "--filesystems", "ext4", "--mount", "nonsense=1"]
    count += ["--size", "512M", "--file-size", "4M", "--file", "64M", "--layouts", "1", "--repeats", "2", "--warm"]
    count = ["--results", str(tmp_path / "results"), *count]
    report = fsage(count, mine)
    assert "Counted again, 0 of 1 cells had another layout." in report
    assert "(unsupported): it is not mounted with noinit_itable,nonsense=1 (Invalid argument)." in report
    images = {path: path.read_bytes() for path in (tmp_path / "cache/fsage/images").glob("*.img")}
    lines = tmp_path / "results/kernels/cells.jsonl"
    lines.write_text("".join(lines.read_text().splitlines(keepends=True)[:-1]) + '{"cut off')
    assert fsage(count, mine) == report
    assert {path: path.read_bytes() for path in images} == images


def fsage(words: list[str], environment: dict[str, str], code: int = 0) -> str:
    """What a command prints, or says where it fails."""
    done = subprocess.run([sys.executable, "-m", "fsage", *words], capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def test_the_first_sentence_names_the_largest_contrast() -> None:
    def row(system: str, kernel: str, seed: int, extents: int, mount: str = "", **more: object) -> dict[str, object]:
        cell = {"filesystem": system, "state": "80.50", "kernel": kernel, "mount": mount, "warm": False, "seed": seed}
        size = {"file_bytes": 384 << 20, "request_bytes": 16 << 20, "repeat": 1, "built_by": "6.12"}
        return {**cell, **size, "status": "valid", "extents": extents, "layout": [[0, seed, extents]], **more}

    rows = [
        *(row("xfs", kernel, seed, 30 + seed) for kernel in ("5.10", "7.2") for seed in (1, 2)),
        *(row("btrfs", kernel, seed, 2 if kernel == "5.10" else 1) for kernel in ("5.10", "7.2") for seed in (1, 2)),
        *(row("ext4", "7.2", seed, 1, "mb_optimize_scan=0") for seed in (1, 2)),
        *(
            row("ext4", kernel, seed, 1 if kernel == "5.10" else 40 + seed)
            for kernel in ("5.10", "7.2")
            for seed in (1, 2)
        ),
        {**row("ext4", "5.10", 1, 0, "mb_optimize_scan=0"), "status": "unsupported", "why": "Invalid argument"},
    ]
    rows.append({**row("ext4", "7.2", 1, 41), "repeat": 2, "layout": [[0, 9, 41]]})
    text = tables.page(rows)
    assert text.split("\n\n")[1].splitlines() == [
        "In the same free space a new file of 384M gets on ext4 80.50 these extents: 1 with 7.2, mb_optimize_scan=0 "
        "and 5.10, 41 to 42 with 7.2.",
        "It gets on btrfs 80.50 these extents: 1 with 7.2, 2 with 5.10.",
        "Alike on all, layout by layout: xfs 80.50.",
    ]
    assert "Counted again, 1 of 1 cells had another layout." in text
    assert "| ext4 | 80.50 | 7.2 | 41, 42 | 41.5 |" in text
    assert "Not counted: ext4 80.50 on 5.10, mb_optimize_scan=0 (unsupported): Invalid argument." in text


def test_a_state_that_is_none_is_refused_in_the_notations_own_words() -> None:
    with pytest.raises(ValueError, match="5 may mean 05 or 50") as refused:
        images.recipe("80.5", 1, "ext4", 1 << 30, "33M")
    assert "input_value" not in str(refused.value)
