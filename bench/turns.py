"""How often states that do not differ are said to: visited one after the other, and in turns (ABBA). Declared: 5%.

    turns.py                  simulated: machines whose rate drifts, jumps, or comes and goes
    turns.py --runs 40        real: a plain directory in /var/tmp, while another process writes there off and on
                              (--idle: nobody else does on purpose)

A run has two states that are alike, of five samples each, of writes and reads. It is judged as a report judges: two
comparisons, one family (fsage.analysis.comparisons).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from target import build

from fsage.host.cells import measure
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.statistics import ALPHA, adjust_primary, compare, ratio
from fsage.studies.paf.model import Populate
from fsage.workloads import sequential

MIB = 1 << 20
SAMPLES, ROUNDS = 5, range(1, 6)
BUILD = 3
"""A state is built and its visit begins in about the time of so many samples."""
TRIALS = 4000
ORDERS = {
    "one after the other": [*["A"] * SAMPLES, *["B"] * SAMPLES],
    "in turns": [state for number in ROUNDS for state in ("AB" if number % 2 else "BA")],
}
WRITES = """
import os, random, sys, time
path, draw = sys.argv[1], random.Random(int(sys.argv[2]))
while True:
    with open(path, "wb") as file:
        end = time.monotonic() + draw.uniform(1, 8)
        while time.monotonic() < end:
            file.write(os.urandom(1 << 22))
            os.fdatasync(file.fileno())
            if file.tell() > 256 << 20:
                file.seek(0)
    time.sleep(draw.uniform(1, 8))
"""


def said(rates: dict[str, list[tuple[float, float]]]) -> bool:
    """Whether a report would say that A and B differ, by (write, read) of each."""
    pairs = [([each[rate] for each in rates["A"]], [each[rate] for each in rates["B"]]) for rate in (0, 1)]
    adjusted = adjust_primary([compare(*pair) for pair in pairs])
    return any(p is not None and p <= ALPHA and ratio(*pair).direction for p, pair in zip(adjusted, pairs, strict=True))


def steady(draw: np.random.Generator, moments: np.ndarray) -> np.ndarray:
    """A machine that others leave alone."""
    return np.zeros(len(moments))


def drifting(draw: np.random.Generator, moments: np.ndarray) -> np.ndarray:
    """10% slower or faster in the end."""
    return draw.choice([-0.1, 0.1]) * moments / moments[-1]


def wandering(draw: np.random.Generator, moments: np.ndarray) -> np.ndarray:
    """A random walk, 2% a sample."""
    steps = 0.02 * np.sqrt(np.diff(moments, prepend=moments[0]))
    return np.cumsum(steps * draw.standard_normal(len(moments)))


def coming_and_going(draw: np.random.Generator, moments: np.ndarray) -> np.ndarray:
    """Others' load, correlated over some eight samples, of 10%."""
    level, found, before = 0.1 * draw.standard_normal(), [], moments[0]
    for moment in moments:
        kept = np.exp(-(moment - before) / 8)
        level = kept * level + 0.1 * np.sqrt(1 - kept**2) * draw.standard_normal()
        found.append(level)
        before = moment
    return np.array(found)


def jumping(draw: np.random.Generator, moments: np.ndarray) -> np.ndarray:
    """20% slower from some moment on."""
    return np.where(moments > draw.uniform(0, moments[-1]), -0.2, 0.0)


MACHINES = (steady, drifting, wandering, coming_and_going, jumping)


def moments_of(order: list[str]) -> np.ndarray:
    """When each sample is taken, in times of a sample: where the state changes, it is built first."""
    changes = [before != each for before, each in zip(["", *order], order, strict=False)]
    return np.cumsum([1 + BUILD * change for change in changes]).astype(float)


def simulated(machine: Callable[..., np.ndarray], order: list[str], trials: int = TRIALS) -> float:
    """The share of runs that claim a difference."""
    draw, alarms, moments = np.random.default_rng(31), 0, moments_of(order)
    for _ in range(trials):
        level = machine(draw, moments)
        logs = level[:, None] + 0.02 * draw.standard_normal((len(order), 2))
        rates: dict[str, list[tuple[float, float]]] = {"A": [], "B": []}
        for state, (write, read) in zip(order, np.exp(logs), strict=True):
            rates[state].append((write, read))
        alarms += said(rates)
    return alarms / trials


def main() -> None:
    """A table."""
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=0)
    options.add_argument("--idle", action="store_true")
    options.add_argument("--order", choices=list(ORDERS), action="append")
    asked = options.parse_args()
    orders = {name: order for name, order in ORDERS.items() if name in (asked.order or ORDERS)}
    if not asked.runs:
        for machine in MACHINES:
            shares = (f"{name} {100 * simulated(machine, order):.1f}%" for name, order in orders.items())
            print(f"{machine.__name__.replace('_', ' ')}: false alarms {', '.join(shares)}")
        return
    for name, order in orders.items():
        alarms, began = 0, time.monotonic()
        with directory() as spec, nobody() if asked.idle else disturbed(spec):
            for run in range(asked.runs):
                alarms += said(measured(spec, order, run))
                print(f"\r{name}: {alarms} false alarms in {run + 1} runs", end="", file=sys.stderr, flush=True)
        print(f"\r{name}: {alarms} false alarms in {asked.runs} runs, {time.monotonic() - began:.0f} s")


def measured(spec: dict, order: list[str], run: int) -> dict[str, list[tuple[float, float]]]:
    """What a real run takes: states A and B hold as many files of the same size, of other seeds."""
    rates: dict[str, list[tuple[float, float]]] = {"A": [], "B": []}
    now = ""
    for number, state in enumerate(order):
        step = Populate(1, 30, (8 * MIB,), seed=10 * run + (state == "B"), files_at_once=4)
        request = {"study": f"turns{run}", "state": state, "steps": [step], "reuse": "fresh", "nominal": {}}
        if state != now:
            build(spec, request, [step])
            now = state
        rates[state].append(cell(spec, request, number))
    return rates


def cell(spec: dict, request: dict, number: int) -> tuple[float, float]:
    """Writes and reads of one cell, MiB/s."""
    home = Path(spec["home"]) / spec["name"]
    params = {"workload": "sequential", "tool": "fio", "transfer_size": 4 * MIB, "iteration": 1}
    claimed = open_target(spec).claim
    phases = sequential.commands(sequential.Params.model_validate(params), claimed)
    about = {"kind": "planned", "order": 1, "attempt": 1, "params": params, "phases": phases}
    measure.measure(spec, {**request, "cells": [{"name": f"cell{number}", **about}]}, False)
    [path] = (home / "outbox").rglob(f"cell{number}.1.json")
    outcome = sequential.read(json.loads(path.read_text()))
    shutil.rmtree(home / "outbox")
    if outcome.status != "valid":
        sys.exit(f"turns.py: cell {number}: {outcome.why}")
    return float(outcome.metrics["write_bw_mib_s"]), float(outcome.metrics["read_bw_mib_s"])


@contextlib.contextmanager
def directory() -> Iterator[dict]:
    """The declaration of a claimed directory, which goes in the end."""
    with tempfile.TemporaryDirectory(prefix="fsage-bench-", dir="/var/tmp") as place:
        spec = {
            "name": f"bench{os.getpid()}",
            "kind": "directory",
            "directory": f"{place}/target",
            "home": f"{place}/home",
            "budget_gib": 1,
            "amount_mib": 64,
        }
        claim.create(spec, {}, False)
        claim.claim(spec, {}, False)
        yield spec


@contextlib.contextmanager
def disturbed(spec: dict) -> Iterator[None]:
    """Another process writes beside it, for 1 to 8 seconds, and rests as long."""
    path = Path(spec["directory"]).with_name("disturbs")
    seed = str(random.SystemRandom().randrange(10**6))
    with subprocess.Popen([sys.executable, "-c", WRITES, str(path), seed]) as process:
        try:
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """Nobody writes beside it on purpose."""
    yield


if __name__ == "__main__":
    main()
