"""The device models that a target may declare: what follows from their parameters alone."""

from __future__ import annotations

from typing import ClassVar

from fsage.api.model import MIB, Device, Json, Moved

PAGE_BYTES = 4096


def rate_text(parameters: Json) -> str:
    """'181 MiB/s', or '91 instead of 181 MiB/s' on a machine that cannot deliver what was declared."""
    rate = parameters["bytes_per_s"]
    declared = parameters.get("declared_bytes_per_s") or rate
    if rate == declared:
        return f"{rate / MIB:.0f} MiB/s"
    return f"{rate / MIB:.0f} instead of {declared / MIB:.0f} MiB/s"


class Iocost(Device):
    """The kernel's I/O cost controller: the cost of each request, by rates. By default those of a 7200 rpm disk."""

    kind = "iocost"
    leaves_own_disk = True
    defaults: ClassVar[Json] = {
        "bytes_per_s": 190_000_000,
        "sequential_iops": 20_000,
        "random_iops": 100,
        "allow_moving": [],
    }

    def reach_s(self, span_bytes: int) -> float:
        """A random I/O's cost, where both places are further apart than FAR_BYTES."""
        return max(0.0, 1 - self.FAR_BYTES / span_bytes) ** 2 / float(self.parameters["random_iops"])

    def charges_s(self, moved: Moved) -> float:
        """As the kernel does (block/blk-iocost.c, calc_lcoefs): a request's rate has its first page in it."""
        bytes_per_s = float(self.parameters["bytes_per_s"])
        sequential_s = 1 / float(self.parameters["sequential_iops"])
        a_request_s = max(0.0, sequential_s - PAGE_BYTES / bytes_per_s)
        a_jump_s = 1 / float(self.parameters["random_iops"]) - sequential_s
        return moved.bytes / bytes_per_s + moved.requests * a_request_s + moved.jumps * a_jump_s

    @property
    def label(self) -> str:
        """Rates in both ways."""
        rates = f"{self.parameters['sequential_iops']} sequential and {self.parameters['random_iops']} random"
        return f"modelled device (IOCost, {rate_text(self.parameters)}, {rates} I/Os a second)"


class Seek(Device):
    """One disk with one arm for each store: a seek costs time."""

    kind = "seek"
    charges_all = True
    defaults: ClassVar[Json] = {
        "bytes_per_s": 300_000_000,
        "seek_s": 0.005,
        "outer_to_inner": 1.0,
        "noise_cov": 0.0,
        "noise_seed": 1,
        "drift_percent_per_hour": 0.0,
    }
    may_be_zero = ("noise_cov", "drift_percent_per_hour")
    may_be_negative = ("drift_percent_per_hour",)
    required = True

    def why_wrong(self) -> str | None:
        """The outer end of a disk is not the slower one."""
        factor = self.parameters["outer_to_inner"]
        if factor >= 1:
            return None
        return f"outer_to_inner is {factor}: the rate at the first block over that at the last, 1 or more, is wanted"

    def reach_s(self, span_bytes: int) -> float:
        """A seek, however far."""
        return float(self.parameters["seek_s"])

    @property
    def jump_bytes(self) -> int:
        """Each jump is a seek."""
        return 0

    def charges_s(self, moved: Moved) -> float | None:
        """Bytes at the rate of their place, and seeks; None where noise or drift is planted."""
        if self.parameters.get("noise_cov") or self.parameters.get("drift_percent_per_hour"):
            return None
        slowness = moved.place.slowness(1 - 1 / float(self.parameters.get("outer_to_inner", 1)))
        moving_s = moved.bytes / float(self.parameters["bytes_per_s"]) * slowness
        return moving_s + moved.jumps * float(self.parameters["seek_s"])

    @property
    def label(self) -> str:
        """Rate and seek, and what else is planted."""
        parts = [rate_text(self.parameters)]
        factor = self.parameters.get("outer_to_inner", 1)
        if factor != 1:
            parts.append(f"outer to inner tracks {factor:g}:1")
        parts.append(f"{self.parameters['seek_s'] * 1000:g} ms a seek")
        cov = self.parameters.get("noise_cov")
        if cov:
            parts.append(f"noise of {100 * cov:g}%")
        drift = self.parameters.get("drift_percent_per_hour")
        if drift:
            parts.append(f"drift of {drift:+g}% an hour")
        return f"modelled device (a disk that charges for seeks, {', '.join(parts)})"


class Virtual(Seek):
    """The same disk inside a guest (kind `uml`), whose clock stands still but for waits: its seconds have no noise."""

    kind = "virtual"
    in_guests = is_virtual = True
    defaults: ClassVar[Json] = {key: Seek.defaults[key] for key in ("bytes_per_s", "seek_s", "outer_to_inner")}

    @property
    def label(self) -> str:
        """Rate and seek, and whose seconds these are."""
        return f"virtual seconds of a {super().label}"
