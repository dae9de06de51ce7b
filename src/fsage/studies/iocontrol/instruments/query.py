"""A cold SELECT over a real SQLite database, repeated: in a process of its own, which a control group can hold.

    python -m fsage.studies.iocontrol.instruments.query '{"path": ..., "seconds": ...}'

It prints `ready` and waits for a line on standard input. Then it queries until all queries together have taken that
many seconds. Each query has a new connection, and the database's pages are dropped from memory before, which is
verified. At last it prints one line of JSON with time and answer of each query, and waits for the next line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from fsage.api.host import caches
from fsage.api.model import Failure, Json, in_words

PROGRAM = f"{__package__}.query"
SELECT = "SELECT count(*), sum(number), sum(length(filling)) FROM measured"
"""It reads every page of the table."""
READY = "ready"
SHOWN = 300  # characters of its output in a message


def unavailable_because() -> str | None:
    """Why this host has no SQLite; None when it has."""
    if find_spec("sqlite3") is None:
        return f"{os.uname().nodename}: this Python ({sys.executable}) has no module sqlite3"
    return None


def argv(query: Mapping[str, object]) -> list[str]:
    """The command that runs the query."""
    return ["env", "PYTHONPATH={agent}", sys.executable, "-B", "-m", PROGRAM, json.dumps(query)]


class QueryProcess:
    """The process of a query as its caller sees it; no method waits."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output = ""
        self.answers: list[Json] = []
        if process.stdout:
            os.set_blocking(process.stdout.fileno(), False)

    def ready(self) -> bool:
        """Whether it can begin. Raises Failure where it has ended."""
        return self._line() == READY

    def go(self) -> None:
        """Have it query. Raises Failure where it has ended."""
        assert self.process.stdin
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Failure(f"the process of the query has ended: {error.strerror}") from error

    def ended(self, late: float) -> bool:
        """Whether its `answers` are there: `seconds`, `rows`, `sum` and `length` of each query.

        Raises Failure where it has ended without, or `late`, by the clock time.monotonic, is over.
        """
        line = self._line()
        if line is None:
            if time.monotonic() > late:
                raise Failure("the query reached its time limit and was ended")
            return False
        self.answers = json.loads(line)
        return True

    def _line(self) -> str | None:
        """The next line of its output, or None."""
        assert self.process.stdout
        gone = self.process.poll() is not None
        while part := _available(self.process.stdout.fileno()):
            self.output += part
        line, newline, rest = self.output.partition("\n")
        if newline and (line == READY or line.startswith("[")):
            self.output = rest
            return line
        if gone:
            raise Failure(f"the query ended with code {self.process.returncode}: {self.output.strip()[-SHOWN:]}")
        return None


def _available(descriptor: int) -> str:
    try:
        return os.read(descriptor, 1 << 16).decode("utf-8", "replace")
    except BlockingIOError:
        return ""


def ask(path: Path, seconds: float) -> list[Json]:
    """Query until all took `seconds` together. Raises Failure, sqlite3.Error."""
    import sqlite3  # a Python may be built without it: see unavailable_because

    answers: list[Json] = []
    while sum(answer["seconds"] for answer in answers) < seconds:
        caches.give_up(path)
        cached = caches.cached_pages([path])
        if cached:
            raise Failure(f"{cached} pages of {path} stayed in memory: the query would not read the device")
        began = time.monotonic()
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            rows, total, length = connection.execute(SELECT).fetchone()
        finally:
            connection.close()
        answers.append({"seconds": time.monotonic() - began, "rows": rows, "sum": total, "length": length})
    return answers


def main(words: Sequence[str]) -> int:
    """Query once for each line on standard input."""
    query = json.loads(words[0])
    print(READY, flush=True)
    for _ in sys.stdin:
        try:
            print(json.dumps(ask(Path(query["path"]), query["seconds"])), flush=True)
        except Exception as error:  # the process that reads the line reports it
            print(f"{type(error).__name__}: {in_words(error)}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
