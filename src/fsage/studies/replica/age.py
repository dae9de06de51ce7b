"""What the age of file systems costs here: their layouts read, and a study of replicas made of the shipped one."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Container, Sequence
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
from .free import deleted, filled, size_of
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
UNTOUCHED = "; nothing was touched"


class WhatIf(NamedTuple):
    """Variants of each layout: `at` so many percent full; so many percent of what is in use `deleted`.

    `defragmented`: what that would bring at best, all that is free in one run; measured anyway, so it is only said.
    """

    at: tuple[float, ...] = ()
    deleted: tuple[float, ...] = ()
    defragmented: bool = False


class Layout(NamedTuple):
    """A layout in a file of its own, of a source or made of one; `is_full`: what can still be had is tried in it."""

    head: Head
    free_bytes: int
    extents: int
    is_full: bool = False

    @classmethod
    def of(cls, free_space: Free, is_full: bool = False) -> Layout:
        """The layout of free space that was read or changed."""
        return cls(free_space.head, size_of(free_space.places), len(free_space.places), is_full)


Layouts = dict[str, Layout]
"""By their names."""


def prepare(
    sources: Sequence[str], studies: Path, folder: Path, samples: int | None, what_if: WhatIf, base: Base
) -> tuple[str, list[str]]:
    """Write a study of the replicas of `sources` into a folder of its name in `folder`; the name, and what was read.

    It is named after what it measures: the same layouts are the same study, which is then resumed. `samples`: of a
    layout larger than the target `base`; None: all are laid whole, on a target made like the original, where one can be
    made. Of a text of sizes alone, draws (fsage.api.evidence). Samples and draws are five unasked. Raises ValueError.
    """
    count = len(sources) * (1 + len(what_if.at) + len(what_if.deleted))
    if count > MOST_LAYOUTS:
        raise ValueError(f"{count} layouts; allowed are {MOST_LAYOUTS} at most")
    for source in sources:
        if source != "-":
            os.stat(source)  # what is not there is named before what the target lacks
    why = whole.why_none(base.target)
    if why:
        raise ValueError(f"{why}, such as target local (`--target local`, as root); nothing was touched")
    for source in sources:
        refuse_target(source, base.claim)
    shipped = yaml.safe_load((studies / f"{SHIPPED}.yaml").read_text(encoding="utf-8"))
    there = next(above for above in (folder, *folder.parents) if above.is_dir())  # what is refused makes no folder
    layouts: Layouts = {}
    sentences: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".", dir=there) as place:
        for source in sources:
            sentences += _read(source, what_if, samples or DRAWS, Path(place), layouts)
        own, said = _own_target(layouts, base, samples)
        sentences += said
        block = _study_of(shipped, layouts, _design(shipped, layouts, samples, base, own), what_if.defragmented)
        files = [Path(place) / f"{name}.gz" for name in layouts]
        digest = hashlib.sha256(f"{block} {own and own.name}".encode())
        for file in files:
            digest.update(file.read_bytes())
        study = f"age_{digest.hexdigest()[:12]}"
        (folder / study / LAYOUTS).mkdir(parents=True, exist_ok=True)
        for file in files:
            os.replace(file, folder / study / LAYOUTS / file.name)
        if own:
            sentences.append(whole.write(own, base, folder / study))
        written = Path(place) / "study.yaml"
        written.write_text(yaml.safe_dump({**block, "name": study}, sort_keys=False), encoding="utf-8")
        os.replace(written, folder / study / f"{study}.yaml")
    return study, sentences


def _read(source: str, what_if: WhatIf, draws: int, folder: Path, layouts: Layouts) -> list[str]:
    """Write the layout of a source, and what is made of it, to files of a folder, and add them to `layouts`.

    Returns what is said of it. Raises ValueError.
    """
    name = _name_of(source, layouts)
    before = _free_blocks(source)
    free_space = save_free(source, folder / f"{name}.gz", (SEED, 1))
    head = free_space.head
    why = head.why_no_copy()
    if why:
        shows = f"`./run fsage evidence {shlex.quote(source)}` shows how its free space lies"
        raise ValueError(f"{source}: its age cannot be measured: {why}; {shows}")
    if head.drawn and (what_if.at or what_if.deleted):
        raise ValueError(f"{source}: --at and --delete need its free extents, of which it has the sizes only")
    percent = free_space.store["fullness_percent"]
    layout = Layout.of(free_space, percent is not None and percent >= FULL_PERCENT)
    layouts[name] = layout
    fullness = "how full is not known" if percent is None else f"{percent:.1f}% full"
    sentences = [f"{name}: {fullness}, {layout.extents:,} free extents, by {head.source}"]
    sentences += free_space.store["warnings"]
    if layout.is_full:
        sentences.append(f"{name}: so full that what can still be had is tried too")
    if head.drawn:
        sentences.append(f"{name}: what it does not say is drawn {draws} times, each a structure of its own")
    if before != _free_blocks(source):
        sentences.append(f"{name}: warning: it changed while it was read, so its layout is not of one moment")
    for word, option, change, percents in (
        ("at", "--at", filled, what_if.at),
        ("deleted", "--delete", deleted, what_if.deleted),
    ):
        for percent in percents:
            variant = _not_taken(f"{name}_{word}_{percent:g}".replace(".", "_"), layouts)
            try:
                changed = change(free_space, percent, SEED)
            except ValueError as error:
                raise ValueError(f"{name}: {option} {percent:g}: {error}; nothing was touched") from None
            write_free(changed, folder / f"{variant}.gz")
            layouts[variant] = Layout.of(changed)
    return sentences


def _own_target(layouts: Layouts, base: Base, samples: int | None) -> tuple[DeclaredTarget | None, list[str]]:
    """The target that is made like the original, on which layouts are laid whole; None where `base` serves instead.

    And what is said of it. A file system chooses blocks in its own way. So one that `base` has not is refused where no
    target can be made like it: ValueError. A larger one is then sampled, and one only made otherwise is laid on `base`,
    with a warning.
    """
    heads = [layout.head for layout in layouts.values()]
    try:
        if samples:
            raise ValueError("--samples are taken on the target at hand")
        target = whole.like(heads, max(layout.extents for layout in layouts.values()), base)
    except ValueError as why:
        reason = str(why).removesuffix(UNTOUCHED)
        others = [head for head in heads if not whole.is_of(head, base.target)]
        if others:
            raise ValueError(f"{whole.unlike(others[0], base)}: {reason}{UNTOUCHED}") from None
        said = []
        if not samples and whole.is_larger(heads, base):
            said = [f"warning: a layout larger than the target is not laid whole, but sampled: {reason}"]
        elif not samples and base.target.of_kind.own_stores:
            said = [
                f"warning: target {base.target.name} is not made as the original is, so a new file may have more or "
                f"fewer extents there than on the original: {reason}"
            ]
        return None, said
    return target, [whole.sentence(target, heads)]


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


def _name_of(source: str, taken: Container[str]) -> str:
    """What a source is called: /mnt/scratch is scratch, ost0012.txt.gz is ost0012."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", Path(source).name.split(".")[0])[:40].strip("_")
    return _not_taken("layout" if name in ("", EMPTY) else name, taken)


def _not_taken(name: str, taken: Container[str]) -> str:
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


class Design(NamedTuple):
    """How often what is measured, in which layouts and where: the keys of a study's `states` and `cells`."""

    structures: int
    places: int
    iterations: int


def _design(shipped: object, layouts: Layouts, samples: int | None, base: Base, own: DeclaredTarget | None) -> Design:
    """The design of a layout that is copied as it is: places of many files; of samples: two places in each.

    There are so many that a difference can be told from chance among all pairs of states. Where not so many files
    have room, one is written so often at one place.
    """
    if not isinstance(shipped, dict) or not all(isinstance(shipped.get(key), dict) for key in ("states", "cells")):
        raise ValueError(f"config/{SHIPPED}.yaml is {shipped!r:.60}, not a study of layouts")
    heads = [layout.head for layout in layouts.values()]
    if samples is None:
        is_sampled = not own and whole.is_larger(heads, base)
        samples = DRAWS if is_sampled or any(head.drawn for head in heads) else 1
    family = (len(layouts) + _has_fullness(shipped, layouts)) * len(shipped["cells"]["phases"])
    files = PLACES_OF_SAMPLES if samples > 1 else enough_units(family, MOST_UNITS)
    size_bytes = None if own else whole.size_of(base)
    rooms = []
    for layout in layouts.values():
        laid = min(1.0, size_bytes / layout.head.device_bytes) if size_bytes else 1.0
        rooms.append(layout.free_bytes * laid)
    return Design(samples, files if files * FILE_BYTES <= min(rooms) else 1, files)


def _has_fullness(shipped: Json, layouts: Layouts) -> bool:
    """Whether the layout is compared with an empty target too: where it is the only one."""
    return len(layouts) == 1 and bool(shipped["states"].get("empty", True))


def _study_of(shipped: Json, layouts: Layouts, design: Design, defragmented: bool) -> Json:
    """The shipped study with these layouts instead of its own."""
    lines = []
    for name in layouts:
        copied = f"{name}.{COPIED}"
        joined = f"{name}.{JOINED}"
        lines.append({"label": f"age of {name}", "state": copied, "against": joined})
        if defragmented:
            lines.append({"label": f"{name} defragmented, at best", "state": joined, "against": copied})
        if _has_fullness(shipped, layouts):
            lines.append({"label": "fullness", "state": joined, "against": EMPTY})
    files = [f"{name}.gz" for name in layouts]
    others = " and others" if len(layouts) > 5 else ""
    study = {
        **shipped,
        "title": f"The age of {', '.join(list(layouts)[:5])}{others}",
        "states": {**shipped["states"], "layouts": files, "structures": design.structures},
        "cells": {**shipped["cells"], "places": design.places, "iterations": design.iterations},
        "headline": lines,
    }
    full = [layout for layout in layouts.values() if layout.is_full]
    if any(layout.free_bytes < ROOM_BYTES for layout in full):
        return {**study, "cells": TRIED, "additional_cells": [], "headline": []}
    if full:
        return {**study, "additional_cells": [TRIED]}
    return study
