"""A study that was measured whole, measured again out of its table: what a budget takes of it, and what it misses."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fsage.adaptive.design import Costs, Visit
from fsage.adaptive.surface import Points, Samples
from fsage.plan.plan import STATE_S

RATES = ["write_bw_mib_s", "read_bw_mib_s"]


class Replay:
    """A study as `explore` asks it; what it takes are the samples of the table, in an order drawn by a seed."""

    def __init__(self, frame: pd.DataFrame, seed: int, primary: list[str], seconds: float = np.inf) -> None:
        draw = np.random.default_rng(seed)
        valid = frame[frame["status"] == "valid"]
        planned = valid[valid["kind"] == "planned"]
        axes = ["capacity_percent", "fragmentation_percent", "transfer_size_bytes"]
        found = [
            (state, *place, draw.permutation(part.index))
            for (state, *place), part in planned.groupby(["state", *axes], sort=True)
        ]
        self.states = sorted(planned["state"].unique())
        self.state = np.array([self.states.index(one[0]) for one in found])
        place = np.array([[a, b, np.log2(t)] for _, a, b, t, _ in found])
        self.points = Points((place - place.min(0)) / np.ptp(place, axis=0), self.state)
        self.logs = [[np.log(planned.loc[one[-1], rate].to_numpy()) for one in found] for rate in RATES]
        self.truth = [np.array([one.mean() for one in of_rate]) for of_rate in self.logs]
        self.sample_s = np.array([planned.loc[one[-1], "seconds_total"].mean() for one in found])
        extras = valid[valid["kind"] != "planned"].groupby("state")["seconds_total"].sum()
        self.reach_s = np.array([STATE_S + extras.get(state, 0.0) for state in self.states])
        self.wanted = np.ones(len(found), dtype=bool)
        self.counts = [len(one) for one in self.logs[0]]
        self.whole_s = float(self.reach_s.sum() + (self.sample_s * self.counts).sum())
        self.limit_s, self.spent_s = seconds, 0.0
        self.taken = np.zeros(len(found), dtype=int)
        largest = place[:, 2] == place[:, 2].max()
        for name in primary:
            number = next(n for n, state in enumerate(self.states) if state.startswith(f"{name}@"))
            group = int(np.flatnonzero((self.state == number) & largest)[0])
            count = self.counts[group]
            self.take(Visit(number, {group: count}, self.reach_s[number] + count * self.sample_s[group]))
        self.primary_s = self.spent_s

    def samples(self) -> list[Samples]:
        return [Samples.of([list(one[:count]) for one, count in zip(of, self.taken, strict=True)]) for of in self.logs]

    def left(self) -> np.ndarray:
        return np.array(self.counts) - self.taken

    def costs(self) -> Costs:
        return Costs(self.sample_s, self.reach_s)

    def seconds(self) -> float:
        return self.limit_s - self.spent_s

    def take(self, visit: Visit) -> None:
        for group, count in visit.samples.items():
            assert self.state[group] == visit.state and count <= self.left()[group]
            self.taken[group] += count
        self.spent_s += visit.seconds

    def say(self, beliefs: object) -> None:
        pass
