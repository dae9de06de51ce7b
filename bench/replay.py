"""A study that was measured whole, measured again out of its table: what a budget takes of it, and what it misses."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fsage.adaptive import Costs, Points, Samples, Visit
from fsage.plan.estimates import STATE_S

RATES = ["write_bw_mib_s", "read_bw_mib_s"]


class Replay:
    """A study as `explore` asks it; what it takes are the samples of the table, in an order drawn by a seed."""

    def __init__(
        self,
        frame: pd.DataFrame,
        seed: int,
        primary: list[str],
        seconds: float = np.inf,
    ) -> None:
        draw = np.random.default_rng(seed)
        valid = frame[frame["status"] == "valid"]
        planned = valid[valid["kind"] == "planned"]
        axes = ["capacity_percent", "fragmentation_percent", "transfer_size_bytes"]
        found = [
            (state, *place, draw.permutation(part.index))
            for (state, *place), part in planned.groupby(["state", *axes], sort=True)
        ]
        self.states = sorted(planned["state"].unique())
        self.state = np.array([self.states.index(each[0]) for each in found])
        place = np.array([[a, b, np.log2(t)] for _, a, b, t, _ in found])
        self.points = Points((place - place.min(0)) / np.ptp(place, axis=0), self.state)
        self.logs = [[np.log(planned.loc[rows, rate].to_numpy()) for *_, rows in found] for rate in RATES]
        self.truth = [np.array([np.median(each) for each in of_rate]) for of_rate in self.logs]
        self.sample_s = np.array([planned.loc[each[-1], "seconds_total"].mean() for each in found])
        extras = valid[valid["kind"] != "planned"].groupby("state")["seconds_total"].sum()
        self.extras_s = np.array([extras.get(state, 0.0) for state in self.states])
        self.sentinels = valid[valid["kind"] == "sentinel"]
        self.visited: set[int] = set()
        self.wanted = np.ones(len(found), dtype=bool)
        self.counts = [len(log) for log in self.logs[0]]
        top = np.flatnonzero(place[:, 2] == place[:, 2].max())
        self.largest = {int(self.state[group]): int(group) for group in top}
        self.whole_s = float(self.costs().reach.sum() + (self.sample_s * self.counts).sum())
        self.limit_s, self.spent_s = seconds, 0.0
        self.taken = np.zeros(len(found), dtype=int)
        for name in primary:
            number = next(n for n, state in enumerate(self.states) if state.startswith(f"{name}@"))
            group = self.largest[number]
            count = self.counts[group]
            self.take(Visit(number, {group: count}, self.costs().reach[number] + count * self.sample_s[group]))
        self.primary_s = self.spent_s

    def samples(self) -> list[Samples]:
        found = []
        for rate, of_rate in zip(RATES, self.logs, strict=True):
            groups = [list(each[:count]) for each, count in zip(of_rate, self.taken, strict=True)]
            for state in self.visited:
                of_state = self.sentinels[self.sentinels["state"] == self.states[state]]
                groups[self.largest[state]] += np.log(of_state[rate]).tolist()
            found.append(Samples.of_groups(groups))
        return found

    def left(self) -> np.ndarray:
        return np.array(self.counts) - self.taken

    def costs(self) -> Costs:
        new = [number for number in range(len(self.states)) if number not in self.visited]
        reach_s = np.full(len(self.states), STATE_S)
        reach_s[new] += self.extras_s[new]
        count = self.sentinels["state"].value_counts()
        brings = {n: {self.largest[n]: int(count[self.states[n]])} for n in new if self.states[n] in count}
        return Costs(self.sample_s, reach_s, brings)

    def seconds(self) -> float:
        return self.limit_s - self.spent_s

    def take(self, visit: Visit) -> None:
        for group, count in visit.samples.items():
            assert self.state[group] == visit.state and count <= self.left()[group]
            self.taken[group] += count
        self.visited.add(visit.state)
        self.spent_s += visit.seconds

    def say(self, beliefs: object) -> None:
        pass
