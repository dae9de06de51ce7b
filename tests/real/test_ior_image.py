"""envs/ior.def with the source of real releases: FSAGE_IOR_GIT=REPOSITORY; what it makes is run in the hybrid model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from images import Images, images_in, run
from project import ROOT, make_project

GIT = os.environ.get("FSAGE_IOR_GIT", "")
PROGRAMS = ("autoconf", "automake", "mpirun")
pytestmark = [
    pytest.mark.root,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not GIT, reason="FSAGE_IOR_GIT names no git repository of IOR (tests/real/README.md)"),
]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    """fio.sif, which every target needs."""
    if lacking := [program for program in PROGRAMS if not shutil.which(program)]:
        pytest.skip(f"needs {', '.join(lacking)}")
    made = images_in(tmp_path_factory.mktemp("images"))
    made.build("fio")
    (made.folder / "analysis.sif").touch()  # Snakemake wants it there; no report is made
    yield made
    shutil.rmtree(made.folder)  # pytest would keep a gigabyte


def release(version: str, place: Path) -> Path:
    """A tarball with `configure`, as a release is."""
    source = place / f"ior-{version}"
    source.mkdir()
    run("git", "-c", "safe.directory=*", "-C", GIT, "archive", "--output", place / "git.tar", version)
    run("tar", "--extract", "--directory", source, "--file", place / "git.tar")
    run("sh", "-c", f"cd {source} && ./bootstrap")
    made = place / f"{source.name}.tar.gz"
    run("tar", "--create", "--gzip", "--directory", place, "--file", made, source.name)
    return made


@pytest.mark.parametrize("version", ["4.0.0", "3.0.1"])
def test_an_image_of_a_release_measures(images: Images, local_target: dict, tmp_path: Path, version: str) -> None:
    """%test has run both tools, or ior of the release that has no mdtest."""
    definition = tmp_path / "ior.def"
    definition.write_text((ROOT / "envs/ior.def").read_text().replace("{{ SOURCE }}", str(release(version, tmp_path))))
    (images.folder / "ior.sif").unlink(missing_ok=True)
    images.build("ior", definition)
    project = make_project(tmp_path / "clone", local_target)
    project.write_target(containers=str(images.folder), launcher="openmpi", scale={"file_size": 0.125, "tasks": 2})
    project.env["PATH"] = f"{images.folder / 'bin'}:{project.env['PATH']}"
    project.write_study(
        states__capacity=[30],
        states__fragmentation=[50],
        cells__tool="ior",
        cells__transfer_size=["1M"],
        cells__iterations=1,
        headline=[],
    )
    ran = project.measure()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (record,) = project.records().values()
    assert record["status"] == "valid", record["why"]
    tools = record["conditions"]["tools"]
    assert tools["ior"].startswith(version) and bool(tools["mdtest"]) == (version != "3.0.1")
    argv = record["phases"][0]["argv"]
    assert argv[0] == "mpirun" and argv[argv.index("apptainer") :][:2] == ["apptainer", "exec"]
