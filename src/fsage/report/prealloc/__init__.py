"""The figures of preallocation studies."""

from __future__ import annotations

from fsage.report.prealloc.answer import answer
from fsage.report.prealloc.contiguity import contiguity, extent_sizes
from fsage.report.prealloc.rates import rates, share_of_clean
from fsage.report.view import View

VIEW = View(
    (rates, share_of_clean, contiguity, extent_sizes),
    reference="the same size of preallocation in a clean section",
    answer=answer,
)
