"""For whom the helper acts, and what is his; nothing that he says of it is believed."""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsage.agent.device import cgroups, loops
from fsage.agent.errors import Refusal
from fsage.agent.system import files, mounting

if TYPE_CHECKING:  # no module of the helper's
    from fsage.agent.declared.claim import Image

NOTES = Path("/run/fsage/devices")  # <loop device>.json: for whom it was attached, and on which file
GROUPS = Path("/run/fsage/groups")  # <control group>.json: for whom it was made
LOCK = Path("/run/fsage/helper.lock")
MOUNTS = "/run/fsage/mnt"
POINT = re.compile(rf"{MOUNTS}/([a-z][a-z0-9_-]{{0,31}})/(\d{{1,4}})")
GROUP = re.compile(r"[a-z][a-z0-9_-]{0,31}(\.[a-z0-9_-]{1,32})?")  # of a target, or of one of its readers
Given = dict[str, Any]
"""What the caller says: the arguments of a verb, as JSON."""


class Caller:
    """The user for whom sudo has started us."""

    def __init__(self) -> None:
        number = os.environ.get("SUDO_UID", "")
        if os.geteuid() != 0 or not number.isdigit() or int(number) == 0:
            raise Refusal("this is for users, by way of `sudo -n`; root needs no helper")
        self.uid = int(number)
        try:
            self.user = pwd.getpwuid(self.uid)
        except KeyError:
            raise Refusal(f"user {self.uid} has no entry in the list of users") from None

    def device(self, name: Any) -> str:
        """A loop device that was attached for this user, and still is. Raises Refusal."""
        if not isinstance(name, str) or not re.fullmatch(r"/dev/loop\d{1,6}", name):
            raise Refusal(f"{name!r} is not the name of a loop device")
        noted, info = files.read_json(note_of(name)), loops.loop_info(name)
        now = info and {"uid": self.uid, "dev": info.device, "ino": info.inode, "boot_id": files.boot_id()}
        if not now or noted != now:
            raise Refusal(f"{name} was not attached for user {self.user.pw_name}")
        return name

    def image(self, given: Any) -> Image:
        """What was said to identify an image; that it is this user's is seen when it is opened. Raises Refusal."""
        wanted = {"image": str, "dev": int, "ino": int, "bytes": int}
        if not isinstance(given, dict) or any(type(given.get(key)) is not kind for key, kind in wanted.items()):
            raise Refusal(f"an image is {{{', '.join(wanted)}}}, not {given!r:.200}")
        if not os.path.isabs(given["image"]) or "\0" in given["image"]:
            raise Refusal(f"{given['image']!r} is not an absolute path")
        return {"image": given["image"], "dev": given["dev"], "ino": given["ino"], "bytes": given["bytes"]}

    def point(self, given: Any) -> Path:
        """A place for a mount, where nothing of anybody else's is. Raises Refusal."""
        match = POINT.fullmatch(given) if isinstance(given, str) else None
        if not match:
            raise Refusal(f"{given!r} is not a place for a target: {MOUNTS}/<target>/<store> is (declare no mount_dir)")
        point = Path(given)
        mounted = [mount for mount in mounting.mounts() if Path(mount.point).parent == point.parent]
        for mount in mounted:
            self.device(mount.source)
        for folder in (Path("/run"), Path("/run/fsage"), Path(MOUNTS), point.parent):
            if os.path.lexists(folder) and not _only_roots(folder):
                raise Refusal(f"{folder} is a link, or others than root may write to it")
        if not mounted and point.parent.exists():
            raise Refusal(f"{point.parent} is another user's: give the target another name")
        return point

    def process(self) -> int:
        """The process that has called sudo: the nearest of ours that is this user's. Raises Refusal."""
        pid = os.getppid()
        while pid > 1:
            try:
                text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
            except OSError:
                break
            status = dict(line.split(":", 1) for line in text.splitlines())
            if {int(number) for number in status["Uid"].split()} == {self.uid}:
                return pid
            pid = int(status["PPid"])
        raise Refusal(f"the process of user {self.user.pw_name} that called sudo has gone")

    def group(self, name: Any, made: bool = True) -> str:
        """The name of a control group of this user's; noted as his now unless it is `made` already. Raises Refusal."""
        if not isinstance(name, str) or not GROUP.fullmatch(name):
            raise Refusal(f"{name!r:.100} is not the name of a target's control group")
        note, wanted = GROUPS / f"{name}.json", {"uid": self.uid, "boot_id": files.boot_id()}
        with files.locked(LOCK):
            if files.read_json(note) == wanted:
                return name
            if made or any(map(os.path.exists, groups_called(name))):
                raise Refusal(f"control group {name} is not of user {self.user.pw_name}: give the target another name")
            files.write_json(note, wanted)
        return name


def is_his(caller: Caller, device: str) -> bool:
    """Whether a loop device was attached for this user."""
    try:
        return bool(caller.device(device))
    except Refusal:
        return False


def note_of(device: str) -> Path:
    """Root's note of a loop device."""
    return NOTES / f"{Path(device).name}.json"


def _only_roots(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o22


def hierarchies() -> list[Path]:
    """Where control groups are: of cgroup v1, where there is one, and of v2."""
    return [top for top in (cgroups.v1(), cgroups.root()) if top is not None]


def groups_called(name: str) -> list[str]:
    """The control groups that a target's may be, by its name."""
    return [str(top / f"{cgroups.PREFIX}{name}") for top in hierarchies()]


def one_of(given: Any, allowed: Sequence[str]) -> str:
    """What was given, if it is allowed. Raises Refusal."""
    if given not in allowed:
        raise Refusal(f"{given!r:.100} is not among {', '.join(allowed)}, which are all that users may have")
    return str(given)
