"""Free extents of which a text tells the number by size and not the places: how they are counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from fsage.base import Json
from fsage.layouts.freespace import ALIGNED_POWERS, Buckets, free_extents, usage
from fsage.layouts.store import (
    OF_FREE_SPACE,
    NotThisText,
    Store,
    check_device,
    number_of,
    runs_of,
    shown,
    without,
)
from fsage.layouts.stream import check_whole


class Class(NamedTuple):
    """Free extents of `low` to `high` blocks: how many, and of how many blocks in all."""

    low: int
    high: int
    extents: int
    blocks: int


def of_classes(
    filesystem: str | None,
    source: str,
    classes: Iterable[Class],
    block_bytes: int,
    device_blocks: int | None = None,
    largest_blocks: int | None = None,
) -> Store:
    """The store with free extents of these sizes. Raises NotThisText.

    Where the largest is not told, it is the mean of the largest class. Classes are made powers of two by their means.
    """
    numbers = Counter[int]()
    sizes = Counter[int]()
    mean_blocks = 0
    for row in classes:
        if not row.extents:
            continue
        if not max(1, row.low) * row.extents <= row.blocks <= row.high * row.extents:
            raise NotThisText(
                f"its row of {row.low} to {row.high} blocks has {row.extents} extents of {row.blocks} blocks in all, "
                "which cannot be"
            )
        power = (row.blocks * block_bytes // row.extents).bit_length() - 1
        numbers[power] += row.extents
        sizes[power] += row.blocks * block_bytes
        mean_blocks = max(mean_blocks, -(-row.blocks // row.extents))
    free_bytes = sum(sizes.values())
    largest_bytes = (largest_blocks or mean_blocks) * block_bytes
    found = free_extents(numbers, sizes, largest_bytes)
    values: Json = {"block_bytes": block_bytes, "free_bytes": free_bytes, "free_extents": found}
    says = f"{source.split(';')[0]} says"
    absent = {
        **without(OF_FREE_SPACE, f"{says} how many free extents there are by size, and not where they lie"),
        "device_bytes": f"{says} nothing of how large the device is",
        "groups": f"{says} nothing of groups",
        "files": f"{says} nothing of files",
    }
    if device_blocks is not None:
        check_device(device_blocks, block_bytes)
        device_bytes = device_blocks * block_bytes
        if free_bytes > device_bytes:
            raise NotThisText(f"it has {free_bytes // block_bytes} free blocks of {device_blocks}")
        values.update(usage(device_bytes, free_bytes), device_bytes=device_bytes)
    else:
        absent |= without(("used_bytes", "fullness_percent"), absent["device_bytes"])
    return Store(filesystem, {"free": source}, values, absent)


def spread(rows: Iterable[tuple[int, int, int]], blocks: int) -> list[Class]:
    """Classes (low, high, extents) of which only all blocks together are known: each as far above its `low` as others.

    Raises NotThisText where so many extents cannot have so many blocks.
    """
    rows = list(rows)
    least = sum(low * extents for low, _, extents in rows)
    room = sum((high - low) * extents for low, high, extents in rows)
    if not least <= blocks <= least + room:
        raise NotThisText(f"its rows have {least} to {least + room} blocks, and its head counts {blocks}")
    classes = list[Class]()
    left = blocks - least
    room_left = room
    for low, high, extents in rows:
        own_room = (high - low) * extents
        more = left * own_room // room_left if room_left else 0
        left -= more
        room_left -= own_room
        classes.append(Class(low, high, extents, low * extents + more))
    return classes


# Of a group its number, free blocks, extents, the first free block in it, buddies by power of two, and what follows.
ROW = re.compile(rb"#(\d+) *: *(\d+) +(\d+) +(\d+) +\[ *((?:\d+ +)+)\](.*)")
LDISKFS_ROW = re.compile(rb"#(\d+) *: *(\d+) +\d+ +(\d+) +(\d+) +\d+ +\[ *((?:\d+ +)+)\](.*)")
LDISKFS_HEAD = b"gfree"
CORRUPT = b"corrupt"  # `Block bitmap corrupted!`
BLOCK_BYTES = 4096
GROUP_BLOCKS = 32768
LEAST_LARGEST = 11  # the largest buddy with blocks of 1 KiB, as a power of two of blocks


def of_mb_groups_text(lines: Iterable[bytes]) -> Store:
    """The store that /proc/fs/ext4/DEVICE/mb_groups tells of. Raises NotThisText.

    It does not say how large a block is. A run has at most two buddies of a size, but for the largest one, of twice as
    many blocks as a block has bytes. So where a run has more, that tells the block; else it is taken for 4 KiB.

    It has of each block group the free extents, and their blocks as buddies (mballoc.c). ldiskfs has two columns more.
    `gfree` is what is free by the group's descriptor, of which preallocations of open files have taken a part; `pa` is
    their number. The buddies (`bfree`) are what a new file can have.
    """
    free = list[int]()
    sizes = Counter[int]()
    buddies = Counter[int]()
    damaged = list[int]()
    highest = largest = 0
    pattern = ROW
    for line in map(bytes.lstrip, lines):
        check_whole(line)
        if LDISKFS_HEAD in line:
            pattern = LDISKFS_ROW
        if not line.startswith(b"#") or line.startswith(b"#group:"):
            continue
        row = pattern.match(line)
        number = len(free)
        if not row or number_of(row[1]) != number:
            raise NotThisText(
                f"mb_groups continues with {shown(line)!r} where group {number} should be: it is not whole"
            )
        own = {power: number_of(count) for power, count in enumerate(row[5].split()) if count != b"0"}
        blocks = number_of(row[2])
        highest = max(highest, blocks, number_of(row[4]))
        extents = number_of(row[3])
        is_sound = blocks == sum(count << power for power, count in own.items()) and blocks <= GROUP_BLOCKS
        if row[6].strip() and CORRUPT not in row[6]:
            raise NotThisText(f"mb_groups has something behind its row {shown(line)!r}: give its own text")
        if row[6].strip() or not is_sound or not bool(blocks) <= extents <= sum(own.values()):
            damaged.append(number)
            free.append(0)
            continue
        free.append(blocks)
        if blocks and own[max(own)] > 2 * extents and max(own) >= LEAST_LARGEST:
            largest = max(largest, *own)
        buddies.update(own)
        sizes.update(_sizes(own, extents))
    if not free:
        raise NotThisText("mb_groups lists no group: it was cut short")
    classes = [Class(size, size, count, size * count) for size, count in sorted(sizes.items())]
    block_bytes = 1 << largest - 1 if largest else BLOCK_BYTES
    group_blocks = 8 * block_bytes
    taken = "" if largest else "blocks are taken for 4 KiB; "
    source = (
        f"mb_groups; {taken}sizes of extents are reckoned from buddies; "
        f"it lists {len(free)} groups and has no mark of its end"
    )
    if len(free) > 1 and highest <= group_blocks // 2:
        source += (
            f"; no group has a block beyond {highest}, as with blocks below 4 KiB: then all sizes are smaller, and it "
            "is less full; `dumpe2fs -h` tells"
        )
    store = of_classes("ext4", source, classes, block_bytes, len(free) * group_blocks)
    free_bytes = store.found["free_bytes"]
    group_bytes = group_blocks * block_bytes
    groups = Buckets("block group")
    groups.add_all([group_bytes] * len(free), [blocks * block_bytes for blocks in free])
    shares: Json = {}
    block_power = block_bytes.bit_length() - 1
    for chunk in ALIGNED_POWERS[:-1]:  # no buddy is as large as the last
        aligned = sum(count << power + block_power for power, count in buddies.items() if power + block_power >= chunk)
        shares[str(1 << chunk)] = aligned / free_bytes if free_bytes else None
    store.found |= {"groups": groups.summary(), "aligned_free_share": shares}
    if damaged:
        store.unknown_bytes = len(damaged) * group_bytes
        store.warnings = [
            f"Damaged: the kernel has a bitmap that cannot be of {len(damaged)} of {len(free)} block groups "
            f"({runs_of(damaged)}), and takes no block of them. What is free there is not known; `e2fsck -f -n DEVICE` "
            "on the unmounted file system says what is wrong."
        ]
    return store


def _sizes(buddies: dict[int, int], extents: int) -> list[int]:
    """The blocks of so many extents, as their buddies by power of two allow: the largest have begun first.

    A buddy is 2^n blocks at a multiple of 2^n. A free extent is one or more of them side by side; which ones is
    unknown. An extent that lies anywhere has about one buddy of each size below its largest. What there are more begin
    others, so sizes are reckoned; their number and sum are not.
    """
    sizes: list[int] = []
    smaller = sum(buddies.values())
    for power in sorted(buddies, reverse=True):
        count = buddies[power]
        lacking = extents - len(sizes)
        smaller -= count
        begun = min(count, lacking, max(0, count - len(sizes), lacking - smaller))
        others = len(sizes) or begun
        sizes += [1 << power] * begun
        for place in range(count - begun):
            sizes[place % others] += 1 << power
    return sizes
