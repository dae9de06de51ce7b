"""The block bitmap of an ext4, read and written by libext2fs, the library that mkfs.ext4 and dumpe2fs are made of.

A bitmap is kept as a tree of extents: 113 TiB in 5 million extents take 0.3 GB, and all bits would take 3.8 GB.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from ctypes import POINTER, byref, c_char_p, c_int, c_long, c_uint, c_uint16, c_uint32, c_uint64, c_ulong, c_void_p
from functools import cache

from fsage.model.errors import Failure

LIBRARY, ERRORS = "libext2fs.so.2", "libcom_err.so.2"
FILSYS_MAGIC = 2133571329  # EXT2_ET_MAGIC_EXT2FS_FILSYS, lib/ext2fs/ext2_err.et.in
FLAG_RW, FLAG_SOFTSUPP_FEATURES, FLAG_64BITS = 0x1, 0x8000, 0x20000  # lib/ext2fs/ext2fs.h
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
        raise Failure(f"{LIBRARY} cannot be loaded ({error}); install e2fsprogs") from error
    for name, words in {
        "ext2fs_open": [c_char_p, c_int, c_int, c_uint, c_void_p, POINTER(POINTER(_FileSystem))],
        "ext2fs_read_block_bitmap": [c_void_p],
        "ext2fs_close": [c_void_p],
        "ext2fs_find_first_zero_generic_bmap": [c_void_p, c_uint64, c_uint64, POINTER(c_uint64)],
        "ext2fs_find_first_set_generic_bmap": [c_void_p, c_uint64, c_uint64, POINTER(c_uint64)],
        "ext2fs_get_generic_bmap_start": [c_void_p],
        "ext2fs_get_generic_bmap_end": [c_void_p],
        "ext2fs_block_bitmap_loc": [c_void_p, c_uint32],
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = words, c_long
    for name in ("ext2fs_get_generic_bmap_start", "ext2fs_get_generic_bmap_end", "ext2fs_block_bitmap_loc"):
        getattr(library, name).restype = c_uint64
    library.ext2fs_block_alloc_stats_range.argtypes = [c_void_p, c_uint64, c_uint64, c_int]
    library.ext2fs_block_alloc_stats_range.restype = None
    library.ext2fs_free.argtypes, library.ext2fs_free.restype = [c_void_p], None
    library.initialize_ext2_error_table()
    return library


class BlockBitmap:
    """The bitmap of an ext4 in a file or on a device; where it is written to, that must be mounted nowhere.

    Nothing is written before `close`. All raise Failure with the library's own words.
    """

    def __init__(self, place: str, write: bool = False) -> None:
        self.place, self._library = place, _library()
        self._open = POINTER(_FileSystem)()
        manager = c_void_p.in_dll(self._library, "unix_io_manager")
        flags = FLAG_64BITS | (FLAG_RW if write else FLAG_SOFTSUPP_FEATURES)
        self._try("ext2fs_open", place.encode(), flags, 0, 0, manager, byref(self._open))
        system = self._open.contents
        if system.magic != FILSYS_MAGIC:
            raise Failure(f"{place}: {LIBRARY} is of another version than fsage knows (magic {system.magic})")
        system.default_bitmap_type = BMAP64_RBTREE
        self.block_bytes, self.groups = int(system.blocksize), int(system.group_desc_count)
        try:
            place_of = self._library.ext2fs_block_bitmap_loc
            if lost := sum(not place_of(self._open, group) for group in range(self.groups)):
                # The library takes all of such a group for free.
                raise Failure(
                    f"{place}: damaged: {lost} of {self.groups} block groups have their block bitmap at block 0, so "
                    "what is free there is not known; `e2fsck -f -n` on the unmounted file system says what is wrong"
                )
            self._try("ext2fs_read_block_bitmap", self._open)
        except Failure:
            self.leave()
            raise

    def free(self) -> Iterator[tuple[int, int]]:
        """Free extents: where they begin and end, in bytes."""
        library, bitmap, size = self._library, self._open.contents.block_map, self.block_bytes
        last = library.ext2fs_get_generic_bmap_end(bitmap)
        zero, one = library.ext2fs_find_first_zero_generic_bmap, library.ext2fs_find_first_set_generic_bmap
        at, found = library.ext2fs_get_generic_bmap_start(bitmap), c_uint64()
        reached = byref(found)
        while at <= last and not zero(bitmap, at, last, reached):
            start = found.value
            at = last + 1 if one(bitmap, start, last, reached) else found.value
            yield start * size, at * size

    def take(self, extents: Iterable[tuple[int, int]]) -> None:
        """Mark free extents as in use, in bytes; none may be in use already."""
        system, size, take = self._open, self.block_bytes, self._library.ext2fs_block_alloc_stats_range
        for start, end in extents:
            take(system, start // size, (end - start) // size, 1)

    def close(self) -> None:
        """Write what was taken, and close."""
        system, self._open = self._open, POINTER(_FileSystem)()
        self._try("ext2fs_close", system)

    def leave(self) -> None:
        """Close without writing."""
        if self._open:
            system, self._open = self._open, POINTER(_FileSystem)()
            self._library.ext2fs_free(system)

    def _try(self, name: str, *words: object) -> None:
        if code := getattr(self._library, name)(*words):
            message = ctypes.CDLL(ERRORS).error_message
            message.argtypes, message.restype = [c_long], c_char_p
            raise Failure(f"{self.place}: {name}: {message(code).decode(errors='replace')}")
