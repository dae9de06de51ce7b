"""A local target after what killed a command at work on it, or the machine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
import uuid
from pathlib import Path

import pytest
from local_targets import claim, claim_file, claimed, create, images_of, remove, take_down, written
from session import agent_at_work
from tiers import first_of

from fsage.base import GIB, MIB, Refusal
from fsage.base.shell import run
from fsage.host import filesystems
from fsage.host.device import loops
from fsage.host.kinds import loop
from fsage.host.system import files, mounting
from fsage.host.targets.opening import open_target
from fsage.layouts import machine
from fsage.model import filesystems as known

pytestmark = pytest.mark.root


def test_after_a_reboot_everything_is_put_back(local_target):
    target = claimed(local_target)
    take_down(target)
    again = open_target(local_target)
    assert len(again.notes) == 2 and machine.mounted_at(again.mounts[0])
    take_down(again)
    assert create(local_target)["changed"]
    assert claim(local_target)["changed"]


@pytest.mark.parametrize("filesystem", first_of("ext4", *sorted({*known.names()} - {"ext4"})))
@pytest.mark.parametrize("killed", ["before mkfs", "in mkfs", "after mkfs"])
def test_a_format_that_was_killed(local_target, filesystem, killed):
    local_target["filesystem"] = filesystem
    target = claimed(local_target)
    (target.mounts[0] / "filler").mkdir()
    current, following = target.claim["stores"][0]["uuids"][0], str(uuid.uuid4())
    mounting.unmount(target.mounts[0])
    target.claim["stores"][0]["uuids"] = [current, following]
    target.save()
    if killed == "in mkfs":
        run(["wipefs", "--all", "--quiet", target.devices[0]])
    elif killed == "after mkfs":
        filesystems.make(filesystem, target.devices[0], following, loop.HASH_SEED)
    again = open_target(local_target)
    assert again.claim["stores"][0]["uuids"] == [current if killed == "before mkfs" else following]
    assert (again.mounts[0] / "filler").exists() == (killed == "before mkfs")
    assert (again.mounts[0] / ".fsage/claim.json").exists()
    assert open_target(local_target).notes == []


@pytest.mark.parametrize("sparse", first_of(False, True))
def test_a_claim_killed_anywhere_is_finished_or_removed(new_target, sparse):
    spec = {**new_target, "sparse": True} if sparse else written(new_target)
    create(spec)
    for after_s in (0.2, 0.3, 0.5, 0.7):
        with agent_at_work("claim", target=spec) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(after_s)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
        known = files.read_json(claim_file(spec))
        if known and known["status"] != "claimed":
            with pytest.raises(Refusal, match="interrupted"):
                open_target(spec)
        if after_s == 0.5:
            remove(spec)
            assert not claim_file(spec).exists()
            create(spec)
    claim(spec)
    open_target(spec)


def test_a_creation_that_was_killed_is_made_anew(new_target):
    create(new_target)
    journal = claim_file(new_target).parent / "images.json"
    known = files.read_json(journal)
    [image] = known["images"]
    half = known | {"images": [{"image": image["image"], "bytes": image["bytes"], "status": "planned"}]}
    loops.detach(image)
    files.write_json(journal, half)
    os.truncate(image["image"], MIB)
    with pytest.raises(Refusal, match="has not been created"):
        claim(new_target)
    assert create(new_target)["changed"]
    assert os.stat(image["image"]).st_size == GIB
    loops.detach(images_of(new_target)[0])
    files.write_json(journal, half)
    remove(new_target)
    assert not Path(image["image"]).exists()


@pytest.mark.parametrize("linux", ["present", "before 5.8"])
def test_a_kill_just_after_a_device_was_attached_leaves_it_of_use(new_target, monkeypatch, linux):
    ioctl = fcntl.ioctl
    last = loops.LOOP_CONFIGURE if linux == "present" else loops.LOOP_SET_DIRECT_IO

    def until_attached(device: int, request: int, *given: object) -> int:
        if request == loops.LOOP_CONFIGURE != last:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        done = ioctl(device, request, *given)
        if request == last:
            os._exit(9)
        return done

    target = written(new_target)
    if (child := os.fork()) == 0:
        monkeypatch.setattr(fcntl, "ioctl", until_attached)
        create(target)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    create(target)
    assert claim(target)["changed"]
