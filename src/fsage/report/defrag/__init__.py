"""The table and figure of defragmentation studies."""

from __future__ import annotations

from fsage.report.defrag.answer import answer
from fsage.report.defrag.rates import rates
from fsage.report.view import View

VIEW = View((rates,), reference="the file as it was before", answer=answer)
