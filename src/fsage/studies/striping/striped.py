"""What workloads over a striped file share: the state's layout on a target, and who works at the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from fsage.api.model import MIB, Claim, Device, JsonView, Phase, PhaseResult, Refusal, Segment, Step, kinds
from fsage.api.study import BadOutput, CellParams, Unsupported, places_of

from .model import Stripe, object_bytes, on_lustre, osts_of

PERCENT = 100


class Params(CellParams):
    """Parameters that the workloads on a striped file share."""

    nodes: int | None = Field(
        default=None,
        ge=1,
        description="how many of the target's clients work on the file, which keeps its size; null: all",
    )
    read_eviction_file: bool = Field(
        default=False, description="true: every client reads the states' eviction_file after caches were dropped"
    )
    server_cache: Literal["kept", "metadata", "none"] = Field(
        default="kept", description="what ZFS servers may cache while a cell runs (primarycache); kept: as it is"
    )
    iteration: int = Field(ge=1)


def check(params: Params, steps: Sequence[Step]) -> None:
    """Raise ValueError where the state has no layout, or no cache-eviction file that is to be read."""
    if _stripe(steps).eviction_file is None and params.read_eviction_file:
        raise ValueError("read_eviction_file: the states have no `eviction_file` to be read")


def controlled(params: Params, phases: Sequence[Phase], steps: Sequence[Step], claim: Claim) -> list[Phase]:
    """The phases of a cell with the caches under control as its parameters ask.

    `Unsupported` without servers.
    """
    copies = [phase.copy() for phase in phases]
    if params.server_cache != "kept":
        if not kinds.kind_of(claim).has_osts:
            raise Unsupported(f"server_cache {params.server_cache}: a target of kind {claim['kind']} has no servers")
        for phase in copies:
            phase["server_cache"] = params.server_cache
    if params.read_eviction_file:
        for phase in copies:
            phase["eviction_file"] = True
    return copies


def eviction_seconds(params: Params, phases: int, steps: Sequence[Step], claim: Claim) -> float:
    """How long that takes before so many phases; 0 where only the target knows the size."""
    size = _eviction_file(steps)
    if not params.read_eviction_file or not isinstance(size, (int, float)):
        return 0.0
    return phases * claim["capacity_bytes"] * size / PERCENT / MIB / _own_read_mib_s(claim)


def _own_read_mib_s(claim: Claim) -> float:
    """How fast fsage itself reads, which not every model holds back."""
    calibration = claim["calibration"]
    below = None if Device.of_claim(claim).charges_all else calibration.get("backing_read_mib_s")
    return float(below or calibration["read_mib_s"])


def _eviction_file(steps: Sequence[Step]) -> float | str | None:
    step = Stripe.among(steps)
    if step:
        return step.eviction_file
    return None


def clients(nodes: int | None, claim: Claim) -> list[str]:
    """The clients that work at the file, all for None; `ValueError` for more than the target was claimed with."""
    names = claim.get("hosts", [])
    if nodes and nodes > max(1, len(names)):
        raise ValueError(
            f"nodes: {nodes} are more than target {claim['target']} was claimed with: {len(names) or 1} "
            f"({', '.join(names) or 'the launcher alone'}). Leave these cells out (--config 'only={{nodes: N}}'), or "
            "claim it with more"
        )
    return names[:nodes]


def layout(steps: Sequence[Step], claim: Claim) -> list[Segment]:
    """The segments of the state's layout on this target.

    `Unsupported` where the target cannot have it, `ValueError` if the state has none.
    """
    step = _stripe(steps)
    kind = kinds.kind_of(claim)
    if not (kind.has_osts or kind.own_stores):
        raise Unsupported(
            f"a target of kind {claim['kind']} has no OSTs, nor stores of its own to put a file's objects on"
        )
    try:
        return step.on(claim)
    except Refusal as why:
        raise Unsupported(str(why)) from why


def _stripe(steps: Sequence[Step]) -> Stripe:
    step = Stripe.among(steps)
    if step is None:
        raise ValueError("a striped file needs a state with a layout: a study with `recipe: striping`")
    return step


def noted(observation: JsonView) -> list[Segment]:
    """The segments of the layout in which a cell was measured, none where its state had none."""
    noted = observation["layout"].get("notes", {}).get("stripe", {})
    return [Segment(*part) for part in noted.get("segments", [])]


def opened(steps: Sequence[Step], claim: Claim) -> tuple[list[Segment], list[str]]:
    """What is opened of the state's striped file: paths by object, and the map to them; raises as `layout`."""
    segments = layout(steps, claim)
    places = places_of(claim)
    if not kinds.kind_of(claim).has_osts:
        count = segments[-1].first + segments[-1].stripes
        return segments, [f"{places[number % len(places)]}/object{number}" for number in range(count)]
    components, paths = on_lustre(segments, _stripe(steps).realisation)
    return components, [f"{places[0]}/{path}" for path in paths]


def check_objects(phase: PhaseResult, requested: Mapping[int, int]) -> None:
    """`BadOutput` unless after a phase that wrote the stores have the requested objects, with the requested bytes."""
    extents = phase.get("extents")
    whole = sum(requested.values())
    if extents and (extents["files"], extents["bytes"]) != (len(requested), whole):
        raise BadOutput(
            f"{extents['files']} objects of {extents['bytes']} bytes lie on the stores, "
            f"the layout has {len(requested)} of {whole}"
        )


def share_out(segments: Sequence[Segment], tasks: int) -> list[int]:
    """How many of a client's tasks each segment has: at least one, and so that the one with most to do has least.

    `ValueError` for fewer tasks than segments.
    """
    if tasks < len(segments):
        raise ValueError(
            f"{tasks} tasks a client cannot be at work in {len(segments)} segments at once: declare scale.tasks of at "
            f"least {len(segments)} for the target"
        )
    shares = [1] * len(segments)
    for _ in range(tasks - len(segments)):
        loads = [segment.length_bytes / share for segment, share in zip(segments, shares, strict=True)]
        shares[loads.index(max(loads))] += 1
    return shares


def objects(segments: Sequence[Segment]) -> dict[int, int]:
    """Object -> its bytes, those that have any."""
    return {number: size for number, size in enumerate(object_bytes(segments)) if size}


def ost_bytes(segments: Sequence[Segment], claim: Claim) -> list[int]:
    """How much of the file lies on each OST of a target with stores."""
    osts = [0] * osts_of(claim)
    for number, size in objects(segments).items():
        osts[number % len(osts)] += size
    return osts
