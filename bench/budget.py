"""What a time budget would have taken of Series 1 as it was measured whole, and how far its predictions were off.

The records (docs/data/series1.parquet) are measured again out of the table, in an order of samples drawn by a seed, by
what a budget runs by (fsage.adaptive). Of the rates that were not measured so: how many lie in their 95% intervals, and
the largest error. Goals: within 3% of all from a quarter of the time, the primary comparisons within a tenth.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from fsage import dataset
from fsage.adaptive.design import unknown
from fsage.adaptive.explore import explore

ROOT = Path(__file__).resolve().parents[1]
PRIMARY = ["10.00", "40.00", "80.00", "80.50"]
SEEDS = 3


def main() -> None:
    """A line for each precision and budget."""
    sys.path.insert(0, str(ROOT / "tests"))
    from replay import Replay

    frame = dataset.read(ROOT / "docs/data/series1.parquet")
    whole_s = Replay(frame, 0, []).whole_s
    for precision, share in ((0.03, 1.0), (0.05, 1.0), (0.03, 0.25), (0.03, 0.1)):
        found = []
        for seed in range(SEEDS):
            study = Replay(frame, seed, PRIMARY, share * whole_s)
            beliefs = explore(study, precision)
            unseen = study.taken == 0
            off = np.concatenate(
                [np.abs(one.mean - truth)[unseen] for one, truth in zip(beliefs, study.truth, strict=True)]
            )
            wide = np.concatenate([np.log1p(one.half_width)[unseen] for one in beliefs])
            known = 1 - unknown(beliefs, precision, study.wanted).mean()
            found.append(
                (
                    study.spent_s / whole_s,
                    np.mean(off <= wide) if len(off) else 1.0,
                    off.max(initial=0),
                    known,
                    unseen.mean(),
                )
            )
        took, inside, worst, known, left = np.median(found, axis=0)
        budget = f", budget {share:.0%}" if share < 1 else ""
        print(
            f"within {precision:.0%}{budget}: {took:.0%} of the time; {left:.0%} of the rates not measured, of which "
            f"{inside:.1%} lie in their intervals and the furthest is off by {worst:.1%}; {known:.0%} known as wanted"
        )
    print(f"the primary comparisons: {study.primary_s / whole_s:.1%} of the time")


if __name__ == "__main__":
    main()
