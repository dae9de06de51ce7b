"""What the age of each layout costs here: against as much free space in one run, and that against the empty target."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fsage.analysis.headline import Comparison
from fsage.model import filesystems
from fsage.report.answer import Answer, Named, by_comparisons
from fsage.report.section import Data
from fsage.report.view import View
from fsage.studies.replica.recipe import EMPTY, JOINED
from fsage.studies.replica.report.maps import agreement, copied, is_copied, maps, ranking
from fsage.study.study import Study

CODES = (
    "ost0012.copied has the free space of the layout ost0012, block by block. ost0012.joined has as much free space "
    "in one extent; empty has all of it."
)


def answer(data: Data, study: Study) -> Answer | None:
    """A sentence for each comparison of the headline, and whether the allocator here is another than the original's."""
    full = {state: 100 * (1 - notes["original"]["free_bytes"] / notes["original"]["device_bytes"])
            for state, notes in copied(data).items()}  # fmt: skip
    comparison_answer = by_comparisons(data, study, partial(_named, data, full), CODES, partial(_worst_first, data))
    return replace(comparison_answer, sentences=[*comparison_answer.sentences, *_foreign(data)])


def _foreign(data: Data) -> list[str]:
    """A sentence where a layout is of another file system than it was laid on."""
    here = filesystems.like(next(iter(data.frame["filesystem"].dropna()), None))
    pairs = dict.fromkeys(
        (data.axes_of(state)["layout"], source.title)
        for state, notes in copied(data).items()
        if here and (source := filesystems.like(notes.get("filesystem"))) and source.name != here.name
    )
    return [
        f"Layout {layout} is of {source}, and the target is {here.title}, which chooses blocks for new files in its "
        f"own way: on {source} the same free space may cost more or less."
        for layout, source in pairs
        if here
    ]


def _worst_first(data: Data, compared: list[Comparison]) -> list[Comparison]:
    """The comparisons with the costliest layout first; those of one layout stay together."""

    def layout_of(comparison: Comparison) -> object:
        return data.axes_of(comparison.state).get("layout")

    costs: dict[object, float] = {}
    for comparison in compared:
        if is_copied(data, comparison.state) and comparison.ratio.value is not None:
            layout = layout_of(comparison)
            costs[layout] = min(comparison.ratio.value, costs.get(layout, comparison.ratio.value))
    return sorted(compared, key=lambda comparison: costs.get(layout_of(comparison), float("inf")))


def _named(data: Data, full: dict[str, float], state: str) -> Named:
    axes = data.axes_of(state)
    layout, holes = axes.get("layout", state), axes.get("holes", EMPTY)
    percent = next((value for name, value in full.items() if data.axes_of(name) == axes), None)
    fullness = "" if percent is None else f", {percent:.0f}% full"
    if holes == EMPTY:
        return Named("on an empty target", "empty")
    if holes == JOINED:
        return Named("equally full without holes", f"without holes{fullness}")
    return Named(f"with the free space of {layout}{fullness}", f"{layout}{fullness}")


VIEW = View(
    (ranking, maps, agreement),
    reference="as much free space in one run",
    answer=answer,
)
