"""What a phase of fsage.studies.netflow.host prints."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, ValidationError

from fsage.parse import BadOutput
from fsage.studies.netflow.model import CHECKSUMS


class Result(BaseModel):
    """The tasks of a host, or of several; `seconds` from the first I/O, at `began`, to the last one.

    `least_shares`: of the task that did the fewest. Of a file that was generated `records` and `checksum` are what its
    index must have, `read_records` and `read_checksum` what reading its models must give.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    phase: str
    distribution: str
    tasks: int
    shares: int
    least_shares: int
    began: float
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
        result = Result.model_validate_json(stdout)
    except ValidationError as error:
        raise BadOutput(f"this is no result of netflow: {error.errors()[0]['msg']}") from error
    if result.least_shares < 1 or result.seconds <= 0:
        raise BadOutput(f"a task did {result.least_shares} shares in the {result.seconds} s: not all took part")
    return result


def together(results: Sequence[Result]) -> Result:
    """Hosts beside each other, on clocks that agree, as one: from the first I/O of all to the last one."""
    began = min(result.began for result in results)
    summed = {
        name: sum(getattr(result, name) or 0 for result in results)
        for name in ("tasks", "shares", "bytes", "records", "checksum", "read_records", "read_checksum")
        if getattr(results[0], name) is not None
    }
    summed |= {name: summed[name] % CHECKSUMS for name in ("checksum", "read_checksum") if name in summed}
    return results[0].model_copy(
        update={
            **summed,
            "least_shares": min(result.least_shares for result in results),
            "began": began,
            "seconds": max(result.began + result.seconds for result in results) - began,
        }
    )
