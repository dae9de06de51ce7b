"""The page of counts: where a new file lies over layouts, and what that costs the declared device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from fsage import dataset, statistics
from fsage.analysis.words import sentences, short_names
from fsage.base import MIB
from fsage.base.sizes import counted as number_of
from fsage.base.sizes import format_size, significant
from fsage.count.expected import against_timed
from fsage.count.tables import TABLE, table
from fsage.count.work import Counted
from fsage.dataset import unpacked
from fsage.dataset.families import names_of
from fsage.figures import Axis, Figure, Place, Plane, Point, Series
from fsage.figures import Lines as LinesFigure
from fsage.model.counting import device_words
from fsage.plan import Plan
from fsage.report import render
from fsage.report.parts import Section
from fsage.study import Study
from fsage.study.comparisons import any_means

CAPACITY = "files added, % of the capacity"
DELETED = "of these files deleted, %"
LOSS = "computed_loss_percent"
SHARES = {25: "a quarter", 50: "half", 75: "three quarters"}
SENTENCES = 2  # of an answer: where the file lies, and what that costs
SHOWN = 8
LEAST_POINTS = 3
"""So many states a figure has at most, and so many at least."""


@dataclass(frozen=True)
class OfState:
    """A state's files over its layouts. `layouts`: a row each; `files`: a row each."""

    state: str
    layouts: pd.DataFrame
    files: pd.DataFrame

    @property
    def name(self) -> str:
        """'filling to 80% and deleting half of the files'; of other recipes the state's own name."""
        added, deleted = self.files[["capacity_percent", "fragmentation_percent"]].iloc[0]
        if pd.isna(added):
            return f"building {self.state}"
        if deleted:
            gone = f" and deleting {SHARES.get(int(deleted), f'{deleted}%')} of the files"
        else:
            gone = ""
        return f"filling to {added}%{gone}"

    @property
    def loss(self) -> float:
        """Median over layouts."""
        return float(self.layouts[LOSS].median())

    @property
    def alike(self) -> bool:
        """Whether all layouts are one: then nothing of them depends on the seed."""
        return bool(self.files["layout_digest"].nunique() == 1)

    @property
    def size(self) -> str:
        """The size of one file."""
        return f"{self.files['file_bytes'].iloc[0] / MIB:,.0f} MiB"

    @property
    def different(self) -> int:
        """How many layouts there are; one, where all are alike."""
        return 1 if self.alike else len(self.layouts)

    @property
    def pieces(self) -> str:
        """'13 to 24 pieces'."""
        low = self.files["extents"].min()
        high = self.files["extents"].max()
        if low == high:
            return number_of(int(high), "piece")
        return f"{low} to {high} pieces"

    @property
    def cost(self) -> str:
        """'9% (6 to 12%)'."""
        cost = self.spread(LOSS, "{:.0f}".format)
        if "(" in cost:
            return cost.replace(" (", "% (").replace(")", "%)")
        return f"{cost}%"

    def spread(self, column: str, form: Callable[[float], str] = significant) -> str:
        """'28 (9 to 41)': median over layouts, smallest to largest; a single number where all are alike."""
        values = self.layouts[column]
        middle, low, high = map(form, (values.median(), values.min(), values.max()))
        if low == high:
            return middle
        return f"{middle} ({low} to {high})"


def of_states(frame: pd.DataFrame) -> list[OfState]:
    """Every state with a file that was written, by name; its largest transfer alone."""
    written = frame[frame["why"].isna()]
    written = written[written["transfer_size_bytes"] == written["transfer_size_bytes"].max()]
    return [OfState(str(state), _layouts(files), files) for state, files in written.groupby("state")]


def _layouts(files: pd.DataFrame) -> pd.DataFrame:
    """A row a layout: the mean of its files, and the loss of all together."""
    sums = files.groupby("layout")
    rows = sums[["extents", "jumps", "requests", "mean_position"]].mean()
    loss = 1 - sums["computed_whole_seconds"].sum() / sums["computed_seconds"].sum()
    return rows.astype(float).assign(**{LOSS: 100 * loss})


def write_page(
    counted: Counted, frame: pd.DataFrame, records: pd.DataFrame, others: Mapping[str, pd.DataFrame]
) -> Path:
    """Write figures and page; return the page. `records`: of the same study, timed; perhaps none.

    `others`: the same states counted on other file systems, by the title of each.
    """
    folder = counted.folder
    states = of_states(frame)
    beside = {counted.title: states} | {title: of_states(other) for title, other in others.items()}
    stamp = f"counted, not timed; cost computed for a device of {device_words(counted.device)}"
    sections = list(filter(None, _sections(counted, frame, states, records, beside)))
    title = f"{counted.plan.study.title}: counted"
    said = answer(counted, frame, others)
    return render.write_page(folder, "answer.html.j2", sections, stamp, title=title, answer=said)


def answer(counted: Counted, frame: pd.DataFrame, others: Mapping[str, pd.DataFrame]) -> list[str]:
    """What a new file of the state that the study asks for gets, on other file systems too; and where it costs most."""
    states = of_states(frame)
    same_state = []
    named = _headline(counted.plan.study, states) if states else None
    for title, other in others.items():
        same_state += [(title, of) for of in of_states(other) if named and of.state == named.state]
    return sentences(
        "counts",
        places=counted.places,
        device=device_words(counted.device),
        named=named,
        worst=max(states, key=lambda state: state.loss, default=None),
        others=same_state,
        states=len(states),
        alike=sum(state.alike for state in states) if counted.layouts > 1 else 0,
        missing=len(set(frame["state"])) - len(states),
    )


def kept_answer(plan: Plan) -> list[str]:
    """What the study asks for, of what was counted of a plan before, and the page; nothing where nothing was."""
    counted = Counted.of(plan)
    frame = table(counted)
    if frame.empty:
        return []
    return [*answer(counted, frame, {})[:SENTENCES], f"counts: {counted.folder / 'index.html'}"]


def kept_page(plan: Plan) -> Path | None:
    """Write the page of what was counted of a plan before, where its tables are newer than a page; the page written.

    A page of more layouts, or of other file systems, that somebody had made stays.
    """
    counted = Counted.of(plan)
    page = counted.folder / "index.html"
    tables = counted.folder / TABLE
    if not tables.exists() or (page.exists() and page.stat().st_mtime >= tables.stat().st_mtime):
        return None
    frame = table(counted)
    if frame.empty:
        return None
    return write_page(counted, frame, dataset.load(plan.files()), {})


def kept_sections(plan: Plan) -> list[Section]:
    """All layouts that were counted of a plan before, as points, for the report of its timed cells; or nothing."""
    counted = Counted.of(plan)
    frame = table(counted)
    if frame.empty:
        return []
    section = _over_deleted(counted, of_states(frame))
    if section is None:
        return []
    note = f"They are counted, not timed, and the loss is computed for {device_words(counted.device)}."
    return [replace(section, text=f"{section.text} {note}")]


def _headline(study: Study, states: list[OfState]) -> OfState:
    """The state where the file costs most, among the compared ones; among all, where the study compares none."""
    compared = [line.state for line in study.headline]
    named = [state for state in states if any_means(compared, state.state)]
    return max(named or states, key=lambda state: state.loss)


def _sections(
    counted: Counted,
    frame: pd.DataFrame,
    states: list[OfState],
    records: pd.DataFrame,
    beside: Mapping[str, list[OfState]],
) -> Iterator[Section | None]:
    yield _plane(states)
    yield _over_deleted(counted, states)
    if len(beside) > 1:
        yield _on_filesystems(beside)
    if counted.places > 1:
        yield _over_places(states)
    yield against_timed(frame, records)
    yield _table(states)
    yield _allocator(states)
    yield _how(counted, frame)


def _plane(states: list[OfState]) -> Section | None:
    places = []
    for of in states:
        x, y = of.files[["capacity_percent", "fragmentation_percent"]].iloc[0]
        if pd.isna(x):
            return None
        losses = of.layouts[LOSS]
        says = f"{of.state}: loss {of.spread(LOSS)} %, {of.spread('jumps')} jumps, {of.spread('extents')} pieces"
        if of.alike:
            ends = ""
        else:
            ends = f"\n{losses.min():.0f}\u2013{losses.max():.0f}"
        places.append(Place(float(x), float(y), of.loss, len(of.layouts), says=says, text=f"{of.loss:.0f}{ends}"))
    if len({place.x for place in places}) < 2 or len({place.y for place in places}) < 2:
        return None
    text = (
        "Median over layouts and, below it, smallest to largest; a single number where all layouts are one. Dark is "
        "slow. Beside a file in one piece at the same place."
    )
    figure = Plane("Computed loss, %", tuple(places), Axis(CAPACITY), Axis(DELETED), dark_high=True)
    return Section("The whole plane", text, [figure], wide=True, front=1)


def _over_deleted(counted: Counted, states: list[OfState]) -> Section | None:
    """All layouts as points: over the share deleted of the most files, or, where these states are few, of all."""
    most, shown = _of_most(states)
    x = Axis(DELETED, ticks={at: f"{of.files['fragmentation_percent'].iloc[0]}" for at, of in enumerate(shown)})
    where = f", where files for {most}% of the capacity were added"
    if len(shown) < LEAST_POINTS:
        shown = states[:SHOWN]
        where = ""
        x = Axis("state", ticks=dict(enumerate(short_names(of.state for of in shown).values())))
    if len(shown) < LEAST_POINTS:
        return None
    joined = bool(where)
    figures = [
        _lines("Pieces over layouts", "extents", "pieces", shown, x, joined),
        _lines("Computed loss over layouts", LOSS, "computed loss, %", shown, x, joined),
        _lines("Jumps over layouts", "jumps", "jumps that are charged", shown, x, joined),
    ]
    text = f"Each layout is a stroke, the median a mark{where}; {number_of(counted.layouts, 'layout')} at most."
    return Section("Over layouts", text, figures, front=2)


def _of_most(states: list[OfState]) -> tuple[int | None, list[OfState]]:
    """The share of the most files that were added, and the states of so many."""
    by_added: dict[int, list[OfState]] = {}
    for of in states:
        added = of.files["capacity_percent"].iloc[0]
        if pd.notna(added):
            by_added.setdefault(added, []).append(of)
    if not by_added:
        return None, []
    most = max(by_added)
    return most, by_added[most]


def _on_filesystems(beside: Mapping[str, list[OfState]]) -> Section:
    """The computed loss of the states on each file system, in one figure, and a row for each."""
    first = next(iter(beside.values()))
    of_most = _of_most(first)[1]
    names = [of.state for of in (of_most if len(of_most) >= LEAST_POINTS else first)[:SHOWN]]
    at = {name: float(place) for place, name in enumerate(names)}
    series = []
    rows = [["state", "file system", "pieces", "jumps", "computed loss, %"]]
    for title, states in beside.items():
        points = []
        for of in states:
            if of.state in at:
                points.append(_point(at[of.state], of, LOSS))
            rows.append([of.state, title, *map(of.spread, ("extents", "jumps", LOSS))])
        series.append(Series(title, tuple(points), joined=False))
    short = short_names(names)
    x = Axis("state", ticks={place: short[name] for name, place in at.items()})
    figure = LinesFigure("Computed loss by file system", tuple(series), x, Axis("computed loss, %"))
    text = (
        "The same files are added and deleted on each file system, with the same seeds, and each chooses blocks in its "
        "own way. Each layout is a stroke, the median a mark."
    )
    return Section("File systems", text, [figure], table=rows, front=1)


def _point(at: float, of: OfState, column: str) -> Point:
    values = of.layouts[column]
    return Point(at, float(values.median()), n=None if of.alike else len(values), samples=tuple(values))


def _lines(title: str, column: str, label: str, shown: list[OfState], x: Axis, joined: bool) -> Figure:
    points = [_point(float(at), of, column) for at, of in enumerate(shown)]
    top = max((value for point in points for value in point.samples), default=1.0)
    return LinesFigure(
        title, (Series("median and layouts", tuple(points), joined),), x, Axis(label, (-0.03 * top, 1.08 * top))
    )


def _over_places(states: list[OfState]) -> Section:
    """The mean jumps of the first file, the second, and so on."""
    places = sorted({place for of in states for place in of.files["place"]})
    table = [["state", *(f"file {place}" for place in places), "loss, file 1", "loss, all"]]
    for of in states:
        jumps = of.files.groupby("place")["jumps"].mean()
        shown = [f"{jumps[place]:.1f}" if place in jumps else Section.NONE for place in places]
        first = of.files[of.files["place"] == 1].groupby("layout")[["computed_whole_seconds", "computed_seconds"]].sum()
        loss = 100 * (1 - first["computed_whole_seconds"] / first["computed_seconds"])
        table.append([of.state, *shown, f"{loss.median():.1f}%", f"{of.loss:.1f}%"])
    text = "Mean jumps over layouts of each file that is left there, and the median loss of the first and of all."
    return Section("Places", text, [], table=table)


def _table(states: list[OfState]) -> Section:
    heads = ["state", "layouts", "full, %", "pieces", "jumps", "requests", "computed loss, %", "interval of its median"]
    rows = [heads]
    for of in states:
        interval = None if of.alike else statistics.median_interval(list(of.layouts[LOSS]))
        rows.append(
            [
                of.state,
                "1" if of.alike else str(len(of.layouts)),
                f"{of.files['real_fullness_percent'].median():.1f}",
                *map(of.spread, ("extents", "jumps", "requests", LOSS)),
                f"{interval.low:.1f} to {interval.high:.1f} ({interval.level:.2%})" if interval else "",
            ]
        )
    text = (
        "Median over layouts, and smallest to largest. A layout of several files has their mean, and the loss of all."
    )
    return Section("States", text, [], table=rows)


def _allocator(states: list[OfState]) -> Section | None:
    """What the kernel's allocator counted for the files of each state."""
    done = {of.state: of.files.dropna(axis="columns", how="all") for of in states}
    known = {name for files in done.values() for name in names_of(files, "allocator")}
    names = [name for name in OF_ALLOCATOR if name in known]
    if not names:
        return None
    rows = [["state", *names]]
    for state, files in done.items():
        counts = unpacked(files, "allocator", *names).fillna(0)
        rows.append([state, *(f"{counts[name].median():g}" for name in names)])
    text = (
        "Median over files, by ext4's own counters (mb_stats): groups it considered for a file, where it found blocks."
    )
    return Section("What the allocator did", text, [], table=rows)


OF_ALLOCATOR = (
    *("reqs", "groups_considered", "groups_scanned", "extents_scanned", "goal_hits", "len_goal_hits", "2^n_hits"),
    *("breaks", "lost", "cr_p2_aligned_hits", "cr_goal_fast_hits", "cr_best_avail_hits", "cr_goal_slow_hits"),
)


def _how(counted: Counted, frame: pd.DataFrame) -> Section:
    first = frame.iloc[0]
    files = []
    for wanted in counted.wanted:
        way = "past the cache" if wanted["direct"] else "through the cache"
        files.append(f"{format_size(wanted['file_bytes'])} by {format_size(wanted['transfer_bytes'])}, {way}")
    seeds = f"{frame['seed'].min()} to {frame['seed'].max()}"
    rows = [
        ["what", "value"],
        ["file system", f"{first['filesystem']} on {format_size(counted.device_bytes)}, in memory"],
        ["kernel", str(first["kernel"])],
        ["made by", str(first["made_by"])],
        ["mount options", str(first["mount_options"])],
        ["rotational, mb_max_linear_groups", f"{first['rotational']}, {first['mb_max_linear_groups']}"],
        [
            "files",
            f"{'; '.join(files)}; {number_of(counted.places, 'place')}, the file system mounted anew before each",
        ],
        ["seeds", seeds],
        ["device (declared)", device_words(counted.device)],
        ["held still", "the hash seed of directories, one thread that lays the files, their order"],
    ]
    text = "Each state is built as on a target, and the file is written as the workload writes it. Nothing is timed."
    return Section("How it was counted", text, [], table=rows)
