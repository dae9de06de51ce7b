"""What the age of each layout costs here: against as much free space in one run, and that against the empty target."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fsage.analysis.headline import Comparison
from fsage.model import filesystems
from fsage.report.answer import Answer, Named, by_comparisons
from fsage.report.section import Data
from fsage.studies.replica.report.maps import copied, is_copied
from fsage.study.study import Study

CODES = (
    "ost0012.copied has the free space of the layout ost0012, block by block. ost0012.joined has as much free space "
    "in one extent; empty has all of it."
)


def answer(data: Data, study: Study) -> Answer | None:
    """A sentence for each comparison of the headline, and whether the allocator here is another than the original's."""
    full = {state: 100 * (1 - one["original"]["free_bytes"] / one["original"]["device_bytes"])
            for state, one in copied(data).items()}  # fmt: skip
    found = by_comparisons(data, study, partial(_named, full), CODES, _worst_first)
    return replace(found, sentences=[*found.sentences, *_foreign(data)])


def _foreign(data: Data) -> list[str]:
    """A sentence where a layout is of another file system than it was laid on."""
    here = filesystems.like(next(iter(data.frame["filesystem"].dropna()), None))
    pairs = dict.fromkeys(
        (state.partition(".")[0], there.title)
        for state, one in copied(data).items()
        if here and (there := filesystems.like(one.get("filesystem"))) and there.name != here.name
    )
    return [
        f"Layout {layout} is of {there}, and the target is {here.title}, which chooses blocks for new files in its own "
        f"way: on {there} the same free space may cost more or less."
        for layout, there in pairs
        if here
    ]


def _worst_first(compared: list[Comparison]) -> list[Comparison]:
    """Of several layouts that which costs most; what is said of one stays together."""
    costs: dict[str, float] = {}
    for one in compared:
        if is_copied(one.state) and one.ratio.value is not None:
            layout = one.state.partition(".")[0]
            costs[layout] = min(one.ratio.value, costs.get(layout, one.ratio.value))
    return sorted(compared, key=lambda one: costs.get(one.state.partition(".")[0], float("inf")))


def _named(full: dict[str, float], state: str) -> Named:
    layout, _, holes = state.partition("@")[0].partition("+")[0].partition(".")
    percent = next((value for name, value in full.items() if name.startswith(state.partition("+")[0])), None)
    fullness = "" if percent is None else f", {percent:.0f}% full"
    if not holes:
        return Named("on an empty target", "empty")
    if holes == "joined":
        return Named("equally full without holes", f"without holes{fullness}")
    return Named(f"with the free space of {layout}{fullness}", f"{layout}{fullness}")
