"""What a machine allows is tried: as root, as a user, as root of a user namespace, in a plain container."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import preloaded
import pytest
from guests import KERNELS
from machine import LIBRARY

from fsage import seam
from fsage.base import Refusal
from fsage.base.shell import run
from fsage.host.device import capabilities
from fsage.plan import target

ASK = (
    "import json, sys; sys.path.insert(0, sys.argv[1]); from fsage import seam; "
    "print(json.dumps({able.name: able.obstacle for able in seam.capabilities()}))"
)


def asked(*front: str) -> dict[str, capabilities.Obstacle | None]:
    """What a process with other rights is told of each capability."""
    said = run([*front, sys.executable, "-c", ASK, LIBRARY], cwd="/").stdout
    return {name: why and capabilities.Obstacle(*why) for name, why in json.loads(said).items()}


def traces() -> tuple[list[Path], str, list[Path]]:
    """What an attempt could leave: attached loop devices, mounts, control groups."""
    attached = sorted(Path("/sys/block").glob("loop*/loop/backing_file"))
    groups = list(Path("/sys/fs/cgroup").glob("**/attempt-fsage-*"))
    return [path for path in attached if "memfd" in path.read_text()], Path("/proc/self/mountinfo").read_text(), groups


@pytest.mark.root
def test_root_of_a_machine_has_all_and_nothing_stays():
    before = traces()
    missing = {able.name for able in seam.capabilities() if able.obstacle}
    assert not missing & {"loop device", "mount", "mount namespace", "fanotify", "drop caches"}
    assert traces() == before
    assert target.default_target() == "local" and target.why_default("local") is None


@pytest.mark.root
def test_a_user_has_files_alone():
    answers = asked("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    assert {name for name, why in answers.items() if why is None} == {"O_DIRECT", "FIEMAP"}
    assert answers["loop device"].errno in ("EACCES", "ENOENT")
    assert answers["mount"].errno == answers["fanotify"].errno == "EPERM"
    assert "as root" in answers["mount"].remedy


@pytest.mark.root
@pytest.mark.parametrize(
    ("front", "has"),
    [
        pytest.param(
            ["unshare", "--user", "--map-root-user"],
            "loop device",
            marks=pytest.mark.unshare,  # nor may a chroot have users of its own
        ),
        (["setpriv", "--bounding-set=-sys_admin"], "O_DIRECT"),
    ],
    ids=["number 0 of a user namespace", "a plain container"],
)
def test_root_that_may_not_mount_is_told_errno_and_remedy(front, has):
    answers = asked(*front)
    assert answers[has] is None
    assert answers["mount"].errno == answers["mount namespace"].errno == "EPERM"
    assert "--privileged" in str(answers["mount"])


def test_where_nothing_can_be_mounted_the_default_is_a_kernel_or_a_directory_and_a_loop_target_is_refused(monkeypatch):
    """A kernel for what is counted; what must be timed tells more in a directory."""
    why = capabilities.Obstacle("mounting ext4: Operation not permitted (EPERM)", "EPERM", "run it as root")
    monkeypatch.setattr(capabilities, "obstacles", lambda names: [why])
    assert target.default_target("sequential") == ("kernel" if KERNELS else "directory")
    assert target.default_target("random_access") == "directory"
    assert "mounts them, as target kernel" in str(target.why_default("kernel"))
    assert target.why_default("seek") is None
    monkeypatch.setattr(target, "why_no_guest", lambda: "no kernel was found")
    assert target.default_target() == "directory"
    sentence = target.why_default("directory")
    assert sentence and "fsage measures in a plain directory" in sentence and "no kernel was found" in sentence
    assert "here: mounting ext4: Operation not permitted (EPERM)." in sentence and "run it as root" in sentence
    with pytest.raises(Refusal, match=r"target t \(kind: loop\) on .*EPERM.*declare `kind: directory`; nothing was"):
        capabilities.need_loops("t")


def test_the_doctor_names_what_runs_here_and_why_the_rest_does_not(tmp_path):
    """Of kernels it tries the installed one alone: each is started, and takes seconds."""
    done = preloaded.call("fsage", "doctor", "--json", FSAGE_VENV=tmp_path)
    assert done.returncode == 0, done.stderr
    diagnosis = json.loads(done.stdout)
    checks = {check["name"]: check for part in ("capabilities", "targets", "studies") for check in diagnosis[part]}
    first = [able.name for able in seam.capabilities()]
    assert list(checks)[: len(first)] == first and {"control group", "FUSE"} < set(first)
    assert all(check["runs"] == (not check["obstacles"]) for check in checks.values())
    loops = all(checks[needed.name]["runs"] for needed in capabilities.LOOP_TARGET)
    if not loops:
        assert not checks["loop, ext4"]["runs"] and "needs " in checks["loop, ext4"]["obstacles"][-1]
    assert checks["quickstart"]["detail"] in (["local"] if loops else ["kernel", "directory"])
    assert checks["striping"]["runs"] <= loops


@pytest.mark.long
@pytest.mark.parametrize(("blocks", "kind"), [("100", "directory"), ("4000", "directory"), ("100", "loop")])
def test_a_limit_of_file_size_is_named_with_its_own_remedy(blocks, kind):
    """The kernel says only "File too large"; root and loop devices do not help."""
    spec = {"name": "t", "kind": kind, "budget_gib": 1, "directory": "/var/tmp/none", "home": "/var/tmp/none-home"}
    verb = "import sys; from fsage.host.__main__ import main; sys.exit(main(['create']))"
    command = ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash", sys.executable, "-c", verb]
    done = subprocess.run(command, input=json.dumps({"target": spec}), capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)["msg"]
    assert done.returncode == 1 and "(ulimit -f)" in said and "`ulimit -f unlimited`" in said, said
    assert "run it as root, with" not in said
