"""What a planted disk charges comes out of reads on it: in simulation here; on the modelled disk, study `truth`."""

from __future__ import annotations

import numpy as np
from simulated import holds

from fsage.agent.device.seekdisk import Costs
from fsage.statistics.disk import Inseparable, Reads, recover

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
#: States as ext4 lays them: nominal fullness, mean position and spread of the measured files, their extents.
STATES = [
    (0.1, 0.15, 0.03, 1),
    (0.4, 0.45, 0.03, 1),
    (0.8, 0.85, 0.03, 1),
    (0.6, 0.20, 0.10, 90),
    (0.4, 0.40, 0.24, 100),
    (0.2, 0.38, 0.23, 60),
]


def taken(seed: int, states: list[tuple[float, float, float, int]] = STATES, passes: bool = True) -> Reads:
    """A study on such a disk: of each state 6 cells in 2 minutes, before and after it a read past the file system."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, (fullness, position, sd, extents) in enumerate(states):
        began = 2 / 60 * number
        plan = [(fullness, position, sd, extents, began + (2 + 4 * cell) / 60 / 15) for cell in range(6)]
        if passes:
            plan += [(0.0, 0.5, 0.03, 1, began), (0.0, 0.5, 0.03, 1, began + 1.9 / 60)]
        rows += plan
    fullness, position, sd, extents, hours = np.array(rows).T
    places = position[:, None] + sd[:, None] * np.sqrt(12) * (np.linspace(0.5, 99.5, 100) / 100 - 0.5)
    transfer = np.mean(1 / (COSTS.bytes_per_s * (1 - 0.5 * places)), axis=1)
    noise = np.exp(np.sqrt(np.log1p(COSTS.noise_cov**2)) * rng.standard_normal(len(rows)))
    elapsed = 1 + COSTS.drift_percent_per_hour / 100 * hours
    return Reads(
        (transfer + COSTS.seek_s * extents / BYTES) * noise / elapsed, position, sd, extents / BYTES, fullness, hours
    )


def test_what_is_planted_lies_in_its_interval_as_often_as_is_claimed(row) -> None:
    inside = dict.fromkeys(PLANTED, 0)
    for seed in range(SEEDS):
        for name, found in recover(taken(seed)).items():
            inside[name] += found.low <= PLANTED[name] <= found.high
    for name, hits in inside.items():
        row(f"planted {name}", "6 cells a state, 6 states", "95%", hits, SEEDS)
        assert holds(hits, SEEDS, 0.95), (name, hits)


def test_fullness_and_position_that_move_together_are_not_told_apart() -> None:
    """The first trap: a filling file system goes inwards. Reads past it at one place, or holes, part the two."""
    whole = [(share, share, 0.0, extents) for share, extents in ((0.2, 1), (0.5, 9), (0.8, 2))]
    told_apart = 0
    for seed in range(50):
        try:
            found = recover(taken(seed, whole, passes=False))["fullness"]
        except Inseparable as why:
            assert "position and fullness" in str(why)
        else:
            told_apart += found.high / found.low < 1.1
    assert told_apart <= 5, "nobody can know"
    assert np.mean([(f := recover(taken(seed))["fullness"]).high / f.low < 1.1 for seed in range(50)]) > 0.9


def test_drift_while_states_follow_each_other_is_no_cost_of_theirs() -> None:
    """The second trap: each later state looks slower by what the disk drifted meanwhile."""
    ratios, apart = [], []
    alike = [(0.2, 0.5, 0.03, 1), (0.8, 0.5, 0.03, 1)] * 3
    for seed in range(50):
        reads = taken(seed, alike)
        first, last = reads.hours < 4 / 60, reads.hours >= 8 / 60
        ratios.append(np.median(reads.s_per_byte[last]) / np.median(reads.s_per_byte[first]))
        try:
            apart.append(recover(reads)["fullness"].value)
        except Inseparable:
            apart.append(1.0)
    assert np.median(ratios) > 1.02, "the naive comparison sees the drift"
    assert abs(np.median(apart) - 1) < 0.01


def test_an_unfragmented_state_that_is_fragmented_charges_its_seeks() -> None:
    """The third trap: no file was deleted, and the measured file lies in many pieces. Evidence counts, not names."""
    states = [
        (0.1, 0.15, 0.03, 16),
        (0.4, 0.45, 0.03, 16),
        (0.8, 0.85, 0.03, 17),
        (0.4, 0.40, 0.24, 7),
        (0.2, 0.38, 0.2, 1),
    ]
    inside = sum(
        found.low <= COSTS.seek_s <= found.high
        for seed in range(100)
        for found in [recover(taken(seed, states))["seek_s"]]
    )
    assert holds(inside, 100, 0.95)
