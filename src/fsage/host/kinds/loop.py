"""Kind `loop`: how its images are made and claimed, and what a release takes back."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path

from fsage.base import GIB, MIB, Failure, Json, Refusal
from fsage.host import claiming, filesystems
from fsage.host.device import below, capabilities, loops, models
from fsage.host.device.models import Model
from fsage.host.instruments.cleanup import shared_left_over, undo
from fsage.host.loop import images
from fsage.host.loop.stores import Stores
from fsage.host.system import files, mounting, settings, space
from fsage.host.targets import claims, lease
from fsage.host.targets.kinds import Lacking, Result
from fsage.layouts import machine
from fsage.model import declaration, tools
from fsage.model.claim import Claim, ClaimedStore, Images
from fsage.model.filesystems import takes
from fsage.model.hosts import Asker
from fsage.model.target import Spec

PROGRAMS = ("wipefs",)
# Directory hashes of ext4 must be alike in every target that is built from the same seed.
HASH_SEED = "f5a6e000-0000-4000-8000-000000000001"
MODEL_SHARE = 0.75  # a model above this share of the backing store would measure the store's own noise


class Loop(Stores):
    """File systems of its own on loop devices."""

    @classmethod
    def lacking(cls, spec: Spec) -> Lacking:
        missing = list[str]()
        room_bytes = dict[str, int]()
        why = capabilities.why_no_loops()
        if why:
            missing.append(why)
        needed = {spec["filesystem"], below.FILESYSTEM} if spec["sparse"] else {spec["filesystem"]}
        programs = list(PROGRAMS)
        for filesystem in sorted(needed):
            programs += filesystems.named(filesystem).programs
        missing += [f"{tool}: {tools.install(tool)}" for tool in programs if not shutil.which(tool)]
        for filesystem in sorted(needed):
            if not filesystems.is_known_here(filesystem):
                missing.append(f"{filesystem}: this kernel does not know it")
        if os.geteuid() == 0:
            good, bad = space.places(spec["image_dir"])
            room_bytes = {str(place): space.free_bytes(place) for place in good}
            if not good:
                missing.append("a place for images: " + "; ".join(bad))
            elif spec["sparse"] and not claims.images(declaration.home_of(spec)):
                missing += filter(None, [images.why_no_room(spec, good[0])])
            why = models.why_refused(spec["device_model"])
            if why:
                missing.append(why)
        return Lacking(missing, room_bytes)

    @classmethod
    def create(cls, spec: Spec, request: Asker, check: bool) -> Result:
        capabilities.need_loops(spec["name"])
        if check:
            return cls._create(spec, check)
        with lease.held(declaration.home_of(spec), request):
            return cls._create(spec, check)

    @classmethod
    def _create(cls, spec: Spec, check: bool) -> Result:
        home = declaration.home_of(spec)
        noted = images.noted_of(spec)
        if not noted or not images.are_written(noted):
            return images.make(spec, noted, check)
        noted = images.verified(home, noted, check)
        claimed = claims.read(home)
        if claimed:
            return cls._attach_again(spec, claimed, noted, check)
        return images.attach(spec, noted, check)

    @classmethod
    def _attach_again(cls, spec: Spec, claimed: Claim, noted: Images, check: bool) -> Result:
        """The images of a claimed target, attached again if need be as its device model has it."""
        target = cls(spec, claimed)
        declaration.refuse_edits(target.claim, spec)
        disks = [*map(loops.known_by, noted["images"]), *models.disks(target.home)]
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
        noted = images.noted_of(spec)
        if not noted or not images.are_written(noted):
            raise Refusal(
                f"target {spec['name']} has not been created on {os.uname().nodename}; create it first: "
                "ansible-playbook fsage.fsage.local_target"
            )
        noted = images.verified(home, noted, check)
        made = noted["images"]
        if "below" in noted and noted["below"]["bytes"] < takes(spec).total_bytes:
            raise Refusal(
                f"target {spec['name']} was created with {noted['below']['bytes'] / GIB:.2f} GiB below, "
                f"and takes {takes(spec).words()} as declared now; remove it first: {loops.CLEAR}"
            )
        claiming.room(spec, sum(image["bytes"] for image in made))  # refuse a target that is too small at once
        why = models.why_refused(spec["device_model"])
        if why:
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
        target = cls(spec, claiming.new(spec, request, stores))
        target.claim["uid"] = target.uid
        with files.locked(home / "open.lock"):
            target.attach()
            for _, device, point in target.stores():
                mounting.refuse_occupied(point, device)
                mounting.refuse_if_in_use(device)
            target.save()
            target.set_up(request)
        return {"changed": True, "msg": f"claimed {spec['name']}: {claiming.words_of(target)}", "claim": target.claim}

    def set_up(self, request: Asker) -> None:
        """Complete a claim: choose the device model, make the file systems, measure capacity and amount."""
        declared = self.spec["device_model"]
        stores = len(self.devices)
        raw: Json = claiming.no_backing()
        if declared or self.spec["amount_mib"] is None:
            image_bytes = self.claim["stores"][0]["image_id"]["bytes"]
            # No faster device changes what is chosen.
            enough_mib_s = declared["bytes_per_s"] * stores / MODEL_SHARE / MIB if declared else 0.0
            if self.spec["sparse"]:  # the first time only gives the image the blocks
                image_bytes = min(image_bytes, claiming.PARTS * takes(self.spec).cell_bytes)
                claiming.backing(self.devices[0], image_bytes, self.spec["containers"])
            raw = claiming.backing(self.devices[0], image_bytes, self.spec["containers"], enough_mib_s)
        lower_mib_s = min(raw["backing_write_mib_s"] or 0, raw["backing_read_mib_s"] or 0)
        self.claim["device_model"] = models.choose(declared, MODEL_SHARE * lower_mib_s * MIB / stores)
        self.save()
        self._fill()
        self.attach()  # the model may offer another disk than the one that was calibrated
        self.make()
        try:
            self.model_in_place()
        except Refusal as why:  # this shows only after a controller was moved
            undo(self.home)
            self.claim["device_model"] = models.none(str(why))
            for point in self.mounts:
                mounting.unmount(point)
            self._fill()
            self.make()
        stats = claiming.measure_empty(self)
        self.claim["capacity_bytes"] = sum(stat.f_bfree * stat.f_frsize for stat in stats)
        if self.claim["device_model"]["kind"] == Model.kind:
            guess_mib_s = lower_mib_s or claiming.UNKNOWN_MIB_S
        else:
            guess_mib_s = self.claim["device_model"]["bytes_per_s"] * stores / MIB
        claiming.calibrated(self, request, raw, guess_mib_s)

    def _fill(self) -> None:
        """Write each block once where a model was declared and cannot be had: no model hides slower first writes."""
        if self.spec["sparse"] or not self.spec["device_model"]:
            return
        if self.claim["device_model"]["kind"] == Model.kind:
            for store, device, _ in self.stores():
                images.fill(device, store["image_id"]["bytes"])

    @classmethod
    def begun(cls, spec: Spec) -> bool:
        home = declaration.home_of(spec)
        attached = any(map(loops.devices_of, images.all_of(home)))  # below: the journal has it
        return attached or bool(settings.journal_of(home).entries()) or shared_left_over()

    @classmethod
    def undo_claim(cls, spec: Spec, claim: Claim | None) -> list[str]:
        home = declaration.home_of(spec)
        proof = list[str]()
        stores = claim["stores"] if claim else []
        ours = [own for store in stores for own in store["uuids"]]
        all_images = images.all_of(home)
        for image in all_images:
            for device in loops.devices_of(image):
                mounting.unmount_all(device)
        for image in all_images:
            for device in loops.devices_of(image):
                if ours and mounting.uuid_on(device) in ours:  # the file system that fsage made, with everything in it
                    mounting.refuse_if_in_use(device)
                    mounting.wipe(device)
            loops.detach(image)
            proof.append(f"no loop device on {image['image']}")
        proof += models.end_disks(home)
        proof += images.give_back(home)
        proof += undo(home, below.UNDO)
        proof += undo(home)  # after the loop devices, which hold on to the control group
        for store in stores:
            if machine.mounted_at(store["mount"]):
                raise Failure(f"{store['mount']} is still mounted")
            proof.append(f"nothing is mounted at {store['mount']}")
            for directory in (Path(store["mount"]), Path(store["mount"]).parent):
                with contextlib.suppress(OSError):  # not empty: another store's, or somebody else's
                    directory.rmdir()
        return proof


TARGET = Loop
