"""What must be refused: a clear sentence, a non-zero exit, and nothing touched."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from project import Project, printed, succeeded

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]


def test_a_bad_target_or_study_is_refused_before_anything_is_done(new_project: Project) -> None:
    """What is refused of a study: tests/test_study_refusals.py."""
    path = new_project.root / "config/small.yaml"
    path.write_text(path.read_text().replace("fragmentation:", "fragmantation:", 1))
    study = new_project.fsage("plan", "small")
    new_project.write_target(filesystm="xfs")
    target = new_project.snakemake()
    for ran, file, near in ((target, "target.yml", "filesystem"), (study, "config/small.yaml", "fragmentation")):
        out = printed(ran)
        assert ran.returncode != 0 and f"did you mean '{near}'" in out and file in out and "Traceback" not in out
    assert not (new_project.root / "results").exists() and not new_project.home.exists()


def test_a_transfer_size_that_does_not_divide_the_calibrated_amount(project: Project) -> None:
    """Two states fail for it; it is said once, and nothing of Snakemake's own."""
    more = {"states__capacity": [30, 40], "states__fragmentation": [0], "headline": []}
    project.write_study(cells__transfer_size=["48M"], **more)
    ran = project.measure()
    assert ran.returncode != 0
    assert (ran.stdout + ran.stderr).count("does not divide") == 1 and "amount_mib: 64" in ran.stderr
    assert not re.search("RuleException|WorkflowError|Exiting because|keep-incomplete", ran.stderr)
    assert not project.record_files()
    dry = project.snakemake("-n", "small")  # the target is claimed now: refused before the DAG is built
    assert dry.returncode != 0 and "Traceback" not in dry.stdout + dry.stderr
    assert dry.stderr.count("fsage: study small on target") == 1 and "does not divide" in dry.stderr


def test_an_unclaimed_mount_of_somebody_else_is_not_touched(project: Project, tmp_path: Path) -> None:
    """Where the target should be mounted lies another file system with a file in it."""
    image = tmp_path / "theirs.img"
    with open(image, "wb") as out:
        out.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True, capture_output=True)
    project.mount.mkdir(parents=True)
    subprocess.run(["mount", "-o", "loop", image, project.mount], check=True)
    try:
        (project.mount / "precious").write_text("keep")
        ran = project.fsage("claim")
        assert ran.returncode != 0 and str(project.mount) in ran.stdout + ran.stderr
        assert (project.mount / "precious").read_text() == "keep"
    finally:
        subprocess.run(["umount", project.mount], check=True)


def test_steps_without_a_claim_say_what_to_do(project: Project) -> None:
    for playbook in ("fragment.yml", "tune_clients.yml"):
        ran = project.playbook(playbook, "-e", project.asked(steps=[], state="x"))
        assert ran.returncode != 0 and "claim it first" in " ".join(ran.stdout.split()), playbook
    assert not project.mount.exists()


@pytest.mark.long
def test_a_refused_claim_keeps_the_copy_of_the_claim_before_it(project: Project) -> None:
    succeeded(project.fsage("claim"))
    copy = project.root / f"results/targets/{project.spec['name']}.json"
    before = copy.read_bytes()
    project.write_target(filesystem="xfs")
    ran = project.fsage("claim")
    assert ran.returncode == 1 and "ext4" in ran.stderr and "Traceback" not in ran.stderr
    assert copy.read_bytes() == before
    project.write_target(filesystem="ext4")


SILENT = {"silent": {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_connection": "ssh"}}


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ({"launcher": {}, "clients": SILENT}, "silent"),
        ({"launcher": {"n4": {}}, "clients": SILENT}, "the group launcher has n4: name one host of the group clients"),
    ],
)
def test_hosts_that_cannot_be(new_project: Project, hosts: dict, said: str) -> None:
    groups = {group: {"hosts": names} for group, names in hosts.items()}
    place = new_project.root / "inventories" / new_project.spec["name"] / "hosts.yml"
    place.write_text(yaml.safe_dump({"all": {"children": {**groups, "servers": {}}}}))
    ran = new_project.snakemake()
    assert ran.returncode != 0 and said in printed(ran) and "Traceback" not in printed(ran)
    assert not new_project.record_files()
