"""The figures and tables of studies of I/O control (studies.md, section 5)."""

from __future__ import annotations

from functools import partial

from fsage.report.iocontrol.fair import fair
from fsage.report.iocontrol.hot import hot
from fsage.report.iocontrol.queries import queries
from fsage.report.iocontrol.rows import SQLITE, WEIGHTS
from fsage.report.iocontrol.sharing import sharing
from fsage.report.iocontrol.steps import steps
from fsage.report.iocontrol.victims import victims

SECTIONS = (
    hot,
    *(partial(section, workload=WEIGHTS) for section in (victims, fair, sharing, steps)),
    partial(victims, workload=SQLITE),
    queries,
    *(partial(section, workload=SQLITE) for section in (fair, sharing, steps)),
)
"""Each takes the data and draws what these can fill, or nothing."""
