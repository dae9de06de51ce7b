"""Sections drawn side by side, a process a processor: drawing is most of what a report takes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

from fsage.report.section import Section

Job = Callable[[], Section | None]

_jobs: Sequence[Job] = ()


def draw(jobs: Sequence[Job]) -> list[Section]:
    """What the jobs give, in their order, without those that found nothing to show. Raises what a job raises.

    The processes are forked and so have the jobs with all their data; only what is drawn travels back.
    """
    global _jobs
    _jobs = jobs
    processes = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
        return [section for section in pool.map(_run, range(len(jobs))) if section]


def _run(number: int) -> Section | None:
    return _jobs[number]()
