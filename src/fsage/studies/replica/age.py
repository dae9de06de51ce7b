"""What the age of file systems costs here: their layouts read, and a study of replicas made of the shipped one."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import yaml

from fsage.api.command import Where
from fsage.api.evidence import DRAWS, Free, save_free, write_free
from fsage.api.model import MIB, Claim, Json, counted, in_words
from fsage.api.study import DeclaredTarget, Plan, enough_units
from fsage.layouts.extents import Head

from . import whole
from .free import deleted, filled
from .recipe import COPIED, EMPTY, JOINED
from .whole import LAYOUTS, Base

SHIPPED = "replica"
MOST_LAYOUTS = 100
MOST_UNITS = 20
PLACES_OF_SAMPLES = 2
FILE_BYTES = 192 * MIB
"""So much room each of several files has at least: what the modelled disk moves in a second."""
SEED = 67005
FULL_PERCENT = 91.0
ROOM_BYTES = 512 << 20
"""Percent full from which on what can still be had is tried; where less than that is free, nothing else is.

df says 96% then of an ext4, which keeps 5% for root.
"""
TRIED = {"workload": "limits", "iterations": 1}


class WhatIf(NamedTuple):
    """Variants of each layout: `at` so many percent full; so many percent of what is in use `deleted`.

    `defragmented`: what that would bring at best, all that is free in one run; measured anyway, so it is only said.
    """

    at: tuple[float, ...] = ()
    deleted: tuple[float, ...] = ()
    defragmented: bool = False


NOTHING_ELSE = WhatIf()


def prepare(
    sources: Sequence[str],
    studies: Path,
    folder: Path,
    samples: int | None,
    claim: Claim | None,
    what_if: WhatIf = NOTHING_ELSE,
    base: Base | None = None,
) -> tuple[str, list[str]]:
    """Write a study of the replicas of `sources` into a folder of its name in `folder`; the name, and what was read.

    It is named after what was read: the same layouts are the same study, which is then resumed. `samples`: of a layout
    larger than the target `base`; None: all are laid whole, on a target made like the original, where one can be made.
    Of a text of sizes alone, draws (fsage.api.evidence). Samples and draws are five unasked. Raises ValueError.
    """
    layouts = len(sources) * (1 + len(what_if.at) + len(what_if.deleted))
    if layouts > MOST_LAYOUTS:
        raise ValueError(f"{layouts} layouts; allowed are {MOST_LAYOUTS} at most")
    for source in sources:
        if source != "-":
            os.stat(source)  # what is not there is named before what the target lacks
    if base and (why := whole.why_none(base.target)):
        raise ValueError(f"{why}, such as target local (`--target local`, as root); nothing was touched")
    block = yaml.safe_load((studies / f"{SHIPPED}.yaml").read_text(encoding="utf-8"))
    there = next(above for above in (folder, *folder.parents) if above.is_dir())  # what is refused makes no folder
    wanted = samples
    digest = hashlib.sha256(f"{samples or 1}".encode())
    names = list[str]()
    sentences = list[str]()
    heads = list[Head]()
    rooms = list[Room]()
    most_extents = 0
    tried = False
    least_free = ROOM_BYTES
    with tempfile.TemporaryDirectory(prefix=".", dir=there) as place:
        for source in sources:
            refuse_target(source, claim)
            name = _name_of(source, names)
            before = _free_blocks(source)
            layout = Path(place) / f"{name}.gz"
            free_space = save_free(source, layout, (SEED, 1))
            why = free_space.head.why_no_copy()
            if why:
                shows = f"`./run fsage evidence {shlex.quote(source)}` shows how its free space lies"
                raise ValueError(f"{source}: its age cannot be measured: {why}; {shows}")
            if free_space.head.drawn:
                if what_if.at or what_if.deleted:
                    raise ValueError(
                        f"{source}: --at and --delete need its free extents, of which it has the sizes only"
                    )
                samples = samples or DRAWS
            digest.update(f"{name} {hashlib.sha256(layout.read_bytes()).hexdigest()}".encode())
            names.append(name)
            heads.append(free_space.head)
            rooms.append(Room.of(free_space))
            most_extents = max(most_extents, len(free_space.places))
            percent = free_space.store["fullness_percent"]
            least_free = min(least_free, free_space.store["free_bytes"])
            sentences.append(
                f"{name}: {'how full is not told' if percent is None else f'{percent:.1f}% full'}, "
                f"{len(free_space.places):,} free extents, by {free_space.head.source}"
            )
            sentences += free_space.store["warnings"]
            if percent is not None and percent >= FULL_PERCENT:
                tried = True
                sentences.append(f"{name}: so full that what can still be had is tried too")
            if free_space.head.drawn:
                sentences.append(f"{name}: what it does not say is drawn {samples} times, each a structure of its own")
            if before != _free_blocks(source):
                sentences.append(f"{name}: warning: it changed while it was read, so its layout is not of one moment")
            for more, changed in _if(free_space, name, names, what_if):
                layout = Path(place) / f"{more}.gz"
                write_free(changed, layout)
                digest.update(f"{more} {hashlib.sha256(layout.read_bytes()).hexdigest()}".encode())
                names.append(more)
                rooms.append(Room.of(changed))
        own = _own_target(heads, most_extents, base, wanted, sentences) if base else None
        if own:
            digest.update(own.name.encode())
        if what_if.defragmented:
            digest.update(b"defragmented")
        sampled = base is not None and own is None and bool(whole.larger(heads, base))
        size_bytes = whole.size_of(base) if base and not own else None
        design = _design(block, names, samples or (DRAWS if sampled else 1), rooms, size_bytes)
        digest.update(f"{design}".encode())
        study = f"age_{digest.hexdigest()[:12]}"
        block = _study_of(block, study, names, design, what_if.defragmented)
        if tried:
            block |= {"additional_cells": [TRIED]}
        if tried and least_free < ROOM_BYTES:
            block |= {"cells": TRIED, "additional_cells": [], "headline": []}
        (folder / study / LAYOUTS).mkdir(parents=True, exist_ok=True)
        for name in names:
            os.replace(Path(place) / f"{name}.gz", folder / study / LAYOUTS / f"{name}.gz")
        if own and base:
            sentences.append(whole.write(own, base, folder / study))
        written = Path(place) / "study.yaml"
        written.write_text(yaml.safe_dump(block, sort_keys=False), encoding="utf-8")
        os.replace(written, folder / study / f"{study}.yaml")
    return study, sentences


def _own_target(
    heads: Sequence[Head], most_extents: int, base: Base, samples: int | None, sentences: list[str]
) -> DeclaredTarget | None:
    """The target that is made like the original, on which layouts are laid whole; None where `base` serves instead.

    A file system chooses blocks in its own way. So one that `base` has not is refused where no target can be made like
    it: ValueError. A larger one is then sampled, and one only made otherwise is laid on `base`, with a warning.
    """
    try:
        if samples:
            raise ValueError("--samples are taken on the target at hand")
        target = whole.like(heads, most_extents, base)
    except ValueError as why:
        others = [head for head in heads if not whole.is_of(head, base.target)]
        if others:
            raise ValueError(f"{whole.unlike(others[0], base)}: {why}; nothing was touched") from None
        if samples:
            return None
        if whole.larger(heads, base):
            sentences.append(f"warning: a layout larger than the target is not laid whole, but sampled: {why}")
        elif base.target.of_kind.own_stores:
            sentences.append(
                f"warning: target {base.target.name} is not made as the original is, so a new file may have more or "
                f"fewer extents there than on the original: {why}"
            )
        return None
    sentences.append(whole.sentence(target, heads))
    return target


def planned(study: str, folder: Path, where: Where) -> Plan:
    """The plan of a study that was prepared. Raises StudyError."""
    own = whole.inventory_of(folder / study, where.inventory)
    return replace(where, studies=folder / study, inventories=own.parent, target_name=own.name).plan(study)


def measured_again(plan: Plan) -> list[str]:
    """Set the records of cells that failed aside, for who gives the command again wants them measured; what is said."""
    moved = Where.set_aside(plan, {"failed"})
    if moved:
        return [f"{counted(moved, 'cell')} failed before, to be measured again"]
    return []


def amount_line(plan: Plan) -> list[str]:
    """What is said of a claimed target where less than its amount is measured, for the layouts leave no more room.

    Raises StudyError where they leave too little.
    """
    if plan.claim is None:
        return []
    claim = Where.amount_of(plan)
    if claim["amount_mib"] == plan.claim["amount_mib"]:
        return []
    return [f"each task measures {claim['amount_mib']} MiB, {claim['amount_source']}"]


def _if(free_space: Free, name: str, taken: Sequence[str], what_if: WhatIf) -> Iterator[tuple[str, Free]]:
    """Variants of a layout, by name: scratch_at_80, scratch_deleted_10. Raises ValueError."""
    changes: list[tuple[str, str, Callable[[Free, float, int], Free], Sequence[float]]] = [
        ("at", "--at", filled, what_if.at),
        ("deleted", "--delete", deleted, what_if.deleted),
    ]
    for word, option, change, percents in changes:
        for percent in percents:
            variant = _not_taken(f"{name}_{word}_{percent:g}".replace(".", "_"), taken)
            try:
                yield variant, change(free_space, percent, SEED)
            except ValueError as error:
                raise ValueError(f"{name}: {option} {percent:g}: {error}; nothing was touched") from None


def refuse_target(source: str, claim: Claim | None) -> None:
    """Raise ValueError where `source`, if it is there, is the target itself, which is to be emptied."""
    for store in claim["stores"] if claim else ():
        own = [Path(str(place)) for place in (store.get("mount"), store.get("image")) if place]
        try:
            source_stat = os.stat(source)
            same = [source_stat, *map(os.stat, _behind(source_stat.st_rdev))]
        except FileNotFoundError:
            return
        except OSError as error:
            raise ValueError(
                f"whether {source} is on the target is not known: {in_words(error)}: nothing was touched"
            ) from None
        for place in own:
            is_same = place.exists() and any(os.path.samestat(alias, place.stat()) for alias in same)
            if is_same or (place.is_mount() and place.stat().st_dev in (source_stat.st_dev, source_stat.st_rdev)):
                raise ValueError(f"{source} is on the target itself, which is emptied to measure: nothing was touched")


def _behind(device: int) -> list[Path]:
    """The image of a loop device, by its number."""
    backing = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/loop/backing_file")
    if backing.exists():
        return [Path(backing.read_text(encoding="utf-8").strip())]
    return []


def _name_of(source: str, taken: Sequence[str]) -> str:
    """What a source is called: /mnt/scratch is scratch, ost0012.txt.gz is ost0012."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", Path(source).name.split(".")[0])[:40].strip("_")
    return _not_taken("layout" if name in ("", EMPTY) else name, taken)


def _not_taken(name: str, taken: Sequence[str]) -> str:
    """A name, with a number where it is taken."""
    numbered = name
    number = 1
    while numbered in taken:
        number += 1
        numbered = f"{name}_{number}"
    return numbered


def _free_blocks(source: str) -> int | None:
    if os.path.isdir(source):
        return os.statvfs(source).f_bfree
    return None


class Room(NamedTuple):
    """How many bytes of how large a device are free."""

    free_bytes: int
    device_bytes: int

    @classmethod
    def of(cls, free_space: Free) -> Room:
        """The room of a layout."""
        return cls(int((free_space.places[:, 1] - free_space.places[:, 0]).sum()), free_space.head.device_bytes)


class Design(NamedTuple):
    """How often what is measured, in which layouts and where: the keys of a study's `states` and `cells`."""

    structures: int
    places: int
    iterations: int


def _design(
    shipped: object, names: Sequence[str], samples: int, rooms: Sequence[Room], size_bytes: float | None
) -> Design:
    """The design of a layout that is copied as it is: places of many files; of samples: two places in each.

    There are so many that a difference can be told from chance among all pairs of states. Where not so many files
    have room, one is written so often at one place. `size_bytes`: of the target; None: all of a layout is laid.
    """
    if not isinstance(shipped, dict) or not all(isinstance(shipped.get(key), dict) for key in ("states", "cells")):
        raise ValueError(f"config/{SHIPPED}.yaml is {shipped!r:.60}, not a study of layouts")
    fullness = len(names) == 1 and shipped["states"].get("empty", True)
    family = (len(names) + fullness) * len(shipped["cells"]["phases"])
    enough = enough_units(family, MOST_UNITS)
    files = PLACES_OF_SAMPLES if samples > 1 else enough
    laid = [min(1.0, (size_bytes or room.device_bytes) / room.device_bytes) for room in rooms]
    least_bytes = min(room.free_bytes * share for room, share in zip(rooms, laid, strict=True))
    return Design(samples, files if files * FILE_BYTES <= least_bytes else 1, files)


def _study_of(shipped: Json, study: str, names: Sequence[str], design: Design, defragmented: bool) -> dict[str, object]:
    """The shipped study with these layouts instead of its own."""
    lines = []
    for name in names:
        copied = f"{name}.{COPIED}"
        joined = f"{name}.{JOINED}"
        lines.append({"label": f"age of {name}", "state": copied, "against": joined})
        if defragmented:
            lines.append({"label": f"{name} defragmented, at best", "state": joined, "against": copied})
        if len(names) == 1 and shipped["states"].get("empty", True):
            lines.append({"label": "fullness", "state": joined, "against": EMPTY})
    others = " and others" if len(names) > 5 else ""
    return {
        **shipped,
        "name": study,
        "title": f"The age of {', '.join(names[:5])}{others}",
        "states": {
            **shipped["states"],
            "layouts": [f"{name}.gz" for name in names],
            "structures": design.structures,
        },
        "cells": {**shipped["cells"], "places": design.places, "iterations": design.iterations},
        "headline": lines,
    }
