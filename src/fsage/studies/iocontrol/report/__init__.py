"""The figures and tables of studies of I/O control."""

from __future__ import annotations

from functools import partial

from fsage.report.view import View
from fsage.studies.iocontrol.report.answer import answer
from fsage.studies.iocontrol.report.hot import hot
from fsage.studies.iocontrol.report.queries import queries
from fsage.studies.iocontrol.report.rows import SQLITE, WEIGHTS
from fsage.studies.iocontrol.report.sharing import fair, sharing, steps
from fsage.studies.iocontrol.report.victims import victims

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
