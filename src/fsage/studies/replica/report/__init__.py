"""The figures of replica studies: the original's free space beside the replica's, and what its age costs here."""

from __future__ import annotations

from fsage.report.view import View
from fsage.studies.replica.report.answer import answer
from fsage.studies.replica.report.maps import agreement, maps
from fsage.studies.replica.report.ranking import ranking

VIEW = View(
    (ranking, maps, agreement),
    reference="as much free space in one run",
    answer=answer,
)
