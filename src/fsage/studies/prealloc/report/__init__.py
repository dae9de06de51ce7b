"""The figures of preallocation studies."""

from __future__ import annotations

from fsage.report.view import View
from fsage.studies.prealloc.report.answer import answer
from fsage.studies.prealloc.report.contiguity import contiguity, extent_sizes
from fsage.studies.prealloc.report.rates import rates, share_of_clean

VIEW = View(
    (rates, share_of_clean, contiguity, extent_sizes),
    reference="the same size of preallocation in a clean section",
    answer=answer,
)
