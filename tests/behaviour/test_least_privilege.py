"""A user without root measures on a loop target: a helper of root's, allowed by rules of sudo, does what needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import Machine
from project import make_project
from session import PREFIX

UID = 54321
USER = "fsagetest"
needs_sudo = pytest.mark.skipif(not shutil.which("sudo"), reason="needs sudo (package sudo)")


@pytest.fixture
def user(machine: Machine) -> Iterator[Path]:
    """A place of the user's, on a disk; sudo allows him what `fsage site --sudoers` prints, and nothing else."""
    with tempfile.TemporaryDirectory(prefix=f"fsage-test-{PREFIX}user-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        home = Path(place, "home")
        home.mkdir()
        machine.add_user(USER, UID, home)
        yield home


def as_user(machine: Machine, *words: str) -> list[str]:
    """A command of the user's."""
    become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    return machine.words(*become, *words)


@pytest.mark.root
@needs_sudo
def test_a_study_runs_from_claim_to_release_as_a_user(machine: Machine, user: Path, local_target: dict) -> None:
    spec = {**local_target, "image_dir": str(user / "images"), "home": str(user / "state"), "scale": {"file_size": 1}}
    del spec["mount_dir"]
    project = make_project(user / "clone", spec)
    project.write_study(states__capacity=[30], cells__iterations=1, headline=[])
    project.env |= {"HOME": str(user), "USER": USER, "LOGNAME": USER}
    subprocess.run(["chown", "-R", f"{UID}:{UID}", user], check=True)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            as_user(machine, *words), cwd=project.root, env=project.env, capture_output=True, text=True, check=False
        )

    ran = run("sh", "-c", f"cd {project.root} && exec snakemake --omit-from report_small -- small")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    records = project.records()
    assert len(records) == 4 and {record["status"] for record in records.values()} == {"valid"}
    print({k: r for k, r in list(records.items())[0][1].items()})
    for p in (project.root / "results/raw").rglob("*.json"):
        print(p, json.dumps(json.loads(p.read_text()).get("seconds")), p.stat().st_uid)
    released = run("ansible-playbook", "-i", f"inventories/{spec['name']}", "release.yml")
    assert released.returncode == 0, released.stdout + released.stderr
    print(released.stdout)
    gone = run("ansible-playbook", "-i", f"inventories/{spec['name']}", "local_target.yml", "-e", "fsage_local_target_state=absent")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    print(gone.stdout, machine.mounts())
    assert 0
