"""The device models that a target may declare: their parameters, and what follows from these alone."""

from __future__ import annotations

from functools import cache
from typing import ClassVar, NamedTuple

from fsage.base import MIB, Json, JsonView
from fsage.model import plugins
from fsage.model.claim import Claim

RANDOM_FROM_BYTES = 16 * MIB  # a jump that is longer is charged as random
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


class Model:
    """No model: what a target's devices cost is what this machine's do."""

    FAR_BYTES = RANDOM_FROM_BYTES
    REQUEST_BYTES = REQUEST_BYTES
    place_of = staticmethod(place_of)

    kind: ClassVar[str] = "none"
    defaults: ClassVar[Json] = {}
    """What a declaration may say of it, and what it has where that says nothing."""
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    may_be_negative: ClassVar[tuple[str, ...]] = ()
    charges_all = False  # whether what fsage itself reads costs as much as what measured commands read
    leaves_own_disk = False  # whether a file can also be read as fast as this machine's own disk gives it
    in_guests = False  # whether it is of targets whose cells run in guests
    is_virtual = False  # whether its disk waits inside the guests, so that what they time are a disk's seconds
    required = False  # whether a target that declares it is refused where it cannot be had

    def __init__(self, parameters: Json) -> None:
        self.parameters = parameters

    @staticmethod
    def of(parameters: Json) -> Model:
        """The model of what a target declares, or of what its claim has."""
        kind = kinds()[parameters.get("kind", Model.kind)]
        return kind({**kind.defaults, **parameters})

    @staticmethod
    def of_claim(claim: Claim) -> Model:
        """That of a claimed target; one that charges nothing where it has none."""
        return Model.of(claim.get("device_model", {}))

    def why_wrong(self) -> str | None:
        """What is wrong with its parameters beside their types and signs, beginning with the key; None: nothing."""
        return None

    @property
    def is_computable(self) -> bool:
        """Whether what it takes for a file follows from where that lies: one with noise or drift does not."""
        return self.charges_s(Moved(0, 0, 0)) is not None

    def takes_s(self, moved_bytes: int, requests: int, jumps: int, place: Place | None = None) -> float:
        """Seconds for bytes in requests, with jumps; `place`: where the bytes lie (`place_of`).

        Raises ValueError where that is not known: a device with noise or drift has no one cost.
        """
        seconds = self.charges_s(Moved(moved_bytes, requests, jumps, place or Place()))
        if seconds is None:
            raise ValueError("a device with noise or drift has no one cost: declare it without")
        return seconds

    @property
    def label(self) -> str:
        """What every figure says of numbers that were taken under it."""
        return "no device model"

    def reach_s(self, span_bytes: int) -> float:
        """What it takes, on average, to reach another place within so many bytes of a store."""
        return 0.0

    @property
    def jump_bytes(self) -> int:
        """A jump of more bytes is charged."""
        return RANDOM_FROM_BYTES

    def charges_s(self, moved: Moved) -> float | None:
        """What it charges for these; None where that is not known."""
        return None


class Computed(Model):
    """A declared device for which nothing waits: in a guest (kind `uml`), whose seconds are not a disk's.

    Its parameter `of` is the declared kind; none: IOCost.
    """

    kind = "computed"
    in_guests = True

    def _declared(self) -> Model:
        return kinds()[self.parameters.get("of", USUAL)](self.parameters)

    def reach_s(self, span_bytes: int) -> float:
        """As of the declared device."""
        return self._declared().reach_s(span_bytes)

    @property
    def jump_bytes(self) -> int:
        """As of the declared device."""
        return self._declared().jump_bytes

    def charges_s(self, moved: Moved) -> float | None:
        """As of the declared device."""
        return self._declared().charges_s(moved)

    @property
    def label(self) -> str:
        """The declared device, and that nothing was timed."""
        return f"rates computed from counts, not timed, for a {self._declared().label}"


USUAL = "iocost"
"""The kind of a declaration that names none."""
UNDECLARED = (Model, Computed)
"""What no declaration names."""


@cache
def kinds() -> dict[str, type[Model]]:
    """The models by their kinds, those of the studies' folders among them."""
    every: list[type[Model]] = [*UNDECLARED, *plugins.declared(Model)]
    return {model.kind: model for model in every}


def declarable() -> list[str]:
    """The kinds that a declaration may name."""
    return [kind for kind, model in kinds().items() if model not in UNDECLARED]
