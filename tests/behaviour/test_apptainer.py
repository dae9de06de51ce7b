"""Apptainer for real: images built by envs/*.def measure a loop target and make its report."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator

import pytest
from images import Images, images_in
from project import Project, succeeded

pytestmark = [pytest.mark.root, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    """fio.sif and analysis.sif."""
    made = images_in(tmp_path_factory.mktemp("images"))
    for name in ("fio", "analysis"):
        made.build(name)
    made.calls.unlink()
    yield made
    shutil.rmtree(made.folder)  # pytest would keep a gigabyte


def test_cells_are_measured_and_reported_in_images(images: Images, project: Project) -> None:
    project.write_target(containers=str(images.folder))
    project.write_study(
        states__capacity=[30],
        states__fragmentation=[0, 50],
        cells__transfer_size=["4M"],
        cells__iterations=1,
        headline=[],
    )
    project.own_source()  # an image sees the clone alone
    outside = project.root.parent / "bin"
    outside.mkdir()
    (outside / "fio").write_text("#!/bin/sh\necho this is the fio of the machine >&2; exit 9\n")
    (outside / "fio").chmod(0o755)
    project.env["PATH"] = f"{outside}:{images.folder / 'bin'}:{project.env['PATH']}"

    succeeded(project.snakemake())

    image = images.folder / "fio.sif"
    records = project.records().values()
    assert records and {record["status"] for record in records} == {"valid"}
    for record in records:
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        assert record["conditions"]["images"] == {str(image): digest}
        assert re.fullmatch(r"\d+\.\d+", record["conditions"]["tools"]["fio"])
        for phase in record["phases"]:
            assert phase["argv"][:4] == ["apptainer", "exec", "--bind", str(project.mount)]
            assert "--direct=1" in phase["argv"] and phase["cached_pages"] == 0

    calls = images.calls.read_text()
    for said in ("fsage report small", "fsage conclude small"):
        assert re.search(rf"exec .*analysis\.sif bash -c .*{said}", calls), calls
    page = (project.root / "results/report" / project.spec["name"] / "small/index.html").read_text()
    assert digest in page
    assert not list(project.root.glob(".config")), "the container leaves nothing in the working tree"
