"""The file systems of a claimed target on loop devices: attached, identified, made, mounted, and mounted anew.

A layout is written to the one store while it is not mounted.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from fsage.base import Call, Failure, Json, Refusal
from fsage.host import filesystems
from fsage.host.device import below, capabilities, copies, loops
from fsage.host.filesystems import FileSystem, Range
from fsage.host.system import caches, kernel, mounting, places
from fsage.host.targets import Target, claims, preallocation
from fsage.host.targets.budget import Free, Limits, Wrong, nothing
from fsage.layouts import fiemap, machine
from fsage.layouts.fragmentation import Extent
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.store import Store
from fsage.model import kinds as facts
from fsage.model.claim import ClaimedStore
from fsage.model.observation import Mounting


class Stores(Target, facts.Loop):
    """File systems of its own on loop devices, one a store.

    That of the one store can be replaced, and its blocks written, while it is not mounted.
    """

    mkfs_options = ""
    """With which it is made, more than by its declaration."""

    @property
    def made_of(self) -> FileSystem:
        """What its stores hold."""
        return filesystems.named(self.spec["filesystem"])

    @property
    def lies_below(self) -> bool:
        """Whether its images are sparse, and lie in an XFS of their own."""
        return self.spec["sparse"]

    @property
    def allocator_reset(self) -> str:
        return self.spec["allocator_reset"]

    def open(self) -> None:
        capabilities.need_loops(self.name)
        self._put_below()
        for store in self.claim["stores"]:
            places.check(Path(store["image"]).parent)
            loops.verify({**store["image_id"], "image": store["image"]})
        self.attach()
        self.identify()
        self.mount()
        self.model_in_place()

    def room_below(self) -> int | None:
        if self.lies_below:
            return below.room_bytes(self.home)
        return None

    def taken_below(self) -> int:
        if not self.lies_below:
            return 0
        return sum(os.stat(store["image"]).st_blocks for store in self.claim["stores"]) * 512

    def give_back_below(self, ranges: Mapping[Path, Collection[Range]] | None) -> None:
        if not self.lies_below:
            return
        if ranges is None or not self.made_of.places_on_device:
            ranges = {mount: [(0, 2**64 - 1)] for mount in self.mounts}
        for mount in self.mounts:
            for begin, end in sorted(ranges[mount]):
                mounting.trim(mount, begin, end)

    def attach(self) -> None:
        """Attach the images, or what the device model offers in their place; fill in `devices`."""
        self._put_below()
        self.devices = []
        for store in self.claim["stores"]:
            disk = self.model.disk(store)
            if not loops.devices_of(disk):
                self.notes.append(f"attached {disk['image']}")
            self.devices.append(loops.attach(disk))

    def _put_below(self) -> None:
        """Have what sparse images lie in mounted; the number of its device is another each time."""
        noted = claims.images(self.home) if self.lies_below else None
        if not noted:
            return
        if below.put(self.home, noted):
            self.notes.append(f"mounted {below.point_of(self.home)}")
        for store in self.claim["stores"]:
            store["image_id"]["dev"] = below.number(self.home)

    def identify(self) -> None:
        """Compare the UUID on every device with the claim; finish a format that was killed."""
        unfinished = False
        for store, device, _ in self.stores():
            current = store["uuids"][0]
            following = store["uuids"][1:]
            mounted_uuid = mounting.uuid_on(device)
            if following and mounted_uuid in (*following, None):
                unfinished = True
            elif mounted_uuid != current:
                journalled = f" (nor the journalled next one, {following[0]})" if following else ""
                raise Refusal(
                    f"{device} ({store['image']}) has a file system with UUID {mounted_uuid or 'none'}, not the "
                    f"claimed {current}{journalled}; nothing was touched. To clear the target: {loops.CLEAR}"
                )
        if unfinished:
            # Nothing is on it yet, and mkfs itself may have been killed: make it again.
            for store, device, point in self.stores():
                if machine.mounted_at(point):
                    mounting.unmount(point)
                mounting.refuse_if_in_use(device)
                store["uuids"] = [store["uuids"][0], (store["uuids"][1:] or [str(uuid.uuid4())])[0]]
            self.save()
            self.make(mount=False)
            self.notes.append("finished a format that had been interrupted")
        elif any(len(store["uuids"]) > 1 for store in self.claim["stores"]):  # killed before mkfs did anything
            for store in self.claim["stores"]:
                del store["uuids"][1:]
            self.save()

    def mount(self) -> None:
        """Mount every store that is not mounted, verify each by UUID, and stamp what has no stamp yet."""
        for index, (store, device, point) in enumerate(self.stores()):
            if machine.mounted_at(point) is None:
                filesystems.mount(self.spec["filesystem"], device, point, self._options())
                self.notes.append(f"mounted {point}")
            filesystems.verify(self.spec["filesystem"], device, store["uuids"][0], point)
            self.stamp(index)
            settable = self.made_of.preallocation
            if settable and settable.size_at(point) != preallocation.size_bytes(self):  # the file system is new
                settable.give(point, preallocation.size_bytes(self))

    def make(self, mount: bool = True) -> None:
        """mkfs with the last UUID that the claim names for each store, then note it as the current one."""
        for store, device, _ in self.stores():
            if self.lies_below:
                mounting.discard(device)
            how = store["uuids"][-1], store["hash_seed"], self.spec["sparse"], self.spec["geometry"]
            filesystems.make(self.spec["filesystem"], device, *how, self.mkfs_options)
        for store in self.claim["stores"]:
            del store["uuids"][:-1]
        self.save()
        if mount:
            self.mount()

    def format(self, mkfs_options: str = "") -> None:
        """Make every store's file system anew, with UUIDs that are in the claim before."""
        self.mkfs_options = mkfs_options
        for store, device, point in self.stores():
            occupant = machine.mounted_at(point)
            if occupant:
                filesystems.verify(self.spec["filesystem"], device, store["uuids"][0], point)
                mounting.unmount(point)
        for device in self.devices:
            mounting.refuse_if_in_use(device)
        for store in self.claim["stores"]:
            store["uuids"] = [store["uuids"][0], str(uuid.uuid4())]
        self.save()
        self.make()

    def refuse_unmounted(self) -> None:
        for point in self.mounts:
            if machine.mounted_at(point) is None:
                raise Failure(f"{point}: the file system of target {self.name} is not mounted there any more")

    def remount(self, more: str = "", warm: bool | None = None) -> Mounting:
        """Unmount and mount every store: the allocator starts from its beginning again. Verified by UUID."""
        if warm is None and self.allocator_reset == "cold":
            warm = False
        taken: Mounting = {"umount_s": 0.0, "umount_cpu_s": 0.0, "mount_s": 0.0, "mount_cpu_s": 0.0}
        options = ",".join(filter(None, (self._options(), more)))
        for store, device, point in self.stores():
            umount, mount = filesystems.remount(self.spec["filesystem"], device, point, options, self.watch, warm)
            filesystems.verify(self.spec["filesystem"], device, store["uuids"][0], point)
            taken["umount_s"] += umount.seconds
            taken["umount_cpu_s"] += umount.cpu_s
            taken["mount_s"] += mount.seconds
            taken["mount_cpu_s"] += mount.cpu_s
        return taken

    def _options(self) -> str:
        settable = self.made_of.preallocation
        chosen = [settable.option(preallocation.size_bytes(self)) if settable else ""]
        return ",".join(filter(None, [*chosen, self.made_of.sparse_option if self.spec["sparse"] else ""]))

    def stores(self) -> list[tuple[ClaimedStore, str, Path]]:
        """Claim entry, loop device and mount point of each store."""
        if len(self.devices) != len(self.mounts):
            raise Failure(f"target {self.name} is not attached")
        return [(store, self.devices[i], self.mounts[i]) for i, store in enumerate(self.claim["stores"])]

    def settle(self, wrong: Wrong = nothing) -> None:
        for mount in self.mounts:
            self.made_of.settle(mount)

    def limits(self) -> Limits:
        return Limits()  # nobody else uses these file systems: they end where the claim does

    def free(self, mount: Path) -> Free:
        stat = os.statvfs(mount)
        return Free(stat.f_bfree * stat.f_frsize, self.made_of.counted(mount, stat))

    @property
    def why_unwatched(self) -> str | None:
        why = capabilities.obstacle(capabilities.FANOTIFY)
        if why:
            return why.reason
        return None

    def free_space(self, number: int, counting: Counting = ONCE) -> Store:
        return self.made_of.of_mount(self.devices[number], self.mounts[number], counting)

    @property
    def frees_parts(self) -> bool:
        return self.made_of.frees_parts

    @property
    def layout_unavailable_because(self) -> str | None:
        if len(self.mounts) == 1:
            return None
        return f"target {self.name} has {len(self.mounts)} stores: a layout is copied onto one (stores: 1)"

    def laid_space(self, counting: Counting = ONCE) -> Store:
        return self.free_space(0, counting)

    def restore(self, image: Path, digest: str, check_lease: Call) -> Json:
        """Put the file system of a metadata image in the place of the target's own.

        Until it is complete, the claim names two UUIDs: after a kill the next command makes an empty file system.
        """
        if len(self.devices) > 1:
            raise Failure(f"target {self.name}: an image is restored onto a target with one store")
        [(store, device, point)] = self.stores()
        store["uuids"] = [store["uuids"][0], str(uuid.uuid4())]
        filesystem = self.spec["filesystem"]
        device_bytes = store["image_id"]["bytes"]
        beside = self.home / "restore"
        with copies.restored(filesystem, image, digest, beside, store["uuids"][-1], device_bytes) as raw:
            size_bytes = raw.stat().st_size
            check_lease()
            self.save()
            mounting.unmount(point)
            mounting.refuse_if_in_use(device)
            mounting.wipe(device)
            written = copies.write(raw, device)
        self._mount_next(store, device, point)
        taken = sorted({".fsage", "filler", "measured"} & set(os.listdir(point)))
        if taken:
            mounting.unmount(point)
            raise Failure(
                f"the file system in {image.name} already has {', '.join(taken)} in its root, where fsage makes its own"
            )
        os.chown(point, 0, 0)  # the root directory belonged to a user of the original
        os.chmod(point, 0o755)
        self._complete(store)
        return {"filesystem_bytes": size_bytes, "metadata_bytes": written}

    @property
    def takes_blocks(self) -> bool:
        return self.lies_below and self.made_of.takes_blocks and len(self.mounts) == 1

    def change_unmounted(self, name: str | None, change: Callable[[str], None]) -> bool:
        """Until it is complete, the claim names two UUIDs: after a kill the next command makes an empty file system."""
        [(store, device, point)] = self.stores()
        image = Path(store["image"])
        own = store["uuids"][0]
        mounting.unmount(point)
        mounting.refuse_if_in_use(device)
        caches.drop_device(device)
        is_kept = name is not None and below.kept_path(self.home, name).exists()
        if name is None:
            below.forget_kept(self.home)
            store["uuids"] = [own, own]
            self.save()
            change(device)
        else:
            path = below.kept_path(self.home, name)
            if not is_kept:
                below.keep(self.home, name, image, change)
            store["uuids"] = [own, mounting.uuid_on(str(path)) or own]
            self.save()
            given = fiemap.extents(image)
            copies.clone(path, image)
            _give(image, given)
        caches.give_up(Path(self.model.disk(store)["image"]))
        caches.drop_device(device)
        self._mount_next(store, device, point)
        self._complete(store)
        return is_kept

    def _mount_next(self, store: ClaimedStore, device: str, point: Path) -> None:
        """Mount the file system that was put in the place of the store's own."""
        filesystems.mount(self.spec["filesystem"], device, point, self._options())
        filesystems.verify(self.spec["filesystem"], device, store["uuids"][-1], point)

    def _complete(self, store: ClaimedStore) -> None:
        """Note that it is the store's own from now on."""
        del store["uuids"][:-1]
        self.save()
        self.mount()

    def note_kept(self, name: str, notes: Json | None) -> None:
        below.note_kept(self.home, name, notes)

    def kept(self, name: str) -> Json | None:
        if self.takes_blocks:
            return below.notes_of_kept(self.home, name)
        return None


def _give(image: Path, given: Iterable[Extent]) -> None:
    """Give an image the blocks that it had before a copy replaced what it holds, where it has none now.

    mkfs gives the journal its blocks without writing them, and a reflink copies only what was written. In a journal of
    holes each cell would be given other blocks, because the kernel continues it where the mount before ended.
    """
    with kernel.opened(image, os.O_RDWR | os.O_NOFOLLOW) as descriptor:
        for extent in given:
            kernel.allocate(descriptor, kernel.KEEP_SIZE, extent.logical, extent.length)
        os.fsync(descriptor)
