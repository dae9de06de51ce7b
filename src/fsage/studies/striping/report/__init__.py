"""The table and figures of striping studies."""

from __future__ import annotations

from fsage.report.view import View
from fsage.studies.striping.report.answer import answer
from fsage.studies.striping.report.layouts import layouts
from fsage.studies.striping.report.rates import speed_up, throughput
from fsage.studies.striping.report.results import results
from fsage.studies.striping.report.server_cache import server_cache
from fsage.studies.striping.report.times import phase_times, scaling

VIEW = View(
    (throughput, speed_up, phase_times, scaling, server_cache, results, layouts),
    reference="the default layout",
    answer=answer,
)
