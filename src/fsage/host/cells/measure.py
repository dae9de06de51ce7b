"""Measuring cells: each in a checked state, with cold caches, its observation safe before the next begins."""

from __future__ import annotations

import contextlib

from fsage.base import Failure, Json, Refusal
from fsage.host import containers, states
from fsage.host.cells import observed
from fsage.host.cells.session import Session
from fsage.host.remote.remote_hosts import Hosts, inventory_of
from fsage.host.targets import Target, claims, opening
from fsage.host.targets.lease import Orphaned, Watch, held
from fsage.model.request import Cell, Request

SESSIONS = 3
"""A state that is lost is built again, and the remaining cells are measured, until so many sessions have ended."""


def measure_all(spec: Json, request: Request, check: bool) -> Json:
    """Measure the request's cells in order; where the state was lost meanwhile, build it again and continue.

    Returns as `measure`. Raises Refusal before anything was measured; Failure.
    """
    answer = measure(spec, request, check)
    for _ in range(SESSIONS - 1):
        if not answer["lost"]:
            break
        try:
            states.reach(spec, request)
            answer = measure(spec, request, check)
        except Refusal as why:  # where nothing was touched nothing is fetched, and here cells were measured
            return {**answer, "undone": f"{answer['undone']}. The state cannot be built again: {why}"}
    return answer


def measure(spec: Json, request: Request, check: bool) -> Json:
    """Measure the request's cells in one session.

    Returns {"measured", "remaining", "lost", "stopped", "undone"}. `lost`: why the target is not, or no longer, in the
    requested state. `stopped`: why no further cell was begun although the state is right. `undone`: which cells are
    missing, and why. Raises Failure when the run that made the request has ended.
    """
    target = opening.opened(spec, request)
    opening.refuse_other_clients(request, target.claim)
    containers.verify(target.claim)
    cells = unmeasured(target, request)
    if check or not cells:
        answer: Json = {"changed": bool(cells), "msg": f"{len(cells)} cells to measure", "measured": 0}
        return {**answer, "remaining": len(cells), "lost": None, "stopped": None, "undone": None}
    with (
        held(target.home, request) as lease,
        contextlib.closing(Hosts(target.spec, target.claim, inventory_of(request))) as remote_hosts,
        contextlib.closing(Session(target, request, Watch(target.home, request, lease), remote_hosts)) as session,
    ):
        measured = 0
        stopped = None
        lost = session.enter()
        if not lost:
            measured, lost, stopped = measure_cells(session, cells)
        lost = lost or session.leave()
        words = [f"measured {measured} of {len(cells)} cells"]
        if lost or stopped:
            words.append(f"then: {lost or stopped}")
        if session.structure.unwatched:
            words.append(session.structure.unwatched)
        return {
            "changed": measured > 0,
            "msg": "; ".join(words),
            "measured": measured,
            "remaining": len(cells) - measured,
            "lost": lost,
            "stopped": stopped,
            "undone": undone(target, request, lost, stopped),
        }


def unmeasured(target: Target, request: Request) -> list[Cell]:
    """The cells of the request of which no observation is kept."""
    return [cell for cell in request["cells"] if not observed.place(target, request, cell).exists()]


def measure_cells(session: Session, cells: list[Cell]) -> tuple[int, str | None, str | None]:
    """Measure cells in their order; how many were, why the state is lost, and why no further cell was begun.

    Raises Failure where the run has ended.
    """
    measured = 0
    lost = None
    stopped = None
    try:
        for cell in cells:
            claims.note_doing(session.target.home, "measuring", len(session.request["cells"]) - len(cells) + measured)
            stopped = session.instruments.held_up(cell)
            if stopped:
                break
            lost = session.cell(cell)
            measured += observed.place(session.target, session.request, cell).exists()
            if session.instruments.stopped and not lost:
                stopped = session.instruments.held_up()
            if lost or stopped:
                break
    except Orphaned:
        raise Failure(
            f"the run that requested cell {cell['name']} has ended; {measured} of {len(cells)} cells were measured and "
            "kept"
        ) from None
    except Refusal as why:  # it would say that nothing was touched, and cells were begun
        raise Failure(f"cell {cell['name']}: {why}") from why
    return measured, lost, stopped


def undone(target: Target, request: Request, lost: str | None, stopped: str | None) -> str | None:
    """A sentence: which of the request's cells were not measured, and why; None when all were."""
    missing = [cell["name"] for cell in unmeasured(target, request)]
    if not missing and not lost:
        return None
    return (
        f"{len(missing)} of {len(request['cells'])} cells of state {request['state']} were not measured "
        f"({', '.join(missing) or 'none'}): {lost or stopped or 'no reason is known'}"
    )
