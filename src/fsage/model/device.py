"""The device models that a target may declare: their parameters, and what follows from these alone."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from fsage.base import MIB, Json, JsonView
from fsage.model.claim import Claim

RANDOM_FROM_BYTES = 16 * MIB  # a jump that is longer is charged as random
PAGE_BYTES = 4096
REQUEST_BYTES = MIB  # the most that one request of O_DIRECT has (256 pages)


DISTURBED = {"over_percent": 5.0, "again_at_most": 2}
"""A sample that takes so much more than the model charges for its own files is disturbed, and is taken again."""


class Place(NamedTuple):
    """Where bytes lie, as shares of the device, 0 its first block and 1 its last: four moments of their places."""

    mean: float = 0.0
    sd: float = 0.0
    skewness: float = 0.0
    kurtosis: float = 0.0

    def slowness(self, slope: float) -> float:
        """The mean of 1 / (1 - slope * place) over the bytes, as a series: of the mean place alone it is less."""
        at = 1 - slope * self.mean
        spread = slope * self.sd / at
        return (1 + spread**2 + self.skewness * spread**3 + self.kurtosis * spread**4) / at


PLACES = ("mean_position", "position_sd", "position_skewness", "position_kurtosis")
"""The keys that have them in a record."""


def place_of(extents: JsonView) -> Place:
    """Where the files of a record lie; what it does not say is 0."""
    return Place(*(extents.get(key) or 0.0 for key in PLACES))


class Moved(NamedTuple):
    """What a device is charged for."""

    bytes: int
    requests: int
    jumps: int
    place: Place = Place()


def _rate(parameters: Json) -> str:
    """'181 MiB/s', or '91 instead of 181 MiB/s' on a machine that cannot deliver what was declared."""
    rate = parameters["bytes_per_s"]
    declared = parameters.get("declared_bytes_per_s") or rate
    if rate == declared:
        return f"{rate / MIB:.0f} MiB/s"
    return f"{rate / MIB:.0f} instead of {declared / MIB:.0f} MiB/s"


class Model:
    """No model: what a target's devices cost is what this machine's do."""

    kind: ClassVar[str] = "none"
    defaults: ClassVar[Json] = {}
    """What a declaration may say of it, and what it has where that says nothing."""
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    may_be_negative: ClassVar[tuple[str, ...]] = ()
    charges_all = False  # whether what fsage itself reads costs as much as what measured commands read
    leaves_own_disk = False  # whether a file can also be read as fast as this machine's own disk gives it
    in_guests = False  # whether it is of targets whose cells run in guests
    required = False  # whether a target that declares it is refused where it cannot be had

    @staticmethod
    def why_wrong(declared: dict[str, object]) -> str | None:
        """What is wrong with its parameters beside their types and signs, beginning with the key; None: nothing."""
        return None

    @staticmethod
    def label(parameters: dict[str, object]) -> str:
        """What every figure says of numbers that were taken under it."""
        return "no device model"

    @staticmethod
    def reach_s(parameters: dict[str, object], span_bytes: int) -> float:
        """What it takes, on average, to reach another place within so many bytes of a store."""
        return 0.0

    @staticmethod
    def jump_bytes(parameters: Json) -> int:
        """A jump of more bytes is charged."""
        return RANDOM_FROM_BYTES

    @staticmethod
    def charges_s(parameters: Json, moved: Moved) -> float | None:
        """What it charges for these; None where that is not known."""
        return None


class Iocost(Model):
    """The kernel's I/O cost controller: the cost of each request, by rates. By default those of a 7200 rpm disk."""

    kind = "iocost"
    leaves_own_disk = True
    defaults: ClassVar[dict[str, object]] = {
        "bytes_per_s": 190_000_000,
        "sequential_iops": 20_000,
        "random_iops": 100,
        "allow_moving": [],
    }

    @staticmethod
    def reach_s(parameters: Json, span_bytes: int) -> float:
        """A random I/O's cost, where both places are further apart than RANDOM_FROM_BYTES."""
        return max(0.0, 1 - RANDOM_FROM_BYTES / span_bytes) ** 2 / float(parameters["random_iops"])

    @staticmethod
    def charges_s(parameters: Json, moved: Moved) -> float:
        """As the kernel does (block/blk-iocost.c, calc_lcoefs): a request's rate has its first page in it."""
        bytes_per_s = float(parameters["bytes_per_s"])
        sequential_s = 1 / float(parameters["sequential_iops"])
        a_request_s = max(0.0, sequential_s - PAGE_BYTES / bytes_per_s)
        a_jump_s = 1 / float(parameters["random_iops"]) - sequential_s
        return moved.bytes / bytes_per_s + moved.requests * a_request_s + moved.jumps * a_jump_s

    @staticmethod
    def label(parameters: Json) -> str:
        """Rates in both ways."""
        return (
            f"modelled device (IOCost, {_rate(parameters)}, "
            f"{parameters['sequential_iops']} sequential and {parameters['random_iops']} random I/Os a second)"
        )


class Seek(Model):
    """One disk with one arm for each store: a seek costs time."""

    kind = "seek"
    charges_all = True
    defaults: ClassVar[dict[str, object]] = {
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

    @staticmethod
    def why_wrong(declared: Json) -> str | None:
        """The outer end of a disk is not the slower one."""
        if declared["outer_to_inner"] >= 1:
            return None
        return (
            f"outer_to_inner is {declared['outer_to_inner']}: the rate at the first block over that at the last, 1 or "
            "more, is wanted"
        )

    @staticmethod
    def reach_s(parameters: Json, span_bytes: int) -> float:
        """A seek, however far."""
        return float(parameters["seek_s"])

    @staticmethod
    def jump_bytes(parameters: Json) -> int:
        """Each jump is a seek."""
        return 0

    @staticmethod
    def charges_s(parameters: Json, moved: Moved) -> float | None:
        """Bytes at the rate of their place, and seeks; None where noise or drift is planted."""
        if parameters.get("noise_cov") or parameters.get("drift_percent_per_hour"):
            return None
        slowness = moved.place.slowness(1 - 1 / float(parameters.get("outer_to_inner", 1)))
        return moved.bytes / float(parameters["bytes_per_s"]) * slowness + moved.jumps * float(parameters["seek_s"])

    @staticmethod
    def label(parameters: Json) -> str:
        """Rate and seek, and what else is planted."""
        parts = [_rate(parameters)]
        factor = parameters.get("outer_to_inner", 1)
        if factor != 1:
            parts.append(f"outer to inner tracks {factor:g}:1")
        parts.append(f"{parameters['seek_s'] * 1000:g} ms a seek")
        cov = parameters.get("noise_cov")
        if cov:
            parts.append(f"noise of {100 * cov:g}%")
        drift = parameters.get("drift_percent_per_hour")
        if drift:
            parts.append(f"drift of {drift:+g}% an hour")
        return f"modelled device (a disk that charges for seeks, {', '.join(parts)})"


class Virtual(Seek):
    """The same disk inside a guest (kind `uml`), whose clock stands still but for waits: its seconds have no noise."""

    kind = "virtual"
    in_guests = True
    defaults: ClassVar[dict[str, object]] = {
        key: Seek.defaults[key] for key in ("bytes_per_s", "seek_s", "outer_to_inner")
    }

    @staticmethod
    def label(parameters: Json) -> str:
        """Rate and seek, and whose seconds these are."""
        return f"virtual seconds of a {Seek.label(parameters)}"


class Computed(Model):
    """A declared device for which nothing waits: in a guest (kind `uml`), whose seconds are not a disk's.

    Its parameter `of` is the declared kind; none: IOCost.
    """

    kind = "computed"
    in_guests = True

    @staticmethod
    def reach_s(parameters: Json, span_bytes: int) -> float:
        """As of the declared device."""
        return _declared(parameters).reach_s(parameters, span_bytes)

    @staticmethod
    def jump_bytes(parameters: Json) -> int:
        """As of the declared device."""
        return _declared(parameters).jump_bytes(parameters)

    @staticmethod
    def charges_s(parameters: Json, moved: Moved) -> float | None:
        """As of the declared device."""
        return _declared(parameters).charges_s(parameters, moved)

    @staticmethod
    def label(parameters: Json) -> str:
        """The declared device, and that nothing was timed."""
        return f"rates computed from counts, not timed, for a {_declared(parameters).label(parameters)}"


def _declared(parameters: Json) -> type[Model]:
    return KINDS[parameters.get("of", USUAL)]


KINDS: dict[str, type[Model]] = {model.kind: model for model in (Model, Iocost, Computed, Seek, Virtual)}
USUAL = Iocost.kind


def declarable() -> list[str]:
    """The kinds that a declaration may name."""
    return [kind for kind in KINDS if kind not in (Model.kind, Computed.kind)]


def of_claim(claim: Claim) -> type[Model]:
    """The kind of a claimed target's model."""
    return KINDS[claim.get("device_model", {}).get("kind", Model.kind)]


def reach_s(claim: Claim, span_bytes: int) -> float:
    """What it takes, on average, to reach another place within so many bytes of a claimed target's store."""
    return of_claim(claim).reach_s(claim.get("device_model", {}), span_bytes)
