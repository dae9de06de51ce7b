"""The figures of studies of aged file systems: whether a replica of the free space costs what its original does."""

from __future__ import annotations

from typing import Any

from fsage.recipes.aged import COPIED, JOINED, ORIGINAL
from fsage.report.aged.validity import costs, validity
from fsage.report.answer import Answer, Named, by_comparisons
from fsage.report.replica.maps import agreement, maps
from fsage.report.section import Data
from fsage.report.view import View

CODES = (
    "A state such as churn.original was aged by use: its files came and went. churn.copied has the same free space, "
    "and large files hold the rest; churn.joined has as much free space in one run."
)
HOLES = {
    ORIGINAL: "the original that was aged by {}",
    COPIED: "the replica of what was aged by {}",
    JOINED: "as much free space in one run as {} left",
}


def answer(data: Data, study: Any) -> Answer | None:
    """A sentence for each comparison of the headline."""
    return by_comparisons(data, study, named, CODES)


def named(state: str) -> Named:
    """A state in words."""
    way, _, holes = state.partition(".")
    return Named(f"on {HOLES[holes].format(way)}", f"{way}, {holes}")


VIEW = View((validity, costs, maps, agreement), reference="as much free space in one run", answer=answer)
