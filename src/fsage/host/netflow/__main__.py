"""`python -m fsage.host.netflow TASK.json [launcher ...]`: one phase; see fsage.host.netflow.coordinator."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fsage.host.netflow.assignment import Assignment
from fsage.host.netflow.coordinator import run
from fsage.model import typed
from fsage.model.errors import Failure
from fsage.model.message import Unacceptable


def main(task: str, *launcher: str) -> int:
    """Exit code 0 and the result as JSON, or 1 and why not."""
    try:
        asked = typed.read(Assignment, json.loads(Path(task).read_text(encoding="utf-8")))
        print(json.dumps(run(asked, launcher)))
    except Unacceptable as why:
        print(f"{task}: {why}", file=sys.stderr)
        return 1
    except Failure as why:
        print(why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
