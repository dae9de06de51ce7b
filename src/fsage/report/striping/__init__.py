"""The table and figures of striping studies (studies.md, section 2)."""

from __future__ import annotations

from fsage.report.striping.layouts import layouts
from fsage.report.striping.rates import speed_up, throughput

SECTIONS = (throughput, speed_up, layouts)
