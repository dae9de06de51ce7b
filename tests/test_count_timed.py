"""Counts held against timed cells: where they lie, and what a jump costs."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fsage.count.expected import against_timed

COUNTS = Path(__file__).parents[1] / "docs/data/series1_counts.parquet"
STATE = "80.50@264M"


@pytest.fixture(scope="module")
def counts():
    return pd.read_parquet(COUNTS)


@pytest.fixture
def records(counts):
    """The counted files of a state as if they had been timed: the device's charges, with the noise of a sample."""
    files = counts[counts["state"] == STATE].reset_index(drop=True)
    rng = np.random.default_rng(1)
    seconds = {
        f"{phase}_seconds": files["computed_seconds"] * np.exp(0.002 * rng.standard_normal(len(files)))
        for phase in ("write", "read")
    }
    return pd.DataFrame(
        {
            "status": "valid",
            "kind": "planned",
            "state": [f"80.50+{seed}@264M" for seed in files["seed"]],
            "place": 1,
            "transfer_size_bytes": files["transfer_size_bytes"],
            "layout_digest": files["layout_digest"],
            "measured_extents": files["extents"],
            "measured_mean_position": files["mean_position"],
            "measured_jumps": files["jumps"],
            "model_seconds": files["computed_seconds"],
            **seconds,
        }
    )


def test_files_lie_where_they_were_counted_and_a_line_finds_the_cost_of_a_jump(counts, records):
    section = against_timed(counts, records)
    assert section.text.startswith("30 of 30 timed files lie exactly where they were counted.")
    heads, *rows = section.table
    assert [row[0] for row in rows] == ["write", "read"] and heads[1] == "ms a jump"
    for row in rows:
        low, high = map(float, row[2].split(" to "))
        assert low < 9.95 < high and high - low < 0.6, row
        assert abs(float(row[3]) - 9.95) < 0.1 and float(row[4]) > 0.99 and row[5] == "30"
    (figure,) = section.figures
    assert {line.label for line in figure.series} == {"writing", "reading", "charged by the device"}


def test_a_file_elsewhere_is_counted_as_such(counts, records):
    records.loc[0, "measured_extents"] += 1
    records.loc[1, "measured_mean_position"] += 0.1
    assert against_timed(counts, records).text.startswith("28 of 30 timed files lie exactly")
    records["layout_digest"] = "another"
    assert "No timed cell is of a layout that was counted." in against_timed(counts, records).text


def test_too_few_numbers_of_jumps_are_no_line_and_no_record_is_no_section(counts, records):
    few = records[records["measured_jumps"] <= records["measured_jumps"].nsmallest(2).iloc[-1]]
    section = against_timed(counts, few)
    assert section.table == [] and "too few different numbers of jumps" in section.text
    assert against_timed(counts, records.assign(status="failed")) is None
    assert against_timed(counts, records.iloc[:0]) is None
