"""Builds of IOR and mdtest to test with: a folder VERSION-MPI for each, as tests/real/README.md has it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "FSAGE_IOR_BIN"


@dataclass(frozen=True)
class Build:
    """IOR (and mdtest, from 3.2 on) of one version, built with one MPI."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def mpi(self) -> str:
        """`openmpi` or `mpich`."""
        return self.name.rpartition("-")[2]

    @property
    def tools(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "bin").iterdir() if path.name in ("ior", "mdtest"))

    def programs(self, place: Path, mpi: str | None = None) -> Path:
        """A new folder with its tools and `mpirun` of its MPI, or of another one."""
        place.mkdir(parents=True)
        for tool in self.tools:
            (place / tool).symlink_to(self.folder / "bin" / tool)
        # By its own path, and not a link: MPICH's looks for its other programs beside it.
        launcher = (self.folder.parent / "mpi" / (mpi or self.mpi) / "mpirun").resolve(strict=True)
        (place / "mpirun").write_text(f'#!/bin/sh\nexec {launcher} "$@"\n')
        (place / "mpirun").chmod(0o755)
        return place


def builds() -> list[Build]:
    """All that there are."""
    place = Path(os.environ.get(VARIABLE, "/nonexistent"))
    return sorted((Build(path.parents[1]) for path in place.glob("*-*/bin/ior")), key=lambda build: build.name)


def why_none() -> str | None:
    """Why there are no builds, or None."""
    if VARIABLE not in os.environ:
        return f"{VARIABLE} names no folder of builds of IOR (tests/real/README.md)"
    if not builds():
        return f"{VARIABLE} is {os.environ[VARIABLE]}, where there is no VERSION-MPI/bin/ior"
    return None if shutil.which("fio") else "fio is not installed"
