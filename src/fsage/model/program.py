"""A program of a study's own that a phase runs on a host, for what no tool does: a module of the study's `host`.

It is given an assignment, a dataclass of the study's `model`, as JSON. What its work returns it prints as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fsage.base import Failure, in_words, typed
from fsage.base.message import Unacceptable
from fsage.model.observation import PhaseResult
from fsage.model.request import Phase

T = TypeVar("T")
TASK = "task.json"


def program_phase(name: str, program: str, assignment: object, reads: bool = True, task: str = TASK) -> Phase:
    """A phase that runs `python -m PROGRAM` on an assignment, which is the phase's file `task`."""
    argv = ["env", "PYTHONPATH={agent}", "{python}", "-S", "-m", program, f"{{files}}/{task}"]
    text = json.dumps(typed.to_json(assignment), sort_keys=True)
    return {"name": name, "argv": argv, "files": {task: text}, "reads": reads}


def assignment_of(phase: PhaseResult, assignment: type[T], task: str = TASK) -> T:
    """The assignment of a phase that runs a program."""
    return typed.read(assignment, json.loads(phase["files"][task]))


def program_main(assignment: type[T], work: Callable[[T], object], path: str) -> int:
    """Do the work of a file's assignment. Exit code 0 and the result as JSON, or 1 and why not."""
    try:
        result = work(typed.read(assignment, json.loads(Path(path).read_text(encoding="utf-8"))))
    except Failure as why:
        print(why, file=sys.stderr)
        return 1
    except (Unacceptable, OSError) as why:
        print(in_words(why, path), file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0
