"""A count: where the bytes of a new file lie, and what a device that is declared would take for them. Nothing is timed.

An extent is three numbers here, in bytes: its place in the file, its place on the device, its length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

from fsage.base import MIB, Json
from fsage.model.claim import Claim
from fsage.model.declaration import device_model
from fsage.model.device import REQUEST_BYTES, Model, Moved, Place

Extents = Sequence[Sequence[int]]


class Wanted(TypedDict):
    """A file to be counted, and how it is written: past the cache (`direct`) or through it."""

    file_bytes: int
    transfer_bytes: int
    direct: bool


class Job(TypedDict):
    """What one process counts: of each population its states, each reached from the one before.

    A state has a name, and its steps as JSON. `capacity_bytes`: of the empty file system, as the
    claim of a target has it; None: as it is found. `cpu`: the processor that lays the files. `kernel`: of a
    guest; None: the newest that is here.
    """

    spec: Json
    device_bytes: int
    capacity_bytes: int | None
    rotational: int
    populations: list[list[tuple[str, list[Json]]]]
    inputs: dict[str, str]
    wanted: list[Wanted]
    places: int
    cpu: int
    kernel: str | None


def joined(extents: Extents) -> list[list[int]]:
    """Extents in the file's order, those that continue both in the file and on the device as one."""
    runs: list[list[int]] = []
    for logical, physical, length in extents:
        if runs and logical == runs[-1][0] + runs[-1][2] and physical == runs[-1][1] + runs[-1][2]:
            runs[-1][2] += length
        else:
            runs.append([logical, physical, length])
    return runs


def jumps(extents: Extents, more_than_bytes: int = 0) -> list[int]:
    """Distances on the device from an extent's end to the next one's beginning, of those beyond `more_than_bytes`."""
    distances = [abs(after[1] - before[1] - before[2]) for before, after in zip(extents, extents[1:])]
    return [distance for distance in distances if distance > more_than_bytes]


def requests(extents: Extents, transfer_bytes: int, most_bytes: int = REQUEST_BYTES) -> int:
    """Requests that reach the device when a file is moved in transfers: each ends where an extent does, or a transfer.

    A transfer is cut anew from each extent's beginning on, as the kernel does with direct I/O (fs/iomap/direct-io.c).
    """
    count = 0
    for logical, _, length in extents:
        at = logical
        end = logical + length
        while at < end:
            stop = min(end, (at // transfer_bytes + 1) * transfer_bytes)
            count += -(-(stop - at) // most_bytes)
            at = stop
    return count


def place(pieces: Sequence[tuple[float, float]]) -> Place:
    """Where the bytes of pieces lie: each has its middle and its length, as shares of the device."""
    whole = sum(length for _, length in pieces)
    if not whole:
        return Place()
    mean = sum(length * middle for middle, length in pieces) / whole
    second = third = fourth = 0.0
    for middle, length in pieces:  # its bytes lie evenly over it
        off = middle - mean
        share = length / whole
        second += share * (off**2 + length**2 / 12)
        third += share * (off**3 + off * length**2 / 4)
        fourth += share * (off**4 + off**2 * length**2 / 2 + length**4 / 80)
    sd = math.sqrt(second)
    return Place(mean, sd, third / sd**3, fourth / sd**4)


def on_device(extents: Extents, device_bytes: int) -> Place:
    """Where the bytes of extents lie on a device."""
    return place([((start + length / 2) / device_bytes, length / device_bytes) for _, start, length in extents])


def moved(extents: Extents, transfer_bytes: int, device_bytes: int, jump_bytes: int) -> Moved:
    """What a device is charged for, when the file is written or read once."""
    return Moved(
        sum(length for *_, length in extents),
        requests(extents, transfer_bytes),
        len(jumps(extents, jump_bytes)),
        on_device(extents, device_bytes),
    )


def declared(claim: Claim) -> Json:
    """The device for which rates are computed: what a claimed target declares, else the usual one."""
    parameters: Json = claim.get("declared", {}).get("device_model") or device_model({})
    return parameters


class Cost(TypedDict):
    """Computed, not measured: seconds for a file where it lies, and in one piece at the same place; the share lost."""

    jumps: int
    requests: int
    seconds: float
    whole_seconds: float
    loss: float


def cost(device: Json, extents: Extents, transfer_bytes: int, device_bytes: int) -> Cost:
    """What a declared device (`device_model` of a target, complete) would take for a file that lies so."""
    model = Model.of(device)
    where = moved(extents, transfer_bytes, device_bytes, model.jump_bytes)
    whole = where._replace(jumps=0, requests=requests([(0, 0, where.bytes)], transfer_bytes))
    seconds = model.takes_s(*where)
    best = model.takes_s(*whole)
    return {
        "jumps": where.jumps,
        "requests": where.requests,
        "seconds": seconds,
        "whole_seconds": best,
        "loss": 1 - best / seconds,
    }


def device_words(device: Json) -> str:
    """'362 MiB/s, 0.039 ms a request and 9.95 ms for each jump of more than 16 MiB'; Seek charges for no request."""
    model = Model.of(device)
    parts = []
    for moved_by_one, form in (
        (Moved(MIB, 0, 0), "{:.0f} MiB/s"),
        (Moved(0, 1, 0), "{:.2g} ms a request"),
        (Moved(0, 0, 1), "{:.3g} ms for each jump"),
    ):
        charged_s = model.charges_s(moved_by_one) or 0.0
        if charged_s:
            parts.append(form.format(1 / charged_s if moved_by_one.bytes else 1000 * charged_s))
    if model.jump_bytes:
        parts[-1] += f" of more than {model.jump_bytes // MIB} MiB"
    tracks = device.get("outer_to_inner", 1)
    if tracks != 1:
        parts[0] += f" at its outer tracks, {tracks:g} times as much as at its inner ones"
    *most, last = parts
    return f"{', '.join(most)} and {last}"
