"""Kernels that run as programs: what is refused; what a panic, a hang and a kill leave; what one that works does."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fsage.model.errors import Refusal
from fsage.studies.kernels import boot, programs
from fsage.studies.kernels.boot import Kernel

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
        "from fsage.studies.kernels import boot, programs\n"
        "boot.boot(programs.here()[-1], [{'do': 'try', 'disk': 0, 'filesystem': 'ext4'}], [])\n"
    )
    mine = {**os.environ, "TMPDIR": str(tmp_path)}
    fsage = subprocess.Popen([sys.executable, "-c", code], env=mine)
    assert eventually(lambda: guests(tmp_path)), "it has begun"
    fsage.send_signal(signal.SIGKILL)
    fsage.wait()
    assert eventually(lambda: not guests(tmp_path))
    assert list(tmp_path.glob(f"{boot.PREFIX}*"))
    again = "from fsage.studies.kernels import boot\nwith boot.folder(): pass"
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
