"""The layout of ext4 (and ldiskfs, ext3, ext2), from dumpe2fs; where a mounted one changes under it, from GETFSMAP."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from ctypes import POINTER, byref, c_char_p, c_int, c_long, c_uint, c_uint16, c_uint32, c_uint64, c_ulong, c_void_p
from functools import cache
from pathlib import Path

from fsage.base import Failure, in_words
from fsage.base.shell import run
from fsage.layouts import fiemap
from fsage.layouts.dumpe2fs import of_text, read_header
from fsage.layouts.fiemap import free_extents, mapped_bytes
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.machine import mount_of
from fsage.layouts.store import Geometry, NotThisText, Store, of_extents
from fsage.layouts.stream import Text, blocks_of

LIBRARY = "libext2fs.so.2"
ERRORS = "libcom_err.so.2"
FILSYS_MAGIC = 2133571329  # EXT2_ET_MAGIC_EXT2FS_FILSYS, lib/ext2fs/ext2_err.et.in
FLAG_SOFTSUPP_FEATURES = 0x8000
FLAG_64BITS = 0x20000  # lib/ext2fs/ext2fs.h
BMAP64_RBTREE = 2


class _FileSystem(ctypes.Structure):
    """The beginning of struct struct_ext2_filsys, lib/ext2fs/ext2fs.h: part of the library's ABI."""

    _fields_ = (
        ("magic", c_long),
        ("io", c_void_p),
        ("flags", c_int),
        ("device_name", c_char_p),
        ("super", c_void_p),
        ("blocksize", c_uint),
        ("fragsize", c_int),
        ("group_desc_count", c_uint32),
        ("desc_blocks", c_ulong),
        ("group_desc", c_void_p),
        ("inode_blocks_per_group", c_uint),
        ("inode_map", c_void_p),
        ("block_map", c_void_p),
        ("callbacks", c_void_p * 5),
        ("badblocks", c_void_p),
        ("dblist", c_void_p),
        ("stride", c_uint32),
        ("orig_super", c_void_p),
        ("image_header", c_void_p),
        ("umask", c_uint32),
        ("now", c_long),
        ("cluster_ratio_bits", c_int),
        ("default_bitmap_type", c_uint16),
    )


@cache
def _library() -> ctypes.CDLL:
    """Raises Failure where there is none."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise Failure(f"{LIBRARY} cannot be loaded ({in_words(error)}); install e2fsprogs") from error
    for gives, name, *words in (
        (c_long, "ext2fs_open", c_char_p, c_int, c_int, c_uint, c_void_p, POINTER(POINTER(_FileSystem))),
        (c_long, "ext2fs_read_block_bitmap", c_void_p),
        (c_long, "ext2fs_close", c_void_p),
        (c_long, "ext2fs_find_first_zero_generic_bmap", c_void_p, c_uint64, c_uint64, POINTER(c_uint64)),
        (c_long, "ext2fs_find_first_set_generic_bmap", c_void_p, c_uint64, c_uint64, POINTER(c_uint64)),
        (c_uint64, "ext2fs_get_generic_bmap_start", c_void_p),
        (c_uint64, "ext2fs_get_generic_bmap_end", c_void_p),
        (c_uint64, "ext2fs_block_bitmap_loc", c_void_p, c_uint32),
        (None, "ext2fs_free", c_void_p),
    ):
        function = getattr(library, name)
        function.argtypes = words
        function.restype = gives
    library.initialize_ext2_error_table()
    return library


class BlockBitmap:
    """The bitmap of an ext4 in a file or on a device. All raise Failure with the library's own words."""

    flags = FLAG_64BITS | FLAG_SOFTSUPP_FEATURES
    """How it is opened."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.library = _library()
        self.system = POINTER(_FileSystem)()
        manager = c_void_p.in_dll(self.library, "unix_io_manager")
        self.call("ext2fs_open", place.encode(), self.flags, 0, 0, manager, byref(self.system))
        system = self.system.contents
        if system.magic != FILSYS_MAGIC:
            raise Failure(f"{place}: {LIBRARY} is of another version than fsage knows (magic {system.magic})")
        system.default_bitmap_type = BMAP64_RBTREE
        self.block_bytes = int(system.blocksize)
        self.groups = int(system.group_desc_count)
        try:
            place_of = self.library.ext2fs_block_bitmap_loc
            lost = sum(not place_of(self.system, group) for group in range(self.groups))
            if lost:
                # The library takes all of such a group for free.
                raise Failure(
                    f"{place}: damaged: {lost} of {self.groups} block groups have their block bitmap at block 0, so "
                    "what is free there is not known; `e2fsck -f -n` on the unmounted file system says what is wrong"
                )
            self.call("ext2fs_read_block_bitmap", self.system)
        except Failure:
            self.leave()
            raise

    def free(self) -> Iterator[tuple[int, int]]:
        """Free extents: where they begin and end, in bytes."""
        library = self.library
        bitmap = self.system.contents.block_map
        size = self.block_bytes
        bits = self.system.contents.cluster_ratio_bits  # bigalloc: the map has bounds in clusters, all else in blocks
        last = (library.ext2fs_get_generic_bmap_end(bitmap) + 1 << bits) - 1
        zero = library.ext2fs_find_first_zero_generic_bmap
        find_first_set = library.ext2fs_find_first_set_generic_bmap
        at = library.ext2fs_get_generic_bmap_start(bitmap) << bits
        found = c_uint64()
        reached = byref(found)
        while at <= last and not zero(bitmap, at, last, reached):
            start = found.value
            at = last + 1 if find_first_set(bitmap, start, last, reached) else found.value
            yield start * size, at * size

    def leave(self) -> None:
        """Close without writing."""
        if self.system:
            system = self.system
            self.system = POINTER(_FileSystem)()
            self.library.ext2fs_free(system)

    def call(self, name: str, *words: object) -> None:
        """Call a function of the library. Raises Failure with its words."""
        code = getattr(self.library, name)(*words)
        if code:
            message = ctypes.CDLL(ERRORS).error_message
            message.argtypes = [c_long]
            message.restype = c_char_p
            raise Failure(f"{self.place}: {name}: {message(code).decode(errors='replace')}")


LARGE_BYTES = 1 << 40
OF_LIBRARY = "libext2fs (block bitmaps)"
AT_ONCE = "FS_IOC_GETFSMAP, what the allocator can give at once"
SOURCE = f"{AT_ONCE} (it is in use, and dumpe2fs cannot read it)"
OF_USER = f"{AT_ONCE} (this user cannot read the device)"
CHANGED = "checksum does not match"


def of_mount(device: str, mount: Path, counting: Counting) -> Store:
    """The store of a mounted ext4. Raises Failure, OSError.

    dumpe2fs reads the bitmaps through the block device's page cache, where the kernel of a mounted ext4 changes them.
    After a sync it lists what statfs(2) counts. While files are made or deleted, a bitmap may not fit its checksum, and
    dumpe2fs fails. Then FS_IOC_GETFSMAP is read, the allocator's own list. It comes second because it leaves out two
    things. One is space that is reserved for small files, up to 2 MiB a CPU, until the next mount. The other is what
    was deleted since the last commit of the journal. `mb_groups` is never read: in several ldiskfs series that makes
    the target read-only.

    dumpe2fs looks at every bit: 113 TiB take it more than a minute. A large ext4 is read by libext2fs, the library that
    mkfs.ext4 and dumpe2fs are made of. It keeps a bitmap as a tree of extents: 113 TiB in 5 million extents take 0.3
    GB, and all bits would take 3.8 GB.
    """
    why = fiemap.why_closed(device)
    if why:
        return _of_user(device, mount, why, counting)
    with open(device, "rb") as disk:
        read = of_library if disk.seek(0, os.SEEK_END) > LARGE_BYTES else of_device
    try:
        return read(device, counting)
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
    if image and not fiemap.why_closed(image):
        return of_kernel(image, mount, counting)
    try:
        device_bytes = mapped_bytes(mount)
        block_bytes = os.statvfs(mount).f_frsize
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


def of_command(argv: list[str], command: str, counting: Counting) -> Store:
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
