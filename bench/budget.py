"""What a time budget would have taken of Series 1 as it was measured whole, and how far its predictions were off.

The records (docs/data/series1.parquet) are measured again out of the table, in an order of samples drawn by a seed, by
what a budget runs by (fsage.adaptive). Of the medians that were not measured so: how many lie in their 95% intervals,
and the largest error. A median of five is itself not known exactly: the second share allows for that. Goals: within 3%
of all from a quarter of the time, the primary comparisons within a tenth.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from replay import RATES, Replay
from scipy.stats import median_abs_deviation

from fsage import dataset
from fsage.adaptive import OF_MEDIAN, Z, unknown
from fsage.run.adaptive import explore

ROOT = Path(__file__).resolve().parents[1]
PRIMARY = ["10.00", "40.00", "80.00", "80.50"]
SEEDS = 3
PRECISION = 0.03


def main() -> None:
    """Two lines for each budget: of writes and of reads."""
    frame = dataset.read(ROOT / "docs/data/series1.parquet")
    replayed = partial(Replay, frame, primary=PRIMARY)
    whole_s = replayed(0).whole_s
    for share in (0.15, 0.25, 0.5, 1.0):
        took, found = [], {rate: [] for rate in RATES}
        for seed in range(SEEDS):
            study = replayed(seed, seconds=share * whole_s)
            beliefs = explore(study, PRECISION)
            unseen = study.taken == 0
            took.append(study.spent_s / whole_s)
            for rate, belief, truth, logs in zip(RATES, beliefs, study.truth, study.logs, strict=True):
                off, wide = np.abs(belief.mean - truth)[unseen], np.log1p(belief.half_width)[unseen]
                noise = np.array([median_abs_deviation(log, scale="normal") / np.sqrt(len(log)) for log in logs])
                own = Z * np.sqrt(OF_MEDIAN) * noise[unseen]
                inside = [np.mean(off <= by) for by in (wide, np.hypot(wide, own))]
                known = 1 - unknown([belief], PRECISION, study.wanted).mean()
                found[rate].append((unseen.mean(), known, *inside, np.quantile(off, 0.95), off.max()))
        print(f"budget {share:.0%}: {np.median(took):.0%} of the time taken")
        for rate, lines in found.items():
            left, known, inside, allowed, usual, worst = np.median(lines, axis=0)
            print(
                f"  {rate}: {left:.0%} of the cells not measured, of which {inside:.1%} lie in their intervals "
                f"({allowed:.1%}, if those of five samples are allowed for), 95% are off by less than {usual:.1%}, the "
                f"furthest by {worst:.1%}; {known:.0%} of all known within {PRECISION:.0%}"
            )
    print(f"the primary comparisons: {study.primary_s / whole_s:.1%} of the time")


if __name__ == "__main__":
    main()
