"""Verbs that guests answer: a state is an image, made in one guest, and each cell has a copy of its own.

What a guest does is the host side's own work, by the same verbs, on its own disk and with a home of its own. Nothing of
it is written on this machine before it has ended. An observation is kept here then, and a guest that panics, hangs or
is killed is a failed cell.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from threading import Event
from typing import NamedTuple, cast

from fsage.base import GIB, Failure, Json, Refusal, typed
from fsage.host.cells import observed
from fsage.host.cells.measure import undone
from fsage.host.instruments.instrument import does_itself
from fsage.host.system import files, library
from fsage.host.targets import claims, opening
from fsage.host.targets.lease import Watch, held, refuse_if_held
from fsage.host.targets.target import Target
from fsage.model import declaration
from fsage.model.claim import Claim
from fsage.model.counting import Job
from fsage.model.observation import Observation
from fsage.model.request import Cell, Request
from fsage.model.target import Spec
from fsage.studies.kernels.model import HOME, boot, images, is_virtual, programs
from fsage.studies.kernels.model.boot import Ended, Kernel, folder, roomy
from fsage.studies.kernels.model.images import Image

GUESTS = 2
"""At a time."""
TOGETHER = 4
"""So many cells have a guest at most: each mounts its own copy."""
LOOK_EVERY_S = 1.0
"""Seconds between two looks whether the run is still there."""
ROOM_BYTES = 128 << 20
"""What may be written on a copy beside the files of its cell."""
STATE_BYTES = 2 * GIB
"""What may be written of a file system that is filled by allocation alone."""
Taken = tuple[Cell, Observation]


class Asked:
    """A question to a target of this kind, and the target itself, which is not open here."""

    def __init__(self, kind: type[Target], given: Json, request: Request) -> None:
        self.kind = kind
        self.given = given
        self.request = request
        self.spec: Spec = declaration.complete(given["target"])
        self.home = declaration.home_of(self.spec)

    @property
    def claim(self) -> Claim:
        """The claim. Raises Refusal where there is none, or another one."""
        refuse_if_held(self.home, self.request)
        claim = opening.claim_of(self.spec)
        declaration.refuse_edits(claim, self.spec)
        opening.refuse_other_claim(self.request, claim)
        return claim

    @property
    def target(self) -> Target:
        """The target as its claim has it."""
        return self.kind(self.spec, self.claim)

    def job(self, verbs: Sequence[str], claim: Claim | None, disk: int = 0, **request: object) -> Json:
        """What a guest is to do: verbs to its own target, on one of its disks. It knows nothing of runs and leases."""
        own = {key: value for key, value in self.given.get("request", {}).items() if key not in ("holder", "gone")}
        target = {**self.given["target"], "home": HOME}
        given = {**self.given, "target": target, "request": {**own, **request}}
        host = os.uname().nodename
        return {"do": "verbs", "disk": disk, "verbs": list(verbs), "given": given, "claim": claim, "host": host}


def answer(kind: type[Target], verb: str, given: Json, request: Request, check: bool) -> Json | None:
    """The answer to a verb that guests answer; None: this machine itself does, and opens no target for it."""
    if verb not in VERBS:
        return None
    return VERBS[verb](Asked(kind, given, request), check)


def builder_of(spec: Spec) -> Kernel:
    """The kernel that makes a target's images, the newest that serves it. Raises Refusal."""
    return programs.with_virtual_time(None) if is_virtual(spec) else programs.some(None)


def claim(asked: Asked, check: bool) -> Json:
    """Have a guest make the empty file system and calibrate; the kernel that does so makes all images."""
    name = asked.spec["name"]
    noted = claims.read(asked.home)
    if noted:
        declaration.refuse_edits(noted, asked.spec)
        return {"changed": False, "msg": f"target {name} is claimed", "claim": noted}
    builder = builder_of(asked.spec)
    if check:
        return {"changed": True, "msg": f"would claim {name}, whose images kernel {builder.name} makes"}
    with folder(roomy(STATE_BYTES)) as place, held(asked.home, asked.request):
        (place / "empty").touch()
        os.truncate(place / "empty", int(asked.spec["size_gib"] * GIB))
        virtual = is_virtual(asked.spec)
        job = asked.job(["claim"], None)
        ended = boot.boot(builder, [job], [str(place / "empty")], limit_s=boot.LONGEST_S, virtual=virtual)
        claimed: Json = _told(ended)["answer"]
        files.write_json(asked.home / "claim.json", claimed["claim"])
    return claimed


def tune(asked: Asked, check: bool) -> Json:
    """Nothing can be tuned: a guest ends with its cell."""
    wanted = asked.request.get("tuning", {})
    if wanted:
        raise Refusal(f"target {asked.spec['name']} is of kind uml, which has no queue to tune: {', '.join(wanted)}")
    return {"changed": False, "msg": "0 tunables", "proof": [], "tunables": {}, "device_model": None}


def scrub(asked: Asked, check: bool) -> Json:
    """Have the image of the state: it is made, where it is not kept."""
    with held(asked.home, asked.request):
        name, before = asked.spec["name"], {path.name for path in images.place().glob("*.img")}
        if check:
            return {"changed": False, "msg": f"would have the image of state {asked.request['state']} of {name}"}
        claims.note_doing(asked.home, f"making the image of {asked.request['state']}")
        image = state(asked)
        made = image.path.name not in before
        return {"changed": made, "msg": f"{image.path.name} is {'made' if made else 'kept'}, for target {name}"}


def begin(asked: Asked, check: bool) -> Json:
    """No step is due: all are done with the image."""
    return {"changed": False, "due": False, "msg": f"nothing to do: a state of {asked.spec['name']} is an image"}


def diagnose(asked: Asked, check: bool) -> Json:
    """The image that the state has."""
    image = state(asked)
    token = image.facts["evidence"]["token"]
    return {"changed": False, "msg": image.path.name, "todo": [], "why": None, "token": token}


def evidence(asked: Asked, check: bool) -> Json:
    """The evidence that the guest took when it had made the image."""
    with held(asked.home, asked.request):
        study = asked.request["study"]
        name = asked.request["state"]
        seen = {**state(asked).facts["evidence"], "study": study, "state": name}
        return {"changed": False, "msg": f"target {asked.spec['name']} has an image of {name!r}", "evidence": seen}


def state(asked: Asked) -> Image:
    """The image of the request's state. Raises Refusal, Failure."""
    claim = asked.claim
    builder = programs.named(claim["kernel"])
    steps = typed.to_json(asked.request["steps"])
    mkfs = images.mkfs(asked.spec["filesystem"])
    how = {"steps": steps, "claim": claim["id"], "kernel": builder.name, "mkfs": mkfs, "code": library.digest()}

    def make(part: Path) -> Json:
        ended = boot.boot(
            builder, [asked.job(["scrub", "build", "evidence"], claim, cells=[])], [str(part)], limit_s=boot.LONGEST_S
        )
        return {"evidence": _told(ended)["answer"]["evidence"]}

    name = f"{asked.spec['filesystem']}-{asked.request['state'].partition('@')[0]}"
    size_bytes = claim["stores"][0]["image_id"]["bytes"]
    return images.made(name, how, size_bytes, make)


def _told(ended: Ended, number: int = 0) -> Json:
    """What a guest told of one of its jobs. Raises Failure."""
    if number >= len(ended.answers):
        raise Failure(ended.why or "the guest did not come to it")
    told = ended.answers[number]
    if "error" in told:
        raise Failure(told["error"])
    return told


def counted(job: Job) -> Iterator[Json]:
    """Have a guest count, on an empty file system of its own. Raises Refusal, Failure."""
    with folder(roomy(STATE_BYTES)) as place:
        (place / "empty").touch()
        os.truncate(place / "empty", job["device_bytes"])
        work = {"do": "count", "disk": 0, "job": job}
        ended = boot.boot(programs.some(job["kernel"]), [work], [str(place / "empty")], limit_s=boot.LONGEST_S)
    yield from _told(ended)["rows"]


def measure(asked: Asked, check: bool) -> Json:
    """Measure the request's cells, each on a copy of its own, in two guests at a time."""
    target = asked.target
    cells = [cell for cell in asked.request["cells"] if not observed.place(target, asked.request, cell).exists()]
    if check or not cells:
        return {**_measured(asked, target, 0, len(cells)), "changed": bool(cells), "undone": None}
    measured = 0
    with held(asked.home, asked.request) as lease:
        image = state(asked)
        watch = Watch(asked.home, asked.request, lease)
        with ThreadPoolExecutor(GUESTS) as pool:
            stopped = Event()
            work = partial(_in_guest, asked, target.claim, image, stopped)
            running = {pool.submit(work, *batch) for batch in _batches(target.claim, cells, is_virtual(asked.spec))}
            try:
                while running:
                    ended, running = wait(running, LOOK_EVERY_S, FIRST_COMPLETED)
                    for future in ended:
                        for cell, observation in future.result():
                            observed.keep(observed.place(target, asked.request, cell), observation)
                            measured += 1
                        claims.note_doing(asked.home, "measuring", measured)
                    if watch.orphaned():
                        raise Failure(f"the run that requested {len(cells)} cells has ended; {measured} are kept")
            except BaseException:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                boot.end_all()
                raise
    return _measured(asked, target, measured, len(cells))


def _measured(asked: Asked, target: Target, measured: int, wanted: int) -> Json:
    return {
        "changed": measured > 0,
        "msg": f"measured {measured} of {wanted} cells",
        "undone": undone(target, asked.request, None, None),
        "measured": measured,
        "remaining": wanted - measured,
        "lost": None,
        "stopped": None,
        "kinds": [],
    }


class Batch(NamedTuple):
    """Cells for one guest of a kernel."""

    kernel: Kernel
    cells: list[Cell]


def _batches(claim: Claim, cells: Sequence[Cell], virtual: bool) -> list[Batch]:
    """Cells by their kernel; where that is not here, the builder notes so. Cells that run commands have a guest each.

    By its process id ext4 chooses where a file begins, and a guest's second command has another one.
    """
    builder = programs.named(claim["kernel"])
    if all(does_itself(phase) for cell in cells for phase in cell["phases"]):
        most = min(TOGETHER, math.ceil(len(cells) / GUESTS))  # no guest works while the other has ended
    else:
        most = 1
    batches: list[Batch] = []
    for asked_for in cells:
        cell = asked_for
        try:
            name = cell["params"].get("kernel") or claim["kernel"]
            kernel = programs.with_virtual_time(name) if virtual else programs.some(name)
        except Refusal as why:
            kernel = builder
            cell = cast(Cell, {**cell, "unsupported": cell.get("unsupported") or str(why)})
        with_room = [batch for batch in batches if batch.kernel == kernel and len(batch.cells) < most]
        if with_room:
            with_room[-1].cells.append(cell)
        else:
            batches.append(Batch(kernel, [cell]))
    return batches


def _in_guest(
    asked: Asked, claim: Claim, image: Image, stopped: Event, kernel: Kernel, cells: list[Cell]
) -> list[Taken]:
    """Measure cells in a guest of their kernel; where that gives no observation, the builder's guest notes why.

    Cells that came after one which ended the guest are measured again, each in a guest of its own.
    """
    taken: list[Taken] = []
    for cell, (seen, why) in zip(cells, _observed(asked, claim, image, cells, kernel)):
        if seen is None and stopped.is_set():
            raise Failure("the guests were ended")
        if seen is None and len(cells) > 1:
            taken += _in_guest(asked, claim, image, stopped, kernel, [cell])
            continue
        if seen is None:
            failed = cast(Cell, {**cell, "failed": why})
            [(seen, why)] = _observed(asked, claim, image, [failed], programs.named(claim["kernel"]))
        if seen is None:
            raise Failure(f"cell {cell['name']}: {why}")
        taken.append((cell, seen))
    return taken


def _observed(
    asked: Asked, claim: Claim, image: Image, cells: list[Cell], kernel: Kernel
) -> list[tuple[Observation | None, str]]:
    """What a guest saw of each cell, on a copy of the image of its own, or None and why."""
    written = sum(2 * cell.get("writes_bytes", 0) for cell in cells)
    with folder(roomy(len(cells) * (ROOM_BYTES + image.taken_bytes) + written)) as place:
        jobs = [asked.job(["measure"], claim, disk, cells=[cell]) for disk, cell in enumerate(cells)]
        disks = [str(images.copy(image, place / f"copy{disk}")) for disk in range(len(cells))]
        limit_s = boot.START_S + sum(map(_limit_s, cells))
        ended = boot.boot(kernel, jobs, disks, limit_s=limit_s, virtual=is_virtual(asked.spec))
    seen: list[tuple[Observation | None, str]] = []
    for number in range(len(cells)):
        try:
            told = _told(ended, number)
        except Failure as why:
            seen.append((None, str(why)))
            continue
        [observation] = told["observations"] or [None]
        seen.append((observation, told["answer"]["msg"]))
    return seen


def _limit_s(cell: Cell) -> float:
    return boot.JOB_S + 10 * cell.get("estimate_s", 0.0)


VERBS: dict[str, Callable[[Asked, bool], Json]] = {
    "claim": claim,
    "tune": tune,
    "restore_tunables": tune,
    "scrub": scrub,
    "apply_step": begin,
    "diagnose": diagnose,
    "evidence": evidence,
    "measure": measure,
}
