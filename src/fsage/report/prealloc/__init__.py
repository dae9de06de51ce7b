"""The figures of preallocation studies (studies.md, section 3)."""

from __future__ import annotations

from fsage.report.prealloc.contiguity import contiguity, extent_sizes
from fsage.report.prealloc.rates import rates, share_of_clean

SECTIONS = (rates, share_of_clean, contiguity, extent_sizes)
"""In the order of the source; each takes the data and draws what these can fill, or nothing."""
