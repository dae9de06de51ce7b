"""The figures and tables of studies of I/O control."""

from __future__ import annotations

from functools import partial

from fsage.report.iocontrol.answer import answer
from fsage.report.iocontrol.fair import fair
from fsage.report.iocontrol.hot import hot
from fsage.report.iocontrol.queries import queries
from fsage.report.iocontrol.rows import SQLITE, WEIGHTS
from fsage.report.iocontrol.sharing import sharing
from fsage.report.iocontrol.steps import steps
from fsage.report.iocontrol.victims import victims
from fsage.report.view import View

VIEW = View(
    (
        hot,
        *(partial(section, workload=WEIGHTS) for section in (victims, fair, sharing, steps)),
        partial(victims, workload=SQLITE),
        queries,
        *(partial(section, workload=SQLITE) for section in (fair, sharing, steps)),
    ),
    reference="the same cell before defragmentation",
    answer=answer,
)
