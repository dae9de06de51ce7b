"""Building a state on a target: which steps are missing, and doing them one by one.

The verbs are declarative ("be in state X") and examine the target first, so each may be given again. `inspection` tells
whether the target is in the state that its token names, and `structure_check` does so between two cells.
"""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Sequence

from fsage.base import Call, Failure, Json, JsonView, Refusal, typed
from fsage.base.message import shown
from fsage.host import filesystems
from fsage.host import structure as making
from fsage.host.instruments import Stopped, looked_on
from fsage.host.remote import answers_of
from fsage.host.remote.remote_hosts import Hosts, inventory_of, refuse_unfit
from fsage.host.states.inspection import digest, fingerprint, inspect, layout, layout_record, remove_measured, settle
from fsage.host.system import caches
from fsage.host.system.files import Stamp, stamp
from fsage.host.targets import Target, budget, claims, lease
from fsage.host.targets.budget import Wrong, nothing
from fsage.host.targets.lease import lost
from fsage.host.targets.opening import at_work, opened
from fsage.layouts.store import StoresLayout
from fsage.model import structure
from fsage.model.claim import BUILDING, READY, Token
from fsage.model.hosts import clients_of
from fsage.model.observation import StateEvidence
from fsage.model.request import Request
from fsage.model.structure import ALONE, Shard, Step

Result = Json
PAUSED = "paused"
"""The note in a token of a step that can be resumed."""


def rest_of(done: Sequence[Step], steps: Sequence[Step]) -> list[Step] | None:
    """The steps that lead from `done` to `steps`, or None when the target must be emptied first.

    The last step of `done` may be a smaller one of the kind that comes next, which then continues it.
    """
    done = list(done)
    steps = list(steps)
    if done == steps[: len(done)]:
        return steps[len(done) :]
    head = done[:-1]
    last = done[-1]
    reached = len(head)
    if head != steps[:reached] or reached >= len(steps) or not steps[reached].continues(last):
        return None
    return steps[reached:]


def with_step(done: Sequence[Step], step: Step) -> list[Step]:
    """The steps that are done once `step` is, which may continue the last of them."""
    before = list(done)
    if before and step.continues(before[-1]):
        before.pop()
    return [*before, step]


def due(target: Target, request: Request, kind: str | None) -> tuple[Token, Step | None]:
    """The token, and the next step when it is of `kind`. Raises Refusal where no step leads to the requested state."""
    now, why = inspect(target)
    step = now and resumable_step(now, request)
    if now and step:
        return now, step if kind in (None, step.kind) else None
    what = kind or "apply a step to"
    if why or not now:
        raise Refusal(f"cannot {what} target {target.name}: {why}; run scrub.yml with the same request first")
    rest = rest_of(now.done, request["steps"])
    if rest is None:
        raise Refusal(
            f"cannot {what} target {target.name}: from its state {now.state!r} only an empty target leads to state "
            f"{request['state']!r}; run scrub.yml with the same request first"
        )
    return now, rest[0] if rest and kind in (None, rest[0].kind) else None


def resumable_step(now: Token, request: Request) -> Step | None:
    """The interrupted step, where it is resumed and not begun again from an empty target; else None.

    A step that several clients had begun is resumed: one lost client must not cost the work of the others. They make
    their files at the same time, so the layout differs each time anyway. The layout that one client alone makes is
    always the same, but not if the step is done in two parts. On a file system that others use too it never is, so
    there a step that was stopped for their sake is resumed.
    """
    whole = now.clients < 2 and PAUSED not in now.notes
    if now.status != BUILDING or whole or request.get("reuse", "nested") != "nested":
        return None
    rest = rest_of(now.done, request["steps"])
    if rest and rest[0] == now.step:
        return now.step
    return None


def scrub(spec: JsonView, request: Request, check: bool) -> Result:
    """Empty the target unless the request's state can be reached from where it is."""
    with at_work(spec, request) as target:
        now, why = inspect(target, whole=True)
        if now:
            step = resumable_step(now, request)
            if step:
                return {"changed": False, "msg": f"target {target.name}: {step.kind} resumes"}
            rest = None if why else rest_of(now.done, request["steps"])
            if rest is not None and (not rest or request.get("reuse", "nested") == "nested"):
                return {"changed": False, "msg": f"target {target.name} is at {now.state!r}; {len(rest)} steps to do"}
            why = why or f"{request['state']!r} cannot be reached from {now.state!r}"
        reason = str(why)
        if check:
            return {"changed": True, "msg": f"would empty target {target.name}: {reason}", "why": reason}
        refuse_unfit(target.spec, target.claim, request)  # before anything is deleted
        with looked_on(target, request, "emptying"):
            empty(target, reason)
        return {"changed": True, "msg": f"emptied target {target.name}: {reason}", "why": reason}


def empty(target: Target, why: str) -> None:
    """Make the file systems anew and write the token of an empty target: a new layout instance begins."""
    last = claims.read_token(target.mounts[0])
    with filesystems.one_cpu():  # stamp and token are small files
        target.format()
        begin_empty(target, why, last.epoch if last else 0)


def begin_empty(target: Target, why: str, epoch: int = 0) -> None:
    """Give new file systems what each target has before its first step: a token, and the place of measured files."""
    remove_measured(target)
    now = Token(target.claim["id"], BUILDING, epoch, str(uuid.uuid4()), why, target.name)
    write_ready(target, now, "empty", [])


def write_ready(target: Target, now: Token, name: str, done: Sequence[Step]) -> Token:
    """Collect the target's evidence and write the token of state `name`."""
    mount = target.mounts[0]
    if not all((store / "measured").is_dir() for store in target.mounts):  # on a file system that was restored
        remove_measured(target)  # the directory takes a block, which belongs to the state
    if not claims.token_path(mount).exists():  # the token's blocks belong to the empty state
        claims.write_token(mount, now)
    settle(target, _accounted(target, now))
    extents = digest(target.mounts)
    accounts = _accounts(target)
    if not target.own_stores and accounts["held_bytes"] > target.capacity_bytes:
        raise Failure(
            f"the files of target {target.name} hold {accounts['held_bytes']} bytes, and its claim allows "
            f"{target.capacity_bytes}; scrub.yml empties it"
        )
    notes = dict(now.notes)
    notes.pop("digest", None)
    notes.pop(PAUSED, None)
    if "error" in extents:
        why = target.why_no_extents(extents["error"])
        notes["digest"] = {"absent": f"{why}: extents are not compared, only names, sizes and free space"}
    ready = Token(
        claim=target.claim["id"],
        status=READY,
        epoch=now.epoch + 1,
        instance=now.instance,
        emptied_because=now.emptied_because,
        target=target.name,
        state=name,
        done=tuple(done),
        digest=extents["hash"],
        extents=extents["extents"],
        achieved=tuple(structure.achieved(done, target.capacity_bytes)),
        notes=notes,
        **accounts,
    )
    return claims.write_token(mount, ready)


def _accounted(target: Target, now: Token) -> Wrong:
    """What the OSTs of Lustre must hold: the sum in the last token, changed by as much as fsage's files have."""
    if now.osts is None:
        return nothing
    caches.flush(target.mounts[0])
    ours = fingerprint(target)["held_bytes"]
    return budget.in_all(now.osts, ours - now.held_bytes, target.osts.tolerance_bytes)


def _accounts(target: Target) -> Json:
    prints = fingerprint(target)
    accounts = {"fingerprint": prints["hash"]}
    for key in ("files", "bytes", "held_bytes", "free_bytes", "osts"):
        if key in prints:
            accounts[key] = prints[key]
    return accounts


def begin(kind: str | None, spec: JsonView, request: Request, check: bool) -> Step | None:
    """Announce the next step on the target, when it is of `kind`; None when there is nothing to do."""
    with at_work(spec, request) as target:
        now, step = due(target, request, kind)
        if step is None:
            return None
        target.osts.verify_preallocation(step)
        room = target.room_below()
        wanted = step.writes_bytes(target.capacity_bytes)
        if room is not None and wanted > room:
            raise Refusal(
                f"cannot {step.describe()} on target {target.name}: it writes {wanted} bytes, and below the sparse "
                f"image there is room for {room}; nothing was touched. Have filler allocated (filler: fallocate)"
            )
        if not check:
            what = f"step {step.kind} of state {request['state']}"
            reach_s = request.get("reach_s", 0.0)
            budget.refuse_now(target.spec["limits"], what, reach_s, wanted)
            clients = max(1, len(clients_of(request))) if step.SHARDED else 1
            if clients > 1:
                refuse_unfit(target.spec, target.claim, request)
            claims.token_changed(target.mounts[0], now, status=BUILDING, step=step, clients=clients)
        return step


def apply_step(spec: JsonView, request: Request, check: bool) -> Result:
    """Do the next step, if it is of the requested kind: on all clients, by so many threads on each.

    Raises Refusal, Failure.
    """
    kind = request.get("step_kind") or None
    if kind not in (None, *structure.kinds()):
        raise Refusal(f"{shown(kind)} is no kind of step: there are {', '.join(structure.kinds())}")
    threads = request.get("threads", ALONE.threads)
    step = begin(kind, spec, request, check)
    if step is None:
        return {"changed": False, "msg": f"nothing to {kind or 'apply'} on target {spec['name']}"}
    if check:
        return {"changed": True, "msg": f"{step.describe()} on target {spec['name']}"}
    others = clients_of(request)[1:] if step.SHARDED else []
    if others:
        share_out(spec, request, step, threads)
    else:
        work(spec, request, step, Shard(threads=threads))
    return end(spec, request, step)


def share_out(spec: JsonView, request: Request, step: Step, threads: int) -> None:
    """Do the announced step on all clients at a time, each a shard. Raises Failure: then all of them have stopped."""
    target = opened(spec, request)
    with contextlib.closing(Hosts(target.spec, target.claim, inventory_of(request))) as hosts:
        shards = [Shard(index, len(hosts.client_names), threads) for index in range(len(hosts.client_names))]
        for host, shard in zip(hosts.clients, shards[1:]):
            given = {"request": typed.to_json(request), "step": step.to_json(), "shard": typed.to_json(shard)}
            host.tell({"do": "work", **given})
        work(spec, request, step, shards[0], hosts.alive)
        answers_of(hosts.clients, math.inf, hosts.alive)


def reach(spec: JsonView, request: Request) -> None:
    """Bring the target into the request's state. Raises Refusal, Failure."""
    scrub(spec, request, False)
    while apply_step(spec, request, False)["changed"]:
        pass


def work(
    spec: JsonView,
    request: Request,
    step: Step,
    shard: Shard = ALONE,
    check_alive: Call = lambda: None,
) -> making.Work:
    """Do one host's shard of the announced step. Raises Failure as soon as another run holds the target.

    `check_alive` is called before each file, and raises where nobody waits for it any more.
    """
    kind = step.kind
    with at_work(spec, request, anywhere=True, shared=True) as target:
        now = claims.read_token(target.mounts[0])
        if not now or now.step != step or now.status != BUILDING:
            raise Refusal(
                f"target {target.name} does not expect this {kind} step; run {step.PLAYBOOK} again from its start"
            )

        noted = (claims.token_path(target.mounts[0]), target.home / lease.NOTE)
        looked: list[Stamp] = []

        def still_ours() -> None:
            # The token tells the shards on all hosts that another run holds the target. On the launcher the lease
            # tells it earlier. This runs for each file, so both are read only after they were written.
            nonlocal looked
            stamps = list(map(stamp, noted))
            if looked == stamps:
                return
            looked = stamps
            if claims.read_token(target.mounts[0]) != now or lost(target.home, request):
                raise Failure(f"{kind} stopped: another run took target {target.name} while it was at work")

        def check_lease() -> None:
            target.pace.spend()
            check_alive()
            still_ours()

        try:
            with looked_on(target, request, step.describe(), still_ours):
                done = making.work(step, target, list(now.done), shard, check_lease)
        except Stopped:
            if step.SHARDED and now.clients < 2 and not target.own_stores:
                claims.token_changed(target.mounts[0], now, notes={**now.notes, PAUSED: {}})
            raise
        if done.notes:  # only steps without shards have notes, so nobody else reads the token now
            claims.token_changed(target.mounts[0], now, notes={**now.notes, kind: done.notes})
        return done


def end(spec: JsonView, request: Request, step: Step) -> Result:
    """Verify what the shards did and declare the target ready."""
    kind = step.kind
    with at_work(spec, request) as target:
        now = claims.read_token(target.mounts[0])
        if not now or now.step != step:
            raise Refusal(f"target {target.name} does not expect the end of this {kind} step")
        target.osts.verify_preallocation(step)
        done = with_step(now.done, step)
        making.verify(target.mounts, done, target.capacity_bytes, now.notes)
        making.verify_made(step, target)
        reached = done == request["steps"]
        ready = write_ready(target, now, request["state"] if reached else f"on the way to {request['state']}", done)
        more = ready.files > now.files and not step.REPLACES
        if target.state_known and more and ready.free_bytes >= now.free_bytes:
            raise Failure(f"{kind}: the files of target {target.name} took no space ({ready.free_bytes} bytes free)")
        return {
            "changed": True,
            "msg": f"{kind}: {ready.files} files, "
            + (f"digest {ready.digest}" if ready.digest else f"no digest: {ready.notes['digest']['absent']}"),
            "token": ready.to_json(),
        }


def diagnose(spec: JsonView, request: Request, check: bool) -> Result:
    """What the target is, and which steps the request's state still needs; changes nothing of its structure."""
    with at_work(spec, request) as target:
        now, why = inspect(target, whole=True)
        steps = request.get("steps", [])
        rest = rest_of(now.done, steps) if now and not why else None
        todo = [step.kind for step in (steps if rest is None else rest)]
        if rest is None:
            todo.insert(0, "scrub")
        return {
            "changed": False,
            "msg": why or f"at {now.state if now else ''!r}",
            "todo": todo,
            "why": why,
            "token": now.to_json() if now else {},
        }


def evidence(spec: JsonView, request: Request, check: bool) -> Result:
    """Evidence of the request's state, with the layout; Refusal when the target is in another state.

    On Lustre the request has the servers' answers to the verb `osts` under `osts`.
    """
    with at_work(spec, request) as target:
        now, why = inspect(target)
        if why or not now or list(now.done) != request["steps"]:
            at = why or (now.state if now else "")
            raise Refusal(f"target {target.name} is not in state {request['state']!r}: {at}")
        settle(target)
        state: StateEvidence = {
            **layout_record(target, now),
            "layout": typed.read(StoresLayout, layout(target, target.osts.layouts(request.get("osts", [])))),
            "token": {"instance": now.instance, "claim": now.claim},
            "study": request["study"],
            "state": request["state"],
        }
        answer: Result = {"changed": False, "msg": f"target {target.name} is at {now.state!r}"}
        return {**answer, "evidence": {**typed.to_json(state), **target.osts.fullness(), "token": now.to_json()}}
