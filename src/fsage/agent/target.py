"""An opened target: verified to be the one that was claimed, attached and mounted."""

from __future__ import annotations

import os
import pwd
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fsage.agent import claims, declaration, directories, files, filesystems, frozen, places, privilege, run_as, xfs
from fsage.agent.device import loops, models
from fsage.agent.device.model import Model
from fsage.agent.errors import Failure, Refusal
from fsage.agent.lustre import servers
from fsage.agent.lustre import target as lustre


class Target:
    """A claimed target. Made by `open_target`, or by `claim` while it is being claimed."""

    def __init__(self, spec: dict[str, Any], claim: dict[str, Any]) -> None:
        self.spec = spec
        self.claim = claim
        self.name: str = spec["name"]
        self.kind: str = spec["kind"]
        self.filesystem: str | None = claim["stores"][0]["filesystem"]
        self.state_known: bool = claim["filesystem_state_known"]
        self.home: Path = declaration.home_of(spec)
        self.mounts: list[Path] = [Path(store["mount"]) for store in claim["stores"]]
        self.devices: list[str] = []
        self.notes: list[str] = []  # what opening it had to do
        self.servers: list[dict[str, Any]] = []  # of Lustre, as the request has them: they are made to free what went

    @property
    def capacity_bytes(self) -> int:
        """Free bytes of the empty target, as the claim has them."""
        return int(self.claim["capacity_bytes"])

    @property
    def uid(self) -> int:
        """Who runs what is measured. Raises Refusal."""
        return run_as.uid(self.spec)

    @property
    def _user(self) -> pwd.struct_passwd | None:
        return run_as.user(self.spec)

    def as_user(self) -> list[str]:
        """The front of a command that is measured as `run_as`; empty where that is who we are. Raises Refusal."""
        if not (user := self._user):
            return []
        words = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]
        return [*words, "env", f"HOME={user.pw_dir}", f"USER={user.pw_name}", f"LOGNAME={user.pw_name}"]

    def take(self, place: Path) -> None:
        """Take such a directory back, which lies in one of ours: what is in it is then nobody else's to change."""
        if self._user:
            directories.take(place)

    def give(self, place: Path) -> None:
        """Let whoever runs what is measured make files in this directory. Raises Refusal."""
        if not (user := self._user):
            return
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)  # it may lie in one that is his
        try:
            if os.fstat(descriptor).st_uid != user.pw_uid:
                os.fchown(descriptor, user.pw_uid, user.pw_gid)
        finally:
            os.close(descriptor)

    @property
    def model(self) -> Model:
        """The device model as the claim has it."""
        return models.claimed(self.home, self.name, self.claim)

    @property
    def preallocation_bytes(self) -> int:
        """What XFS is to give a file at a time, as tune_prealloc.yml noted it; 0: as it likes."""
        noted = files.read_json(self.home / "tunables.json") or {}
        return int(noted.get("preallocation", {}).get("bytes", 0))

    @property
    def allocator_reset(self) -> str:
        """`remount` or `none`: what starts the allocator from its beginning before each cell."""
        return str(self.spec["allocator_reset"]) if self.kind == "loop" else "none"

    def mount_options(self) -> list[str]:
        """Options of every mount, as the kernel has them."""
        if self.kind == "lustre":
            return [lustre.mount_of(self.spec).options]
        lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        return [line[3] for mount in self.mounts for line in lines if line[1] == str(mount)]

    def queues(self) -> list[Path]:
        """The block queues' tunables in sysfs, one folder a store."""
        return [Path("/sys/block") / Path(device).name / "queue" for device in self.devices]

    def format(self) -> None:
        """Make every store's file system anew, with UUIDs that are in the claim before; a directory is only emptied."""
        if self.kind != "loop":
            self.verify_directory()
            self.take(self.mounts[0] / "measured")
            if self.kind == "lustre":
                lustre.empty(self.mounts[0], self.spec, self.claim, self.state_known, self.sync_servers)
            else:
                directories.clear(self.mounts[0], keep_mark=True)
            return
        for store, device, point in self.stores():
            occupant = filesystems.mounted_at(point)
            if occupant:
                filesystems.verify(self.spec["filesystem"], device, store["uuids"][0], point)
                filesystems.unmount(point)
        for device in self.devices:
            filesystems.refuse_if_in_use(device)
        for store in self.claim["stores"]:
            store["uuids"] = [store["uuids"][0], str(uuid.uuid4())]
        self.save()
        self.make()

    def remount(self) -> None:
        """Unmount and mount every store: the allocator starts from its beginning again. Verified by UUID."""
        if self.kind != "loop":
            return
        for store, device, point in self.stores():
            filesystems.remount(self.spec["filesystem"], device, point, self._options())
            filesystems.verify(self.spec["filesystem"], device, store["uuids"][0], point)

    def verify_directory(self) -> None:
        """`Refusal` unless the directory is the very one that was claimed."""
        if self.kind == "lustre":
            lustre.verify(self.spec, self.claim)
        else:
            directories.verify(self.mounts[0], self.claim)

    def sync_servers(self) -> int | None:
        """Have Lustre's servers commit; how many objects they have still to destroy, None where none can be asked."""
        return servers.sync(self.spec["lustre"]["fsname"], self.servers)

    @property
    def tolerance_bytes(self) -> int:
        """By how much others may change the used space of each OST of a Lustre target."""
        return int(self.spec["lustre"]["tolerance_mib"]) << 20

    def charged(self) -> AbstractContextManager[None]:
        """What is started while the block runs is measured under the device model: in its group. Raises Failure."""
        return self.model.charged()

    def front(self, argv: Sequence[str] = ()) -> list[str]:
        """What stands before a command that is measured as `run_as`.

        What reads the device itself, past the file system, stays who we are. Raises Refusal.
        """
        bare = any(device in word for device in self.devices for word in argv)
        return [] if bare else self.as_user()

    def model_in_place(self) -> dict[str, Any] | None:
        """The device model as read back, put in place before if it was not; or None."""
        return self.model.put(self.devices)

    def save(self) -> None:
        """Write the claim durably."""
        files.write_json(self.home / "claim.json", self.claim)

    def attach(self) -> None:
        """Attach the images, or what the device model offers in their place; fill in `devices`."""
        self.devices = []
        for store in self.claim["stores"]:
            disk = self.model.disk(store)
            if not loops.devices_of(disk):
                self.notes.append(f"attached {disk['image']}")
            self.devices.append(loops.attach(disk))

    def mount(self) -> None:
        """Mount every store that is not mounted, verify each by UUID, and stamp what has no stamp yet."""
        for index, (store, device, point) in enumerate(self.stores()):
            if filesystems.mounted_at(point) is None:
                filesystems.mount(self.spec["filesystem"], device, point, self._options())
                self.notes.append(f"mounted {point}")
            filesystems.verify(self.spec["filesystem"], device, store["uuids"][0], point)
            self.stamp(index)
            if self.filesystem == "xfs" and xfs.hint_bytes(point) != self.preallocation_bytes:  # made anew
                xfs.set_hint(point, self.preallocation_bytes)

    def stamp(self, index: int) -> None:
        """Name target and store on the store itself; a stamp of another claim is refused."""
        path = self.mounts[index] / ".fsage/claim.json"
        mark = {"target": self.name, "id": self.claim["id"], "store": index}
        found = files.read_json(path)
        if found is None:
            files.write_json(path, mark)
        elif found != mark:
            raise Refusal(f"{path} names {found}, not {mark}: somebody else's file system; nothing was touched")

    def identify(self) -> None:
        """Compare the UUID on every device with the claim; finish a format that was killed."""
        unfinished = False
        for store, device, _ in self.stores():
            current, following = store["uuids"][0], store["uuids"][1:]
            found = filesystems.uuid_on(device)
            if following and found in (*following, None):
                unfinished = True
            elif found != current:
                journalled = f" (nor the journalled next one, {following[0]})" if following else ""
                raise Refusal(
                    f"{device} ({store['image']}) has a file system with UUID {found or 'none'}, not the "
                    f"claimed {current}{journalled}; nothing was touched. To clear the target: {loops.CLEAR}"
                )
        if unfinished:
            # Nothing is on it yet, and mkfs itself may have been cut short: made again, not trusted.
            for store, device, point in self.stores():
                if filesystems.mounted_at(point):
                    filesystems.unmount(point)
                filesystems.refuse_if_in_use(device)
                store["uuids"] = [store["uuids"][0], (store["uuids"][1:] or [str(uuid.uuid4())])[0]]
            self.save()
            self.make(mount=False)
            self.notes.append("finished a format that had been interrupted")
        elif any(len(store["uuids"]) > 1 for store in self.claim["stores"]):  # killed before mkfs did anything
            for store in self.claim["stores"]:
                del store["uuids"][1:]
            self.save()

    def make(self, mount: bool = True) -> None:
        """mkfs with the last UUID that the claim names for each store, then note it as the current one."""
        for store, device, _ in self.stores():
            filesystems.make(self.spec["filesystem"], device, store["uuids"][-1], store["hash_seed"])
        for store in self.claim["stores"]:
            del store["uuids"][:-1]
        self.save()
        if mount:
            self.mount()

    def _options(self) -> str:
        size_bytes = self.preallocation_bytes
        return xfs.mount_option(size_bytes) if size_bytes else ""

    def stores(self) -> list[tuple[dict[str, Any], str, Path]]:
        """Claim entry, loop device and mount point of each store."""
        if len(self.devices) != len(self.mounts):
            raise Failure(f"target {self.name} is not attached")
        return [(store, self.devices[i], self.mounts[i]) for i, store in enumerate(self.claim["stores"])]


def open_target(spec: dict[str, Any]) -> Target:
    """The claimed target, its devices attached, mounted, and verified with the kernel by identity and UUID.

    What a killed command left is finished or undone first. Anything that is not exactly what was claimed is a
    `Refusal`, and nothing has been touched then.
    """
    spec = declaration.complete(spec)
    home = declaration.home_of(spec)
    claim = claims.read(home)
    if claim is None and spec["kind"] == "lustre":
        claim = lustre.claim_of(spec)
    where = f"on {os.uname().nodename}"
    if claim is None:
        raise Refusal(
            f"target {spec['name']} has not been claimed {where} (no {home}/claim.json); claim it first: "
            "ansible-playbook claim.yml"
            + ("; of several clients all share fsage_target.home" if spec["kind"] == "directory" else "")
        )
    if claim["status"] != "claimed":
        raise Refusal(
            f"target {spec['name']} is half {'claimed' if claim['phase'] == 'claiming' else 'released'} "
            f"{where}: its command was interrupted; run that command again"
        )
    frozen.refuse(claim, spec)
    applied = frozen.as_declared(claim, spec)
    if applied is not claim and (home / "claim.json").exists():
        files.write_json(home / "claim.json", applied)
    claim = applied
    target = Target(spec, claim)
    with files.locked(home / "open.lock"):
        if target.kind != "loop":
            target.verify_directory()
            privilege.why_not()  # a helper of another version is refused before anything is measured
            return target
        privilege.need(target.name)
        for store in claim["stores"]:
            places.check(Path(store["image"]).parent)
            loops.verify({**store["image_id"], "image": store["image"]})
        target.attach()
        target.identify()
        target.mount()
        target.model_in_place()
    return target
