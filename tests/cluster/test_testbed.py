"""The testbed itself: it ends with whoever made it, and nothing of it stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import testbed as testbeds

pytestmark = [pytest.mark.root, pytest.mark.cluster]

MAKER = """
import sys, time
from pathlib import Path
from testbed import Testbed
with Testbed(Path(sys.argv[1]), hosts=2) as bed:
    bed.run("srun", "-N2", "true")
    bed.run("ssh", "n2", "hostname")
    print("up", flush=True)
    time.sleep(600)
"""


def test_a_killed_maker_leaves_nothing(tmp_path: Path) -> None:
    if lacking := testbeds.missing():
        pytest.skip(f"a testbed needs {', '.join(lacking)}")
    folder = tmp_path / "bed"
    env = {"PYTHONPATH": str(testbeds.HERE), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    maker = subprocess.Popen([sys.executable, "-c", MAKER, folder], env=env, stdout=subprocess.PIPE, text=True)
    assert maker.stdout and maker.stdout.readline() == "up\n"
    assert len(processes(folder)) > 5
    maker.kill()
    maker.wait()
    testbeds.wait_for(lambda: not processes(folder), 10, "all of the testbed's processes to end")


def processes(folder: Path) -> list[str]:
    """Processes in a mount namespace that the testbed in `folder` made: /etc/slurm is its own there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{folder}/slurm /etc/slurm" in (entry / "mountinfo").read_text():
                found.append(entry.name)
        except OSError:
            continue
    return found
