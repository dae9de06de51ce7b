"""Repeated structures, the stop rule, passes and traced cells, in one real study."""

from __future__ import annotations

import pytest
from project import Project, succeeded

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]


@pytest.mark.long
@pytest.mark.parametrize(("interval_percent", "skipped"), [(200, 2), (0.001, 0)])
def test_iterations_stop_when_the_interval_is_narrow_and_at_the_budget_at_the_latest(
    project: Project, interval_percent: float, skipped: int
) -> None:
    project.write_study(
        states__capacity=30,
        states__fragmentation=50,
        states__structures=2,
        cells__transfer_size="4M",
        cells__iterations=5,
        cells__stop={"interval_percent": interval_percent, "iterations_at_most": 7},
        reference_reads={"position": 0.5},
        traces={"states": ["30.50"]},
        headline=[],
    )
    ran = succeeded(project.measure())
    assert "plan small: 14 cells, 2 states, 2 populates, 5 diagnostic cells, 19 cells to measure, " in ran.stdout
    assert "at most (the stop rule skips what is not needed after 5 iterations)" in ran.stdout
    records = project.records()
    by_state = [
        [record for record in records.values() if record["state"] == state]
        for state in ("30.50+67005@8M", "30.50+67006@8M")
    ]
    left = project.skipped()
    assert sum(map(len, by_state)) == len(records) == 19 - 2 * skipped and len(left) == 2 * skipped
    assert {row["params"]["iteration"] for row in left.values()} <= {6, 7}
    assert all(f"narrower than {interval_percent}%" in row["why"] for row in left.values())
    for number, mine in enumerate(by_state, 1):
        planned = [record for record in mine if record["kind"] == "planned"]
        assert [record["status"] for record in planned] == ["valid"] * (7 - skipped)
        in_time = [r["cell"] for r in sorted(mine, key=lambda record: record["began"]) if r["status"] == "valid"]
        assert (in_time[0], in_time[-1]) == ("reference_before", "reference_after")
        assert {record["nominal"]["structure"] for record in mine} == {number}
        traced = [record for record in mine if record["kind"] == "traced"]
        assert [record["cell"] for record in traced] == ["traced_1"][: 2 - number], "one structure of a state is traced"
        for phase in (phase for record in traced for phase in record["phases"]):
            assert "columns" in phase["trace"] or "why_none" in phase["trace"]
    digests = {(record["nominal"]["structure"], record["layout"]["digest"]) for record in records.values()}
    assert len(digests) == len({digest for _, digest in digests}) == 2, "two seeds, two layouts"
    again = project.snakemake("-n", "small")
    assert again.returncode == 0 and ", 0 cells to measure" in again.stdout
