"""The figures of populate-and-fragment studies."""

from __future__ import annotations

from collections.abc import Callable

from fsage.report.paf.amount import amount
from fsage.report.paf.answer import answer
from fsage.report.paf.bandwidth import over_capacity, over_fragmentation
from fsage.report.paf.file_sizes import file_sizes
from fsage.report.paf.filler import filler, several
from fsage.report.paf.fullness import at_equal_fullness
from fsage.report.paf.loss import loss
from fsage.report.paf.metadata import metadata
from fsage.report.paf.plane import plane
from fsage.report.paf.position import position
from fsage.report.paf.published import published
from fsage.report.paf.truth import truth
from fsage.report.paf.variation import variation
from fsage.report.section import Data, Section
from fsage.report.view import View

Draw = Callable[[Data], Section | None]


def _of_one_filler(draw: Draw) -> Draw:
    """What has a point a structure, where a structure is laid in one way."""
    return lambda data: None if several(data) else draw(data)


VIEW = View(
    (
        truth,
        filler,
        amount,
        *map(
            _of_one_filler,
            (over_capacity, variation, loss, plane, over_fragmentation, at_equal_fullness, file_sizes, position),
        ),
        metadata,
    ),
    reference="the unfragmented state of lowest capacity with the same parameters",
    answer=answer,
    published=published,
    headings={"fullness, %": "AA, %", "deleted, %": "BB, %"},
)
