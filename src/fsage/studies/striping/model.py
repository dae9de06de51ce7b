"""The step of states of striping, and the map of a striped file: file offset -> OST, object, offset in it.

A file is divided into segments at watermarks. A segment has its own objects, which get its stripes in turn. Objects are
numbered through the whole file. Object k lies on OST k mod the number of OSTs, so a segment begins on the OST after the
last one of the segment before. OSTs are a local target's stores; on Lustre its servers choose them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fsage.api.model import EVICTION_FILES, MIB, Files, JsonView, Refusal, Segment, Step, kinds

__all__ = ["Layout", "Segment", "Stripe", "counts", "file_bytes", "osts_of", "pieces"]

SEGMENTS = "segments"
PFL = "pfl"
Realisation = Literal["segments", "pfl"]


class Nominal(NamedTuple):
    """A segment of a pattern: up to `end_bytes` (None: to the end of the file) on `stripes` OSTs in `stripe_bytes`."""

    end_bytes: int | None
    stripes: int
    stripe_bytes: int


class Piece(NamedTuple):
    """So many bytes from an offset of the file on lie in one object, from `object_offset` on."""

    offset: int
    length: int
    object: int
    object_offset: int


@dataclass(frozen=True)
class Layout(Step):
    """What steps have in common that lay something out in a pattern's segments, of a file of `nominal_bytes`.

    `pattern`: its name; `largest_count`: the largest stripe count of the pattern's set.
    """

    pattern: str
    realisation: Realisation
    nominal_bytes: int
    largest_count: int
    segments: tuple[Nominal, ...]

    def on(self, claim: Mapping[str, object]) -> list[Segment]:
        """The segments on a claimed target; the file is what the claim's tasks move.

        Raises Refusal where the target cannot tell the pattern's segments apart, or has no such realisation.
        """
        if self.realisation == PFL and not kinds.kind_of(claim).has_osts:
            raise Refusal(
                f"pattern {self.pattern}, realisation {PFL}: only Lustre has composite layouts; on a target of kind "
                f"{claim['kind']} the file is its objects, which is realisation {SEGMENTS}"
            )
        return scaled(self, osts_of(claim), file_bytes(claim))


@dataclass(frozen=True)
class Stripe(Layout):
    """Lay the file out.

    `eviction_file`: the size of one that is made first, or None.
    """

    eviction_file: float | Literal["memory"] | None = None

    def describe(self) -> str:
        return f"lay out a file as {self.pattern} ({self.realisation})"

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """The cache-eviction file, if requested; its size depends on the target."""
        if self.eviction_file is not None:
            files.update({(self.generation, index): None for index in range(EVICTION_FILES)})


def file_bytes(claim: JsonView) -> int:
    """How large the file is on a claimed target: what all tasks on all clients move."""
    return claim["amount_mib"] * claim.get("tasks", 1) * max(1, len(claim.get("hosts", ()))) * MIB


def osts_of(claim: JsonView) -> int:
    """How many OSTs a claimed target has: those of Lustre that its files may lie on, or its stores."""
    return kinds.kind_of(claim).width(claim)


def on_lustre(segments: Sequence[Segment], realisation: str) -> tuple[list[Segment], list[str]]:
    """What is opened on Lustre, below the directory of what is measured: paths by object, and the map to them.

    Its servers stripe each of these files, so that in this map a file is one object.
    """
    if realisation == PFL:
        end = segments[-1].end_bytes
        return [Segment(0, end, 1, end, 0)], ["shared"]
    single = [
        Segment(segment.start_bytes, segment.end_bytes, 1, segment.length_bytes, number)
        for number, segment in enumerate(segments)
    ]
    return single, [f"segment{number}/shared" for number in range(len(segments))]


def scaled(layout: Layout, osts: int, most_bytes: int) -> list[Segment]:
    """The nominal segments of a layout on so many OSTs, as a file of at most `most_bytes`.

    One factor serves all stripe counts of a pattern's set (`largest_count` is its largest; never above 1), one the file
    and its watermarks. Stripe sizes stay, as transfer sizes do; a segment is of whole stripes of every size in the
    pattern. Raises Refusal where different counts become the same, or a segment nothing.
    """
    whole = max(nominal.stripe_bytes for nominal in layout.segments)
    size = most_bytes // whole * whole
    segments: list[Segment] = []
    start = first = 0
    for (end, _, stripe_bytes), count in zip(layout.segments, counts(layout, osts)):
        if end is None:
            stop = size
        else:
            stop = round(end / layout.nominal_bytes * size / whole) * whole
        if stop <= start or (end is not None and stop >= size):
            raise Refusal(
                f"pattern {layout.pattern}: a watermark at {end or layout.nominal_bytes} of "
                f"{layout.nominal_bytes} bytes leaves a segment without a stripe in a file of {size} bytes: a larger "
                "amount_mib is needed"
            )
        segments.append(Segment(start, stop, count, stripe_bytes, first))
        start = stop
        first = first + count
    return segments


def counts(layout: Layout, osts: int) -> list[int]:
    """The stripe count of each segment of a layout on so many OSTs. Raises Refusal where two become the same."""
    factor = min(1.0, osts / layout.largest_count)
    count_of: dict[int, int] = {}
    for _, nominal, _ in layout.segments:
        count = max(1, round(nominal * factor))
        if count > osts:
            raise Refusal(
                f"pattern {layout.pattern}: {nominal} stripes become {count} by the factor of its set ({factor:g}), "
                f"and there are {osts} OSTs"
            )
        same = [other for other in count_of if other != nominal and count_of[other] == count]
        if same:
            raise Refusal(
                f"pattern {layout.pattern}: stripe counts {same[0]} and {nominal} both become {count} on {osts} OSTs "
                f"(factor {factor:g}): a target with more stores tells them apart"
            )
        count_of[nominal] = count
    return [count_of[nominal] for _, nominal, _ in layout.segments]


def pieces(segments: Sequence[Segment], begin: int, end: int) -> Iterator[Piece]:
    """Where bytes `begin` to `end` of the file lie, in order, a piece for each stripe. ValueError past the file."""
    if not 0 <= begin <= end <= segments[-1].end_bytes:
        raise ValueError(f"bytes {begin} to {end} of a file of {segments[-1].end_bytes}")
    for segment in segments:
        offset = max(begin, segment.start_bytes)
        while offset < min(end, segment.end_bytes):
            stripe, within = divmod(offset - segment.start_bytes, segment.stripe_bytes)
            turn, number = divmod(stripe, segment.stripes)
            length = min(segment.stripe_bytes - within, segment.end_bytes - offset, end - offset)
            yield Piece(offset, length, segment.first + number, turn * segment.stripe_bytes + within)
            offset += length


def object_bytes(segments: Sequence[Segment]) -> list[int]:
    """How large each object is, by its number; one that no stripe reaches is empty."""
    sizes = []
    for segment in segments:
        length = segment.length_bytes
        turn = segment.stripe_bytes * segment.stripes
        rounds, rest = divmod(length, turn)
        for number in range(segment.stripes):
            last = min(max(0, rest - number * segment.stripe_bytes), segment.stripe_bytes)
            sizes.append(rounds * segment.stripe_bytes + last)
    return sizes
