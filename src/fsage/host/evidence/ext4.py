"""The layout of ext4 (and ldiskfs, ext3, ext2), from dumpe2fs; where a mounted one changes under it, from GETFSMAP.

dumpe2fs reads the bitmaps through the block device's page cache, where the kernel of a mounted ext4 changes them. After
a sync it lists what statfs(2) counts. While files are made or deleted, a bitmap may not fit its checksum, and dumpe2fs
fails. Then FS_IOC_GETFSMAP is read, the allocator's own list. It comes second because it leaves out two things: space
that is reserved for small files, up to 2 MiB a CPU, until the next mount, and what was deleted since the last commit of
the journal. `mb_groups` is never read: in several ldiskfs series that makes the target read-only.

dumpe2fs looks at every bit: 113 TiB take it more than a minute. A large ext4 that is mounted is read by its library.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fsage.host.evidence import devices
from fsage.host.evidence.ext2fs import BlockBitmap
from fsage.host.evidence.fiemap import free_extents, mapped_bytes
from fsage.host.system.mounting import mount_of
from fsage.host.system.shell import run
from fsage.model.errors import Failure
from fsage.model.evidence.dumpe2fs import of_text, read_header
from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.evidence.store import Geometry, NotThisText, Store, of_extents
from fsage.model.evidence.text import Text, blocks_of

LARGE_BYTES = 1 << 40
OF_LIBRARY = "libext2fs (block bitmaps)"
AT_ONCE = "FS_IOC_GETFSMAP, what the allocator can give at once"
SOURCE = f"{AT_ONCE} (it is in use, and dumpe2fs cannot read it)"
OF_USER = f"{AT_ONCE} (this user cannot read the device)"
CHANGED = "checksum does not match"


def of_mount(device: str, mount: Path, counting: Counting = ONCE) -> Store:
    """The store of a mounted ext4. Raises Failure, OSError."""
    if why := devices.why_closed(device):
        return _of_user(device, mount, why, counting)
    with open(device, "rb") as disk:
        large = disk.seek(0, os.SEEK_END) > LARGE_BYTES
    try:
        return of_library(device, counting) if large else of_device(device, counting)
    except Failure as error:
        if CHANGED not in str(error):
            raise
    return of_kernel(device, mount, counting)


def of_kernel(device: str, mount: Path, counting: Counting = ONCE) -> Store:
    """The store of a mounted ext4 as its allocator has it just now. Raises Failure, OSError."""
    return _of_extents(device, SOURCE, free_extents(mount), counting)


def _of_user(device: str, mount: Path, why: str, counting: Counting) -> Store:
    """The store of a mounted ext4 whose device this user cannot read, for the reason `why`. Raises Failure.

    The kernel tells every user of the mount what is free, but nothing of how the file system was made. A user's target
    has its image for that.
    """
    backing = Path("/sys/block", Path(device).name, "loop/backing_file")
    image = backing.read_text(encoding="utf-8").strip() if backing.exists() else ""
    if image and not devices.why_closed(image):
        return of_kernel(image, mount, counting)
    try:
        device_bytes, block_bytes = mapped_bytes(mount), os.statvfs(mount).f_frsize
        geometry = Geometry(device_bytes, block_bytes, device_bytes)
        name = mount_of(mount).type
        store = of_extents(name, OF_USER, "block group", geometry, free_extents(mount), counting)
    except OSError as error:
        raise Failure(why) from error
    del store.found["groups"]
    store.absent["groups"] = why
    store.unlike = f"how it was made is not known, for {why}"
    return store


def of_library(device: str, counting: Counting = ONCE) -> Store:
    """The store of a large ext4, by libext2fs: in seconds, without what groups have of free inodes. Raises Failure."""
    bitmap = BlockBitmap(device)
    try:
        extents = ((start, end - start) for start, end in bitmap.free())
        return _of_extents(device, OF_LIBRARY, extents, counting)
    finally:
        bitmap.leave()


def _of_extents(device: str, source: str, extents: Iterable[tuple[int, int]], counting: Counting) -> Store:
    header, _ = read_header(run(["dumpe2fs", "-h", device]).stdout.encode().splitlines(keepends=True))
    size = header.block_bytes
    geometry = Geometry(header.blocks * size, size, header.group_blocks * size, header.first_block * size)
    store = header.named(of_extents(None, source, "block group", geometry, extents, counting))
    store.warnings = header.state
    return store


def of_device(device: str, counting: Counting = ONCE) -> Store:
    """The store on a device or in an image, mounted or not; read-only. Raises Failure."""
    return of_command(["dumpe2fs", device], f"dumpe2fs {device}", counting)


def of_command(argv: list[str], command: str, counting: Counting = ONCE) -> Store:
    """The store that dumpe2fs tells of, here or on another host; `command`: how sentences call it. Raises Failure."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError as error:
            raise Failure(f"{argv[0]}: no such program on {os.uname().nodename}; install e2fsprogs") from error
        with process:
            assert process.stdout is not None
            try:
                store = of_text(Text(blocks_of(process.stdout)), counting)
            except NotThisText as error:
                process.stdout.close()
                if process.wait() <= 0:
                    raise Failure(f"`{command}`: {error}") from error
            except BaseException:  # a time limit: what is not wanted any more shall not read on
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").splitlines()
            words = [line for line in lines if not line.startswith("dumpe2fs 1.")]  # without the version
            raise Failure(
                f"`{command}` ended with status {process.returncode}: {'; '.join(words) or 'it printed nothing'}"
            )
    return store
