"""Kind `loop`: file systems of its own on loop devices, one a store, in image files that fsage writes."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from fsage.host.claiming import calibrate, claim, images
from fsage.host.device import below, capabilities, kept, loops, models, seek
from fsage.host.device.model import Model
from fsage.host.preallocation import setting
from fsage.host.settings.cleanup import shared_left_over, undo
from fsage.host.stores import filesystems, metadata_image
from fsage.host.stores.filesystem import FileSystem, Range
from fsage.host.system import caches, files, journal, mounting, places, space
from fsage.host.system.sparse_files import clone
from fsage.host.targets import claims
from fsage.host.targets.kinds import Lacking, Result
from fsage.host.targets.limits import Free, Limits, Wrong, nothing
from fsage.host.targets.target import Target
from fsage.model import declaration, frozen
from fsage.model.claim import Claim, ClaimedStore, Images
from fsage.model.declaration import MIB
from fsage.model.errors import Failure, Refusal
from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.evidence.store import Store
from fsage.model.hosts import Asker
from fsage.model.kinds import loop as facts
from fsage.model.observation import Mounting
from fsage.model.sparse import takes
from fsage.model.target import Spec
from fsage.model.typed import Json

PROGRAMS = ("losetup", "blkid", "wipefs")
# Directory hashes of ext4 must be alike in every target that is built from the same seed.
HASH_SEED = "f5a6e000-0000-4000-8000-000000000001"
MODEL_SHARE = 0.60  # a model above this share of the backing store would measure the store's own noise


class Loop(Target, facts.Loop):
    """File systems of its own on loop devices."""

    @classmethod
    def lacking(cls, spec: Spec) -> Lacking:
        missing, room_bytes = list[str](), dict[str, int]()
        if why := capabilities.why_no_loops():
            missing.append(why)
        missing += [
            f"{tool}: install the package that holds it"
            for tool in dict.fromkeys(
                [
                    *PROGRAMS,
                    *filesystems.named(spec["filesystem"]).programs,
                    *(filesystems.named(below.FILESYSTEM).programs if spec["sparse"] else ()),
                ]
            )
            if not shutil.which(tool)
        ]
        for filesystem in {spec["filesystem"], *([below.FILESYSTEM] if spec["sparse"] else [])}:
            if not filesystems.is_known_here(filesystem):
                missing.append(f"{filesystem}: this kernel does not know it")
        if os.geteuid() == 0:
            good, bad = space.places(spec["image_dir"])
            room_bytes = {str(place): space.free_bytes(place) for place in good}
            if not good:
                missing.append("a place for images: " + "; ".join(bad))
            elif spec["sparse"] and not images.known_images(declaration.home_of(spec), None):
                missing += filter(None, [images.why_no_room(spec, good[0])])
            if why := models.why_refused(spec["device_model"]):
                missing.append(why)
        return Lacking(missing, room_bytes)

    @classmethod
    def create(cls, spec: Spec, request: Asker, check: bool) -> Result:
        return images.make(spec, request, check, cls._attach_again)

    @classmethod
    def _attach_again(cls, spec: Spec, claimed: Claim, noted: Images, check: bool) -> Result:
        """The images of a claimed target, attached again if need be as its device model has it."""
        target = cls(spec, claimed)
        frozen.refuse(target.claim, spec)
        disks = [*map(images.whole, noted["images"]), *seek.disks(target.home)]
        attached = sum(len(loops.devices_of(disk)) for disk in disks)
        if target.claim["status"] != "claimed" or attached == spec["stores"]:  # `claim` itself finishes a half claim
            return {"changed": False, "msg": f"the images of {spec['name']} are in place", "images": noted["images"]}
        if not check:
            target.attach()
        msg = "; ".join(target.notes) or f"would attach the images of {spec['name']} again"
        return {"changed": True, "msg": msg, "images": noted["images"]}

    @classmethod
    def remove(cls, spec: Spec, check: bool, released: Result) -> Result:
        return images.delete(spec, check, released)

    @classmethod
    def claim_new(cls, spec: Spec, request: Asker, check: bool) -> Result:
        capabilities.need_loops(spec["name"])
        home = declaration.home_of(spec)
        noted = claims.images(home)
        if noted and not check:
            images.located(home, noted, put=all(image["status"] == "written" for image in noted["images"]))
        made = images.known_images(home, None)
        if not made or any(image["status"] != "written" for image in made):
            raise Refusal(
                f"target {spec['name']} has not been created on {os.uname().nodename}; create it first: "
                "ansible-playbook fsage.fsage.local_target"
            )
        if len(made) != spec["stores"]:
            raise Refusal(
                f"target {spec['name']} was created with {len(made)} stores, and {spec['stores']} are declared "
                f"now; remove it first: {loops.CLEAR}"
            )
        for image in made if not noted or not images.below_is_away(home, noted) else ():
            loops.verify(images.whole(image))
        if noted and "below" in noted and noted["below"]["bytes"] < (taken := takes(spec)).total_bytes:
            raise Refusal(
                f"target {spec['name']} was created with {noted['below']['bytes'] / declaration.GIB:.2f} GiB below, "
                f"and takes {taken.words()} as declared now; remove it first: {loops.CLEAR}"
            )
        calibrate.room(spec, sum(image["bytes"] for image in made))  # refuse a target that is too small at once
        if why := models.why_refused(spec["device_model"]):
            raise Refusal(f"target {spec['name']} is not claimed: {why}")
        if check:
            return {
                "changed": True,
                "msg": f"would make {spec['filesystem']} on {len(made)} images and claim {spec['name']}",
            }
        stores: list[ClaimedStore] = [
            {
                "image": image["image"],
                "image_id": {"dev": image["dev"], "ino": image["ino"], "bytes": image["bytes"]},
                "uuids": [str(uuid.uuid4())],
                "filesystem": spec["filesystem"],
                "hash_seed": HASH_SEED,
                "mount": str(Path(spec["mount_dir"]) / spec["name"] / str(index)),
            }
            for index, image in enumerate(made)
        ]
        target = cls(spec, claim.new(spec, request, stores))
        target.claim["uid"] = target.uid
        with files.locked(home / "open.lock"):
            target.attach()
            for _, device, point in target.stores():
                mounting.refuse_occupied(point, device)
                mounting.refuse_if_in_use(device)
            target.save()
            target.set_up()
        return {"changed": True, "msg": f"claimed {spec['name']}: {claim.words(target)}", "claim": target.claim}

    def set_up(self) -> None:
        """Complete a claim: choose the device model, make the file systems, measure capacity and amount."""
        declared, stores = self.spec["device_model"], len(self.devices)
        raw: Json = claim.no_backing()
        if declared or self.spec["amount_mib"] is None:
            image_bytes = self.claim["stores"][0]["image_id"]["bytes"]
            # Twice what the model may take at most: beyond that no further run changes what is chosen.
            enough_mib_s = 2 * declared["bytes_per_s"] * stores / MODEL_SHARE / MIB if declared else 0.0
            if self.spec["sparse"]:  # the first time only gives the image the blocks
                image_bytes = min(image_bytes, calibrate.PARTS * takes(self.spec).cell_bytes)
                calibrate.backing(self.devices[0], image_bytes, self.spec["containers"])
            raw = calibrate.backing(self.devices[0], image_bytes, self.spec["containers"], enough_mib_s)
        lower_mib_s = min(raw["backing_write_mib_s"] or 0, raw["backing_read_mib_s"] or 0)
        self.claim["device_model"] = models.choose(declared, int(MODEL_SHARE * lower_mib_s * MIB / stores))
        self.save()
        self.attach()  # the model may offer another disk than the one that was calibrated
        self.make()
        try:
            self.model_in_place()
        except Refusal as why:  # this shows only after a controller was moved
            undo(self.home)
            self.claim["device_model"] = models.none(str(why))
        stats = claim.measure_empty(self)
        self.claim["capacity_bytes"] = sum(stat.f_bfree * stat.f_frsize for stat in stats)
        if self.claim["device_model"]["kind"] == Model.kind:
            guess_mib_s = lower_mib_s or claim.UNKNOWN_MIB_S
        else:
            guess_mib_s = self.claim["device_model"]["bytes_per_s"] * stores / MIB
        claim.calibrated(self, raw, guess_mib_s)

    @classmethod
    def begun(cls, spec: Spec) -> bool:
        home = declaration.home_of(spec)
        attached = any(loops.devices_of(image) for image in images.all_of(home, None))  # below: the journal has it
        return attached or bool(journal.entries(journal.path_of(home))) or shared_left_over()

    @classmethod
    def take_back(cls, spec: Spec, claim: Claim | None) -> list[str]:
        home = declaration.home_of(spec)
        proof, all_images = list[str](), images.all_of(home, claim)
        for image in all_images:
            for device in loops.devices_of(image):
                mounting.unmount_all(device)
        for image in all_images:
            for device in loops.devices_of(image):
                _wipe(device, claim)
            loops.detach(image)
            proof.append(f"no loop device on {image['image']}")
        proof += undo(home, seek.UNDO)
        proof += images.give_back(home)
        proof += undo(home, below.UNDO)
        proof += undo(home)  # after the loop devices, which hold on to the control group
        for store in claim["stores"] if claim else ():
            if mounting.mounted_at(store["mount"]):
                raise Failure(f"{store['mount']} is still mounted")
            proof.append(f"nothing is mounted at {store['mount']}")
            for directory in (Path(store["mount"]), Path(store["mount"]).parent):
                with contextlib.suppress(OSError):  # not empty: another store's, or somebody else's
                    directory.rmdir()
        return proof

    @property
    def made_of(self) -> FileSystem:
        """What its stores hold."""
        return filesystems.named(self.spec["filesystem"])

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
        return below.room_bytes(self.home) if self.spec["sparse"] else None

    def taken_below(self) -> int:
        if not self.spec["sparse"]:
            return 0
        return sum(os.stat(store["image"]).st_blocks for store in self.claim["stores"]) * 512

    def give_back_below(self, ranges: Mapping[Path, Collection[Range]] | None) -> None:
        if ranges is None or not self.made_of.places_on_device:
            ranges = {mount: [(0, 2**64 - 1)] for mount in self.mounts}
        for mount in self.mounts if self.spec["sparse"] else ():
            for begin, end in sorted(ranges[mount]):
                mounting.trim(mount, begin, end)

    def limits(self) -> Limits:
        return Limits()  # nobody else uses these file systems: they end where the claim does

    def free(self, mount: Path) -> Free:
        stat = os.statvfs(mount)
        return Free(stat.f_bfree * stat.f_frsize, self.made_of.counted(mount, stat))

    @property
    def why_unwatched(self) -> str | None:
        why = capabilities.obstacle(capabilities.FANOTIFY)
        return why.reason if why else None

    def settle(self, wrong: Wrong = nothing) -> None:
        for mount in self.mounts:
            self.made_of.settle(mount)

    def free_space(self, number: int, counting: Counting = ONCE) -> Store:
        return filesystems.of_mount(self.spec["filesystem"], self.devices[number], self.mounts[number], counting)

    @property
    def layout_unavailable_because(self) -> str | None:
        if len(self.mounts) == 1:
            return None
        return f"target {self.name} has {len(self.mounts)} stores: a layout is copied onto one (stores: 1)"

    def laid_space(self, counting: Counting = ONCE) -> Store:
        return self.free_space(0, counting)

    @property
    def frees_parts(self) -> bool:
        return self.made_of.frees_parts

    def format(self) -> None:
        """Make every store's file system anew, with UUIDs that are in the claim before."""
        for store, device, point in self.stores():
            occupant = mounting.mounted_at(point)
            if occupant:
                filesystems.verify(self.spec["filesystem"], device, store["uuids"][0], point)
                mounting.unmount(point)
        for device in self.devices:
            mounting.refuse_if_in_use(device)
        for store in self.claim["stores"]:
            store["uuids"] = [store["uuids"][0], str(uuid.uuid4())]
        self.save()
        self.make()

    def restore(self, image: Path, digest: str, check_lease: Callable[[], None]) -> Json:
        """Put the file system of a metadata image in the place of the target's own.

        Until it is complete, the claim names two UUIDs: after a kill the next command makes an empty file system.
        """
        if len(self.devices) > 1:
            raise Failure(f"target {self.name}: an image is restored onto a target with one store")
        [(store, device, point)] = self.stores()
        store["uuids"] = [store["uuids"][0], str(uuid.uuid4())]
        filesystem, device_bytes = self.spec["filesystem"], store["image_id"]["bytes"]
        beside = self.home / "restore"
        with metadata_image.restored(filesystem, image, digest, beside, store["uuids"][-1], device_bytes) as raw:
            size_bytes = raw.stat().st_size
            check_lease()
            self.save()
            mounting.unmount(point)
            mounting.refuse_if_in_use(device)
            mounting.wipe(device)
            written = metadata_image.write(raw, device)
        filesystems.mount(filesystem, device, point, self._options())
        filesystems.verify(filesystem, device, store["uuids"][-1], point)
        if taken := sorted({".fsage", "filler", "measured"} & set(os.listdir(point))):
            mounting.unmount(point)
            raise Failure(
                f"the file system in {image.name} already has {', '.join(taken)} in its root, where fsage makes its own"
            )
        os.chown(point, 0, 0)  # the root directory belonged to a user of the original
        os.chmod(point, 0o755)
        del store["uuids"][:-1]
        self.save()
        self.mount()
        return {"filesystem_bytes": size_bytes, "metadata_bytes": written}

    @property
    def takes_blocks(self) -> bool:
        return self.spec["sparse"] and self.made_of.has_geometry and len(self.mounts) == 1

    def change_unmounted(self, name: str | None, change: Callable[[str], None]) -> bool:
        """Until it is complete, the claim names two UUIDs: after a kill the next command makes an empty file system."""
        [(store, device, point)] = self.stores()
        image, own = Path(store["image"]), store["uuids"][0]
        mounting.unmount(point)
        mounting.refuse_if_in_use(device)
        caches.drop_device(device)
        is_kept = name is not None and kept.path_of(self.home, name).exists()
        if name is None:
            kept.forget(self.home)
            store["uuids"] = [own, own]
            self.save()
            change(device)
        else:
            path = kept.path_of(self.home, name) if is_kept else kept.keep(self.home, name, image, change)
            store["uuids"] = [own, mounting.uuid_on(str(path)) or own]
            self.save()
            clone(path, image)
        caches.give_up(Path(self.model.disk(store)["image"]))
        caches.drop_device(device)
        filesystems.mount(self.spec["filesystem"], device, point, self._options())
        filesystems.verify(self.spec["filesystem"], device, store["uuids"][-1], point)
        del store["uuids"][:-1]
        self.save()
        self.mount()
        return is_kept

    def note_kept(self, name: str, notes: Json | None) -> None:
        kept.note(self.home, name, notes)

    def kept(self, name: str) -> Json | None:
        return kept.notes_of(self.home, name) if self.takes_blocks else None

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
        noted = claims.images(self.home) if self.spec["sparse"] else None
        if not noted:
            return
        if below.put(self.home, noted):
            self.notes.append(f"mounted {below.point_of(self.home)}")
        for store in self.claim["stores"]:
            store["image_id"]["dev"] = below.number(self.home)

    def mount(self) -> None:
        """Mount every store that is not mounted, verify each by UUID, and stamp what has no stamp yet."""
        for index, (store, device, point) in enumerate(self.stores()):
            if mounting.mounted_at(point) is None:
                filesystems.mount(self.spec["filesystem"], device, point, self._options())
                self.notes.append(f"mounted {point}")
            filesystems.verify(self.spec["filesystem"], device, store["uuids"][0], point)
            self.stamp(index)
            settable = self.made_of.preallocation
            if settable and settable.size_at(point) != setting.size_bytes(self):  # the file system is new
                settable.give(point, setting.size_bytes(self))

    def identify(self) -> None:
        """Compare the UUID on every device with the claim; finish a format that was killed."""
        unfinished = False
        for store, device, _ in self.stores():
            current, following = store["uuids"][0], store["uuids"][1:]
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
                if mounting.mounted_at(point):
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

    def make(self, mount: bool = True) -> None:
        """mkfs with the last UUID that the claim names for each store, then note it as the current one."""
        for store, device, _ in self.stores():
            if self.spec["sparse"]:
                mounting.discard(device)
            how = store["uuids"][-1], store["hash_seed"], self.spec["sparse"], self.spec["geometry"]
            filesystems.make(self.spec["filesystem"], device, *how)
        for store in self.claim["stores"]:
            del store["uuids"][:-1]
        self.save()
        if mount:
            self.mount()

    def _options(self) -> str:
        settable = self.made_of.preallocation
        chosen = [settable.option(setting.size_bytes(self)) if settable else ""]
        return ",".join(filter(None, [*chosen, self.made_of.sparse_option if self.spec["sparse"] else ""]))

    def stores(self) -> list[tuple[ClaimedStore, str, Path]]:
        """Claim entry, loop device and mount point of each store."""
        if len(self.devices) != len(self.mounts):
            raise Failure(f"target {self.name} is not attached")
        return [(store, self.devices[i], self.mounts[i]) for i, store in enumerate(self.claim["stores"])]


def _wipe(device: str, claim: Claim | None) -> None:
    """Take the file system that fsage made, with everything in it, off the device."""
    if claim and mounting.uuid_on(device) in {uuid for store in claim["stores"] for uuid in store["uuids"]}:
        mounting.refuse_if_in_use(device)
        mounting.wipe(device)


TARGET = Loop
