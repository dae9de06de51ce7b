"""Which modules of a kernel that is a program are used, and where they are: F2FS and BFQ are no part of Debian's.

A guest has no modprobe, so what a module needs is read from modules.dep.
"""

from __future__ import annotations

import shutil
from pathlib import Path

USED = ("f2fs", "bfq")
BESIDE = {"f2fs": ("crc32_generic",)}
"""What a module asks for only when it is used: modules.dep does not name it (F2FS: "Cannot load crc32 driver")."""
INDEX = "modules.dep"


def places(program: Path, release: str) -> list[Path]:
    """Where the modules of a kernel may be: beside it, where it was unpacked, and where its package has them."""
    return [program.parent / "modules", program.parent.parent / "lib/uml/modules" / release]


def files(place: Path, name: str) -> list[Path]:
    """The files of a module and of all that it needs, in the order in which they are loaded; none: there is none."""
    if not (place / INDEX).exists():
        return []
    needed = {}
    for line in (place / INDEX).read_text(encoding="utf-8").splitlines():
        module, _, others = line.partition(":")
        needed[Path(module).name.partition(".")[0]] = [*reversed(others.split()), module]
    if name not in needed:
        return []
    return [place / path for module in (*BESIDE.get(name, ()), name) for path in needed.get(module, ())]


def copy(place: Path, to: Path) -> None:
    """Copy the modules that are used, and the list of what they need."""
    to.mkdir()
    for name in USED:
        for path in files(place, name):
            kept = to / path.relative_to(place)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, kept)
    if (place / INDEX).exists():
        shutil.copy2(place / INDEX, to / INDEX)
