"""What was measured that advice can rest on, and what each choice costs for the files.

For each state there are the seconds that a MiB took, a sample for each layout, or for each place or record in its one.
A record holds all measures of its cell. So a mix of them (three quarters read, one quarter written) is one value too,
the sum of what each share took. `at` says which set of parameters, and which levels of the states' axes.

A choice names the states whose samples speak of a file of some size. A cost adds these up, with the shares that they
have, over as many of the bytes as all choices were measured for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import mul

import pandas as pd

from fsage.advise.distribution import Distribution
from fsage.analysis.conditions import units
from fsage.analysis.groups import labelled_samples, measures, params_labels
from fsage.base import MIB, Json, Misuse
from fsage.base.sizes import parse_size
from fsage.dataset import levels, notes, parameters, values_of
from fsage.dataset.families import word
from fsage.text.strict import show, unknown_value

BANDWIDTH = "_bw_mib_s"
At = Mapping[str, Sequence[str]]
"""Parameter or axis -> the values that are meant, as they were typed."""
Seconds = Mapping[str, Mapping[Hashable, float]]
"""State -> unit -> seconds for a MiB."""


@dataclass(frozen=True)
class Measured:
    """`rows`: the samples. `records`: every record of the study. `mix`: measure -> its share of the bytes, together 1.

    `seconds_per_mib`: state -> unit (fsage.analysis.conditions.units) -> seconds. `params`: the parameters, in words.
    """

    rows: pd.DataFrame
    records: pd.DataFrame
    at: At
    params: str
    mix: Mapping[str, float]
    seconds_per_mib: Seconds

    @property
    def moved_bytes(self) -> int:
        """What a cell moved in the measure that moved most, the median of all samples."""
        moved_mib = [(self.rows[f"{name}{BANDWIDTH}"] * self.rows[f"{name}_seconds"]).median() for name in self.mix]
        return round(max(moved_mib) * MIB)

    @cached_property
    def axes(self) -> dict[str, Json]:
        """State -> its levels on the axes of its recipe."""
        return levels(self.rows)

    @cached_property
    def notes(self) -> dict[str, Json]:
        """State -> what its steps noted, of all records."""
        return notes(self.records)


def read_pairs(texts: Sequence[str], option: str) -> dict[str, list[str]]:
    """['deleted=1,2'] -> {'deleted': ['1', '2']}. Raises Misuse."""
    pairs: dict[str, list[str]] = {}
    for text in texts:
        key, separator, values = text.partition("=")
        if not separator or not key or key in pairs or not all(values.split(",")):
            raise Misuse(f"{option} {text}: is not NAME=VALUE or NAME=VALUE,VALUE with each NAME once")
        pairs[key] = values.split(",")
    return pairs


def share_of(name: str, texts: Sequence[str]) -> float:
    """The share of the bytes that --mix gives a measure. Raises Misuse where it is none."""
    try:
        [share] = map(float, texts)
    except ValueError:
        share = -1.0
    if not 0 <= share < math.inf:
        raise Misuse(f"--mix {name}={','.join(texts)}: is not a share of the bytes: a number from 0 up")
    return share


def gather(records: pd.DataFrame, at: At, mix: Mapping[str, Sequence[str]]) -> Measured:
    """The samples of one set of parameters, under the commonest conditions and in the commonest layout of each state.

    Of caches cold counts, of transfers the largest, unless `at` says otherwise. Raises ValueError where there is
    nothing, where `at` or `mix` name what was not measured, or where several sets of parameters are left.
    """
    rows = labelled_samples(records)
    rows = rows[rows["main"]]
    names = [name for name in measures(rows) if name.endswith(BANDWIDTH)]
    rows = rows[rows[names].notna().any(axis=1)]
    if rows.empty:
        raise ValueError("no valid planned cell with a bandwidth is there")
    rows = rows[_meant(rows, at)]
    sets = _preferred(parameters(rows), at)
    if len(sets) > 1:
        differences = []
        for key in sorted(set[str]().union(*sets.values())):
            values = {show(facts.get(key)) for facts in sets.values()}
            if len(values) > 1:
                differences.append(f"{key}: {', '.join(sorted(values))}")
        raise ValueError(f"several workloads were measured: say which with --at NAME=VALUE: {'; '.join(differences)}")
    (params,) = sets
    rows = rows[rows["params"] == params]
    shares = _shares(rows, [name.removesuffix(BANDWIDTH) for name in names if rows[name].notna().any()], mix)
    seconds = sum(share / rows[f"{name}{BANDWIDTH}"] for name, share in shares.items())
    rows = rows.assign(seconds_per_mib=seconds).dropna(subset="seconds_per_mib")
    rows = rows.assign(rate=1 / rows["seconds_per_mib"])
    by_state = {}
    for state, part in rows.sort_values("iteration", kind="stable").groupby("state", sort=False):
        by_state[str(state)] = {unit: 1 / rate for unit, rate in units(part, "rate").by_unit.items()}
    return Measured(rows, records, at, params_labels(rows)[params], shares, by_state)


def _meant(rows: pd.DataFrame, at: At) -> list[bool]:
    """Which rows have the values of `at`, each of which some row must have."""
    facts = [params | axes for params, axes in zip(values_of(rows, "param"), values_of(rows, "axis"), strict=True)]
    meant = [True] * len(facts)
    for key, texts in at.items():
        values = {word(fact[key]): fact[key] for fact in facts if key in fact}
        if not values:
            raise ValueError(f"--at {key}: {unknown_value(key, sorted(set[str]().union(*facts)))}")
        wanted = set()
        for text in texts:
            same = {name for name, value in values.items() if _same(text, value)}
            if not same:
                raise ValueError(f"--at {key}={text}: {unknown_value(text, sorted(values))}")
            wanted |= same
        for place, fact in enumerate(facts):
            meant[place] &= key in fact and word(fact[key]) in wanted
    return meant


def _same(text: str, value: object) -> bool:
    """'1M' is 1048576, 'true' is True."""
    if isinstance(value, int) and not isinstance(value, bool) and text != "0":
        try:
            return parse_size(text) == value
        except ValueError:
            return False
    return text.lower() == word(value).lower()


def _preferred(sets: dict[str, Json], at: At) -> dict[str, dict[str, object]]:
    """The sets that were cold, and have the largest transfer, where sets differ in cache or transfer size."""
    if "cache" not in at and any(params.get("cache") == "cold" for params in sets.values()):
        sets = {text: params for text, params in sets.items() if params.get("cache", "cold") == "cold"}
    if "transfer_size" not in at:
        largest = max(params.get("transfer_size") or 0 for params in sets.values())
        sets = {text: params for text, params in sets.items() if (params.get("transfer_size") or 0) == largest}
    return sets


def _shares(rows: pd.DataFrame, names: list[str], mix: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Measure -> share of the bytes: as requested, or as the cells themselves moved them."""
    shares: dict[str, float] = {}
    for name, texts in mix.items():
        if name not in names:
            raise ValueError(f"--mix {name}: {unknown_value(name, names)}")
        shares[name] = share_of(name, texts)
    if not mix:
        for name in names:
            seconds = f"{name}_seconds"
            if seconds in rows:
                moved = rows[f"{name}{BANDWIDTH}"] * rows[seconds]
            else:
                moved = pd.Series([1.0])
            shares[name] = round(float(moved.median()), 3)
    whole = sum(shares.values())
    return {name: share / whole for name, share in shares.items() if share}


Parts = Mapping[str, float]
"""State -> the share of the bytes whose time its samples give; the shares make 1. Empty: not measured."""


@dataclass(frozen=True)
class Choice:
    """One choice. `of_size(bytes)` names the states whose time for a byte is that of a file of this size.

    A MiB costs `once_s` and, `times` over, what those states took for it. `says`: words on it for people.
    """

    name: str
    of_size: Callable[[int], Parts]
    times: float = 1.0
    once_s: float = 0.0
    says: str = ""


@dataclass(frozen=True)
class Options:
    """The choices of a study, the default one among them; `absent`: those that cannot be had or told of, and why.

    `file_bytes`: what was measured, a file of this size. `not_covered`: why no choice is told for some sizes, in words.
    `notes`: sentences on what the distribution or the choices mean here.
    """

    kind: str
    default: str
    file_bytes: int
    choices: list[Choice]
    absent: dict[str, str] = field(default_factory=dict)
    assumes: str = ""
    not_covered: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Cost:
    """Choices that are one and the same for these files. A MiB costs `once_s` and, `times` over, `parts` of states.

    `samples`: in seconds for a MiB, as many as the state with the fewest has. Those of different states are
    independent, so that any pairing of them makes honest samples of the sum.
    """

    names: tuple[str, ...]
    parts: Mapping[str, float]
    times: float
    once_s: float
    samples: list[float]
    says: str = ""

    @property
    def name(self) -> str:
        """'IOR.1 = IOR.4' where these are the same for the files."""
        return " = ".join(self.names)


@dataclass(frozen=True)
class Weighed:
    """`covered`: choice -> the share of the bytes that measurements speak of; `compared`: of those in `costs` together.

    `costs` are for the same bytes, those that were measured in all of these choices.
    """

    costs: list[Cost]
    covered: Mapping[str, float]
    compared: float


def weigh(options: Options, files: Distribution, seconds: Seconds, least_share: float) -> Weighed:
    """The choices that can be compared on at least `least_share` of the bytes; those that cover most come first."""
    measured: dict[str, dict[int, Parts]] = {}
    for choice in options.choices:
        parts_of = {size: choice.of_size(size) for size in files.files}
        measured[choice.name] = {size: parts for size, parts in parts_of.items() if parts}
    covered = {name: files.share_of_bytes(sizes) for name, sizes in measured.items()}
    common = set(files.files)
    compared = []
    for choice in sorted(options.choices, key=lambda choice: -covered[choice.name]):
        both = common & measured[choice.name].keys()
        if files.share_of_bytes(both) >= least_share:
            common = both
            compared.append(choice.name)
    if not compared:
        return Weighed([], covered, 0.0)
    share = files.share_of_bytes(common)
    whole = files.bytes
    shares = {size: size * files.files[size] / whole / share for size in sorted(common)}
    alike: dict[tuple[tuple[tuple[str, float], ...], float, float], list[Choice]] = defaultdict(list)
    for choice in options.choices:
        if choice.name in compared:
            parts: dict[str, float] = defaultdict(float)
            for size, its_share in shares.items():
                for state, part in measured[choice.name][size].items():
                    parts[state] += part * its_share
            alike[tuple(sorted(parts.items())), choice.times, choice.once_s].append(choice)
    costs = [_cost(same, dict(states), seconds) for (states, *_), same in alike.items()]
    return Weighed(costs, covered, share)


def _cost(same: list[Choice], parts: Mapping[str, float], seconds: Seconds) -> Cost:
    times = same[0].times
    once_s = same[0].once_s
    samples = []
    for together in zip(*(seconds[state].values() for state in parts), strict=False):  # as many as the fewest
        samples.append(once_s + times * sum(map(mul, parts.values(), together)))
    return Cost(tuple(choice.name for choice in same), parts, times, once_s, samples, same[0].says)
