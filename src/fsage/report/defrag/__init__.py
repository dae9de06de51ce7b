"""The table and figure of defragmentation studies (studies.md, section 4)."""

from __future__ import annotations

from fsage.report.defrag.rates import rates

SECTIONS = (rates,)
