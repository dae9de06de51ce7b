"""Layouts that are written to the one store of a loop target while it is not mounted."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from fsage.host.device import kept
from fsage.host.evidence import fiemap
from fsage.host.loop.stores import Stores
from fsage.host.stores import filesystems, metadata_image
from fsage.host.structure import files
from fsage.host.system import caches, mounting
from fsage.host.system.sparse_files import clone
from fsage.model.errors import Failure
from fsage.model.evidence.fragmentation import Extent
from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.evidence.store import Store
from fsage.model.typed import Json


class Layouts(Stores):
    """Stores whose file system can be replaced, and whose blocks can be written, while they are not mounted."""

    @property
    def layout_unavailable_because(self) -> str | None:
        if len(self.mounts) == 1:
            return None
        return f"target {self.name} has {len(self.mounts)} stores: a layout is copied onto one (stores: 1)"

    def laid_space(self, counting: Counting = ONCE) -> Store:
        return self.free_space(0, counting)

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
        return self.spec["sparse"] and self.made_of.takes_blocks and len(self.mounts) == 1

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
            given = fiemap.extents(image)
            clone(path, image)
            _give(image, given)
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


def _give(image: Path, given: Iterable[Extent]) -> None:
    """Give an image the blocks that it had before a copy replaced what it holds, where it has none now.

    mkfs gives the journal its blocks without writing them, and a reflink copies only what was written. In a journal of
    holes each cell would be given other blocks, because the kernel continues it where the mount before ended.
    """
    descriptor = os.open(image, os.O_RDWR | os.O_NOFOLLOW)
    try:
        for extent in given:
            files.allocate(descriptor, files.KEEP_SIZE, extent.logical, extent.length)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
