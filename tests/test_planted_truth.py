"""What a planted disk charges comes out of reads on it: in simulation here; on the modelled disk, study `truth`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated import holds

from fsage.analysis.truth import Inseparable, Reads, planted, recover
from fsage.model.counting import place
from fsage.studies.slowdisk.host.seekdisk import Costs

MIB = 1 << 20
BYTES = 384 * MIB
COSTS = Costs(200e6, 0.005, outer_to_inner=2, noise_cov=0.02, drift_percent_per_hour=-20)
SEEDS = 500
PLANTED = {
    "bytes_per_s": 200e6,
    "seek_s": 0.005,
    "outer_to_inner": 2.0,
    "drift_percent_per_hour": -20.0,
    "noise_cov": 0.02,
    "fullness": 1.0,
}
MOMENTS = ("position", "position_sd", "position_skewness", "position_kurtosis")
#: States as ext4 lays them: nominal fullness, mean position and spread of the measured files, their extents.
STATES = [
    (0.1, 0.15, 0.03, 1),
    (0.4, 0.45, 0.03, 1),
    (0.8, 0.85, 0.03, 1),
    (0.6, 0.20, 0.10, 90),
    (0.4, 0.40, 0.24, 100),
    (0.2, 0.38, 0.23, 60),
]

PASS = (0.0, 0.5, 0.03, 1)
"""A read past the file system."""


def taken(seed: int, states: Any = STATES, passes: bool = True, noise_cov: float = COSTS.noise_cov) -> Reads:
    """A study on such a disk: of each state 6 cells in 2 minutes, before and after it a read past the file system."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, state in enumerate(states):
        began = number / 30
        rows += [(*state, began + (1 + 2 * cell) / 450) for cell in range(6)]
        if passes:
            rows += [(*PASS, began), (*PASS, began + 1.9 / 60)]
    fullness, position, sd, extents, hours = np.array(rows).T
    places = position[:, None] + sd[:, None] * np.sqrt(12) * (np.linspace(0.5, 99.5, 100) / 100 - 0.5)
    transfer = np.mean(1 / (COSTS.bytes_per_s * (1 - 0.5 * places)), axis=1)
    noise = np.exp(np.sqrt(np.log1p(noise_cov**2)) * rng.standard_normal(len(rows)))
    elapsed = 1 + COSTS.drift_percent_per_hour / 100 * hours
    return Reads(
        (transfer + COSTS.seek_s * extents / BYTES) * noise / elapsed,
        position,
        sd,
        np.zeros_like(sd),
        np.full_like(sd, 1.8),  # of places that lie evenly
        extents / BYTES,
        fullness,
        hours,
    )


@pytest.mark.long
def test_what_is_planted_lies_in_its_interval_as_often_as_is_claimed(row) -> None:
    inside = dict.fromkeys(PLANTED, 0)
    for seed in range(SEEDS):
        for name, found in recover(taken(seed)).items():
            inside[name] += found.low <= PLANTED[name] <= found.high
    for name, hits in inside.items():
        row(f"planted {name}", "6 cells a state, 6 states", "95%", hits, SEEDS)
        assert holds(hits, SEEDS, 0.95), (name, hits)


def test_reads_without_noise_give_back_every_cost() -> None:
    reads = taken(1, noise_cov=0)
    found = recover(replace(reads, s_per_byte=reads.s_per_byte * 1.2**reads.fullness))
    for name, value in {**PLANTED, "fullness": 1.2, "noise_cov": 0.0}.items():
        assert found[name].value == pytest.approx(value, rel=5e-4, abs=1e-5), name
        assert found[name].low <= found[name].value <= found[name].high


def test_bytes_that_lie_unevenly_do_not_pass_for_seeks() -> None:
    """A third of each file in pieces lies far behind the rest: mean and spread of its places tell too little."""
    reads = taken(1)
    apart = np.where(reads.seeks_per_byte * BYTES > 4, 0.2, 0.0)
    near = reads.position - apart
    far = reads.position + 2 * apart
    lies = np.array([place([(a, 0.01), (a, 0.01), (b, 0.01)]) for a, b in zip(near, far, strict=True)]).T
    transfer = (2 / (1 - 0.5 * near) + 1 / (1 - 0.5 * far)) / 3 / COSTS.bytes_per_s
    elapsed = 1 + COSTS.drift_percent_per_hour / 100 * reads.hours
    reads = replace(
        reads,
        s_per_byte=(transfer + COSTS.seek_s * reads.seeks_per_byte) / elapsed,
        **dict(zip(MOMENTS, lies, strict=True)),
    )
    assert recover(reads)["seek_s"].value == pytest.approx(COSTS.seek_s, rel=0.01)


def test_intervals_are_as_wide_as_their_level_asks_and_noise_is_what_the_model_leaves() -> None:
    """Costs by Student's t, the noise by chi squared."""
    reads = taken(3)
    half, most = recover(reads, 0.5), recover(reads, 0.95)
    free = len(reads.hours) - 5
    narrow, wide = half["seek_s"], most["seek_s"]
    assert wide.value == pytest.approx((wide.low + wide.high) / 2)
    widths = (wide.high - wide.low) / (narrow.high - narrow.low)
    assert widths == pytest.approx(stats.t.ppf(0.975, free) / stats.t.ppf(0.75, free))
    noise = most["noise_cov"]
    squares = np.log1p(np.array([noise.value, noise.low, noise.high]) ** 2)
    assert squares[0] * free / squares[1:] == pytest.approx(stats.chi2.ppf([0.975, 0.025], free))
    assert noise.value == pytest.approx(COSTS.noise_cov, rel=0.3)


def test_costs_that_cannot_be_told_apart_are_named() -> None:
    reads = taken(1)
    five = Reads(*(getattr(reads, field.name)[::9][:5] for field in fields(Reads)))
    with pytest.raises(Inseparable, match="5 reads are too few for 5 values"):
        recover(five)
    places = np.full_like(reads.hours, 0.5)
    with pytest.raises(Inseparable, match=r"^rate and position move together in these samples"):
        recover(replace(reads, position=places, position_sd=0 * places))


def test_fullness_and_position_that_move_together_are_not_told_apart() -> None:
    """The first trap: a filling file system goes inwards. Reads past it at one place, or holes, part the two."""
    whole = [(share, share, 0.0, extents) for share, extents in ((0.2, 1), (0.5, 9), (0.8, 2))]
    told_apart = 0
    for seed in range(10):
        try:
            found = recover(taken(seed, whole, passes=False))["fullness"]
        except Inseparable as why:
            assert "position and fullness" in str(why)
        else:
            told_apart += found.high / found.low < 1.1
    assert told_apart <= 1, "nobody can know"
    found = recover(taken(1))["fullness"]
    assert found.high / found.low < 1.1


def test_drift_while_states_follow_each_other_is_no_cost_of_theirs() -> None:
    """The second trap: each later state looks slower by what the disk drifted meanwhile."""
    states = [(0.2, 0.5, 0.03, 1), (0.3, 0.7, 0.03, 20), (0.5, 0.3, 0.1, 1), (0.6, 0.6, 0.03, 20), (0.8, 0.5, 0.03, 1)]
    ratios, apart = [], []
    for seed in range(20):
        reads = taken(seed, states)
        first, last = reads.fullness == 0.2, reads.fullness == 0.8
        ratios.append(np.median(reads.s_per_byte[last]) / np.median(reads.s_per_byte[first]))
        apart.append(recover(reads)["fullness"].value)
    assert np.median(ratios) > 1.02, "the naive comparison sees the drift"
    assert abs(np.median(apart) - 1) < 0.01


def test_an_unfragmented_state_that_is_fragmented_charges_its_seeks() -> None:
    """The third trap: no file was deleted, and the measured file is fragmented. Evidence counts, not names."""
    states = [
        (0.1, 0.15, 0.03, 16),
        (0.4, 0.45, 0.03, 16),
        (0.8, 0.85, 0.03, 17),
        (0.4, 0.40, 0.24, 7),
        (0.2, 0.38, 0.2, 1),
    ]
    found = [recover(taken(seed, states))["seek_s"] for seed in range(50)]
    inside = sum(each.low <= COSTS.seek_s <= each.high for each in found)
    assert holds(inside, 50, 0.95)


def test_what_a_disk_charges_besides_rate_and_seeks_is_planted() -> None:
    """Virtual seconds have neither drift nor noise."""
    seeks = {"bytes_per_s": 2e8, "seek_s": 0.01}
    for costs, is_planted in ((seeks, False), ({**seeks, "outer_to_inner": 2}, True), ({"outer_to_inner": 2}, False)):
        frame = pd.DataFrame([{f"device.{name}": value for name, value in costs.items()}, {}])
        assert planted(frame) == (costs if is_planted else None)
