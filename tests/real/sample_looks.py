"""Runs on the Lustre host (lustre_vm.there): what a sample of files sees of what a second client does to them.

The second client is another mount on the same machine: locks and caches of its own.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsage.host.states.structure_check import SIZE, Sample, seen

BLOCK = 4096
LOOKS = 8
WHOLE_S = 1.1  # Lustre's times are of whole seconds: within one, a directory's second change has the time of its first


def create(folder: Path, files: list[Path]) -> None:
    (folder / "stranger").touch()


def delete(folder: Path, files: list[Path]) -> None:
    files[0].unlink()


def rename(folder: Path, files: list[Path]) -> None:
    files[1].rename(folder / "renamed")


def replace(folder: Path, files: list[Path]) -> None:
    other = folder.parent / "other"
    other.write_bytes(b"other")
    other.rename(files[2])


def write(folder: Path, files: list[Path]) -> None:
    descriptor = os.open(files[3], os.O_WRONLY)
    os.pwrite(descriptor, b"other", 0)
    os.close(descriptor)


def grow(folder: Path, files: list[Path]) -> None:
    with open(files[4], "ab") as file:
        file.write(b"other")


def punch(folder: Path, files: list[Path]) -> None:
    descriptor = os.open(files[5], os.O_WRONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(descriptor, 3, ctypes.c_int64(0), ctypes.c_int64(BLOCK)):
        raise OSError(ctypes.get_errno(), "fallocate")
    os.close(descriptor)


ACTS: list[Callable[[Path, list[Path]], None]] = [create, delete, rename, replace, write, grow, punch]


def main(source: str, home: str, second: str) -> dict[str, Any]:
    """By act: which of LOOKS looks differ. `source` is mounted at `second`; `home` is the target below the first."""
    folder, mount = next(Path(home, "filler").iterdir()), Path(second)
    mount.mkdir()
    subprocess.run(["mount", "-t", "lustre", source, second], check=True)
    try:
        there = mount / folder.relative_to(Path(home).parent)
        return {"files": len(list(folder.iterdir())), **look(folder, there)}
    finally:
        subprocess.run(["umount", second], check=True)
        mount.rmdir()


def look(folder: Path, there: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for act in ACTS:
        os.sync()  # what the last one wrote: a file's blocks are counted when they reach the OST
        time.sleep(WHOLE_S)
        sample, began = Sample(67005), time.monotonic()
        files = sorted(folder.iterdir())
        for path in files:
            sample.add(str(path), seen(path.stat()))
        sample.freeze([folder.parents[1]])
        every_s, began = time.monotonic() - began, time.monotonic()
        quiet = [sample.differs() for _ in range(-(-len(files) // SIZE))]
        look_s = (time.monotonic() - began) / len(quiet)
        assert not any(quiet), "nobody did anything"
        act(there, [there / path.name for path in files if path.name.isdigit()])
        found[act.__name__] = [sample.differs() for _ in range(LOOKS)]
        found["seconds"] = {"every file": every_s, "a look": look_s, "unseen": sample.unseen_share}
    return found
