"""Measuring cells: each in a checked state, with cold caches, its observation safe before the next begins."""

from __future__ import annotations

import contextlib
import time

from fsage.host import containers
from fsage.host.cells import outbox
from fsage.host.cells.session import Session
from fsage.host.remote.remote_hosts import Hosts, inventory_of
from fsage.host.targets.lease import Orphaned, Watch, held
from fsage.host.targets.opening import opened
from fsage.host.targets.site_limits import why_not_now
from fsage.host.targets.target import Target
from fsage.model.errors import Failure, Refusal
from fsage.model.hosts import Inventory
from fsage.model.request import Cell, Request


def measure(spec: dict[str, object], request: Request, check: bool) -> dict[str, object]:
    """Measure the request's cells in order.

    Returns {"measured", "remaining", "lost", "stopped", "kinds", "undone"}. `lost`: why the target is not, or no
    longer, in the requested state; the caller then builds that by steps of `kinds`, and requests the rest again.
    `stopped`: why no further cell was begun although the state is right. `undone`: which cells are missing, and why.
    Raises Failure when the run that made the request has ended.
    """
    target = opened(spec, request)
    containers.verify(target.claim)
    hosts = hosts_of(target, request)
    cells = [cell for cell in request["cells"] if not outbox.place(target, request, cell).exists()]
    if check:
        return {
            "changed": bool(cells),
            "msg": f"would measure {len(cells)} cells",
            "measured": 0,
            "remaining": len(cells),
            "lost": None,
            "stopped": None,
            "kinds": [],
            "undone": None,
        }
    with (
        held(target.home, request) as lease,
        contextlib.closing(Hosts(target.spec, target.claim, hosts)) as remote_hosts,
    ):
        watch = Watch(target.home, request, lease)
        with contextlib.closing(Session(target, request, watch, remote_hosts)) as session:
            lost = session.enter() if cells else None
            measured, stopped = 0, None
            while not lost and not stopped and measured < len(cells):
                cell = cells[measured]
                stopped = too_late(request.get("until"), cell) or why_not_now(
                    remote_hosts.limits,
                    f"cell {cell['name']}",
                    cell.get("estimate_s", 0.0),
                    cell.get("writes_bytes", 0),
                )
                if stopped:
                    break
                try:
                    lost = session.cell(cell)
                except Orphaned:
                    raise Failure(
                        f"the run that requested cell {cell['name']} has ended; {measured} of {len(cells)} "
                        "cells were measured and kept"
                    ) from None
                measured += outbox.place(target, request, cell).exists()
                stopped = None if lost else session.held_up()
            lost = lost or (session.leave() if cells else None)
            return {
                "changed": measured > 0,
                "msg": f"measured {measured} of {len(cells)} cells"
                + (f"; then: {lost or stopped}" if lost or stopped else "")
                + (f"; {session.unwatched}" if session.unwatched else ""),
                "measured": measured,
                "remaining": len(cells) - measured,
                "lost": lost,
                "stopped": stopped,
                "kinds": [step.kind for step in request["steps"]],
                "undone": undone(target, request, lost, stopped),
            }


def undone(target: Target, request: Request, lost: str | None, stopped: str | None) -> str | None:
    """A sentence: which of the request's cells were not measured, and why; None when all were."""
    missing = [cell["name"] for cell in request["cells"] if not outbox.place(target, request, cell).exists()]
    if not missing and not lost:
        return None
    return (
        f"{len(missing)} of {len(request['cells'])} cells of state {request['state']} were not measured "
        f"({', '.join(missing) or 'none'}): {lost or stopped or 'no reason is known'}"
    )


def hosts_of(target: Target, request: Request) -> Inventory:
    """The hosts to measure with, the launcher first among `clients`; `Refusal` unless they are those of the claim."""
    hosts = inventory_of(request)
    names, claimed = [host["name"] for host in hosts["clients"]], target.claim.get("hosts", [])
    if len(claimed) > 1 or len(names) > 1:
        if names != claimed:
            raise Refusal(
                f"target {target.name} was claimed for the clients {', '.join(claimed) or 'none'}, and the inventory "
                f"names {', '.join(names)}: a study's hosts stay the same. Name the claimed clients again, or release "
                "the target and claim it for the new ones"
            )
        if target.of_one_host:
            raise Refusal(
                f"target {target.name} is of kind {target.kind}, which one host uses: name one in the group clients"
            )
    return hosts


def too_late(until: float | None, cell: Cell) -> str | None:
    """Why a cell is not begun: it would end after `until` (seconds since 1970), when the run ends; None: it is."""
    if until is None or time.time() + cell["estimate_s"] <= until:
        return None
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(until))
    return (
        f"cell {cell['name']} takes about {cell['estimate_s']:.0f} s and would not end before {end}, when this run is "
        "to end (until, budget); the same command resumes later"
    )
