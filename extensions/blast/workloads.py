"""A search by blastn in the database that is part of the state, its volumes lying in the state's layout.

The processes run at once, each with all queries in its own share of the volumes, as fragments of a database are shared
out in the source: neighbours, so that all segments are read from at the same time, and each byte once. Queries are few
and words are long, so that it is the reading that takes the time. The size of the whole database is given to each, so
that what is found does not depend on the shares. Nothing is written.

The output is blastn's tabular one with comments (`-outfmt "7 ..."`), as BLAST+ 2.12.0 writes it. Its last line, "#
BLAST processed N queries", is the one sign of a search that reached its end; a query that nothing was found for has its
comments too. What is not found is no error to blastn, and its exit code is 0.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from fsage.api.model import MIB, Claim, JsonView, Phase, PhaseResult, Refusal, Step, kinds, tools
from fsage.api.study import (
    BadOutput,
    Metrics,
    Outcome,
    Unsupported,
    check_end,
    is_launched,
    judge,
    on_client,
    steps_of,
    tasks,
)
from fsage.studies.striping import striped
from fsage.studies.striping.model import osts_of

from . import model
from .model import Database, Volume, base_of, queries_at

PROGRAMS = ("blastn", "makeblastdb")
PACKAGE = "ncbi-blast+"
CHECKSUM_BYTES = 6
MAPPED = 0.8
"""Of the rate of large transfers, what several processes get that read by mapping files (measured)."""
CELL_S = 14.0  # before a claim; a search on 16 modelled stores
PROCESS_S = 0.06
"""What each process adds to a cell for its start and its computing: half of it on two cores (measured)."""


class Params(striped.Params):
    """Parameters of one cell."""

    workload: Literal["blast"] = "blast"
    word_size: int = Field(
        default=64,
        ge=16,
        le=model.QUERY_BASES,
        description="bases that must agree before a hit is examined; long words are faster",
    )
    processes: int | None = Field(
        default=None, ge=1, description="searches at the same time, on all clients together; null: the target's tasks"
    )


def check(params: Params, steps: Sequence[Step]) -> Database:
    """The step that made the database. Raises ValueError where the state has none, or too few volumes."""
    step = Database.among(steps)
    if step is None:
        raise ValueError("workload blast needs a state with a database: `recipe: blast`")
    striped.check(params, steps)
    _shares(params.processes or 1, step.volumes)
    return step


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """One phase, the search. `Unsupported` where the target has not got the state's layout.

    `ValueError` if the state has no database, blastn is missing, or there are more processes than volumes.
    """
    volumes = _laid_out(params, claim, steps)
    mounts = [Path(store["mount"]) for store in claim["stores"]]
    odd = next((mount for mount in mounts if " " in str(mount)), None)
    if odd:
        raise ValueError(f"{odd} holds a space, which separates volumes on blastn's command line: declare another")
    bases = [base_of(mounts, number, volume.segment, volume.ost) for number, volume in enumerate(volumes)]
    start = [*tools.tool_command(claim, "blastn"), "-task", "megablast"]
    options = {
        "query": queries_at(mounts),
        "word_size": params.word_size,
        "dust": "no",
        "evalue": "1e-10",
        "dbsize": volumes[-1].end_bytes * 4,
        "max_target_seqs": 1000,  # more than there are: a list that is cut would depend on the shares
        "num_threads": 1,
        "outfmt": f"7 {FIELDS}",
    }
    words = [word for key, value in options.items() for word in (f"-{key}", str(value))]
    clients = striped.clients(params.nodes, claim)
    searches = []
    for process, (first, end) in enumerate(_shares(params.processes or tasks(claim), len(volumes))):
        front = []
        if len(clients) > 1:
            host = clients[process % len(clients)]
            front = on_client(claim, host)
        searches.append([*front, *start, "-db", " ".join(map(str, bases[first:end])), *words])
    files = [str(base.with_suffix(suffix)) for base in bases for suffix in model.SUFFIXES]
    search: Phase = {"name": "search", "argv": searches[0], "beside": searches[1:], "reads": True, "reads_files": files}
    return striped.controlled(params, [search], steps, claim)


def seconds(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> float:
    """Estimate from the claim's calibration, which with one task is of one store: what the fullest one has to give.

    `ValueError` as `commands`.
    """
    calibration = claim["calibration"]
    try:
        volumes = _laid_out(params, claim, steps)
    except Unsupported:
        return 0.0
    osts = [0] * osts_of(claim)
    for volume in volumes:
        osts[volume.ost] += volume.end_bytes - volume.start_bytes
    if kinds.kind_of(claim).own_stores:
        mib = max(osts) / MIB
    else:
        mib = volumes[-1].end_bytes / MIB
    computing = PROCESS_S * (params.processes or tasks(claim))
    rest = calibration["cell_overhead_s"] + striped.eviction_seconds(params, 1, steps, claim)
    return rest + computing + mib / (MAPPED * calibration["read_mib_s"])


def rates(params: Params) -> list[str]:
    """How fast the database was searched."""
    return ["search_bw_mib_s"]


def read(observation: JsonView) -> Outcome:
    """`search_bw_mib_s` (the database's bytes by the time from the first start to the last end) and what made it up.

    `search_seconds`, `search_bytes`, `search_hits`, `search_checksum` (of all hits), and `search_cpu_s` of all
    processes where they ran on this host; or why not.
    """
    noted = observation["layout"]["notes"].get("database", {})
    if observation["status"] == "done" and "bytes" not in noted:
        return Outcome("failed", "the state has no database: its steps have no `database`")
    step = Database.among(steps_of(observation))
    queries = step.queries if step else 0
    return judge(observation, Params, lambda params: ["search"], partial(_judge, noted, queries))


def _laid_out(params: Params, claim: Claim, steps: Sequence[Step]) -> list[Volume]:
    """The volumes of the state's database on this target."""
    striped.clients(params.nodes, claim)
    lacking = [name for name in PROGRAMS if not claim["tools"].get(name)]
    if lacking:
        raise ValueError(
            f"workload blast needs {' and '.join(lacking)}, not found when target {claim['target']} was claimed: "
            f"install the package {PACKAGE}, release the target and claim it again"
        )
    step = check(params, steps)
    striped.layout(steps, claim)
    try:
        volumes = step.lying(claim)
    except Refusal as why:
        raise Unsupported(str(why)) from why
    _shares(params.processes or tasks(claim), len(volumes))
    return volumes


def _shares(count: int, volumes: int) -> list[tuple[int, int]]:
    """For each of so many processes its volumes, from one up to another. Raises ValueError for too few volumes."""
    if count > volumes:
        raise ValueError(f"processes: {count} cannot share {volumes} volumes: give fewer, or the study more volumes")
    return [(volumes * number // count, volumes * (number + 1) // count) for number in range(count)]


def _judge(noted: JsonView, queries: int, params: Params, phase: PhaseResult) -> Metrics:
    searches = [phase, *phase.get("beside", ())]
    hits: list[tuple[str, ...]] = []
    searched = 0
    for task in searches:
        run = parse(task["stdout"], task["stderr"], task["rc"])
        requested = task["argv"][task["argv"].index("-db") + 1]
        if (run.database, run.queries) != (requested, queries):
            raise BadOutput(
                f"{run.queries} queries of {queries} were looked for in {run.database!r}, requested: {requested!r}"
            )
        hits += run.hits
        searched += len(requested.split())
    if searched != len(noted["volumes"]):
        raise BadOutput(f"{searched} volumes were searched, the database has {len(noted['volumes'])}")
    right = {hit[0] for hit in hits if _where(hit) == hit[0]}
    if len(right) != queries:
        raise BadOutput(f"{len(right)} of {queries} queries were found where they are from")
    took = max(task["wall_s"] for task in searches)  # all began at once
    text = "\n".join(sorted("\t".join(hit) for hit in hits)).encode()
    metrics: Metrics = {
        "search_bw_mib_s": noted["bytes"] / MIB / took,
        "search_seconds": took,
        "search_bytes": noted["bytes"],
        "search_hits": len(hits),
        "search_checksum": int.from_bytes(hashlib.blake2b(text, digest_size=CHECKSUM_BYTES).digest(), "big"),
    }
    if not is_launched(phase["argv"]):  # of what it launches, other hosts' kernels alone know it
        metrics["search_cpu_s"] = phase["cpu_s"]
    return metrics


def _where(hit: Sequence[str]) -> str | None:
    """Where a query is from, as its name says it, of a hit with the whole of it; None of any other."""
    _, subject, length, mismatches, gaps, *_ = hit
    whole = (length, mismatches, gaps) == (str(model.QUERY_BASES), "0", "0")
    if whole:
        return f"{subject}.{hit[7]}"
    return None


FIELDS = "qseqid sseqid length mismatch gapopen qstart qend sstart send evalue bitscore"
"""The requested fields of each hit, in this order."""


@dataclass(frozen=True)
class BlastnRun:
    """One search: the program's version, the database as it was named, how many queries, and a line for each hit."""

    version: str
    database: str
    queries: int
    hits: tuple[tuple[str, ...], ...]


def parse(stdout: str, stderr: str, rc: int | None) -> BlastnRun:
    """What one blastn found; `BadOutput` if it failed, warned, was cut short, or counts otherwise than it lists."""
    check_end("blastn", rc, [line for line in stderr.splitlines() if "rror" in line or "arning" in line], stderr)
    ended = re.search(r"^# BLAST processed (\d{1,18}) queries$", stdout, re.M)
    version = re.search(r"^# BLASTN (\S+)$", stdout, re.M)
    databases = set(re.findall(r"^# Database: (.*)$", stdout, re.M))
    if not ended or not version or len(databases) != 1:
        raise BadOutput("blastn's output lacks its version, its database or its last line: it was cut short")
    hits = [tuple(line.split("\t")) for line in stdout.splitlines() if line and not line.startswith("#")]
    counted = sum(map(int, re.findall(r"^# (\d{1,18}) hits found$", stdout, re.M)))
    if counted != len(hits) or any(len(hit) != len(FIELDS.split()) for hit in hits):
        raise BadOutput(f"blastn counts {counted} hits, and lists {len(hits)}, not all of them whole")
    return BlastnRun(version[1], databases.pop(), int(ended[1]), tuple(hits))
