"""Apptainer for tests, and images built by envs/*.def where it may not run %post."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from project import ROOT

TESTBED = ROOT / "tests" / "testbed"
PROGRAMS = ("debootstrap", "patchelf", "mksquashfs")
SOURCES = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main")


def run(*argv: str | Path, **env: str) -> str:
    """A command's output, from the project's root."""
    done = subprocess.run(argv, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, f"{argv}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@dataclass(frozen=True)
class Images:
    """A folder for images, `bin` to put in front of PATH: apptainer, which notes its calls in `calls`."""

    folder: Path

    @property
    def path(self) -> str:
        """PATH with it."""
        return f"{self.folder / 'bin'}:{os.environ['PATH']}"

    @property
    def calls(self) -> Path:
        """What apptainer was called with, a line each."""
        return self.folder / "calls"

    def build(self, name: str, definition: Path | None = None) -> Path:
        """The image of a definition, envs/NAME.def if no other; its %test has passed."""
        run("cp", "--archive", self.folder / "debian", root := self.folder / "root")  # device nodes among it
        image = self.folder / f"{name}.sif"
        run(TESTBED / "image.sh", root, definition or f"envs/{name}.def", image, PATH=self.path)
        shutil.rmtree(root)
        return image


def images_in(folder: Path) -> Images:
    """An empty one, with an unpacked Debian to begin with; skips, with the reason, where that is not to be had."""
    if lacking := [program for program in PROGRAMS if not shutil.which(program)]:
        pytest.skip(f"needs {', '.join(lacking)}: .ci/testbed installs them")
    mirror = run(*SOURCES, "Label: Debian").split()
    if not mirror:
        pytest.skip("needs Debian's packages, and apt knows of no mirror of them")
    apptainer = shutil.which("apptainer")
    if not apptainer:
        run(TESTBED / "apptainer.sh", folder / "apptainer", mirror[0])
        apptainer = str(folder / "apptainer/bin/apptainer")
    noting = folder / "bin/apptainer"
    noting.parent.mkdir()
    noting.write_text(f'#!/bin/sh\necho "$*" >>{folder}/calls\nexec {apptainer} "$@"\n')
    noting.chmod(0o755)
    run("debootstrap", "--variant=minbase", "bookworm", folder / "debian", mirror[0])
    return Images(folder)
