"""An SQLite SELECT in one group beside fio's random reads in the other, which share a device by weight.

Group 2 queries a real database that is contiguous (step `sqlite`), cold, through the page cache. Group 1 is fio, whose
reads go past the cache. Its file is the fragmented one in P4 to P6, and a contiguous one in P2 and P3. That is how the
source's patterns map on its workload B: fio has the fragmented file, so it is group 1. What fio reads is counted while
the queries run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from pydantic import Field

from fsage.api.model import Claim, Json, JsonView, Phase, PhaseResult, Step
from fsage.api.study import BadOutput, Metrics, Outcome, judge

from .. import weighted
from ..model import KIB, Sqlite
from ..weighted import PATTERNS

DATABASE = "2"
"""The group that asks it."""


class Params(weighted.Params):
    """Parameters of one cell. The query is repeated until it has taken `seconds`, once at least."""

    workload: Literal["sqlite"] = "sqlite"
    transfer_size: int = Field(default=64 * KIB, gt=0, description="bytes of one random read of fio in group 1")
    depth: int = Field(default=16, ge=1, le=1024, description="random reads of fio in flight at the same time")


def check(params: Params, steps: Sequence[Step]) -> Sqlite:
    """The step that made the database. Raises ValueError where the state has none, or no files to read."""
    weighted.files_among(steps)
    made = Sqlite.among(steps)
    if made is None:
        raise ValueError("an SQLite query needs a state with a database: `sqlite: true` with `recipe: iocontrol`")
    return made


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The one phase."""
    made = check(params, steps)
    path = str(weighted.file_of(claim, made.generation, 0))
    options = ["--rw=randread", f"--bs={params.transfer_size}", f"--iodepth={params.depth}", "--norandommap"]
    runs: dict[str, Json] = {}
    for name, reader in PATTERNS[params.pattern].items():
        if name == DATABASE:
            runs[name] = {"query": {"path": path, "seconds": params.seconds}}
        else:
            runs[name] = {"argv": weighted.fio(claim, name, reader.file, options)}
    phase = weighted.phase(params, claim, runs)
    if DATABASE in PATTERNS[params.pattern]:
        phase["reads_files"] = [path]
    return [phase]


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Both spans, as much again for the last query, and what a cell costs beside."""
    return weighted.seconds(params, claim) + params.seconds


def rates(params: Params) -> list[str]:
    """What each group read, and how many rows a second the database answered."""
    measured = weighted.rates(params)
    if DATABASE in PATTERNS[params.pattern]:
        measured.append("query_rows_per_s")
    return measured


def read(observation: JsonView) -> Outcome:
    """What `weights` gives of each group, and of the queries `query_seconds` (mean), `query_rows_per_s`, `queries` and
    `query_checksum`; or why not.

    The bandwidth of the database is over the time of its queries alone.
    """
    noted = observation.get("layout", {}).get("notes", {}).get("sqlite")
    if observation["status"] == "done" and not noted:
        return Outcome("failed", "the state has no database to ask: its steps have no `sqlite`")
    return judge(observation, Params, lambda params: ["share"], partial(_judge, noted or {}))


def _judge(noted: JsonView, params: Params, phase: PhaseResult) -> Metrics:
    groups = weighted.found(params, phase)
    if DATABASE not in groups:
        return weighted.measured(params, phase)
    queries = phase["queries"]
    for key in ("rows", "sum", "length"):
        odd = next((query[key] for query in queries if query[key] != noted[key]), None)
        if odd is not None:
            raise BadOutput(f"a query answered {odd} as {key}; the database was made with {noted[key]}")
    if not queries:
        raise BadOutput("the database answered no query")
    least = noted["bytes"] * len(queries)
    if groups[DATABASE]["read_bytes"] < least:
        raise BadOutput(
            f"{len(queries)} queries read {groups[DATABASE]['read_bytes']} bytes from the device, less than the "
            f"database's {least}: it was not cold"
        )
    spent = sum(query["seconds"] for query in queries)
    return {
        **weighted.measured(params, phase, {DATABASE: spent}),
        "queries": len(queries),
        "query_seconds": spent / len(queries),
        "query_rows_per_s": noted["rows"] * len(queries) / spent,
        "query_checksum": noted["sum"],
    }
