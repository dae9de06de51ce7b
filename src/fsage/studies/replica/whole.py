"""Targets of their own for layouts: sparse, as large as the original, and made like its file system."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.api.model import Claim, Device, filesystems, round_size
from fsage.api.study import DeclaredTarget, targets_in
from fsage.layouts import geometry
from fsage.layouts.extents import Head

from .model import EXTENT_BYTES

GIB = 1 << 30
LAYOUTS = "layouts"
PLACE = "inventories"
"""Below the folder of the study, both."""
USUAL_AMOUNT_MIB = 384
"""Where the target at hand has no amount yet: two seconds of the modelled disk, as the shipped targets declare."""
STEP_BYTES = 64 << 20
"""Amounts are multiples of the largest transfer."""
LEAST_GIB = 1
SHARE_OF_SIZE = 0.15  # what a cell may write of a target
RUN_BYTES = 512 << 20
"""Memory of the other processes of a run: snakemake, ansible-playbook, the agent on the launcher."""


class Base(NamedTuple):
    """The target at hand, from which another one has all that no layout says; its inventory and its claim."""

    target: DeclaredTarget
    inventory: Path
    claim: Claim | None


def is_larger(heads: Sequence[Head], base: Base) -> bool:
    """Whether a layout does not fit on the target at hand, as far as its size is known."""
    size_bytes = size_of(base)
    return size_bytes is not None and any(head.device_bytes > size_bytes for head in heads)


def size_of(base: Base) -> float | None:
    """Size of the target at hand, bytes; None of a Lustre before it is claimed."""
    if base.claim:
        return base.target.of_kind.laid_bytes(base.claim)
    if base.target.of_kind.own_stores:
        return base.target.spec["size_gib"] * GIB
    return None


def is_of(head: Head, target: DeclaredTarget) -> bool:
    """Whether a layout is of the file system that a target has, or its text names none."""
    system = filesystems.like(head.filesystem)
    return system is None or system.name == filesystem_of(target)


def filesystem_of(target: DeclaredTarget) -> str:
    """The local file system on which a layout is laid; of a Lustre that of its OSTs."""
    if target.of_kind.own_stores:
        return str(target.spec["filesystem"])
    return "ext4"


def unlike(head: Head, base: Base) -> str:
    """That a layout is of another file system than the target at hand, and which target has that: a sentence."""
    name = str(head.filesystem)
    sentence = f"a layout is of {name}, and target {base.target.name} has {filesystem_of(base.target)}"
    for target in targets_in(base.inventory.parent):
        if target.of_kind.own_stores and why_none(target) is None and is_of(head, target):
            return f"{sentence} (`--target {target.name}` has {name})"
    return f"{sentence} (declare a target with `filesystem: {name}`)"


def why_none(target: DeclaredTarget) -> str | None:
    """Why no layout can be laid on a target, as far as its declaration says; None where one may be."""
    several = target.of_kind.own_stores and target.spec["stores"] > 1
    if target.of_kind.takes_layouts and not several:
        return None
    has = f"has {target.spec['stores']} stores" if several else f"is of kind {target.spec['kind']}"
    return f"target {target.name} {has}, and a layout is copied onto one file system that fsage made and mounted"


def like(heads: Sequence[Head], extents: int, base: Base) -> DeclaredTarget:
    """The declaration of a target on which these layouts are laid whole. Raises ValueError: why there is none.

    `extents`: the most that one of them has.
    """
    if not base.target.of_kind.own_stores:
        raise ValueError(
            f"target {base.target.name} is of kind {base.target.spec['kind']}, which is no file system of its own"
        )
    names = {head.filesystem for head in heads}
    if len({json.dumps(head.geometry, sort_keys=True) for head in heads}) > 1 or len(names) > 1:
        raise ValueError("they are not all made alike; give them one at a time")
    system = filesystems.like(names.pop())
    head = max(heads, key=lambda head: head.device_bytes)
    if system is None:
        raise ValueError(f"their text names {head.filesystem or 'no file system'}, which no target can have")
    if system.geometry and (why := geometry.why_not(system.geometry, head.geometry)):
        raise ValueError(why)
    usual_mib = base.target.spec["amount_mib"] or (base.claim["amount_mib"] if base.claim else USUAL_AMOUNT_MIB)
    most_mib = int(min(head.device_bytes for head in heads) * SHARE_OF_SIZE) // STEP_BYTES * (STEP_BYTES >> 20)
    changed = {
        "filesystem": system.name,
        "stores": 1,
        "size_gib": max(LEAST_GIB, -(-head.device_bytes // GIB)),
        "sparse": True,
        "geometry": head.geometry if system.geometry else None,
        "amount_mib": min(usual_mib, max(STEP_BYTES >> 20, most_mib)),
    }
    declared = {**base.target.spec, **changed, "name": ""}
    digest = hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()
    target = base.target.having(**changed, name=f"whole-{digest[:8]}")
    why = target.why_not_made(RUN_BYTES + extents * EXTENT_BYTES)
    if why:
        raise ValueError(why)
    return target


def write(target: DeclaredTarget, base: Base, folder: Path) -> str:
    """Write the inventory of a target below the folder of a study; how to remove the target, a sentence."""
    inventory = folder / PLACE / target.name
    note = f"Made by `fsage age` like the file system of a layout; all else is as in {base.inventory.name}."
    target.write(inventory, base.inventory, note)
    removal = f"-i {shlex.quote(str(inventory))} playbooks/local_target.yml -e fsage_local_target_state=absent"
    return f"`./run ansible-playbook {removal}` removes target {target.name} afterwards, and gives back its room"


def inventory_of(folder: Path, usual: Path) -> Path:
    """The inventory of the target on which a study is measured."""
    return next((path for path in sorted((folder / PLACE).glob("whole-*"))), usual)


def sentence(target: DeclaredTarget, heads: Sequence[Head]) -> str:
    """What is said of it, and on what it measures."""
    size = round_size(max(head.device_bytes for head in heads))
    title = filesystems.named(target.spec["filesystem"]).title
    if len(heads) == 1:
        which = "the layout is laid whole"
    else:
        which = "each layout is laid whole"
    return f"{which} on target {target.name}: a sparse {title} of {size}, made as the original is"


def measures_on(target: DeclaredTarget) -> str:
    """On what a replica is measured, a sentence: not on the original's device."""
    declared = target.spec["device_model"]
    what = "this machine's own disk, without a device model"
    if declared:
        what = f"a {Device.of(declared).label} at most"
    return f"fsage measures a replica on {what}, and not the device that the layout comes from"
