"""Apptainer for real: images built by envs/*.def measure a loop target and make its report."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import ROOT, Project

TESTBED = ROOT / "tests" / "testbed"
PROGRAMS = ("debootstrap", "patchelf", "mksquashfs")
SOURCES = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main")

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(1200)]


def run(*argv: str | Path, **env: str) -> str:
    """A command's output, from the project's root."""
    done = subprocess.run(argv, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, f"{argv}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """fio.sif and analysis.sif, with `bin` to put in front of PATH: apptainer, which notes its calls in `calls`."""
    if lacking := [program for program in PROGRAMS if not shutil.which(program)]:
        pytest.skip(f"needs {', '.join(lacking)}: FSAGE_TESTBED=1 ./run true installs them")
    folder = tmp_path_factory.mktemp("images")
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
    for name in ("fio", "analysis"):
        run("cp", "--archive", folder / "debian", root := folder / name)  # device nodes among it
        image = folder / f"{name}.sif"
        run(TESTBED / "image.sh", root, f"envs/{name}.def", image, PATH=f"{noting.parent}:{os.environ['PATH']}")
        shutil.rmtree(root)
    (folder / "calls").unlink()
    yield folder
    shutil.rmtree(folder)  # pytest would keep a gigabyte


def test_cells_are_measured_and_reported_in_images(images: Path, project: Project) -> None:
    project.write_target(containers=str(images))
    project.write_study(
        states__capacity=[30],
        states__fragmentation=[0, 50],
        cells__transfer_size=["4M"],
        cells__iterations=1,
        headline=[],
    )
    outside = project.root.parent / "bin"
    outside.mkdir()
    (outside / "fio").write_text("#!/bin/sh\necho this is the fio of the machine >&2; exit 9\n")
    (outside / "fio").chmod(0o755)
    project.env["PATH"] = f"{outside}:{images / 'bin'}:{project.env['PATH']}"

    ran = project.snakemake()
    assert ran.returncode == 0, ran.stdout + ran.stderr

    image = images / "fio.sif"
    records = project.records().values()
    assert records and {record["status"] for record in records} == {"valid"}
    for record in records:
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        assert record["conditions"]["images"] == {str(image): digest}
        assert re.fullmatch(r"\d+\.\d+", record["conditions"]["tools"]["fio"])
        for phase in record["phases"]:
            assert phase["argv"][:4] == ["apptainer", "exec", "--bind", str(project.mount)]
            assert "--direct=1" in phase["argv"] and phase["cached_pages"] == 0

    calls = (images / "calls").read_text()
    for said in ("fsage report small", "fsage conclude small"):
        assert re.search(rf"exec .*analysis\.sif bash -c .*{said}", calls), calls
    page = (project.root / "results/report" / project.spec["name"] / "small/index.html").read_text()
    assert digest in page
    assert not list(project.root.glob(".config")), "the container leaves nothing in the working tree"
