"""What is to be counted of a study, and having it counted.

A process, or a guest, counts a few populations of layouts, one after another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, cast

from fsage import seam, workloads
from fsage.base import GIB, Json, Misuse
from fsage.model import filesystems
from fsage.model.claim import Claim
from fsage.model.counting import Job, Wanted
from fsage.model.declaration import complete, device_model
from fsage.model.structure import Step
from fsage.plan import Plan, results
from fsage.study import StudyError
from fsage.study.comparisons import unseeded
from fsage.workloads import sequential

SCHEMA = 1
TOGETHER = 4
"""Populations that one process counts at most: a guest's start takes as long as counting one."""
USUAL_MIB = 192
"""Bytes of a file where no target was claimed yet: what the modelled disk moves in a second, in transfers of 64 MiB."""
ROTATIONAL = 1  # a device with jumps is a disk
FRESH: Json = {
    "device_model": None,
    "run_as": None,
    "sparse": True,
    "limits": {},
    "containers": None,
    "image_dir": None,
    "allocator_reset": "remount",  # with all bitmaps in memory: else a file depends on which reads have come back
}
"""Keys of a target's declaration that are another's in memory."""


class Layout(NamedTuple):
    """A layout of a state, which is named without its seed. `number` from 1; `steps` lead to it."""

    state: str
    number: int
    seed: int
    population: str
    steps: list[Step]
    nominal: Json


@dataclass(frozen=True)
class Counted:
    """A study with how it is counted. `every`: files of each size of transfer, and not of the largest alone.

    `filesystem`: in place of the target's own.
    """

    plan: Plan
    layouts: int
    places: int
    device: Json
    folder: Path
    every: bool
    filesystem: str = ""

    @classmethod
    def of(
        cls,
        plan: Plan,
        layouts: int | None = None,
        places: int | None = None,
        device: object = None,
        to: Path | None = None,
        every: bool = False,
    ) -> Counted:
        """By the study's own block and its target, but for what is given. Raises StudyError, Refusal."""
        block = plan.study.count
        spec = plan.target.spec
        if not plan.target.counts:
            raise StudyError(
                f"study {plan.study.name} cannot be counted on target {plan.target.name}, which is of kind "
                f"{spec['kind']}, with stores: {spec['stores']} and tasks: {spec['scale']['tasks']}. A file of "
                "one task is counted on a file system in memory: name a target of kind loop, such as --target local"
            )
        declared = device_model(device, "device") if device is not None else block.device
        declared = declared or spec["device_model"] or device_model({})
        return cls(plan, layouts or block.layouts, places or block.places, declared, to or plan.results.counts, every)

    @property
    def device_bytes(self) -> int:
        """Size of the file system's device: the claimed image, or as declared."""
        claimed = self.plan.claim["stores"][0].get("image_id") if self.plan.claim else None
        if claimed:
            return claimed["bytes"]
        return int(self.plan.target.spec["size_gib"] * GIB)

    @cached_property
    def wanted(self) -> list[Wanted]:
        """The files to count: as the study's cells write them."""
        spec = self.plan.target.spec
        usual: Json = {"amount_mib": spec["amount_mib"] or USUAL_MIB, "capacity_bytes": self.device_bytes, "tasks": 1}
        claim = self.plan.claim or cast(Claim, usual)
        found: list[Wanted] = []
        for _, cell in self.plan.all_cells():
            params = workloads.params_of(cell.params)
            if cell.kind != "planned" or not isinstance(params, sequential.Params):
                continue
            file_bytes = workloads.bytes_of(params.model_copy(update={"place": 1}), claim)[1]
            wanted: Wanted = {"file_bytes": file_bytes, "transfer_bytes": params.transfer_size, "direct": params.direct}
            if wanted not in found:
                found.append(wanted)
        if not found:
            raise StudyError(
                f"study {self.plan.study.name} has no cells of workload sequential, and only their files are counted"
            )
        if self.every:
            return found
        return [max(found, key=lambda wanted: wanted["transfer_bytes"])]

    def all_layouts(self) -> Iterator[Layout]:
        """Every layout of every state, in the order in which a population reaches them."""
        states = self.plan.states
        first: dict[str, str] = {}  # its first structure, so that layouts of all states begin with the study's own seed
        for name in sorted(states, key=lambda name: states[name].nominal.get("structure", 1)):
            first.setdefault(unseeded(name), name)
        own_names = [name for name in states if first[unseeded(name)] == name]
        for number in range(1, self.layouts + 1):
            for name in own_names:
                state = states[name]
                steps = self.plan.steps(name)
                if number > 1 and not any(step.DRAWS for step in steps):
                    continue  # nothing is drawn: all layouts are one
                seeds = {seed for step in steps if (seed := getattr(step, "seed", None)) is not None}
                own = [_reseeded(step, number - 1) for step in steps]
                seed = min(seeds, default=self.plan.seed) + number - 1
                yield Layout(unseeded(name), number, seed, state.population, own, state.nominal)

    def path(self, layout: Layout) -> Path:
        """Where a layout's counts are kept."""
        return self.folder / self.filesystem / "layouts" / layout.state / f"{layout.number}.json"

    def about(self, layout: Layout) -> Json:
        """What the counts of a layout follow from: with another they are counted anew."""
        of_kind = self.plan.target.of_kind
        return {
            "schema": SCHEMA,
            "steps": [step.to_json() for step in layout.steps],
            "wanted": self.wanted,
            "places": self.places,
            "device_bytes": self.device_bytes,
            "spec": {key: self._spec[key] for key in ("filesystem", "geometry", "allocator_reset", "scale")},
            "rotational": ROTATIONAL,
            "kernel": self.plan.claim["kernel"] if self.plan.claim and of_kind.counts else os.uname().release,
        }

    def kept(self, layout: Layout) -> list[Json] | None:
        """What was counted of a layout; None: nothing, or something else."""
        found = results.read(self.path(layout))
        if found and found["about"] == self.about(layout):
            return found["rows"]
        return None

    def files(self) -> Iterator[tuple[Layout, Json]]:
        """Each file that is counted, with its layout."""
        for layout in self.all_layouts():
            for row in self.kept(layout) or ():
                yield layout, row

    def job(self, populations: Sequence[Sequence[Layout]], cpu: int) -> Job:
        """What one process counts: of each population its states, in order."""
        claim: Json = {} if self.filesystem else dict(self.plan.claim or {})
        inputs: dict[str, str] = {}
        named: list[list[tuple[str, list[Json]]]] = []
        for layouts in populations:
            states: list[tuple[str, list[Json]]] = []
            for layout in layouts:
                steps, needed = self.plan.with_inputs(layout.steps)
                inputs.update(needed)
                states.append((layout.state, [step.to_json() for step in steps]))
            named.append(states)
        return {
            "spec": self._spec,
            "device_bytes": self.device_bytes,
            "capacity_bytes": claim.get("capacity_bytes"),
            "rotational": ROTATIONAL,
            "populations": named,
            "inputs": inputs,
            "wanted": self.wanted,
            "places": self.places,
            "cpu": cpu,
            "kernel": claim.get("kernel"),
        }

    @cached_property
    def _spec(self) -> Json:
        other: Json = {"filesystem": self.filesystem, "geometry": None} if self.filesystem else {}
        declared: Json = {key: value for key, value in self.plan.target.spec.items() if value is not None}
        return cast(Json, complete({**declared, **FRESH, **other}))

    def on(self, filesystem: str) -> Counted:
        """The same on another file system. Raises Misuse for one that no target has."""
        if filesystem not in filesystems.names():
            allowed = ", ".join(sorted(filesystems.names()))
            raise Misuse(f"--filesystem {filesystem}: allowed are {allowed}")
        return replace(self, filesystem="" if filesystem == self.plan.target.spec["filesystem"] else filesystem)

    @property
    def title(self) -> str:
        """Name of its file system: 'XFS'."""
        return filesystems.named(self._spec["filesystem"]).title


def _reseeded(step: Step, by: int) -> Step:
    seed = getattr(step, "seed", None)
    if seed is None or not by:
        return step
    return replace(step, **cast(Json, {"seed": seed + by}))


def count(counted: Counted, progress: Callable[[int, int], None] = lambda done, whole: None) -> None:
    """Count what is missing, on all processors. Raises Refusal, Failure; what was counted by then is kept."""
    missing: dict[tuple[int, str], list[Layout]] = {}
    for layout in counted.all_layouts():
        if counted.kept(layout) is None:
            missing.setdefault((layout.number, layout.population), []).append(layout)
    populations = list(missing.values())
    whole = sum(map(len, populations))
    done = 0
    processors = SimpleQueue[int]()
    free = sorted(os.sched_getaffinity(0))
    for cpu in free:
        processors.put(cpu)
    together = max(1, min(TOGETHER, -(-len(populations) // len(free))))
    jobs = [populations[first : first + together] for first in range(0, len(populations), together)]

    def count_some(some: list[list[Layout]]) -> int:
        cpu = processors.get()
        try:
            return _count(counted, some, cpu)
        finally:
            processors.put(cpu)

    with ThreadPoolExecutor(len(free)) as pool:
        try:
            for ended in as_completed([pool.submit(count_some, some) for some in jobs]):
                done += ended.result()
                progress(done, whole)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _count(counted: Counted, populations: Sequence[Sequence[Layout]], cpu: int) -> int:
    """Count some populations in one process, and keep each layout as soon as it is complete; how many layouts."""
    layouts = [layout for population in populations for layout in population]
    each = len(counted.wanted) * counted.places
    uncounted = iter(layouts)
    rows: list[Json] = []
    for row in seam.count(counted.job(populations, cpu)):
        rows.append(row)
        if len(rows) == each:
            layout = next(uncounted)
            results.write(counted.path(layout), {"about": counted.about(layout), "rows": rows})
            rows = []
    return len(layouts)
