"""How much the iterations of one state scatter."""

from __future__ import annotations

from fsage.analysis.groups import counts, measure_label
from fsage.figures import Axis, Band, Lines
from fsage.report.section import Data, Section
from fsage.studies.paf.report.rows import CAPACITY, largest_transfer, levels, lines, main_rows, transfers

PUBLISHED_COV_PERCENT = (0.0, 3.5)


def variation(data: Data) -> Section | None:
    """Coefficient of variation at the largest transfer against capacity, unfragmented states."""
    rows = largest_transfer(main_rows(data))
    rows = rows[(rows["fragmentation_percent"] == 0) & rows["cov"].notna()]
    if rows.empty:
        return None
    percent = rows.assign(median=rows["cov"] * 100, low=float("nan"), high=float("nan"))
    percent["samples"] = [[] for _ in range(len(percent))]
    labels = {m: f"{measure_label(m)[0]}s" for m in percent["measure"].unique()}
    highest = max(1.1 * percent["median"].max(), 1.2 * PUBLISHED_COV_PERCENT[1])
    figure = Lines(
        "Coefficient of variation over capacity",
        lines(percent, "capacity_percent", labels, "measure"),
        Axis(CAPACITY, ticks=levels(percent, "capacity_percent")),
        Axis("coefficient of variation, %", (0, highest)),
        band=Band(*PUBLISHED_COV_PERCENT, "published: 0-3.5%, writes"),
    )
    text = f"Sample standard deviation over mean, {transfers(rows)} transfers, {counts(rows)} samples a point."
    return Section("How much iterations scatter", text, [figure])
