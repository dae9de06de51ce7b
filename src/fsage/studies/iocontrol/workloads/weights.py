"""Two groups that share a device by weight, each reading a file of the state from end to end again and again.

Reads go past the cache. All of the fragmented file is read, or only what is hot in it: the ranges that step
`contended_files` names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from fsage.api.model import Claim, Phase, Step
from fsage.api.study import Outcome, judge

from .. import weighted
from ..model import KIB, ContendedFiles
from ..weighted import FRAGMENTED, PATTERNS


class Params(weighted.Params):
    """Parameters of one cell."""

    workload: Literal["weights"] = "weights"
    transfer_size: int = Field(default=128 * KIB, gt=0, description="bytes of one read")
    depth: int = Field(default=4, ge=1, le=1024, description="reads in flight in each group at the same time")
    reads: Literal["all", "hot"] = Field(
        default="all", description="all: the whole file; hot: only the hot ranges of the fragmented file"
    )


def check(params: Params, steps: Sequence[Step]) -> None:
    """Raise ValueError where the state has no files to read, or no hot ranges of whole reads."""
    made = weighted.files_among(steps)
    if params.reads == "hot" and FRAGMENTED in {reader.file for reader in PATTERNS[params.pattern].values()}:
        _hot(params, made)


def commands(params: Params, claim: Claim, steps: Sequence[Step] = ()) -> list[Phase]:
    """The one phase: a reader in each group of the pattern."""
    made = weighted.files_among(steps)
    options = ["--rw=read", f"--bs={params.transfer_size}", f"--iodepth={params.depth}"]
    runs = {}
    for name, reader in PATTERNS[params.pattern].items():
        if params.reads == "hot" and reader.file == FRAGMENTED:
            only = _hot(params, made)
        else:
            only = []
        runs[name] = {"argv": weighted.fio(claim, name, reader.file, [*options, *only])}
    return [weighted.phase(params, claim, runs)]


seconds = weighted.seconds
rates = weighted.rates


def read(observation: Mapping[str, object]) -> Outcome:
    """`_bw_mib_s`, `_ios` (a count) and `_io_kib` (mean size) of each group, and `bw_ratio` of two; or why not."""
    return judge(observation, Params, lambda params: ["share"], weighted.measured)


def _hot(params: Params, made: ContendedFiles) -> list[str]:
    """fio's words for the ranges that are hot. Raises ValueError where there are none, of whole reads."""
    if made.hot_bytes is None or made.every_bytes is None:
        raise ValueError("reads: hot needs a state with hot ranges: `hot_size` in a study with `recipe: iocontrol`")
    hot = made.hot_bytes
    every = made.every_bytes
    if hot % params.transfer_size:
        raise ValueError(f"transfer_size: {params.transfer_size} bytes do not divide a hot range of {hot}")
    return ["--zonemode=strided", f"--zonesize={hot}", f"--zonerange={hot}", f"--zoneskip={every - hot}"]
