"""What Snakemake and Slurm cost a cell, in Series 1's shape: 64 states of 39 cells each, batches as in profiles/slurm.

`snakemake --profile slurm series1` as typed, on a Slurm of its own (tests/testbed), with a `fsage` that writes
empty records at once: what is left is Snakemake's, Slurm's and the profile's own time. Goal: at most 0.3 s a cell.
Snakemake notices the end of a job late; for long jobs that is up to 180 s for each, which is added to the worst case.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from stand_in import cloned, measured

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/testbed"))
from testbed import Testbed  # noqa: E402 - the tests' cluster

LATE_S = 180  # snakemake-executor-plugin-slurm: the longest time between two looks at a job


def main() -> None:
    """One line each: all of it, a cell's share, and the worst case."""
    with tempfile.TemporaryDirectory(prefix="fsage-bed-", dir="/tmp") as place, Testbed(Path(place) / "bed") as bed:
        clone, environment = cloned(Path(place))
        began = time.monotonic()
        said = measured(bed.inside("snakemake", "--profile", "slurm", "series1", folder=clone), clone, environment)
        took_s = time.monotonic() - began
        cells = len(list((clone / "results/records").glob("*/series1/*/*.json")))
        jobs = len(re.findall(r"has been submitted with SLURM jobid", said))
    print(f"{cells} cells in {jobs} Slurm jobs: {took_s:.0f} s, {took_s / cells:.3f} s a cell")
    worst_s = took_s + jobs * LATE_S
    print(f"where each job is long, and its end noticed {LATE_S} s late: at most {worst_s / cells:.3f} s a cell")


if __name__ == "__main__":
    main()
