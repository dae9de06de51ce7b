"""One phase: gives shares to tasks until all are done, and adds up what came of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from fsage.host.netflow import index, share, worker
from fsage.host.netflow.assignment import Assignment
from fsage.host.netflow.blocks import CHECKSUMS
from fsage.host.netflow.tasks import Task, Tasks
from fsage.model.errors import Failure

SUMS = ("bytes", "records", "shares", "read_records")
CHECKSUM = ("checksum", "read_checksum")


def run(asked: Assignment, launcher: Sequence[str]) -> dict[str, Any]:
    """Run the phase; what all tasks did together, from the first I/O to the last one. Raises Failure."""
    shares = _shares(asked)
    if len(shares) < asked.tasks:
        raise Failure(f"{len(shares)} shares of work are not enough for {asked.tasks} tasks: use fewer")
    tasks = Tasks(asked.tasks, launcher, asked.towards)
    try:
        ready = tasks.meet(asked)
        results = _distribute(ready, shares, tasks)
    finally:
        tasks.close()
    sums = {key: sum(one[key] for one in results) for key in SUMS if key in results[0]}
    checksums = {key: sum(one[key] for one in results) % CHECKSUMS for key in CHECKSUM if key in results[0]}
    return {
        "phase": asked.phase,
        "distribution": asked.distribution,
        "hosts": dict(Counter(task.host for task in ready)),
        "least_shares": min(one["shares"] for one in results),
        "seconds": max(one["last_s"] for one in results) - min(one["first_s"] for one in results),
        **sums,
        **checksums,
    }


def _shares(asked: Assignment) -> list[list[Any]]:
    if asked.phase == "models":
        parts = [index.part(asked.index, number) for number in range(asked.tasks)]
        return share.of_entries(index.front(parts, asked.models_read), asked)
    return share.spans(asked.segments[-1].end_bytes, asked.transfer_bytes, asked)


def _distribute(ready: list[Task], shares: list[list[Any]], tasks: Tasks) -> list[dict[str, Any]]:
    """Give every task a share, and further ones to whoever has done one; the results.

    Hosts have clocks of their own: a task's seconds count from its first share on, and are added to when that was sent.
    """
    results: list[dict[str, Any]] = []
    left = iter(shares)
    at_work = {task.there: task for task in ready}
    begun_s: dict[Connection, float] = {}

    def give(there: Connection) -> None:
        following = next(left, None)
        worker.say(there, {"end": True} if following is None else {"share": following})

    try:
        for task in ready:
            begun_s[task.there] = time.monotonic()
            give(task.there)
        while at_work:
            for there in wait(list(at_work)):
                assert isinstance(there, Connection)  # nothing else was asked about
                task = at_work[there]
                said = worker.hear(there, worker.MOST_SAID_BYTES)
                if "failed" in said:
                    raise Failure(said["failed"])
                if "done" in said:
                    give(there)
                else:
                    span = {key: begun_s[there] + said[key] for key in ("first_s", "last_s")}
                    results.append({**said, **span})
                    del at_work[there]
    except (EOFError, OSError) as error:
        raise Failure(
            f"a task ended before its work was done: process {task.pid} on {task.host}; {tasks.last_words() or error}"
        ) from error
    return results
