"""A target's mounts are seen by fsage's commands alone. Real commands of the agent, as on a machine of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machine import LIBRARY, PLACE, Machine
from small_filesystems import MIB, small

from fsage.host.system import mounting
from fsage.layouts.machine import exclusive

pytestmark = pytest.mark.root
Spec = dict[str, Any]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.mark.long
@pytest.mark.parametrize("device_model", [None, {"kind": "seek"}], ids=["no model", "seek"])
def test_a_program_with_mounts_of_its_own_does_not_hold_a_target(machine, local_target, device_model):
    local_target["device_model"] = device_model
    asked(machine, local_target, "create", "claim")
    assert device_model is None or "fuse" not in machine.mounts()
    machine.copies()
    asked(machine, local_target, "scrub", "evidence", "release")


def asked(machine: Machine, spec: Spec, *verbs: str) -> None:
    """Have verbs done that must not fail."""
    for verb in verbs:
        answer = machine.agent(verb, spec, {"study": "s", "state": "empty", "steps": []})
        assert not answer.get("failed"), answer["msg"]


def test_a_target_is_seen_by_who_enters_and_by_nobody_else(machine, local_target):
    asked(machine, local_target, "create", "claim")
    point = Path(local_target["mount_dir"]) / local_target["name"] / "0"
    enter = [str(Path(sys.executable).with_name("fsage")), "enter"]
    assert str(point) not in machine.mounts()
    assert machine.run("ls", "-A", str(point)).stdout == ""
    assert ".fsage" in machine.run(*enter, "ls", "-A", str(point)).stdout
    stranger = machine.run("nsenter", f"--mount={PLACE}/mnt", *NOBODY, "true")
    assert stranger.returncode == 0, "root may"
    stranger = machine.run(*NOBODY, "nsenter", f"--mount={PLACE}/mnt", "ls", str(point), check=False)
    assert stranger.returncode != 0 and "Operation not permitted" in stranger.stderr
    note = machine.run("cat", f"{PLACE}/inode").stdout
    machine.run("prlimit", "--fsize=0:", *enter, "true")
    assert machine.run("cat", f"{PLACE}/inode").stdout == note, "who may write no file has not emptied it"
    machine.run("rm", f"{PLACE}/inode")  # as a kill may leave it
    assert machine.agent("claim", local_target)["msg"].endswith("is claimed and intact")
    machine.agent("release", local_target)
    assert f"{PLACE}/mnt" not in machine.mounts(), "the namespace went with its last mount"
    nothing = machine.run(*enter, "true", check=False)
    assert nothing.returncode == 1 and "fsage: no loop target is mounted on " in nothing.stderr


TWO = """
mkfifo wait; {enter} 'open("in", "w"); open("wait").read()' & first=$!
until test -e in; do sleep 0.01; done
{enter} 'pass'; echo >wait; wait $first
"""
ENTER = "import sys; from fsage.host.system import namespace; exec('with namespace.entered():\\n    ' + sys.argv[1])"


def test_the_last_of_two_commands_leaves_although_the_other_one_ended_the_namespace(machine, tmp_path):
    enter = f'env PYTHONPATH="{LIBRARY}" {sys.executable} -c "{ENTER}"'
    done = machine.run("sh", "-ec", f"cd {tmp_path}; {TWO.format(enter=enter)}", check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert str(PLACE) not in machine.mounts()


@pytest.mark.long
def test_nobody_elses_device_is_held(machine, local_target, tmp_path):
    """Mounts of a machine that shares none, as a container's: the copies in fsage's namespace do not follow them."""
    with small("ext4", tmp_path / "elsewhere", size=8 * MIB) as there:
        mounting.unmount(there.point)
        attach = ["losetup", "--find", "--show", there.image]
        device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
        try:
            machine.run("mount", device, str(there.point))
            asked(machine, local_target, "create", "claim")
            machine.run("umount", str(there.point))
            assert exclusive(device), "who unmounted it has it"
            machine.run("mount", device, str(there.point))
            other = {**local_target, "name": f"{local_target['name']}b", "home": str(there.point)}
            said = machine.agent("create", other)["msg"]
            assert said.startswith(f"{there.point} lies on a mount that fsage's mount namespace on "), said
            assert os.listdir(there.point) == [] and machine.run("ls", str(there.point)).stdout == "lost+found\n"
            machine.agent("release", local_target)
            asked(machine, other, "release")  # a namespace that is made now has it
        finally:
            machine.run("umount", str(there.point), check=False)
            subprocess.run(["losetup", "--detach", device], check=True)
            there.mount()


@pytest.mark.long
def test_commands_of_a_program_with_mounts_of_its_own_leave_everybody_elses_alone(machine, local_target, tmp_path):
    asked(machine, local_target, "create", "claim")
    note = machine.run("cat", f"{PLACE}/inode").stdout
    service = Machine(lambda *words: machine.copies())
    other = {**local_target, "name": f"{local_target['name']}b", "home": str(tmp_path / "other")}
    other["image_dir"] = str(Path(local_target["image_dir"]).with_name("others"))
    try:
        asked(service, other, "create", "claim")
    finally:
        asked(service, other, "remove")
    assert machine.run("cat", f"{PLACE}/inode").stdout == note
    assert machine.agent("claim", local_target)["msg"].endswith("is claimed and intact")


CHROOT = """
import encodings.ascii, os, sys
sys.path.insert(0, sys.argv[2])
from fsage.host.system import mounting, namespace
os.chroot(sys.argv[1])
os.chdir("/work")
with namespace.entered():
    mounting.mount_call("fsage-loop", "/mnt", "tmpfs", 0, "size=64k")
    print(os.getcwd(), sorted(os.listdir("/")), namespace.inside())
    mounting.unmount("/mnt")
print(os.getcwd(), sorted(os.listdir("/")), namespace.inside())
"""


@pytest.mark.root
def test_a_chroot_keeps_its_root_and_its_working_directory(tmp_path, outside):
    """setns(2) alone would leave it: its root is a plain folder, and no mount."""
    top = tmp_path / "top"
    for name in ("proc", "dev", "run", "mnt", "work"):
        (top / name).mkdir(parents=True)
    program = outside(
        *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
        f'mount -t proc proc "{top}/proc" && exec "$@"',
        *("sh", sys.executable, "-c", CHROOT, str(top), LIBRARY),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    output, errors = program.communicate(timeout=60)
    names = "['dev', 'mnt', 'proc', 'run', 'work']"
    assert output.splitlines() == [f"/work {names} True", f"/work {names} False"], errors
