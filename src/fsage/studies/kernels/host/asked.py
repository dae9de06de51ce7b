"""Verbs that guests answer: a state is an image, made in one guest, and each cell has a copy of its own.

What a guest does is the host side's own work, by the same verbs, on its own disk and with a home of its own. Nothing of
it is written on this machine before it has ended. An observation is kept here then, and a guest that panics, hangs or
is killed is a failed cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from threading import Event
from typing import NamedTuple

from fsage.api.host import guests
from fsage.api.model import Cell, Failure, Json, Refusal

from ..model import HOME, boot, images, is_virtual, programs
from ..model.boot import Kernel, folder, roomy
from ..model.images import Image

GIB = 1 << 30
GUESTS = 2
"""At a time."""
TOGETHER = 8
"""So many cells have a guest at most: each mounts its own copy."""
SLOWEST_TIMES = 100
"""A cell that takes so many times its estimate hangs, on a machine that does much else too."""
LOOK_EVERY_S = 1.0
"""Seconds between two looks whether the run is still there."""
ROOM_BYTES = 128 << 20
"""What may be written on a copy beside the files of its cell."""
STATE_BYTES = 2 * GIB
"""What may be written of a file system that is filled by allocation alone."""
Taken = tuple[Cell, Json]


def claim(asked: guests.Question, check: bool) -> Json:
    """Have a guest make the empty file system and calibrate; the kernel that does so makes all images."""
    name = asked.spec["name"]
    noted = asked.noted
    if noted:
        return {"changed": False, "msg": f"target {name} is claimed", "claim": noted}
    virtual = is_virtual(asked.spec)
    builder = programs.some(None, virtual)
    if check:
        return {"changed": True, "msg": f"would claim {name}, whose images kernel {builder.name} makes"}
    with folder(roomy(STATE_BYTES)) as place, asked.held():
        empty = boot.disk(place / "empty", int(asked.spec["size_gib"] * GIB))
        claimed: Json = boot.answer_to(builder, asked.job(HOME, ["claim"]), empty, virtual)["answer"]
        asked.save(claimed["claim"])
    return claimed


def tune(asked: guests.Question, check: bool) -> Json:
    """Nothing can be tuned: a guest ends with its cell."""
    wanted = asked.request.get("tuning", {})
    if wanted:
        raise Refusal(f"target {asked.spec['name']} is of kind uml, which has no queue to tune: {', '.join(wanted)}")
    return {"changed": False, "msg": "0 tunables", "proof": [], "tunables": {}, "device_model": None}


def scrub(asked: guests.Question, check: bool) -> Json:
    """Have the image of the state: it is made, where it is not kept."""
    with asked.held():
        name = asked.spec["name"]
        if check:
            return {"changed": False, "msg": f"would have the image of state {asked.request['state']} of {name}"}
        asked.doing("making an image")
        image = state(asked)
        how = "made" if image.is_new else "kept"
        return {"changed": image.is_new, "msg": f"{image.path.name} is {how}, for target {name}"}


def begin(asked: guests.Question, check: bool) -> Json:
    """No step is due: all are done with the image."""
    return {"changed": False, "msg": f"nothing to do: a state of {asked.spec['name']} is an image"}


def diagnose(asked: guests.Question, check: bool) -> Json:
    """The image that the state has."""
    image = state(asked)
    token = image.facts["evidence"]["token"]
    return {"changed": False, "msg": image.path.name, "todo": [], "why": None, "token": token}


def evidence(asked: guests.Question, check: bool) -> Json:
    """The evidence that the guest took when it had made the image."""
    with asked.held():
        study = asked.request["study"]
        name = asked.request["state"]
        seen = {**state(asked).facts["evidence"], "study": study, "state": name}
        return {"changed": False, "msg": f"target {asked.spec['name']} has an image of {name!r}", "evidence": seen}


def state(asked: guests.Question) -> Image:
    """The image of the state that is wanted. Raises Refusal, Failure."""
    claim = asked.claim
    wanted = asked.wanted
    builder = programs.named(claim["kernel"])
    mkfs = images.mkfs(asked.spec["filesystem"])
    how = {"steps": wanted["steps"], "claim": claim["id"], "kernel": builder.name, "mkfs": mkfs, "code": asked.code}

    def make(part: Path) -> Json:
        job = asked.job(HOME, ["scrub", "build", "evidence"], cells=[], **wanted)
        return {"evidence": boot.answer_to(builder, job, part)["answer"]["evidence"]}

    size_bytes = claim["stores"][0]["image_id"]["bytes"]
    return images.made(f"{asked.spec['filesystem']}-{wanted['state']}", how, size_bytes, make)


def counted(job: Json) -> Iterator[Json]:
    """Have a guest count, on an empty file system of its own. Raises Refusal, Failure."""
    with folder(roomy(STATE_BYTES)) as place:
        empty = boot.disk(place / "empty", job["device_bytes"])
        work = {"do": "count", "filesystem": job["spec"]["filesystem"], "job": job}
        answer = boot.answer_to(programs.some(job["kernel"]), work, empty)
    yield from answer["rows"]


def measure(asked: guests.Question, check: bool) -> Json:
    """Measure the request's cells, each on a copy of its own, in two guests at a time."""
    cells = asked.unmeasured()
    if check or not cells:
        return {**asked.measured(0, len(cells)), "changed": bool(cells)}
    measured = 0
    with asked.held() as watch:
        state(asked)  # made once, before guests need it
        with ThreadPoolExecutor(GUESTS) as pool:
            stopped = Event()
            work = partial(_in_guest, asked, stopped)
            running = {pool.submit(work, *batch) for batch in _batches(asked, cells)}
            try:
                while running:
                    ended, running = wait(running, LOOK_EVERY_S, FIRST_COMPLETED)
                    for future in sorted(ended, key=lambda future: future.exception() is not None):  # none is lost
                        for cell, observation in future.result():
                            asked.keep(cell, observation)
                            measured += 1
                        asked.doing("measuring", measured)
                    if watch.orphaned():
                        raise Failure(f"the run that requested {len(cells)} cells has ended; {measured} are kept")
            except BaseException:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                boot.end_all()
                raise
    return asked.measured(measured, len(cells))


class Batch(NamedTuple):
    """Cells for one guest of a kernel."""

    kernel: Kernel
    cells: list[Cell]


def _batches(asked: guests.Question, cells: Sequence[Cell]) -> list[Batch]:
    """Cells by their kernel; where that is not here, the builder notes so. Cells that run commands have a guest each.

    By its process id ext4 chooses where a file begins, and a guest's second command has another one.
    """
    release = asked.claim["kernel"]
    if guests.Question.are_quick(cells):
        most = TOGETHER
    else:
        most = 1
    batches: list[Batch] = []
    for asked_for in cells:
        cell = asked_for
        try:
            kernel = programs.some(cell["params"].get("kernel") or release, is_virtual(asked.spec))
        except Refusal as why:
            kernel = programs.named(release)
            cell = guests.Question.noting(cell, unsupported=cell.get("unsupported") or str(why))
        with_room = [batch for batch in batches if batch.kernel == kernel and len(batch.cells) < most]
        if with_room:
            with_room[-1].cells.append(cell)
        else:
            batches.append(Batch(kernel, [cell]))
    return batches


def _in_guest(asked: guests.Question, stopped: Event, kernel: Kernel, cells: list[Cell]) -> list[Taken]:
    """Measure cells in a guest of their kernel; where that gives no observation, the builder's guest notes why.

    Cells that came after one which ended the guest are measured again, each in a guest of its own.
    """
    taken: list[Taken] = []
    for cell, (seen, why) in zip(cells, _observed(asked, stopped, kernel, cells)):
        if seen is None and stopped.is_set():
            raise Failure("the guests were ended")
        if seen is None and len(cells) > 1:
            taken += _in_guest(asked, stopped, kernel, [cell])
            continue
        if seen is None:
            failed = guests.Question.noting(cell, failed=why)
            [(seen, why)] = _observed(asked, stopped, programs.named(asked.claim["kernel"]), [failed])
        if seen is None:
            raise Failure(f"cell {cell['name']}: {why}")
        taken.append((cell, seen))
    return taken


def _observed(
    asked: guests.Question, stopped: Event, kernel: Kernel, cells: list[Cell]
) -> list[tuple[Json | None, str]]:
    """What a guest saw of each cell, on a copy of the state's image of its own, or None and why."""
    image = state(asked)
    written = sum(2 * cell.get("writes_bytes", 0) for cell in cells)
    with folder(roomy(len(cells) * (ROOM_BYTES + image.taken_bytes) + written)) as place:
        jobs = [asked.job(HOME, ["measure"], disk, cells=[cell]) for disk, cell in enumerate(cells)]
        disks = [images.copy(image, place / f"copy{disk}") for disk in range(len(cells))]
        limit_s = boot.START_S + sum(map(_limit_s, cells))
        ended = boot.boot(kernel, jobs, disks, limit_s=limit_s, virtual=is_virtual(asked.spec), stopped=stopped)
    seen: list[tuple[Json | None, str]] = []
    for number in range(len(cells)):
        try:
            said = ended.answer(number)
        except Failure as why:
            seen.append((None, str(why)))
            continue
        [observation] = said["observations"] or [None]
        seen.append((observation, said["answer"]["msg"]))
    return seen


def _limit_s(cell: Cell) -> float:
    return boot.JOB_S + SLOWEST_TIMES * cell.get("estimate_s", 0.0)


VERBS: dict[str, Callable[[guests.Question, bool], Json]] = {
    "claim": claim,
    "tune": tune,
    "restore_tunables": tune,
    "scrub": scrub,
    "apply_step": begin,
    "diagnose": diagnose,
    "evidence": evidence,
    "measure": measure,
}
"""Those that guests answer; the others this machine itself does, and opens no target for them."""
