"""Repeated measurements of the same cell in groups, with median, interval and factor of each."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any, NamedTuple

import pandas as pd

from fsage import statistics
from fsage.analysis.conditions import AXES, labelled, units
from fsage.base.sizes import round_size
from fsage.dataset import metrics, parameters
from fsage.dataset.families import word
from fsage.workloads import RATES

REFERENCE = ["file_size_bytes", "params", "measure", "setting"]
"""What a group and the clean one that it is compared with have in common."""
COLUMNS = [
    *AXES,
    *("transfer_size_bytes", "real_fullness_percent", "layouts", "condition", "main", "setting"),
    *("measure", "n", "median", "mean", "low", "high", "level", "cov", "samples", "units", "flags"),
]
CARRIED = ("param.", "axis.")
"""Families of columns that a group has as its samples have them."""
OF_A_GROUP = ("real_fullness_percent", "cell", "structure", "place", "target", "layout_digest")
"""What a group's numbers are made of, beside the measure."""


def samples(frame: pd.DataFrame) -> pd.DataFrame:
    """What may enter a statistic: valid and planned. Sentinels, other extras and failures are reported apart."""
    return frame[(frame["status"] == "valid") & (frame["kind"] == "planned")]


def labelled_samples(frame: pd.DataFrame) -> pd.DataFrame:
    """The `samples` of a table with what keeps them apart (fsage.analysis.conditions.labelled)."""
    return labelled(samples(frame))


def measures(frame: pd.DataFrame) -> list[str]:
    """The columns that hold a rate (higher is better), in the order of the table."""
    return [name for name in metrics(frame, *RATES) if frame[name].notna().any()]


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each group and measure; never are samples pooled that were taken under different conditions.

    - AXES, those of CARRIED, `transfer_size_bytes`, `real_fullness_percent`: the group. `condition` tells groups
      apart that are alike in these, in words ('' where all was alike); of those, `main` is the one for figures
      (fsage.analysis.conditions)
    - `units`: the values by unit (fsage.analysis.conditions.units), `samples` the values alone; `layouts`: how many
    - `n`, `median`, its interval `low`, `high` with its `level`, `mean`, `cov`: of the samples
    - `flags`: iterations that lie far off, and why
    - `clean`: the state that the recipe names (`reference`), else the unfragmented one of lowest capacity with the same
      file size, with the same parameters under the same conditions, if there; `to_clean`: the Ratio to it;
      `p_exploratory`: of the difference, adjusted over all rows (false-discovery control)
    """
    taken = samples(frame)
    table = medians(labelled(taken), measures(taken))
    clean = _clean(table)
    found = [_compared(row, clean) for row in table.to_dict("records")]
    ps = statistics.adjust_exploratory([p for *_, p in found])
    table["clean"] = [state for state, *_ in found]
    table["to_clean"] = [ratio for _, ratio, _ in found]
    table["p_exploratory"] = pd.Series(ps, dtype="float64")
    return table.drop(columns="setting")


def factors(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `summarise` that have a ratio to the clean state: `median`, `low` and `high` are the ratio's."""
    has = [ratio is not None and ratio.value is not None for ratio in rows["to_clean"]]
    rows = rows[pd.Series(has, index=rows.index, dtype=bool)]  # an empty list would choose columns, none of them
    ratios = pd.DataFrame(map(plotted, rows["to_clean"]), index=rows.index, columns=["median", "low", "high"])
    return rows.assign(**dict(ratios.items()), samples=[()] * len(rows))


def plotted(shown: statistics.Ratio | list[float]) -> dict[str, Any]:
    """A ratio, or at least one sample, as columns of a tidy row (fsage.figures)."""
    if isinstance(shown, statistics.Ratio):
        value = shown.value
        taken: list[float] = []
        result: statistics.Ratio | statistics.Summary = shown
    else:
        taken = shown
        result = statistics.summarise(taken)
        value = result.median
    ends = result.interval or statistics.Interval(math.nan, math.nan, math.nan)
    return {
        "median": math.nan if value is None else value,
        "low": ends.low,
        "high": ends.high,
        "level": ends.level,
        "n": result.n,
        "samples": taken,
    }


def medians(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """A row for each group of labelled samples and each column of `names`, as in `summarise`, compared with nothing."""
    carried = [name for name in rows.columns if name.startswith(CARRIED)]
    groups = rows.groupby([*AXES, "setting", "part"], sort=False, dropna=False)
    alike = groups.head(1)[[*AXES, *carried, "transfer_size_bytes", "condition", "main", "setting"]].to_dict("records")
    # A group of a hundred columns costs ten times as much as one of these.
    used = rows[[*OF_A_GROUP, *names]]
    found = []
    for shared, (_, group) in zip(alike, used.groupby(groups.ngroup(), sort=False), strict=True):
        found += _rows(group, names, shared)
    return pd.DataFrame(found, columns=[*COLUMNS, *carried]).astype({"main": "bool"})  # an empty table knows no types


def _rows(group: pd.DataFrame, names: list[str], shared: dict[Any, Any]) -> list[dict[Any, Any]]:
    """A row for each of the measures that the group has; `shared`: what all its samples have in common."""
    fullness = group["real_fullness_percent"].median()
    several = group["structure"].notna().any()
    layouts = group.groupby("structure").indices.values() if several else [range(len(group))]
    cells = group["cell"].tolist()
    rows = []
    for measure in names:
        of_units = units(group, measure)
        sample_values = of_units.values
        if not sample_values:
            continue
        values = group[measure].tolist()
        flags = []
        for layout in layouts:
            known = [place for place in layout if not math.isnan(values[place])]
            for number, reason in statistics.outliers([values[place] for place in known]):
                flags.append(f"{cells[known[number]]}: {reason}")
        row = {
            **shared,
            **plotted(sample_values),
            "real_fullness_percent": fullness,
            "layouts": len(sample_values) if of_units.kind in statistics.DRAWN else 1,
            "measure": measure,
            "mean": fmean(sample_values),
            "cov": statistics.coefficient_of_variation(sample_values),
            "units": of_units,
            "flags": flags,
        }
        rows.append(row)
    return rows


def _clean(table: pd.DataFrame) -> dict[tuple[object, ...], dict[str, object]]:
    """The row that each REFERENCE is compared with, by `_key`; of several layouts of that state the commonest."""
    named = table[table["state"].isin(table["reference"].dropna())].sort_values("main", kind="stable")
    whole = table[(table["fragmentation_percent"] == 0) & table["reference"].isna()]
    whole = whole[~whole["state"].isin(named["state"])]  # what others name stands for those alone
    whole = whole.sort_values(["capacity_percent", "main"], ascending=[False, True], kind="stable")
    clean_rows = {_key(row, row["state"]): row for row in named.to_dict("records")}
    return clean_rows | {_key(row, None): row for row in whole.to_dict("records")}


def _key(row: dict[str, object], reference: str | None) -> tuple[object, ...]:
    return (reference, *(None if pd.isna(row[name]) else row[name] for name in REFERENCE))


def _compared(
    row: dict[str, Any], clean: dict[tuple[object, ...], dict[str, Any]]
) -> tuple[str | None, statistics.Ratio | None, float | None]:
    """Name of the clean state, the row's ratio to it, and p; nothing against itself."""
    named = row["reference"] if isinstance(row["reference"], str) else None
    reference = clean.get(_key(row, named))
    if reference is None:
        return None, None, None
    if reference["state"] == row["state"]:
        return reference["state"], None, None
    taken = row["units"]
    beside = reference["units"]
    return reference["state"], statistics.factor(taken, beside), statistics.compare(taken.values, beside.values)


def counts(rows: pd.DataFrame) -> str:
    """How many samples the rows have, '5' or '3 to 5'."""
    low = rows["n"].min()
    high = rows["n"].max()
    if low == high:
        return f"{low}"
    return f"{low} to {high}"


DOING = {
    "write": "writing",
    "read": "reading",
    "create": "creating files",
    "stat": "asking for attributes of files",
    "remove": "removing files",
    "index": "indexing",
    "models": "reading models",
    "search": "searching",
}
"""What a measure is a rate of, as a sentence's subject."""


class Measure(NamedTuple):
    """What the name of a measure says, and its unit: of 'write_bw_mib_s' they are 'write' and 'MiB/s'."""

    name: str
    unit: str

    @classmethod
    def of(cls, measure: object) -> Measure:
        """The measure of a column."""
        text = str(measure)
        for ending, unit in (("_bw_mib_s", "MiB/s"), ("_per_s", "1/s")):
            if text.endswith(ending):
                return cls(text.removesuffix(ending).replace("_", " "), unit)
        return cls(text.replace("_", " "), "")

    @property
    def plural(self) -> str:
        """The name of several: 'searches', 'models'."""
        if self.name.endswith("s"):
            return self.name
        if self.name.endswith(("h", "x")):
            return f"{self.name}es"
        return f"{self.name}s"

    @property
    def doing(self) -> str:
        """As a sentence's subject: 'writing'."""
        return DOING.get(self.name, self.name)


def params_labels(rows: pd.DataFrame) -> dict[str, str]:
    """A short name for each distinct set of parameters of the rows: the transfer size, and what else differs."""
    distinct = parameters(rows)
    distinct = dict(sorted(distinct.items(), key=lambda item: (*(item[1].get(key) or 0 for key in SIZES), item[0])))
    differing = []
    for key in sorted(set[str]().union(*distinct.values())):
        if len({cell_params.get(key) for cell_params in distinct.values()}) > 1:
            differing.append(key)
    labels = {}
    for text, cell_params in distinct.items():
        words = []
        if cell_params.get("transfer_size") and differing != ["amount_percent"]:
            words.append(round_size(cell_params["transfer_size"]))
        words += [_in_words(key, cell_params.get(key)) for key in differing if key != "transfer_size"]
        labels[text] = ", ".join(words) or cell_params.get("workload", text)
    return labels


SIZES = ("transfer_size", "amount_percent")
"""Parameters by whose size sets of parameters are in order."""


def _in_words(key: str, value: object) -> str:
    if key == "amount_percent" and value is not None:
        return f"{value:g}% of the target"
    return f"{key} {word(value)}"
