"""The figures of replica studies: the original's free space beside the replica's, and what its age costs here."""

from __future__ import annotations

from fsage.report.replica.answer import answer
from fsage.report.replica.maps import agreement, maps
from fsage.report.replica.ranking import ranking
from fsage.report.view import View

VIEW = View(
    (ranking, maps, agreement),
    reference="as much free space in one run",
    answer=answer,
)
