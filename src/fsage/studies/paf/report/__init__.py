"""The figures of populate-and-fragment studies."""

from __future__ import annotations

from collections.abc import Callable

from fsage.report.section import Data, Section
from fsage.report.view import View
from fsage.studies.paf.report.amount import amount
from fsage.studies.paf.report.answer import answer
from fsage.studies.paf.report.bandwidth import over_capacity, over_fragmentation
from fsage.studies.paf.report.file_sizes import file_sizes
from fsage.studies.paf.report.filler import filler, several
from fsage.studies.paf.report.fullness import at_equal_fullness
from fsage.studies.paf.report.loss import loss, variation
from fsage.studies.paf.report.metadata import metadata
from fsage.studies.paf.report.plane import plane
from fsage.studies.paf.report.position import position
from fsage.studies.paf.report.published import published
from fsage.studies.paf.report.truth import truth

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
