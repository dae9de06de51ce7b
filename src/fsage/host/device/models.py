"""The device models that a target may declare, by their kind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from fsage.base import Json
from fsage.host.device.iocost import Iocost
from fsage.host.device.model import Model
from fsage.host.device.seek import Seek
from fsage.host.device.virtual import Virtual
from fsage.model import device as facts

if TYPE_CHECKING:
    from fsage.model.claim import Claim


class Computed(Model, facts.Computed):
    """Nothing is laid over the device: rates are computed from what was counted."""

    def put(self, devices: list[str]) -> Json | None:
        """What is computed with."""
        return self.parameters


KINDS: dict[str, type[Model]] = {model.kind: model for model in (Model, Iocost, Computed, Seek, Virtual)}


def claimed(home: Path, name: str, claim: Claim) -> Model:
    """The model of a target as its claim has it; none while that is not chosen yet."""
    parameters = claim.get("device_model", {"kind": Model.kind})
    return KINDS[parameters["kind"]](home, name, parameters)


def choose(declared: Json | None, most_bytes_per_s: float) -> Json:
    """The model's parameters and label, fixed before anything is measured with it.

    The rate is the declared one, so that all machines have the same disk. On a machine that can give no more than
    `most_bytes_per_s`, it is a half, a quarter ... of that, and the label has both.
    """
    if declared is None:
        return none("not declared")
    kind = KINDS[declared["kind"]]
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
    return {**declared, "why_none": None, "label": facts.Virtual(declared).label}


def why_refused(declared: Json | None) -> str | None:
    """Why a target that declares this model is not claimed on this machine; None when it may be."""
    if declared is None or not KINDS[declared["kind"]].required:
        return None
    return KINDS[declared["kind"]].unavailable_because(declared)
