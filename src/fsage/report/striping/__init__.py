"""The table and figures of striping studies."""

from __future__ import annotations

from fsage.report.striping.answer import answer
from fsage.report.striping.layouts import layouts
from fsage.report.striping.rates import speed_up, throughput
from fsage.report.striping.results import results
from fsage.report.striping.server_cache import server_cache
from fsage.report.striping.times import phase_times, scaling
from fsage.report.view import View

VIEW = View(
    (throughput, speed_up, phase_times, scaling, server_cache, results, layouts),
    reference="the default layout",
    answer=answer,
)
