"""`python -m fsage.studies.netflow.host.phase TASK.json`: what one host's tasks do in a phase, and what came of it.

A task's first share is that of its own number. Which comes next a count says: our own, or one that several hosts share.
The launcher then says on standard input, after a line that is ignored, the number of our first task. Each line `next`
that we say it answers by a number, from 0 on (fsage.host.remote).
"""

from __future__ import annotations

import contextlib
import io
import itertools
import multiprocessing
import selectors
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any, NamedTuple, Optional

from fsage.api.model import Failure, Json, tools

from ..host import flows
from ..host.work import PHASES
from ..model import CHECKSUMS, Assignment

SUMS = ("bytes", "records", "shares", "read_records")
CHECKSUM = ("checksum", "read_checksum")
DONE = "done"
LOOK_EVERY_S = 0.2
FORK = multiprocessing.get_context("fork")
Orders = Optional[io.FileIO]
"""Standard input, unbuffered, so that no line waits where nobody looks; None where all tasks are of this host."""


class Gone(Exception):
    """The process that waits for the result has ended."""


class Task(NamedTuple):
    """One task, and the pipe to it."""

    there: Connection
    process: ForkProcess

    def hear(self) -> object:
        """Its next message. Raises the task's Failure, or one where its process has ended."""
        try:
            message = self.there.recv()
        except (EOFError, ConnectionError) as error:
            raise Failure(f"a task ended before its work was done: process {self.process.pid}") from error
        if isinstance(message, Failure):
            raise message
        return message

    def give(self, number: int) -> None:
        """Give it the share of this number; it has no work when the number is too high."""
        with contextlib.suppress(ConnectionError):  # `hear` reports that its process has ended
            self.there.send(number)


def run(assignment: Assignment, orders: Orders) -> dict[str, object]:
    """Run the phase; what the tasks of this host did, from their first I/O to their last one. Raises Failure, Gone."""
    shares = _shares(assignment)
    if len(shares) < assignment.tasks:
        raise Failure(f"{len(shares)} shares of work are not enough for {assignment.tasks} tasks: use fewer")
    tasks = _start(assignment, shares)
    try:
        results = _distribute(tasks, assignment.tasks, orders)
    finally:
        for task in tasks:
            task.there.close()
        for task in tasks:
            task.process.join(timeout=0.5)
            task.process.kill()
            task.process.join()
    first_s = min(result["first_s"] for result in results)
    sums = {key: sum(result[key] for result in results) for key in (*SUMS, *CHECKSUM) if key in results[0]}
    for key in sums.keys() & set(CHECKSUM):
        sums[key] %= CHECKSUMS
    return {
        "phase": assignment.phase,
        "distribution": assignment.distribution,
        "tasks": len(tasks),
        "least_shares": min(result["shares"] for result in results),
        "began": time.time() - (time.monotonic() - first_s),
        "seconds": max(result["last_s"] for result in results) - first_s,
        **sums,
    }


def _shares(assignment: Assignment) -> list[list[Any]]:
    if assignment.phase == "models":
        parts = [flows.index_part(assignment.index, number) for number in range(assignment.tasks)]
        return flows.of_entries(flows.front(parts, assignment.models_read), assignment)
    return flows.spans(assignment.segments[-1].end_bytes, assignment.transfer_bytes, assignment)


def _start(assignment: Assignment, shares: Sequence[list[object]]) -> list[Task]:
    """The tasks of this host, each ready for its first share."""
    tasks: list[Task] = []
    for _ in range(assignment.tasks_here):
        ours_end, task_end = FORK.Pipe()
        ours = [ours_end, *(task.there for task in tasks)]
        process = FORK.Process(target=_work, args=(task_end, ours, assignment, shares), daemon=True)
        process.start()
        task_end.close()
        tasks.append(Task(ours_end, process))
    return tasks


def _distribute(tasks: Sequence[Task], of_all_hosts: int, orders: Orders) -> list[Json]:
    """Give every task a share, and further ones to whoever has done one; the results."""
    for task in tasks:
        task.hear()  # that it is ready
    numbers = itertools.count()
    first = 0
    if orders:
        orders.readline()
        first = _number(orders)
    for number, task in enumerate(tasks, first):
        task.give(number)
    results = list[dict[str, object]]()
    waiting = list[Task]()
    with selectors.DefaultSelector() as heard:
        for task in tasks:
            heard.register(task.there, selectors.EVENT_READ, task)
        if orders:
            heard.register(orders, selectors.EVENT_READ)
        while len(results) < len(tasks):
            for key, _ in heard.select():
                if orders and key.fileobj is orders:
                    number = _number(orders)
                    waiting.pop(0).give(of_all_hosts + number)
                elif (message := key.data.hear()) != DONE:
                    results.append(message)
                    heard.unregister(key.fileobj)
                elif orders:
                    waiting.append(key.data)
                    print("next", flush=True)
                else:
                    key.data.give(of_all_hosts + next(numbers))
    return results


def _number(orders: io.FileIO) -> int:
    line = orders.readline()
    if not line:
        raise Gone
    return int(line)


def _work(
    connection: Connection, ours: Sequence[Connection], assignment: Assignment, shares: Sequence[list[object]]
) -> None:
    """Be a task: say that it is ready, do the shares whose numbers come, and say what was done, or a Failure."""
    for launcher_end in ours:
        launcher_end.close()  # else the pipes would outlive the process that holds them, and the tasks wait for ever
    with contextlib.suppress(Gone, EOFError, ConnectionError):
        work = PHASES[assignment.phase](assignment, _attending(connection))
        done = 0
        connection.send("ready")
        following = number = connection.recv()
        try:
            while following < len(shares):
                work.do(shares[following])
                done += 1
                connection.send(DONE)
                following = connection.recv()
            span = {"first_s": work.file.first_s, "last_s": work.file.last_s}
            connection.send({**work.end(number), **span, "shares": done})
        except Failure as why:
            connection.send(why)


def _attending(connection: Connection) -> Callable[[], None]:
    """What raises Gone once nobody waits; while a task is at work nobody tells it anything, so it is an end."""
    looked = time.monotonic()

    def check_alive() -> None:
        nonlocal looked
        now = time.monotonic()
        if now > looked + LOOK_EVERY_S:
            looked = now
            if connection.poll():
                raise Gone

    return check_alive


def work(assignment: Assignment) -> dict[str, object]:
    """The phase on this host. Raises Failure, Gone."""
    if assignment.tasks_here < assignment.tasks:
        return run(assignment, io.FileIO(sys.stdin.fileno(), closefd=False))
    return run(assignment, None)


def main(path: str) -> int:
    """Exit code 0 and the result as JSON, or 1 and why not."""
    try:
        return tools.program_main(Assignment, work, path)
    except Gone:
        return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
