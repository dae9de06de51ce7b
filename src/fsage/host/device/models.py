"""Device models: what one may do to a target, and those that a target may declare, by their kind."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fsage.base import Json
from fsage.host.device.capabilities import Capability
from fsage.host.system.settings import Undo
from fsage.model import device as facts
from fsage.model import plugins

if TYPE_CHECKING:
    from fsage.model.claim import Claim, ClaimedStore, Image


class Model(facts.Model):
    """No model: each store's loop device is attached to the image itself.

    `changes`: how entries of these kinds in a target's journal, which it notes before it sets anything, are undone.
    """

    changes: ClassVar[Mapping[str, Undo]] = {}
    needs: ClassVar[Capability | None] = None
    """What it needs of this machine, and nothing else does."""

    def __init__(self, home: Path, name: str, claimed: Json) -> None:
        """The model of the target `name` whose home this is; `claimed` are the parameters that its claim fixed."""
        super().__init__(claimed)
        self.home = home
        self.name = name

    @staticmethod
    def unavailable_because(declared: Json) -> str | None:
        """Why this machine cannot have it; None when it can."""
        return None

    def disk(self, store: ClaimedStore) -> Image:
        """The file that the store's loop device is attached to, made to be there: path, dev, ino and bytes."""
        return {**store["image_id"], "image": store["image"]}

    def put(self, devices: list[str]) -> Json | None:
        """Have it in place on each loop device; its parameters and what was read back, or None without a model."""
        return None

    @staticmethod
    def disks(home: Path) -> list[Image]:
        """The files of this target's mounted disks that its journal names, also where the process has ended."""
        return []

    @staticmethod
    def end_disks(home: Path) -> list[str]:
        """End these disks, to which nothing is attached any more; a sentence for each. Raises Failure."""
        return []

    @staticmethod
    def shared_left_over() -> bool:
        """Whether something is still set that all targets of this machine share, although none needs it any more."""
        return False

    @staticmethod
    def undo_shared() -> list[str]:
        """Undo what all targets of this machine share, when none needs it any more; a sentence for each thing."""
        return []

    @staticmethod
    def end_in_guest() -> None:
        """End every disk of this guest, whose file systems are unmounted."""

    def charged(self) -> AbstractContextManager[None]:
        """What is started while the block runs is measured under the model."""
        return nullcontext()


class Computed(Model, facts.Computed):
    """Nothing is laid over the device: rates are computed from what was counted."""

    def put(self, devices: list[str]) -> Json | None:
        """What is computed with."""
        return self.parameters


OWN: dict[str, type[Model]] = {model.kind: model for model in (Model, Computed)}


def named(kind: str) -> type[Model]:
    """The model of a kind: that of the studies' folders is MODEL of a module of this name."""
    if kind in OWN:
        return OWN[kind]
    model: type[Model] = plugins.module(__package__, "host", kind).MODEL
    return model


def every() -> list[type[Model]]:
    """All that a target may have."""
    return list(map(named, facts.kinds()))


def disks(home: Path) -> list[Image]:
    """The files of all disks of models that a target's journal names."""
    return [disk for model in every() for disk in model.disks(home)]


def end_disks(home: Path) -> list[str]:
    """End these disks, to which nothing is attached any more; a sentence for each. Raises Failure."""
    if os.geteuid():  # every entry of the journal took root to make, and takes root to undo
        return []
    return [sentence for model in every() for sentence in model.end_disks(home)]


def end_in_guest() -> None:
    """End every disk of this guest, whose file systems are unmounted."""
    for model in every():
        model.end_in_guest()


def claimed(home: Path, name: str, claim: Claim) -> Model:
    """The model of a target as its claim has it; none while that is not chosen yet."""
    parameters = claim.get("device_model", {"kind": Model.kind})
    return named(parameters["kind"])(home, name, parameters)


def choose(declared: Json | None, most_bytes_per_s: float) -> Json:
    """The model's parameters and label, fixed before anything is measured with it.

    The rate is the declared one, so that all machines have the same disk. On a machine that can give no more than
    `most_bytes_per_s`, it is a half, a quarter ... of that, and the label has both.
    """
    if declared is None:
        return none("not declared")
    kind = named(declared["kind"])
    why = kind.unavailable_because(declared)
    if why:
        return none(why)
    rate = declared["bytes_per_s"]
    while rate > most_bytes_per_s > 0:
        rate //= 2
    fixed = {
        **declared,
        "bytes_per_s": rate,
        "declared_bytes_per_s": declared["bytes_per_s"],
        "why_none": None,
        "disturbed": facts.DISTURBED,
    }
    if declared.get("drift_percent_per_hour"):
        fixed["since_s"] = time.time()
    return {**fixed, "label": facts.Model.of(fixed).label}


def none(why: str) -> Json:
    """What stands in a claim without a model."""
    return {"kind": Model.kind, "label": facts.Model({}).label, "why_none": why}


def computed(declared: Json) -> Json:
    """The model of a target where nothing is timed: for what is declared."""
    fixed = {**declared, "kind": Computed.kind, "of": declared["kind"], "why_none": None}
    return {**fixed, "label": facts.Computed(fixed).label}


def virtual(declared: Json) -> Json:
    """The model of a target whose seconds pass inside a guest: the declared disk, on any machine."""
    return {**declared, "why_none": None, "label": facts.Model.of(declared).label}


def why_refused(declared: Json | None) -> str | None:
    """Why a target that declares this model is not claimed on this machine; None when it may be."""
    if declared is None or not named(declared["kind"]).required:
        return None
    return named(declared["kind"]).unavailable_because(declared)
