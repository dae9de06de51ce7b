"""What a program of a study's own printed (fsage.model.program): one JSON value."""

from __future__ import annotations

import json
from typing import Any

from fsage.parse import BadOutput


def parse(stdout: str, stderr: str, rc: int | None) -> Any:
    """The result; `BadOutput` with the last line of stderr where it went wrong."""
    if rc != 0:
        raise BadOutput(stderr.strip().rpartition("\n")[2] or f"it ended with code {rc}")
    try:
        return json.loads(stdout)
    except ValueError as error:
        raise BadOutput(f"its output is not JSON: {error}") from error
