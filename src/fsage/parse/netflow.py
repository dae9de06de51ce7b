"""What a phase of fsage.host.netflow prints."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from fsage.parse import BadOutput


class Result(BaseModel):
    """All tasks together; `seconds` from the first I/O to the last one.

    `hosts`: tasks on each. `least_shares`: of the task that did the fewest. Of a file that was generated `records` and
    `checksum` are what its index must have, `read_records` and `read_checksum` what reading its models must give.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    phase: str
    distribution: str
    hosts: dict[str, int]
    shares: int
    least_shares: int
    seconds: float
    bytes: int
    records: int
    checksum: int
    read_records: int | None = None
    read_checksum: int | None = None


def parse(stdout: str, stderr: str, rc: int | None) -> Result:
    """The result of a phase that went right; `BadOutput` says why it did not."""
    if rc != 0:
        raise BadOutput(stderr.strip().rpartition("\n")[2] or f"netflow ended with code {rc}")
    try:
        found = Result.model_validate_json(stdout)
    except ValidationError as error:
        raise BadOutput(f"this is no result of netflow: {error.errors()[0]['msg']}") from error
    if found.least_shares < 1 or found.seconds <= 0:
        raise BadOutput(f"a task did {found.least_shares} shares in the {found.seconds} s: not all took part")
    return found
