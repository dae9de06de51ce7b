"""fio's JSON (`--output-format=json` before the first `--name`), as fio 3 writes it.

`io_bytes` and `bw_bytes` count bytes, `runtime` milliseconds, `clat_ns` nanoseconds (json_add_ddir_status, stat.c). fio
before 3 is refused by its version: under the same key `io_bytes` it counts KiB (until 2.20), and latencies are in
microseconds under `clat`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fsage.base import KIB, MIB, Json
from fsage.parse import BadOutput, Transfer, check_end, tidy

BEGINS = re.compile(r"^\{(?=\s*(?:\"|$))", re.M)
UNREAD = {
    "client_stats": "it was run with --client, whose JSON has several hosts and their sum: run fio on the host itself",
    "mixed": "it was run with --unified_rw_reporting, which adds reads and writes up: run it without",
}
"""What stands in a document in place of what is read."""
SAYS_TROUBLE = re.compile(r"(<\S+> )?fio: (?!sprandom sets norandommap)|client: ")
OLDEST = 3
"""The first of fio 3 have no `bw_bytes`, and `bw` in KiB a second."""
ROUNDING = 0.01
"""By so much bytes over time may differ from the rate that fio gives."""

LATENCIES = {50.0: "p50", 99.0: "p99", 99.9: "p99_9"}
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
    """One run of fio: what all its jobs together wrote and read (None: nothing); options of the first that moved any.

    Of a group whose options may be another job's, only the global ones are there.
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

    Traps that it knows (seen with fio 3.33 but for the last):

    - a worker killed by SIGKILL: rc 0, error 0 and a note on stderr only;
    - a run stopped by a signal: valid JSON, error 0;
    - text before the document (`fio: pid=..., err=28/...`), or several documents (`--status-interval`);
    - an I/O error leaves bytes and a bandwidth of the part that went well beside `error`;
    - the 99.9th percentile of ten operations is printed too: it is the largest of them;
    - with `group_reporting` over different jobs an entry has the first one's name and the last one's options (fio
      3.41).
    """
    stdout = tidy(stdout)
    start = BEGINS.search(stdout)
    before = stdout[: start.start()] if start else stdout
    trouble = [line for line in before.splitlines() if SAYS_TROUBLE.match(line)]
    trouble += [line for line in stderr.splitlines() if not line.startswith("note: ")]
    check_end("fio", rc, trouble)
    if not start:
        raise BadOutput(
            f"fio's output holds no whole JSON document, but begins with {stdout[:60]!r}: run fio with "
            "--output-format=json before the first --name"
        )
    document, after = _document(stdout[start.start() :])
    if BEGINS.search(after):
        raise BadOutput("fio's output holds several JSON documents: give one run at a time, without --status-interval")
    try:
        run = _values(document)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
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
    operations = sum(part.operations for part in parts)
    latency_ms = parts[0].latency_ms if len(parts) == 1 else {}
    return FioTransfer(moved_bytes, seconds, moved_bytes / MIB / seconds, operations, latency_ms)


def _document(text: str) -> tuple[Json, str]:
    """The JSON document with which a text begins, and what follows it."""
    try:
        document, length = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1 : error.lineno]
        why = "it was cut short"
        if text[error.pos :].strip() and text.rstrip().endswith("\n}"):
            why = f"its line {error.lineno} was written by something else: {line[0].strip()[:60]!r}"
        raise BadOutput(f"fio's output holds no whole JSON document: {why}") from None
    except ValueError as error:  # of a number with thousands of digits
        raise BadOutput(f"fio's output holds a number that cannot be read: {error}") from None
    return document, text[length:]


def _values(document: Json) -> FioRun:
    version = document["fio version"]
    for part in (document, *document.get("jobs", ())):
        for key, why in UNREAD.items():
            if key in part:
                raise BadOutput(f"{version}: {why}")
    jobs = document["jobs"]
    number = re.match(r"fio-(\d{1,4})\.", version)
    if number and int(number[1]) < OLDEST:
        raise BadOutput(
            f"{version} counts io_bytes in KiB, or latencies in microseconds, where fio 3 has bytes and nanoseconds: "
            "run fio 3"
        )
    for job in jobs:
        if job["error"] != 0:
            raise BadOutput(f"fio's job {job['jobname']} reports error {job['error']} (an errno)")
        if job.get("total_err", 0) != 0:
            raise BadOutput(f"fio's job {job['jobname']} had {job['total_err']} errors and continued")
    first = jobs[0]
    begins = []
    ends = []
    for job in reversed(jobs):
        if int(job["read"]["io_bytes"]) or int(job["write"]["io_bytes"]):
            first = job
        begins.append(int(job.get("job_start", 0)))
        ends.append(begins[-1] + max(int(job["write"]["runtime"]), int(job["read"]["runtime"])))
    common = document.get("global options", {})
    options = {**common, **first["job options"]}
    if "group_reporting" in options and options.get("name") != first["jobname"]:
        options = common
    span_ms = max(ends) - min(begins)
    printed_ms = int(document["timestamp_ms"])
    return FioRun(
        version=version,
        jobs=tuple(job["jobname"] for job in jobs),
        write=_transfer("write", jobs),
        read=_transfer("read", jobs),
        options=options,
        span_seconds=span_ms / 1000,
        began=(min(begins) or printed_ms - span_ms) / 1000,
    )


def _transfer(direction: str, jobs: list[Json]) -> FioTransfer | None:
    jobs = [job for job in jobs if int(job[direction]["io_bytes"])]
    parts = [job[direction] for job in jobs]
    if not parts:
        return None
    if len({(job["groupid"], job["job options"].get("startdelay")) for job in jobs}) > 1:
        raise BadOutput(
            f"fio's jobs of {direction} are of several groups or start apart (stonewall, startdelay), so that no rate "
            "is that of all: give one at a time"
        )
    moved_bytes = sum(int(part["io_bytes"]) for part in parts)
    seconds = max(int(part["runtime"]) for part in parts) / 1000
    if seconds <= 0:
        raise BadOutput(f"fio moved {moved_bytes} bytes in less than 1 ms, the step of its clock")
    for part in parts:
        bytes_s = int(part["bw_bytes"]) if "bw_bytes" in part else KIB * int(part["bw"])
        amount = bytes_s * int(part["runtime"]) / 1000
        if abs(amount - int(part["io_bytes"])) > ROUNDING * amount + bytes_s / 1000 + KIB:
            raise BadOutput(
                f"fio gives {part['io_bytes']} bytes in {part['runtime']} ms, and {bytes_s} bytes a second: "
                "one of them is of something else"
            )
    operations = sum(int(part["total_ios"]) for part in parts)
    latency_ms = {}
    if len(parts) == 1:
        # A job with `--clat_percentiles=0` has none.
        for percent, value_ns in parts[0].get("clat_ns", {}).get("percentile", {}).items():
            value_ms = int(value_ns) / 1e6
            name = LATENCIES.get(float(percent))
            if name and operations >= 100 / (100 - float(percent)) - 1e-6:
                latency_ms[name] = value_ms
    return FioTransfer(moved_bytes, seconds, moved_bytes / MIB / seconds, operations, latency_ms)
