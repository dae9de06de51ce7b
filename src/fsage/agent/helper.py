"""The helper that root installs, so that a user may have a loop target without being root: `sudo -n HELPER VERB`.

Nothing that the caller says is believed. An image must be a regular file of his own, opened without following links; a
device must be one that was attached for him, by a note of root's; a mount point lies below root's own directory and is
nobody else's; a control group is fsage's, and made for him, by such a note. There is no verb that runs a command as
root: `enter` gives root up first, for good.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import stat
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fsage.agent import caches, files, filesystems, mounting, namespace, privilege
from fsage.agent.device import cgroups, iocost, loops, queue
from fsage.agent.errors import Failure, Refusal
from fsage.agent.filesystem import FileSystem
from fsage.agent.lustre import granted

NOTES = Path("/run/fsage/devices")  # <loop device>.json: for whom it was attached, and on which file
GROUPS = Path("/run/fsage/groups")  # <control group>.json: for whom it was made
LOCK = Path("/run/fsage/helper.lock")
MOUNTS = "/run/fsage/mnt"
MOST_BYTES = 1 << 20
POINT = re.compile(rf"{MOUNTS}/([a-z][a-z0-9_-]{{0,31}})/(\d{{1,4}})")
KNOB = re.compile(r"/sys/block/(loop\d{1,6})/queue/([a-z_/]{1,64})")
GROUP = re.compile(r"[a-z][a-z0-9_-]{0,31}(\.[a-z0-9_-]{1,32})?")  # of a target, or of one of its readers
RATES = ("bytes_per_s", "sequential_iops", "random_iops")
MOST_RATE = 10**15
Given = dict[str, Any]


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
        noted, info = files.read_json(_note(name)), loops.loop_info(name)
        now = info and {"uid": self.uid, "dev": info.device, "ino": info.inode, "boot_id": files.boot_id()}
        if not now or noted != now:
            raise Refusal(f"{name} was not attached for user {self.user.pw_name}")
        return name

    def image(self, given: Any) -> loops.Image:
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
            if made or any(map(os.path.exists, _groups_called(name))):
                raise Refusal(f"control group {name} is not of user {self.user.pw_name}: give the target another name")
            files.write_json(note, wanted)
        return name


def attach(caller: Caller, given: Given) -> str:
    """A loop device on the user's image, noted as his."""
    image = caller.image(given.get("image"))
    foreign = [device for device in loops.devices_of(image) if not _is_his(caller, device)]
    if foreign:
        raise Refusal(f"{foreign[0]} is on {image['image']}, and was not attached for {caller.user.pw_name}")
    device = loops.attach(image, owner=caller.uid)
    note = {"uid": caller.uid, "dev": image["dev"], "ino": image["ino"], "boot_id": files.boot_id()}
    files.write_json(_note(device), note)
    return device


def detach(caller: Caller, given: Given) -> None:
    """Take the devices from the user's image."""
    image = caller.image(given.get("image"))
    devices = [caller.device(device) for device in loops.devices_of(image)]
    loops.detach(image)
    for device in devices:
        files.remove(_note(device))


def devices(caller: Caller, given: Given) -> list[str]:
    """The devices on an image."""
    return loops.devices_of(caller.image(given.get("image")))


def device(caller: Caller, given: Given) -> str | None:
    """The device on an image."""
    return loops.device_of(caller.image(given.get("image")))


def mkfs(caller: Caller, given: Given) -> None:
    """Make a file system on the user's device."""
    found, name = _filesystem(given.get("filesystem")), caller.device(given.get("device"))
    filesystems.make(found.name, name, _uuid(given.get("fs_uuid")), _uuid(given.get("hash_seed")))


def mount(caller: Caller, given: Given) -> None:
    """Mount the user's device; what is in it becomes his."""
    found, name = _filesystem(given.get("filesystem")), caller.device(given.get("device"))
    point, more = caller.point(given.get("point")), _options(given.get("more", ""), found)
    for folder in (Path(MOUNTS), point.parent):
        folder.mkdir(parents=True, exist_ok=True)
    filesystems.mount(found.name, name, point, more)
    descriptor = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != caller.uid:  # made just now
            os.fchown(descriptor, caller.uid, caller.user.pw_gid)
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def remount(caller: Caller, given: Given) -> None:
    """Unmount and mount the user's device in its place."""
    name, point = caller.device(given.get("device")), caller.point(given.get("point"))
    there = mounting.mounted_at(point)
    if there is None or there.source != name:
        raise Refusal(f"{name} is not mounted at {point}")
    found = _filesystem(there.type)
    filesystems.remount(found.name, name, point, _options(given.get("more", ""), found))


def unmount(caller: Caller, given: Given) -> None:
    """Unmount what is the user's, and remove the place."""
    point = given.get("point")
    if not isinstance(point, str) or not POINT.fullmatch(point):
        raise Refusal(f"{point!r} is not a place of a target's")
    there = mounting.mounted_at(point)
    if there is None:
        return
    caller.device(there.source)
    mounting.unmount(Path(point))
    _tidy(point)


def unmount_all(caller: Caller, given: Given) -> None:
    """Unmount the user's device wherever it is mounted."""
    name = caller.device(given.get("device"))
    points = [mount.point for mount in mounting.mounts() if mount.source == name]
    mounting.unmount_all(name)
    for point in points:
        _tidy(point)


def uuid_of(caller: Caller, given: Given) -> str | None:
    """The UUID on the user's device."""
    return mounting.uuid_on(caller.device(given.get("device")))


def unused(caller: Caller, given: Given) -> None:
    """Refuse if anybody holds the user's device."""
    mounting.refuse_if_in_use(caller.device(given.get("device")))


def wipe(caller: Caller, given: Given) -> None:
    """Take the file system off the user's device."""
    name = caller.device(given.get("device"))
    mounting.refuse_if_in_use(name)
    mounting.wipe(name)


def drop_caches(caller: Caller, given: Given) -> None:
    """Drop the page cache of the machine, once."""
    caches.drop_all_pages()


def set_tunable(caller: Caller, given: Given) -> None:
    """Write a tunable of the user's device's queue."""
    knob, value = given.get("knob"), given.get("value")
    match = KNOB.fullmatch(str(knob))
    if not match or match[2] not in (*queue.KNOWN, queue.OF_BFQ):
        raise Refusal(f"{knob!r} is not a tunable that is known: {', '.join(queue.KNOWN)} of a loop device's queue")
    caller.device(f"/dev/{match[1]}")
    if not isinstance(value, (int, str)) or not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", str(value)):
        raise Refusal(f"{value!r:.100} is not a tunable's value")
    queue.set_knob(Path(match[0]), value)


def groups(caller: Caller, given: Given) -> None:
    """That the user may have control groups: where he may not, sudo refuses this verb."""


def lay(caller: Caller, given: Given) -> None:
    """Make the user's control group, and lay a cost model over his devices."""
    asked, devices = given.get("model"), given.get("devices")
    if not isinstance(devices, list) or not isinstance(asked, dict):
        raise Refusal("devices, a list, and model, an object, are wanted")
    model: Given = {key: asked.get(key) for key in RATES} if devices else {}
    if wrong := [key for key, rate in model.items() if type(rate) is not int or not 0 < rate <= MOST_RATE]:
        raise Refusal(f"{wrong[0]} of the cost model is {model[wrong[0]]!r:.100}: a whole number above 0 is wanted")
    if asked.get("allow_moving"):
        raise Refusal("allow_moving would take a controller from others' groups, which only root may")
    names = [caller.device(device) for device in devices]
    iocost.lay(caller.group(given.get("name"), made=False), names, model)


def cost_off(caller: Caller, given: Given) -> str:
    """Take the cost model off a loop device that is the user's, or nobody's."""
    number = given.get("number")
    if not isinstance(number, str) or not re.fullmatch(r"7:\d{1,7}", number):
        raise Refusal(f"{number!r:.100} is not the number of a loop device")
    try:
        device = f"/dev/{Path(os.readlink(f'/sys/dev/block/{number}')).name}"
    except FileNotFoundError:
        return f"device {number} is gone"
    if loops.loop_info(device) is not None and not _is_his(caller, device):
        return f"device {number} is another's by now: what it charged went with its use before"
    return iocost.cost_off(number)


def weigh(caller: Caller, given: Given) -> None:
    """Give the user's control group its share."""
    version, weight = _one_of(given.get("version"), ("v1", "v2")), given.get("weight")
    if type(weight) is not int or not cgroups.WEIGHTS[0] <= weight <= cgroups.WEIGHTS[1]:
        raise Refusal(f"{weight!r:.100} is not a weight: {cgroups.WEIGHTS[0]} to {cgroups.WEIGHTS[1]} are")
    cgroups.weigh(caller.group(given.get("name"), made=version == "v2"), version, weight)


def join(caller: Caller, given: Given) -> None:
    """Move the process that called into a group of the user's, or back to that of the process that started it."""
    group, pid = str(given.get("group")), caller.process()
    if name := _name_of(group):
        caller.group(name)
    elif group not in _started_in(pid):
        raise Refusal(f"{group!r:.200} is not a control group of {caller.user.pw_name}'s")
    privilege.is_called_by(pid)
    cgroups.join(group)


def remove_group(caller: Caller, given: Given) -> str:
    """Remove the user's control group."""
    path = str(given.get("path"))
    name = _name_of(path)
    if not name:
        raise Refusal(f"{path!r:.200} is not a target's control group")
    if os.path.isdir(path):
        caller.group(name)
    said = cgroups.remove(path)
    files.remove(GROUPS / f"{name}.json")
    return said


def put_back_shared(caller: Caller, given: Given) -> list[str]:
    """Put back what all targets share, where none has a group any more."""
    return iocost.put_back_shared()


def lustre_locks(caller: Caller, given: Given) -> None:
    """Give back the locks of a Lustre client that nobody uses."""
    granted.cancel_locks(granted.check_locks(given.get("connections")))


def lustre_tune(caller: Caller, given: Given) -> None:
    """Set known tunables of a Lustre client."""
    granted.tune(granted.check_tunables(given.get("values")))


def lustre_sync(caller: Caller, given: Given) -> str:
    """Have a Lustre server commit."""
    return granted.commit(granted.check_fsname(given.get("fsname")))


def lustre_counters(caller: Caller, given: Given) -> str:
    """What the OSTs of a Lustre server have counted."""
    return granted.counters(granted.check_fsname(given.get("fsname")))


def hello(caller: Caller, given: Given) -> str:
    """That the user may call, and whom: the version of this helper."""
    return privilege.version()


VERBS: dict[str, Callable[[Caller, Given], Any]] = {
    "hello": hello,
    "leave": hello,
    "attach": attach,
    "detach": detach,
    "devices": devices,
    "device": device,
    "mkfs": mkfs,
    "mount": mount,
    "remount": remount,
    "unmount": unmount,
    "unmount-all": unmount_all,
    "uuid": uuid_of,
    "unused": unused,
    "wipe": wipe,
    "drop-caches": drop_caches,
    "tune": set_tunable,
}
OF_GROUPS: dict[str, Callable[[Caller, Given], Any]] = {
    "groups": groups,
    "lay": lay,
    "cost-off": cost_off,
    "weigh": weigh,
    "join": join,
    "remove-group": remove_group,
    "put-back-shared": put_back_shared,
}
OF_LUSTRE: dict[str, Callable[[Caller, Given], Any]] = {
    "lustre-locks": lustre_locks,
    "lustre-tune": lustre_tune,
    "lustre-sync": lustre_sync,
    "lustre-counters": lustre_counters,
}
ALONE = {**OF_GROUPS, **OF_LUSTRE}
"""They may wait, concern no mount, and lock for themselves what they change."""
ENTER = "enter"


def main(arguments: list[str]) -> int:
    """Do one verb for the user who asks. Exit status as the agent's: 1 refused, 2 failed."""
    try:
        caller = Caller()
        os.environ.clear()
        os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C")
        os.umask(0o022)
        os.chdir("/")
        if arguments == [ENTER]:
            return enter(caller)
        verbs = {**VERBS, **ALONE}
        if len(arguments) != 1 or arguments[0] not in verbs:
            raise Refusal(f"no verb {' '.join(arguments)!r:.100}; there are {', '.join([ENTER, *verbs])}")
        given = _read(sys.stdin.buffer.read(MOST_BYTES + 1))
        if arguments[0] in ALONE:
            answer, code = {"value": ALONE[arguments[0]](caller, given)}, 0
        else:
            with files.locked(LOCK), namespace.entered():
                answer, code = {"value": VERBS[arguments[0]](caller, given)}, 0
    except Refusal as why:
        answer, code = {"refused": str(why)}, 1
    except (Failure, OSError) as why:
        answer, code = {"failed": f"{' '.join(arguments)}: {why}"}, 2
    print(json.dumps(answer))
    return code


def enter(caller: Caller) -> int:
    """Become the user for good, where targets are mounted, and run what the first line of standard input says."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) <= MOST_BYTES:
        if not (byte := os.read(0, 1)):  # no more than the line: what follows is the command's
            break
        line += byte
    given = _read(bytes(line))
    argv, env, cwd = given.get("argv"), given.get("env"), given.get("cwd")
    if not _texts(argv) or not argv or not isinstance(env, dict) or not _texts([*env, *env.values()]):
        raise Refusal("argv, a list of texts, and env, an object of texts, are wanted")
    namespace.enter()
    os.initgroups(caller.user.pw_name, caller.user.pw_gid)
    os.setresgid(caller.user.pw_gid, caller.user.pw_gid, caller.user.pw_gid)
    os.setresuid(caller.uid, caller.uid, caller.uid)
    os.chdir(cwd if isinstance(cwd, str) else "/")
    os.execvpe(argv[0], argv, env)


def _read(text: bytes) -> Given:
    if len(text) > MOST_BYTES:
        raise Refusal(f"more than {MOST_BYTES} bytes on standard input")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"standard input is not JSON ({error})") from error
    if not isinstance(given, dict):
        raise Refusal("standard input is not a JSON object")
    return given


def _texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) and "\0" not in one for one in given)


def _filesystem(given: Any) -> FileSystem:
    return filesystems.of(_one_of(given, [name for name in filesystems.names() if filesystems.of(name).for_users]))


def _one_of(given: Any, allowed: Sequence[str]) -> str:
    if given not in allowed:
        raise Refusal(f"{given!r:.100} is not among {', '.join(allowed)}, which are all that users may have")
    return str(given)


def _options(given: Any, filesystem: FileSystem) -> str:
    if not isinstance(given, str) or not re.fullmatch(filesystem.user_options, given):
        raise Refusal(f"{given!r:.100} is not a mount option that a target has")
    return given


def _uuid(given: Any) -> str:
    try:
        return str(uuid.UUID(given))
    except (ValueError, AttributeError, TypeError):
        raise Refusal(f"{given!r:.100} is not a UUID") from None


def _is_his(caller: Caller, device: str) -> bool:
    try:
        return bool(caller.device(device))
    except Refusal:
        return False


def _only_roots(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o22


def _hierarchies() -> list[Path]:
    return [top for top in (cgroups.v1(), cgroups.root()) if top is not None]


def _name_of(group: str) -> str | None:
    """The name of a target's control group, by its path; None for any other."""
    name = Path(group).name[len(cgroups.PREFIX) :]
    return name if GROUP.fullmatch(name) and group in _groups_called(name) else None


def _groups_called(name: str) -> list[str]:
    return [str(top / f"{cgroups.PREFIX}{name}") for top in _hierarchies()]


def _started_in(pid: int) -> list[str]:
    """The groups of the process that started this one: there it was before it joined any."""
    parent = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
    return [str(cgroups.group_of(parent, top / "any")) for top in _hierarchies()]


def _note(device: str) -> Path:
    return NOTES / f"{Path(device).name}.json"


def _tidy(point: str) -> None:
    """Remove a place for mounts, and its target's folder with the last; only what lies empty in root's own."""
    if POINT.fullmatch(point):
        for folder in (Path(point), Path(point).parent):
            try:
                folder.rmdir()
            except OSError:
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
