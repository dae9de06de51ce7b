"""What a cell runs. One module a workload, found by its name: here, or a study's `workloads`.

What a module offers: fsage.api.study. `shared` is what they share; `by_fio` has phases of fio, and makes a
workload of its options.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Literal

from fsage.base import JsonView
from fsage.model import plugins
from fsage.model.claim import Claim


class Unsupported(Exception):
    """What a target of this kind cannot do; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What a cell came to. `metrics` is empty unless valid; `why` is a plain sentence unless valid."""

    status: Literal["valid", "failed", "unsupported", "skipped", "stopped"]
    why: str | None = None
    metrics: dict[str, float | int] = field(default_factory=dict)


SHARED = ("shared", "by_fio")
RATES = ("_bw_mib_s", "_per_s")
"""How the name of a rate ends: MiB a second, or something else a second. Reports take no others."""


@cache
def names() -> list[str]:
    """Names of the workloads there are."""
    return [name for name in plugins.names(__name__, "workloads") if name not in SHARED]


def params_of(given: JsonView) -> object:
    """A cell's parameters as its workload's Params; raises ValidationError."""
    return load(given["workload"]).Params.model_validate(given)


def rates_of(given: JsonView) -> list[str]:
    """The metrics of a valid cell with these parameters that statistics are made of.

    Raises ValidationError, and ValueError for a name that no report takes.
    """
    rates: list[str] = load(given["workload"]).rates(params_of(given))
    if not isinstance(rates, (list, tuple)):
        raise ValueError(f"workload {given['workload']}: rates() gives {rates!r}; a list of names is wanted")
    for rate in rates:
        if not rate.endswith(RATES):
            raise ValueError(
                f"workload {given['workload']}: rates() names {rate!r}, which no report takes; name it so that it ends "
                f"in {' or '.join(RATES)}, such as {rate.removesuffix('_s')}{RATES[1]}"
            )
    return rates


def bytes_of(params: Any, claim: Claim) -> tuple[int, int]:
    """Bytes that a cell writes, and bytes that its files hold; raises ValueError."""
    workload = load(params.workload)
    if not hasattr(workload, "bytes_written"):
        return 0, 0
    written: int = workload.bytes_written(params, claim)
    return written, workload.makes_bytes(params, claim) if hasattr(workload, "makes_bytes") else written


@cache
def load(name: str) -> ModuleType:
    """The module of one workload; `ValueError` with the available names if there is none of that name."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown workload {name!r}: available are {', '.join(names())}{hint}")
    return plugins.module(__name__, "workloads", name, ("Params", "commands", "rates", "read", "seconds"))
