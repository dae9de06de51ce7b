"""348 recorded runs of fio, IOR and mdtest with what is right to say of each (data/corpus/README.md)."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fsage.parse import fio, ior, mdtest

HERE = Path(__file__).parent / "data" / "corpus"
PARSERS = {"fio": fio, "ior": ior, "mdtest": mdtest}


@dataclass(frozen=True)
class Case:
    """One recorded run: `<tool>-<version>/<name>`, its return code, and the verdict on it."""

    name: str
    rc: int
    verdict: str  # good | bad
    expected: str  # good: numbers as JSON; bad: a pattern of the reason

    @property
    def tool(self):
        return self.name.split("-")[0]

    @property
    def stderr(self):
        return self._read("stderr")

    @cached_property
    def stdout(self):
        return self._read("stdout")

    def parse(self, stdout=None):
        """What the tool's parser makes of the run, or of other text in place of its stdout."""
        return PARSERS[self.tool].parse(self.stdout if stdout is None else stdout, self.stderr, self.rc)

    def numbers(self):
        return json.loads(self.expected)

    def _read(self, stream):
        path = HERE / f"{self.name}.{stream}"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _table(name):
    with open(HERE / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


CODES = {row["case"]: int(row["rc"]) for row in _table("INDEX.tsv")}
CASES = [Case(row["case"], CODES[row["case"]], row["verdict"], row["expected"]) for row in _table("EXPECTED.tsv")]
GOOD = [case for case in CASES if case.verdict == "good"]
BAD = [case for case in CASES if case.verdict == "bad"]
BY_NAME = {case.name: case for case in CASES}


def of_tool(cases, tool):
    """The cases of one tool."""
    return [case for case in cases if case.tool == tool]
