"""The table's schema: what each column holds, and in which unit.

The site's page reference/records.md is made of it (docs/generate.py).

A record may come from anywhere: what of it is used has types. The bounds are those of a row (fsage.dataset.records).
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

SCHEMA_VERSION = 2
UNITS = {
    "_mib_s": "MiB/s",
    "_per_s": "1/s",
    "_bytes": "B",
    "_mib": "MiB",
    "_kib": "KiB",
    "_ms": "ms",
    "_seconds": "s",
    "seconds_total": "s",
    "_percent": "%",
    "deleted_share_files": "1",
    "deleted_share_bytes": "1",
    "_position": "1",
    "_position_sd": "1",
    "_position_skewness": "1",
    "_position_kurtosis": "1",
    "_score": "1",
}
"""The unit of a column by the end of its name; the longest that fits counts."""


def unit_of(name: str) -> str | None:
    """'write_bw_mib_s' -> 'MiB/s'; None for texts and counts."""
    ends = [end for end in UNITS if name.endswith(end)]
    if ends:
        return UNITS[max(ends, key=len)]
    return None


PLAIN = "numbers and plain words"
NAME = "numbers and plain words, of a path its last part"
NUMBER = "numbers"
VERSION = "a version's numbers"
OPTIONS = "mount options without addresses"
PRIVATE = "nothing"


class Column(NamedTuple):
    """`type` as pandas calls it; any may be missing in a row. `public`: what of its texts leaves with `--anonymous`."""

    type: str
    meaning: str
    public: str = PLAIN


COLUMNS = {
    # which cell
    "study": Column("str", "name of the study, config/<study>.yaml"),
    "target": Column("str", "name of the target, inventories/<target>"),
    "block": Column(
        "str", "the target again, where several measured a study and what they measured must not be pooled"
    ),
    "state": Column("str", "name of the state, e.g. 70.30@264M"),
    "cell": Column("str", "name of the cell, unique within its state"),
    "kind": Column(
        "str", "planned; or sentinel, reference, traced, warm_up: counted apart, never pooled; unknown: not readable"
    ),
    "order_in_state": Column("Int64", "place among the cells of its state, from 1"),
    "attempt": Column("Int64", "1, or more where the cell was measured again"),
    "status": Column(
        "str",
        "valid, failed, stopped (others suffered: stop_if), unsupported, skipped (by the stop rule or a budget, so it "
        "has no record) or unreadable",
    ),
    "why": Column("str", "the reason, unless valid", PRIVATE),
    "warnings": Column(
        "str",
        "signs of trouble during the cell: connections lost, requests that timed out or were sent again, errors that a "
        "kernel reported; missing: none were seen",
        PRIVATE,
    ),
    "absent": Column(
        "str", "what could not be had or known: `WHAT: WHY; WHAT: WHY`; missing: nothing is absent", PRIVATE
    ),
    # the request
    "recipe": Column("str", "what made the state, e.g. paf"),
    "capacity_percent": Column("float64", "AA: files worth this share of the empty target's capacity were added"),
    "fragmentation_percent": Column("float64", "BB: this share of them was then deleted"),
    "file_size_bytes": Column("Int64", "nominal size of those files; the target's scale applies"),
    "workload": Column("str", "what was run, e.g. sequential"),
    "transfer_size_bytes": Column("Int64", "bytes of one transfer"),
    "iteration": Column("Int64", "which of the repetitions, from 1"),
    "structure": Column("Int64", "which of several layouts of the same structure, from 1; missing: there is one"),
    "place": Column("Int64", "which of the files that are left in the layout, from 1; missing: the first alone"),
    "reference": Column("str", "state that this one is compared with, where its recipe names one"),
    "params": Column(
        "str",
        "all parameters but iteration and place, `NAME=VALUE NAME=VALUE`: cells of a state that are alike in it "
        "repeat each other",
        NAME,
    ),
    # in which state it really was taken
    "capacity_percent_achieved": Column("float64", "share of the capacity that was filled, all generations"),
    "deleted_share_files": Column("float64", "share of the files that was deleted, 0 to 1"),
    "deleted_share_bytes": Column("float64", "share of their bytes that was deleted, 0 to 1"),
    "capacity_bytes": Column("Int64", "what the empty target can hold"),
    "real_fullness_percent": Column("float64", "share of the capacity in use when the cell was measured"),
    "layout_digest": Column(
        "str",
        "the same digest is the same layout, extent by extent. Where extents are not available (`note.digest.absent` "
        "says why), it names the layout instance: each build has its own",
    ),
    "filler_files": Column("Int64", "files that made the target full"),
    "filler_extents": Column("Int64", "their extents"),
    "state_known": Column(
        "boolean", "false where the file system is not the target's own: nothing is known of its state"
    ),
    "rebuilt": Column("boolean", "whether the state was rebuilt since it was first reached"),
    "unseen_share": Column(
        "float64",
        "share of the state's files that the check before the cell did not look at, because the kernel cannot report "
        "changes. Missing: it looked at all files, or the kernel reports changes",
    ),
    "epoch": Column("Int64", "the target's counter of state changes"),
    # what came out
    "write_bw_mib_s": Column("float64", "bandwidth of the write phase, MiB/s (2^20 bytes)"),
    "read_bw_mib_s": Column("float64", "bandwidth of the read phase, MiB/s"),
    "write_seconds": Column("float64", "duration of the write phase by the tool's own clock"),
    "read_seconds": Column("float64", "duration of the read phase by the tool's own clock"),
    "write_bytes": Column("float64", "bytes that the write phase moved"),
    "read_bytes": Column("float64", "bytes that the read phase moved"),
    **{
        f"{phase}_latency_{name}_ms": Column(
            "float64",
            f"{percent:g}th percentile of a {phase}'s completion latency, as fio gives it; missing where fewer than "
            f"{100 / (100 - percent):.0f} operations or several hosts are",
        )
        for phase in ("write", "read")
        for name, percent in (("p50", 50), ("p99", 99), ("p99_9", 99.9))
    },
    # where the measured files lay
    "measured_files": Column("Int64", "files that the cell wrote"),
    "measured_extents": Column("Int64", "their extents"),
    "measured_bytes": Column("Int64", "their bytes"),
    "measured_mean_position": Column(
        "float64", "where their bytes lie on average: 0 the device's first block, 1 the last"
    ),
    "measured_position_sd": Column("float64", "standard deviation of the places of their bytes, in the same unit"),
    "measured_position_skewness": Column("float64", "skewness of these places"),
    "measured_position_kurtosis": Column("float64", "kurtosis of these places: 3 where they are normal"),
    "measured_mean_extent_bytes": Column("float64", "mean size of their extents, bytes"),
    "measured_layout_score": Column(
        "float64",
        "share of their blocks that follow directly on the block before (Smith and Seltzer 1997): 1 is contiguous",
    ),
    "measured_jumps": Column(
        "Int64",
        "jumps from an extent of a file to its next that the device model charges for; without a model: those of more "
        "than 16 MiB",
    ),
    "model_seconds": Column(
        "float64",
        "what the device model charges for writing or reading these files once more: bytes, requests and jumps. "
        "Missing: no model, one with noise or drift, or several tasks on a store",
    ),
    "disturbed": Column(
        "Int64",
        "samples of this cell that took more than 5% over `model_seconds`: each but the third was taken again, and its "
        "raw record kept",
    ),
    # how
    "began": Column("str", "when, UTC; in Parquet a timestamp, in the CSV ISO 8601"),
    "seconds_total": Column("float64", "duration of the cell with all that belongs to it"),
    "waits": Column("Int64", "how often the run waited for others since the cell before (stop_if); missing: no limits"),
    "wait_seconds": Column("float64", "and how long in all"),
    "host": Column("str", "the host that ran the command", PRIVATE),
    "kernel": Column("str", "its kernel", VERSION),
    "code": Column("str", "digest of the code of fsage that measured it"),
    "device_model": Column("str", "what was laid over the device, or that nothing was"),
    "filesystem": Column("str", "ext4, xfs, btrfs, ..."),
    "mount_options": Column("str", "of each store, in order; of all, where they are alike", OPTIONS),
    "allocator_reset": Column("str", "what started the allocator anew before each phase: remount, cold or none"),
    "rotational": Column("str", "1, its device is said to seek, or 0; likewise"),
    "mb_max_linear_groups": Column("str", "groups that ext4 looks at in order; likewise"),
    "amount_mib": Column("float64", "what each task moves, MiB"),
    "amount_source": Column("str", "where that is from: calibrated, declared, or reduced from what, and why"),
    "launch": Column("str", "launcher of MPI, its options and tasks on each client", PRIVATE),
    "metadata": Column(
        "str",
        "whether names and inodes of the cell's own files were in memory before its phases that read the device",
    ),
    "images": Column("str", "container images that they were in, each with its SHA-256; missing: none", PRIVATE),
    "commands": Column("str", "command lines of the phases, as a shell takes them", PRIVATE),
}
"""In the order of the files; FAMILIES follow, and what a workload measures besides, as float64 with its unit's name."""
ANY = "any"
FAMILIES = {
    "param": Column(ANY, "a parameter of the cell", NAME),
    "axis": Column(ANY, "the state's level on an axis of its recipe; paf's axes have columns of their own", NAME),
    "note": Column(ANY, "`note.STEP.NAME`: what a step noted of its work when it built the state", NUMBER),
    "measured_extents_of": Column("Int64", "extents of the measured files, from so many bytes to below twice that"),
    "device": Column("float64", "what a modelled device charges: the numbers among its parameters"),
    "tunable": Column(ANY, "value while it was measured; `.asked`: as requested, `.before`: before the first change"),
    "tool": Column("str", "version of a program", VERSION),
}
"""Columns `FAMILY.NAME`, as many as the records have names. A list stands as its items, lists in it parted by `; `."""
NOTES = """
after agree_bytes agree_share before bytes capacity_bytes count device_bytes differ drawn draws emd_share emd_size
eviction_bytes extents filesystem files folders found fragmentation_factor fragmented free_bytes free_extents
free_percent free_share_sample free_share_whole groups held_by high ideal_extents largest_free_bytes left_bytes length
level low metadata_bytes moved_bytes of_windows original osts piece_bytes queries range_bytes ranges ranges_after
ranges_before ranges_moved realisation rows run_group seconds seed segments sequences source stripes taken_bytes this
time_limit_s tool volumes whole_extents window_groups windows
"""
"""Names of public notes; those in WORDED may be words."""
WORDED = ("filesystem", "held_by", "realisation", "tool")


def column_of(name: str) -> Column | None:
    """What is declared of a column, of one `FAMILY.NAME` of its family; None for a metric."""
    family, dot, _ = name.partition(".")
    if dot:
        return FAMILIES.get(family)
    return COLUMNS.get(name)


def page() -> str:
    """The schema as Markdown."""
    head = ["| column | type | what | texts that leave with `--anonymous` |", "|---|---|---|---|"]
    rows = [_line(name, column) for name, column in COLUMNS.items()]
    families = [_line(f"{name}.NAME", column) for name, column in FAMILIES.items()]
    return "\n".join([INTRODUCTION, *head, *rows, "", "## Families", "", *head, *families])


def _line(name: str, column: Column) -> str:
    return f"| `{name}` | {column.type} | {column.meaning} | {column.public} |"


INTRODUCTION = f"""# The table of records

Each report comes with `records.parquet` and `records.csv`: the same flat table, one row a record. No cell has a
structure to parse: parameters, axes, tunables and versions are columns, `param.NAME`, `axis.NAME` and so on (below).

```python
table = pandas.read_parquet("records.parquet")
table[table.status == "valid"].groupby(["axis.holes", "param.transfer_size"])["write_bw_mib_s"].median()
```

```r
table <- arrow::read_parquet("records.parquet")
aggregate(write_bw_mib_s ~ state + params, subset(table, status == "valid"), median)
```

The metadata of the Parquet file has `fsage_schema_version`; this is version {SCHEMA_VERSION}. The metadata of each
field has `description` and, where there is one, `unit`. What the kernel counted during each phase, and what mounting
took, is in the records alone (`results/records`): keys `counters` and `mounting` of a phase.

More columns follow, all float64, with the unit in the name. A workload may measure more than these. Where a time budget
predicts a rate, there are `<rate>_predicted`, and `_low` and `_high` of its 95% interval. `<rate>_as_measured` is there
where several targets share a study and a rate is divided by its target's factor.

In the CSV, a text that a spreadsheet would read as a formula (it begins with `=`, `+`, `-`, `@`) has an
apostrophe first.
"""

Metric = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,79}$")]
RATES = ("_bw_mib_s", "_per_s")
Block = dict[str, object]


class _Part(BaseModel):
    """Keys that are not named are left as they are."""

    model_config = ConfigDict(strict=True)


class Generation(_Part):
    files: int
    capacity_percent_achieved: float
    deleted_files: int
    deleted_share_bytes: float


class Layout(_Part):
    """Shares of `generations` are added up."""

    capacity_bytes: PositiveInt
    used_bytes: int
    generations: list[Generation] | None = None
    notes: dict[str, Block] | None = None


class Wait(_Part):
    seconds: float


class Probe(_Part):
    """What a probe saw for the sake of others (stop_if)."""

    waits: list[Wait] = []


class Command(_Part):
    argv: list[str]


class Phase(Command):
    name: str
    metadata: str = ""
    extents: Block | None = None
    beside: list[Command] = []


class Tunable(_Part):
    now: object


class Conditions(_Part):
    device_model: Block | None = None
    disks: list[Block] | None = None
    mount_options: list[object] | None = None
    tunables: dict[str, Tunable] | None = None
    tools: Block | None = None
    images: Block | None = None


class Nominal(_Part):
    recipe: str
    axes: Block | None = None


class Record(_Part):
    """One file of `results/records`."""

    study: str
    target: str
    state: str
    cell: str
    kind: Literal["planned", "sentinel", "reference", "traced", "warm_up"]
    order: int
    attempt: int
    status: Literal["valid", "failed", "unsupported", "skipped", "stopped"]
    why: str | None
    warnings: list[str] = []
    absent: dict[str, str] = {}
    began: str | None
    host: str | None
    kernel: str | None
    code: str | None = None
    params: Block
    nominal: Nominal
    layout: Layout
    conditions: Conditions
    check: Block
    seconds: Block = {}
    probe: Probe | None = None
    metrics: dict[Metric, float]
    phases: list[Phase]

    @model_validator(mode="after")
    def _rates_are_rates(self) -> Record:
        for name, value in self.metrics.items():
            if name.endswith((*RATES, "_mib_s")) and value <= 0:
                raise ValueError(f"{name} is {value:g}; a rate is above 0")
        return self


class Listed(_Part):
    """A row of a manifest; one with a reason `why` has no record."""

    cell: str
    kind: Literal["planned", "sentinel", "reference", "traced", "warm_up"]
    order: int
    params: Block
    why: str | None
    predicted: dict[Metric, float] = {}


class Manifest(_Part):
    """One file of `results/manifests`."""

    study: str
    target: str
    state: str
    nominal: Nominal
    cells: list[Listed]
