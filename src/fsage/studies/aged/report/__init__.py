"""The figures of studies of aged file systems: whether a replica of the free space costs what its original does."""

from __future__ import annotations

from fsage.analysis.headline import comparisons
from fsage.report.answer import Answer, cards_of
from fsage.report.section import Data
from fsage.report.view import View
from fsage.studies.aged.report.validity import agreed, cost_figures, costs, losses, validity
from fsage.studies.replica.report.maps import agreement, maps
from fsage.study.study import Study

CODES = (
    "State churn.original was aged by use: its files came and went. State churn.copied has the same free space, and "
    "large files hold the rest. State churn.joined has as much free space in one extent."
)


def answer(data: Data, study: Study) -> Answer | None:
    """Whether replicas agree with their originals, and what age costs on either."""
    if not (sentences := [*agreed(data), *losses(data)]):
        return None
    return Answer(sentences, next(iter(cost_figures(data)), None), cards_of(comparisons(data.frame, study)), CODES)


VIEW = View((validity, costs, maps, agreement), reference="as much free space in one run", answer=answer)
