"""What must be alike before samples are pooled: conditions, layouts, and computed results.

What must be alike before samples are pooled: what they were taken under, and the layout they were taken in.

Whether what cells computed is the same in every layout: metrics `<phase>_checksum`, whole numbers below 2**48.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import fsum
from statistics import median
from typing import NamedTuple

import pandas as pd

from fsage.analysis import words
from fsage.dataset import metrics, texts_of, unpacked, without
from fsage.model.claim import REDUCED
from fsage.statistics import LAYOUT, PLACE, SAMPLE, TARGET, Units

AXES = [
    *("state", "recipe", "capacity_percent", "fragmentation_percent", "file_size_bytes"),
    *("reference", "params"),
]
"""The request: samples of one group are alike in all of these."""
SETTING = {
    "block": "target",
    "kernel": "kernel",
    "device_model": "device",
    "filesystem": "file system",
    "mount_options": "mount options",
    "allocator_reset": "allocator reset",
    "rotational": "rotational",
    "mb_max_linear_groups": "mb_max_linear_groups",
    "tunables": "tunables",
    "tools": "tools",
    "images": "container images",
    "amount_mib": "MiB a task",
    "launch": "launch",
    "metadata": "names and inodes",
}
"""Under what it was taken: the column, or FAMILIES' texts, and words for it."""
OF_A_KERNEL = ("kernel", "mb_max_linear_groups")
"""Those that follow from the kernel: a guest has them as its kernel comes."""
FAMILIES = {"tunables": "tunable", "tools": "tool"}
SHOWN = 3


def labelled(samples: pd.DataFrame) -> pd.DataFrame:
    """The samples with what keeps them apart; those alike in AXES, `setting` and `part` may be pooled.

    - `state` without the seed, where a study repeats its states with several (column `structure`: 1, 2, ...; a
      table of which only one structure is measured yet has one layout a state)
    - `setting`: words for what of SETTING is not alike in all samples; '' where all is
    - `part`: '' in the layout that most samples of a group were taken in, else the digest of the other layout
    - `condition`: both in words, for labels; '' where nothing differs
    - `main`: whether a figure that shows each group once shows it: the commonest setting and layout
    """
    structure = samples["structure"]
    bare = samples["state"].str.replace(r"\+\d+(?=@)", "", regex=True)
    frame = samples.assign(
        state=samples["state"].where(structure.isna(), bare),
        structure=structure if structure.nunique() > 1 else pd.array([pd.NA] * len(samples), "Int64"),
        setting=_setting(samples),
        layout_digest=samples["layout_digest"].fillna("unknown"),
    )
    digests = frame["layout_digest"]
    group = frame.groupby([*AXES, "setting", "structure"], dropna=False, sort=False).ngroup()
    taken = digests.groupby([group, digests]).transform("size")
    layouts = digests.iloc[(-taken).argsort(kind="stable")].groupby(group, sort=False)
    commonest = layouts.transform("first").reindex(frame.index)
    several = layouts.transform("nunique") > 1
    part = digests.where(digests != commonest, "")
    # Of several structures each has a commonest layout: these are one group, which no digest names.
    named = several.reindex(frame.index) & ((part != "") | frame["structure"].isna())
    layout = ("layout " + digests.str[:6]).where(named, "")
    both = (frame["setting"] + ", " + layout).str.strip(", ")
    usual = frame["setting"].mode()
    main = (part == "") & (frame["setting"] == (usual.iloc[0] if len(usual) else ""))
    return frame.assign(part=part, condition=both, main=main)


def unit_of(group: pd.DataFrame) -> str:
    """What the samples of a labelled group are repeated over; builds of one digest are one layout."""
    if group["structure"].nunique() > 1:
        if group["target"].nunique() > 1:
            return TARGET
        of_structure = group.dropna(subset="structure").drop_duplicates("structure")
        if of_structure["layout_digest"].nunique() > 1:
            return LAYOUT
    if group["place"].nunique() > 1:
        return PLACE
    return SAMPLE


def units(group: pd.DataFrame, measure: str) -> Units:
    """The values of a labelled group, a unit each: its layouts, else the places in its one layout, else its samples.

    A layout's value is its bytes over the time of its places.
    """
    known = group[measure].notna()
    taken = group if known.all() else group[known]
    kind = unit_of(taken)
    if kind == SAMPLE:
        return Units(SAMPLE, dict(enumerate(taken[measure].tolist())))
    places = taken["place"].fillna(1)
    return Units(kind, _rates(taken[measure], places if kind == PLACE else taken["structure"], places))


def _rates(rates: pd.Series, unit: pd.Series, places: pd.Series) -> dict[Hashable, float]:
    """The harmonic mean over a unit's places, which move the same bytes, of the median at each place."""
    known = unit.notna()
    at_places: dict[int, dict[int, list[float]]] = {}
    for number, place, rate in zip(unit[known], places[known], rates[known], strict=True):
        at_places.setdefault(number, {}).setdefault(place, []).append(rate)
    found: dict[Hashable, float] = {}
    for number, at_place in sorted(at_places.items()):
        seconds = [1 / median(taken) for taken in at_place.values()]
        found[int(number)] = 1 / (fsum(seconds) / len(seconds))
    return found


def basis(samples: pd.DataFrame) -> str:
    """What the intervals are over, state by state."""
    frame = labelled(samples)
    kinds: dict[str, list[str]] = {}
    short = words.short_names(frame["state"])
    for state, group in frame.groupby("state", sort=False):
        kinds.setdefault(unit_of(group), []).append(short[str(state)])
    return words.sentences("basis", kinds=kinds, most=2 * SHOWN)[0]


def conditions(samples: pd.DataFrame) -> list[str]:
    """A sentence for each condition that is not alike in all samples; none where all is."""
    frame = labelled(samples)
    differing = _differing(samples)
    alike = ["state", "structure", "setting"]
    places = [(key[0], part["layout_digest"].str[:6]) for key, part in frame.groupby(alike, sort=False, dropna=False)]
    return words.sentences(
        "conditions",
        differing={SETTING[name]: _counts(differing[name]) for name in differing},
        usual=next(iter(frame.loc[frame["main"], "setting"]), ""),
        codes=_counts(samples["code"]),
        mixed=[(state, _counts(digests)) for state, digests in places if digests.nunique() > 1],
        shown=SHOWN,
    )


def reduced(samples: pd.DataFrame) -> list[str]:
    """A sentence where the states left no room for the target's usual amount."""
    sources = samples.loc[
        samples["amount_source"].str.startswith(REDUCED).fillna(False), ["amount_mib", "amount_source"]
    ]
    return [
        f"Each task measured {amount_mib:.0f} MiB, {source}."
        for amount_mib, source in sources.drop_duplicates().itertuples(index=False)
    ]


def _setting(samples: pd.DataFrame) -> pd.Series:
    differing = _differing(samples)
    texts = [f"{SETTING[name]} " + differing[name] for name in differing]
    if texts:
        return texts[0].str.cat(texts[1:], sep=", ")
    return pd.Series("", samples.index, "str")


def settings(samples: pd.DataFrame, names: Iterable[str] = SETTING) -> pd.DataFrame:
    """SETTING, or these names of it, as texts; of tunables the values that were set, not those found before."""
    texts = samples.reindex(columns=list(names)).astype("str")
    for name in FAMILIES.keys() & texts.columns:
        texts[name] = texts_of(samples, FAMILIES[name]).replace("", "none")
    return texts


def _differing(samples: pd.DataFrame) -> pd.DataFrame:
    """Those of `settings` that are not alike in all samples; none is a kernel that a cell names, and what it has."""
    of_families = tuple(f"{family}." for family in FAMILIES.values())
    alike = [name for name in samples if name.startswith(of_families) and samples[name].nunique(dropna=False) < 2]
    names = [name for name in SETTING if _may_differ(samples, name)]
    texts = settings(samples.drop(columns=alike), names).fillna("unknown")
    is_named = unpacked(samples, "param", "kernel")["kernel"].notna()
    for name in OF_A_KERNEL:
        if name in texts:
            texts[name] = texts[name].mask(is_named, "as the cell names it")
    return texts[[name for name in texts if texts[name].nunique() > 1]]


def _may_differ(samples: pd.DataFrame, setting: str) -> bool:
    """Whether any column that a setting's text is made of differs: few do, and texts take time."""
    if setting in FAMILIES:
        columns = [name for name in samples.columns if name.startswith(f"{FAMILIES[setting]}.")]
    else:
        columns = [name for name in (setting, f"param.{setting}") if name in samples.columns]  # a cell names a kernel
    return any(samples[name].nunique(dropna=False) > 1 for name in columns)


def _counts(values: pd.Series) -> dict[str, int]:
    """How many samples have each value, the commonest first."""
    counts = values.value_counts(sort=False).sort_index().sort_values(ascending=False, kind="stable")
    return {str(value): int(count) for value, count in counts.items()}


ENDING = "_checksum"
HOW = (
    "iteration",
    "nodes",
    "distribution",
    "processes",
    "read_eviction_file",
    "server_cache",
    "transfer_size",
    "direct",
    "tool",
)
"""Parameters that say how work is done: what comes out of it must not depend on them."""
SHOWN_CELLS = 5


class Result(NamedTuple):
    """What the valid cells that were to compute the same did compute; `cells` by checksum, the commonest first."""

    phase: str
    params: str
    cells: dict[int, list[str]]


def results(frame: pd.DataFrame) -> list[Result]:
    """One for each phase with a checksum, and each set of parameters that its result may depend on."""
    valid = frame[frame["status"] == "valid"]
    what = without(valid, *HOW)
    agreements = []
    for name in metrics(frame, ENDING):
        for params, part in valid.dropna(subset=name).groupby(what, sort=True):
            cells: dict[int, list[str]] = {}
            for value, state, cell in zip(part[name], part["state"], part["cell"], strict=True):
                cells.setdefault(int(value), []).append(f"{state} {cell}")
            commonest = dict(sorted(cells.items(), key=lambda item: -len(item[1])))
            agreements.append(Result(name.removesuffix(ENDING).replace("_", " "), str(params), commonest))
    return agreements


def disagreements(frame: pd.DataFrame) -> list[str]:
    """A sentence for each result that is not the same in all cells: which of them have another."""
    sentences = []
    for result in results(frame):
        (value, most), *others = result.cells.items()
        for other, cells in others:
            sentences.append(
                f"results differ: {result.phase} has checksum {other} in {words.few(cells, SHOWN_CELLS)}, and "
                f"{value} in {len(most)} other cells: one of them read or computed something else, and no timing of "
                "it counts"
            )
    return sentences
