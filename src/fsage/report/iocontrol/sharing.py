"""A figure for each scheduler: what each group read in each pattern, beside what its weight asks for."""

from __future__ import annotations

from statistics import median

import pandas as pd

from fsage.figures import Line, limits, line_panel
from fsage.report.iocontrol.rows import AFTER, ALONE, GROUPS, Shared, scheduler_label, shared
from fsage.report.section import Data, Section
from fsage.statistics import summarise

PRIME = "\u2032"


def sharing(data: Data) -> Section | None:
    """Bandwidths of both groups by pattern and stage, one panel for each scheduler and size of pieces."""
    everything = shared(data)
    if not everything:
        return None
    pieces = list(dict.fromkeys(one.piece for one in everything))
    panels = []
    for scheduler, piece in dict.fromkeys((one.scheduler, one.piece) for one in everything):
        mine = [one for one in everything if (one.scheduler, one.piece) == (scheduler, piece)]
        places = {(one.pattern, one.stage): float(place) for place, one in enumerate(mine)}
        lines = [Line(f"group {group}", _points(mine, group, places), joined=False) for group in GROUPS]
        drawn = pd.concat([line.points for line in lines])
        title = f"Bandwidth of both groups, {scheduler_label(scheduler)}"
        panels.append(
            line_panel(
                f"{title}, pieces of {piece}" if len(pieces) > 1 else title,
                lines,
                f"pattern ({PRIME}: after defragmentation)",
                "read bandwidth, MiB/s",
                " \u00b7 ".join(filter(None, [data.stamp, mine[0].charged])),
                y_limits=limits(drawn),
                ticks={place: pattern + PRIME * (stage == AFTER) for (pattern, stage), place in places.items()},
            )
        )
    text = (
        f"{ALONE['2']}: group 2 alone; P2: both read whole files, weights 100 and 100; P3: 200 and 100; P4 and P5: as "
        f"these, but group 1 reads the file in pieces; {ALONE['1']}: group 1 alone, the file in pieces. "
        "All groups are counted by the kernel over the same span of time, in which all of them run."
    )
    return Section("What each group reads", text, panels)


def _points(mine: list[Shared], group: str, places: dict[tuple[str, str], float]) -> pd.DataFrame:
    rows = []
    for one in mine:
        if samples := one.bw_mib_s.get(group):
            held = summarise(samples).interval
            rows.append(
                {
                    "x": places[one.pattern, one.stage],
                    "state": f"{one.pattern} {one.stage}",
                    "median": median(samples),
                    "low": held.low if held else float("nan"),
                    "high": held.high if held else float("nan"),
                    "n": len(samples),
                    "samples": samples,
                }
            )
    return pd.DataFrame(rows, columns=["x", "state", "median", "low", "high", "n", "samples"])
