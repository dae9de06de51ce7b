"""Free extents of which a text tells the number by size and not the places: how they are counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fsage.model.evidence.store import OF_FREE_SPACE, NotThisText, Store, check_device, without
from fsage.model.typed import Json


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
    number = dict[int, int]()
    size = dict[int, int]()
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
        number[power] = number.get(power, 0) + row.extents
        size[power] = size.get(power, 0) + row.blocks * block_bytes
        mean_blocks = max(mean_blocks, -(-row.blocks // row.extents))
    extents = sum(number.values())
    free_bytes = sum(size.values())
    powers = range(min(number), max(number) + 1) if number else ()
    values: Json = {
        "block_bytes": block_bytes,
        "free_bytes": free_bytes,
        "free_extents": {
            "count": extents,
            "largest_bytes": (largest_blocks or mean_blocks) * block_bytes,
            "mean_bytes": free_bytes / extents if extents else None,
            "histogram": [
                {"from_bytes": 1 << power, "extents": number.get(power, 0), "bytes": size.get(power, 0)}
                for power in powers
            ],
        },
    }
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
        used_bytes = device_bytes - free_bytes
        values |= {
            "device_bytes": device_bytes,
            "used_bytes": used_bytes,
            "fullness_percent": 100 * used_bytes / device_bytes,
        }
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
        left = left - more
        room_left = room_left - own_room
        classes.append(Class(low, high, extents, low * extents + more))
    return classes
