"""The figures of populate-and-fragment studies (studies.md, section 1)."""

from __future__ import annotations

from fsage.report.paf.bandwidth import over_capacity, over_fragmentation
from fsage.report.paf.file_sizes import file_sizes
from fsage.report.paf.fullness import at_equal_fullness
from fsage.report.paf.loss import loss
from fsage.report.paf.metadata import metadata
from fsage.report.paf.plane import plane
from fsage.report.paf.position import position
from fsage.report.paf.variation import variation

SECTIONS = (
    over_capacity,
    variation,
    loss,
    plane,
    over_fragmentation,
    at_equal_fullness,
    file_sizes,
    position,
    metadata,
)
"""In the order of the source; each takes the data and draws what these can fill, or nothing."""
