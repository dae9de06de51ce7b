"""fio's JSON (`--output-format=json` before the first `--name`), as fio 3.33 writes it.

Traps that this reader knows (all seen with fio 3.33):
- a worker killed by SIGKILL: rc 0, error 0 and a note on stderr only;
- a run stopped by a signal: valid JSON, error 0;
- text before the document (`fio: pid=..., err=28/...`), or several documents (`--status-interval`);
- an I/O error leaves bytes and a bandwidth of the part that went well beside `error`;
- the 99.9th percentile of ten operations is printed too: it is the largest of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fsage.model.typed import Json
from fsage.parse import MIB, BadOutput, Transfer, check_end

LATENCIES = {"p50": 50.0, "p99": 99.0, "p99_9": 99.9}
"""Percentiles of completion latency that are kept, as they stand in names of metrics."""


@dataclass(frozen=True)
class FioTransfer(Transfer):
    """What one direction moved, in how many operations, and `latency_ms`: by percentile, what one took to complete.

    A percentile p is there where 100 / (100 - p) operations are. Several jobs without `--group_reporting`, or several
    hosts, have none: percentiles cannot be added.
    """

    operations: int
    latency_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FioRun:
    """One run of fio: what all its jobs together wrote and read (None: nothing), the options it echoes.

    `jobs` are their names. `span_seconds`: from the first job's start to the last one's end (a fio that does not say
    when jobs start: all at once). `began`: that start, in seconds since 1970 by the host's clock; a fio that does not
    say it tells when its jobs have just ended, some 10 ms late. `start_spread_s`: of several hosts' runs.
    """

    version: str
    jobs: tuple[str, ...]
    write: FioTransfer | None
    read: FioTransfer | None
    options: Mapping[str, str]
    span_seconds: float
    began: float
    start_spread_s: float = 0.0


def parse(stdout: str, stderr: str, rc: int | None) -> FioRun:
    """Values of one fio run; `BadOutput` if it failed, was stopped, or its output is not one JSON document.

    Bandwidth is all bytes over the runtime of the slowest job, as in fio's own group line. fio gives the
    runtime in whole milliseconds.
    """
    before, document, after = _split(stdout)
    trouble = [line for line in before.splitlines() if re.match(r"(<\S+> )?fio: |client: ", line)]
    trouble += [line for line in stderr.splitlines() if not line.startswith("note: ")]
    check_end("fio", rc, trouble)
    if document is None:
        raise BadOutput("fio's output holds no whole JSON document: it was cut short or is of another format")
    if re.search(r"^\{", after, re.M):
        raise BadOutput("fio's output holds several JSON documents: run it without --status-interval")
    try:
        run = _values(document)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadOutput(f"fio's JSON is not that of a fio 3: {error!r}") from error
    if run.write is None and run.read is None:
        raise BadOutput("fio moved nothing")
    return run


def together(runs: Sequence[FioRun]) -> FioRun:
    """Runs beside each other, on clocks that agree, as one: all bytes over the time from first start to last end."""
    begins = [run.began for run in runs]
    span_s = max(run.began + run.span_seconds for run in runs) - min(begins)
    return replace(
        runs[0],
        jobs=tuple(name for run in runs for name in run.jobs),
        write=_together([run.write for run in runs if run.write], span_s),
        read=_together([run.read for run in runs if run.read], span_s),
        span_seconds=span_s,
        start_spread_s=max(begins) - min(begins),
    )


def _together(parts: Sequence[FioTransfer], seconds: float) -> FioTransfer | None:
    if not parts:
        return None
    moved_bytes = sum(part.moved_bytes for part in parts)
    latency_ms = parts[0].latency_ms if len(parts) == 1 else {}
    operations = sum(part.operations for part in parts)
    return FioTransfer(moved_bytes, seconds, moved_bytes / MIB / seconds, operations, latency_ms)


def _split(stdout: str) -> tuple[str, dict[str, object] | None, str]:
    """Text before the first JSON document, that document, and what follows it."""
    start = re.search(r"^\{$", stdout, re.M)
    if not start:
        return stdout, None, ""
    before = stdout[: start.start()]
    try:
        document, length = json.JSONDecoder().raw_decode(stdout[start.start() :])
    except ValueError:
        return before, None, ""
    return before, document, stdout[start.start() + length :]


def _values(document: Json) -> FioRun:
    jobs = document["jobs"]
    for job in jobs:
        if job["error"] != 0:
            raise BadOutput(f"fio's job {job['jobname']} reports error {job['error']} (an errno)")
    return FioRun(
        version=document["fio version"],
        jobs=tuple(job["jobname"] for job in jobs),
        write=_transfer([job["write"] for job in jobs]),
        read=_transfer([job["read"] for job in jobs]),
        options={**document.get("global options", {}), **jobs[0]["job options"]},
        span_seconds=_span(jobs),
        began=_began(jobs, int(document["timestamp_ms"])),
    )


def _began(jobs: list[Json], printed_ms: int) -> float:
    begins = [int(job["job_start"]) for job in jobs if "job_start" in job]
    return (min(begins) if begins else printed_ms - max(_run_ms(job) for job in jobs)) / 1000


def _run_ms(job: Json) -> int:
    return max(int(job["write"]["runtime"]), int(job["read"]["runtime"]))


def _span(jobs: list[Json]) -> float:
    begins = [int(job.get("job_start", 0)) for job in jobs]
    runs = [_run_ms(job) for job in jobs]
    return (max(begin + run for begin, run in zip(begins, runs, strict=True)) - min(begins)) / 1000


def _transfer(parts: list[Json]) -> FioTransfer | None:
    moved_bytes = sum(int(part["io_bytes"]) for part in parts)
    seconds = max(int(part["runtime"]) for part in parts) / 1000
    if moved_bytes == 0:
        return None
    if seconds <= 0:
        raise BadOutput(f"fio moved {moved_bytes} bytes in less than 1 ms, the step of its clock")
    operations = sum(int(part["total_ios"]) for part in parts)
    latency_ms = _latency_ms(parts[0], operations) if len(parts) == 1 else {}
    return FioTransfer(moved_bytes, seconds, moved_bytes / MIB / seconds, operations, latency_ms)


def _latency_ms(part: Json, operations: int) -> dict[str, float]:
    """Of completion, in milliseconds; a job with `--clat_percentiles=0` has none."""
    percentiles = {
        float(percent): int(value) for percent, value in part.get("clat_ns", {}).get("percentile", {}).items()
    }
    enough = {name: percent for name, percent in LATENCIES.items() if operations >= 100 / (100 - percent) - 1e-6}
    return {name: percentiles[percent] / 1e6 for name, percent in enough.items() if percent in percentiles}
