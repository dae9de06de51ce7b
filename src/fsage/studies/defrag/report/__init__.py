"""The table and figure of defragmentation studies."""

from __future__ import annotations

from fsage.report.view import View
from fsage.studies.defrag.report.answer import answer
from fsage.studies.defrag.report.rates import rates

VIEW = View((rates,), reference="the file as it was before", answer=answer)
