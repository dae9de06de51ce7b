"""Striping patterns as data, and the map of a striped file that all workloads share."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fsage.base import Refusal
from fsage.studies.striping import model as striping
from fsage.studies.striping import recipe
from fsage.studies.striping.model import Stripe

MIB = 1 << 20
GIB = 1 << 30


def step(name: str, largest: int) -> Stripe:
    found = recipe.find_pattern(name, {})
    return Stripe(1, name, "segments", found.file_bytes, largest, found.segments)


@st.composite
def layouts(draw):
    """A file of a few segments, its last stripe and its last round not always whole."""
    segments, start, first = [], 0, 0
    for _ in range(draw(st.integers(1, 4))):
        count, stripe, length = draw(st.integers(1, 9)), draw(st.integers(1, 8)), draw(st.integers(1, 120))
        segments.append(striping.Segment(start, start + length, count, stripe, first))
        start, first = start + length, first + count
    return segments


@given(layouts())
@settings(max_examples=100, deadline=None)
def test_every_byte_has_one_place_and_objects_have_no_holes(layout):
    end = layout[-1].end_bytes
    places = [
        (piece.object, piece.object_offset + byte)
        for piece in striping.pieces(layout, 0, end)
        for byte in range(piece.length)
    ]
    assert len(places) == len(set(places)) == end
    sizes = striping.object_bytes(layout)
    assert set(places) == {(number, byte) for number, size in enumerate(sizes) for byte in range(size)}


@given(layouts(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_part_lies_where_it_lies_in_the_whole_and_stripes_go_round_within_their_segment(layout, data):
    end = layout[-1].end_bytes
    begin, stop = sorted((data.draw(st.integers(0, end)), data.draw(st.integers(0, end))))
    whole = {
        piece.offset + byte: (piece.object, piece.object_offset + byte)
        for piece in striping.pieces(layout, 0, end)
        for byte in range(piece.length)
    }
    part = list(striping.pieces(layout, begin, stop))
    assert sum(piece.length for piece in part) == stop - begin
    assert all(whole[piece.offset] == (piece.object, piece.object_offset) for piece in part)
    for segment in layout:  # each begins with its own first object: a watermark starts a stripe anew
        for offset in range(segment.start_bytes, segment.end_bytes):
            turn = (offset - segment.start_bytes) // segment.stripe_bytes
            assert whole[offset][0] == segment.first + turn % segment.stripes
    with pytest.raises(ValueError, match="of a file of"):
        list(striping.pieces(layout, 0, end + 1))


def test_the_worked_example_of_the_source():
    """14 GB with watermarks at 1 and 10 GB: 4 x 1 MB, 8 x 2 MB, 16 x 4 MB."""
    written = ((GIB, 4, MIB), (10 * GIB, 8, 2 * MIB), (None, 16, 4 * MIB))
    stripe = Stripe(1, "example", "segments", 14 * GIB, 16, tuple(striping.Nominal(*segment) for segment in written))
    layout = striping.scaled(stripe, 16, 14 * GIB)
    places = [(each.start_bytes // GIB, each.end_bytes // GIB, each.first) for each in layout]
    assert places == [(0, 1, 0), (1, 10, 4), (10, 14, 12)]
    (last,) = striping.pieces(layout, GIB - 1, GIB)
    (first,) = striping.pieces(layout, GIB, GIB + 1)
    assert (last.object, last.object_offset) == (3, GIB // 4 - 1) and (first.object, first.object_offset) == (4, 0)
    (seventh,) = striping.pieces(layout, 10 * GIB + 6 * 4 * MIB, 10 * GIB + 6 * 4 * MIB + 1)
    assert (seventh.object, seventh.object % 16) == (18, 2), "object 18 of 28 lies on OST 2 of 16"


def test_every_pattern_of_the_source_is_there():
    named = recipe.known_patterns().named()
    counts = {prefix: sum(name.startswith(prefix) for name in named) for prefix in ("IOR.", "netflow.", "blast.")}
    assert counts == {"IOR.": 6, "netflow.": 6, "blast.": 18}

    found = [(part.stripes, part.stripe_bytes, part.end_bytes) for part in named["blast.18"].segments]
    assert found == [(4, MIB, 8 * GIB), (16, 2 * MIB, 28 * GIB), (64, 4 * MIB, None)]
    assert recipe.known_patterns().sets[-1].nodes == [16, 32, 64, 128, 256, 512]


def test_one_factor_for_counts_and_one_for_sizes():
    layout = striping.scaled(step("scaling.dynamic", 128), 16, 316 * MIB)
    assert [each.stripes for each in layout] == [2, 8, 16]
    assert [each.end_bytes // MIB for each in layout] == [104, 208, 316], "26, 52 and 79 of 79 GB"
    assert striping.scaled(step("IOR.1", 16), 64, 64 * MIB)[0].stripes == 4, (
        "more OSTs than nominal make no more stripes"
    )


@given(st.data())
def test_a_name_has_the_same_stripes_whatever_it_is_measured_beside(data):
    """The factor is the target's and the set's, and not of the selection that a study makes."""
    of_set = sorted(data.draw(st.sampled_from(recipe.known_patterns().sets)).patterns)
    name = data.draw(st.sampled_from(of_set))
    beside = data.draw(st.lists(st.sampled_from(of_set), unique=True))

    def made(*names: str) -> list[Stripe]:
        states = recipe.States(pattern=list(dict.fromkeys((name, *names))), default=name)
        return next(state for state in recipe.expand(states) if state.name == name).steps(1, 0)

    assert made() == made(*beside)


def test_what_a_target_cannot_tell_apart_is_refused():
    with pytest.raises(Refusal, match="stripe counts 4 and 8 both become 1 on 2 OSTs"):
        striping.scaled(step("IOR.4", 16), 2, GIB)
    mine = replace(step("IOR.1", 16), segments=(striping.Nominal(None, 64, MIB),))
    with pytest.raises(Refusal, match=r"64 stripes become 24 by the factor of its set \(0.375\), and there"):
        striping.counts(mine, 6)
    with pytest.raises(Refusal, match="leaves a segment without a stripe in a file of 2097152 bytes"):
        striping.scaled(step("IOR.6", 16), 16, 2 * MIB)


@pytest.mark.parametrize(
    "written, why",
    [
        (["Q"], "'Q' is not allowed.*allowed: A, B, C"),
        (["A to 10G", "B to 5G", "C"], "watermarks rise, from above 10G to below 14G"),
        (["A to 1G", "B to 10G"], "the last segment has no watermark"),
        (["A", "B"], "write A to SIZE"),
        (["A to 1GB", "B"], "power of ten"),
    ],
)
def test_a_bad_pattern_is_refused(written, why):
    with pytest.raises(ValidationError, match=f"(?s){why}"):
        recipe.segments(written, 14 * GIB, recipe.known_patterns().types)


@pytest.mark.parametrize("osts, told_apart", [(16, 35), (2, 24)])
def test_every_named_pattern_is_scaled_or_refused(osts, told_apart):
    """Refused: on 2, blast.13-18 (4 and 16 stripes), IOR.4, IOR.6, netflow.4, netflow.6, scaling.dynamic."""
    scaled = 0
    for each in recipe.known_patterns().sets:
        largest = max(s.stripes for name in each.patterns for s in recipe.find_pattern(name, {}).segments)
        for name in each.patterns:
            try:
                layout = striping.scaled(step(name, largest), osts, GIB)
            except Refusal:
                continue
            scaled += 1
            nominal = [segment.stripes for segment in recipe.find_pattern(name, {}).segments]
            pairs = set(zip(nominal, (segment.stripes for segment in layout), strict=True))
            assert len(pairs) == len({count for count, _ in pairs}) == len({count for _, count in pairs}), name
            assert all(each.end_bytes == two.start_bytes for each, two in pairwise(layout)), name
            assert sum(striping.object_bytes(layout)) == layout[-1].end_bytes == GIB, name
            assert max(segment.stripes for segment in layout) <= osts
    assert scaled == told_apart
