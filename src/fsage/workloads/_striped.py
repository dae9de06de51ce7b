"""What workloads over a striped file share: the state's layout on a target, and who works at the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fsage.agent import striping
from fsage.agent.errors import Refusal
from fsage.parse import BadOutput
from fsage.workloads import Unsupported, _shared


def clients(nodes: int | None, claim: Mapping) -> list[str]:
    """The clients that work at the file, all for None; `ValueError` for more than the target was claimed with."""
    names = _shared.hosts(claim)
    if nodes and nodes > max(1, len(names)):
        raise ValueError(
            f"nodes: {nodes} are more than target {claim['target']} was claimed with: "
            f"{len(names) or 1} ({', '.join(names) or 'the launcher alone'})"
        )
    return names[:nodes]


def layout(steps: Sequence[Mapping], claim: Mapping) -> list[striping.Segment]:
    """The segments of the state's layout on this target.

    `Unsupported` where the target cannot have it, `ValueError` if the state has none.
    """
    step = next((one for one in steps if one["kind"] == "stripe"), None)
    if step is None:
        raise ValueError("a striped file needs a state with a layout: a study with `recipe: striping`")
    if claim["kind"] == "directory":
        raise Unsupported("a target of kind directory has no OSTs, nor stores of its own to put a file's objects on")
    try:
        return striping.of_step(step, claim)
    except Refusal as why:
        raise Unsupported(str(why)) from why


def noted(observation: Mapping) -> list[striping.Segment]:
    """The segments of the layout in which a cell was measured, none where its state had none."""
    return striping.noted(observation["layout"])


def opened(steps: Sequence[Mapping], claim: Mapping) -> tuple[list[striping.Segment], list[str]]:
    """What is opened of the state's striped file: the map, and the path of each of its objects; raises as `layout`."""
    segments = layout(steps, claim)
    places = _shared.places_of(claim)
    if claim["kind"] == "lustre":  # one file, of which the servers know more
        size_bytes = segments[-1].end_bytes
        return [striping.Segment(0, size_bytes, 1, size_bytes, 0)], [f"{places[0]}/shared"]
    count = segments[-1].first + segments[-1].stripes
    return segments, [f"{places[number % len(places)]}/object{number}" for number in range(count)]


def check_objects(phase: Mapping, asked: Mapping[int, int]) -> None:
    """`BadOutput` unless after a phase that wrote as many objects lay on the stores as were asked for, as large."""
    there, whole = phase.get("extents"), sum(asked.values())
    if there and (there["files"], there["bytes"]) != (len(asked), whole):
        raise BadOutput(
            f"{there['files']} objects of {there['bytes']} bytes lie on the stores, the layout has {len(asked)} of "
            f"{whole}"
        )


def objects(segments: Sequence[striping.Segment]) -> dict[int, int]:
    """Object -> its bytes, those that have any."""
    return {number: size for number, size in enumerate(striping.object_bytes(segments)) if size}


def ost_bytes(segments: Sequence[striping.Segment], claim: Mapping) -> list[int]:
    """How much of the file lies on each OST of a target with stores."""
    osts = [0] * striping.osts_of(claim)
    for number, size in objects(segments).items():
        osts[number % len(osts)] += size
    return osts
