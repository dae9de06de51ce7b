"""The report of Series 1 (2240 pairs) with evidence and traces: seconds and peak memory. Goals: 15 s, 600 MB.

By hand one would load the records and draw one plot with an interval per point; that stands beside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))


def in_a_process(work, *words) -> tuple[float, float]:
    """Seconds and peak MB (10^6 bytes) of a function in a process of its own."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        work(*words)
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    assert status == 0, status
    return time.monotonic() - began, usage.ru_maxrss * 1024 / 1e6


def prepare(folder: Path) -> None:
    """Write the records, with two traced cells, and the evidence of all states."""
    from records import make_evidence, make_records, store, traced

    from fsage.study.files import load_study

    study = load_study(ROOT / "config/series1.yaml")
    records = [traced(record) if record["kind"] == "traced" else record for record in make_records(study)]
    store(records, folder / "records")
    make_evidence(study, folder / "states/local/series1")


def report(folder: Path) -> None:
    """What `fsage report series1` does."""
    from fsage.plan import load_plan
    from fsage.plan.pool import Pool
    from fsage.run.conclusion import write_report

    study = ROOT / "config/series1.yaml"
    write_report(Pool((load_plan(study, ROOT / "inventories/local", folder),)), study)


def by_hand(folder: Path) -> None:
    """One plot of the same records."""
    import json

    import pandas as pd
    import seaborn as sns

    rows = []
    for path in sorted((folder / "records/local/series1").glob("*/*.json")):
        record = json.loads(path.read_text())
        if record["kind"] == "planned":
            rows.append({**record["params"], **record["metrics"], **record["nominal"]})
    frame = pd.DataFrame(rows)
    grid = sns.relplot(
        frame,
        x="capacity_percent",
        y="write_bw_mib_s",
        hue="transfer_size",
        col="fragmentation_percent",
        kind="line",
        errorbar=("pi", 100),
    )
    grid.savefig(folder / "by-hand.svg")


def main() -> None:
    """Two lines: the report, and the plot by hand."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="fsage-bench-") as name:
        folder = Path(name)
        in_a_process(prepare, folder)
        report_s, report_mb = in_a_process(report, folder)
        page = folder / "report/local/series1/index.html"
        figures = len(list(page.parent.glob("figures/*.svg")))
        hand_s, hand_mb = in_a_process(by_hand, folder)
        page_mb = page.stat().st_size / 1e6
        print(f"report: {report_s:.1f} s, {report_mb:.0f} MB; {figures} figures, page of {page_mb:.1f} MB")
        print(f"one plot by hand: {hand_s:.1f} s, {hand_mb:.0f} MB; the report takes {report_s / hand_s:.1f}x")


if __name__ == "__main__":
    main()
