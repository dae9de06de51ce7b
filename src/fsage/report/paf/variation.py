"""How much the iterations of one state scatter."""

from __future__ import annotations

from fsage.figures import line_panel
from fsage.report.groups import counts, measure_label
from fsage.report.paf.rows import CAPACITY, largest_transfer, levels, lines, main_rows, transfers
from fsage.report.section import Data, Section

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
    panel = line_panel(
        "Coefficient of variation over capacity",
        lines(percent, "capacity_percent", labels, "measure"),
        CAPACITY,
        "coefficient of variation, %",
        data.stamp,
        y_limits=(0, max(1.1 * percent["median"].max(), 1.2 * PUBLISHED_COV_PERCENT[1])),
        band=(*PUBLISHED_COV_PERCENT, "published: 0-3.5%, writes"),
        ticks=levels(percent, "capacity_percent"),
    )
    text = f"Sample standard deviation over mean, {transfers(rows)} transfers, {counts(rows)} samples a point."
    return Section("How much iterations scatter", text, [panel])
