"""`python3 -m fsage.host [--check] VERB`: one JSON object in on stdin, one out on stdout.

Exit code 0: done; 1: refused, nothing was touched; 2: failed. The object then holds "failed" and "msg".
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import sys
import threading

from fsage.base import MIB, Failure, Json, JsonView, Refusal, in_words, message
from fsage.base.shell import find_administrators
from fsage.host import instruments, states
from fsage.host.cells import measure, observed
from fsage.host.device import capabilities
from fsage.host.instruments import cleanup
from fsage.host.remote.remote_hosts import refuse_unfit
from fsage.host.system import commands, kernel, namespace, space
from fsage.host.targets import kinds as targets
from fsage.host.targets import lease
from fsage.host.targets.kinds import Verb
from fsage.host.targets.opening import claim_of, refuse_other_claim, refuse_other_clients
from fsage.host.verbs import checks, claim, preallocation, tune
from fsage.model import kinds, structure
from fsage.model.declaration import complete, home_of
from fsage.model.request import Request
from fsage.model.target import Spec, usual


def hold(declared: Json, request: Request, check: bool) -> Json:
    """Take the lease for the request's run, or give it back (`request["release"]`)."""
    spec = complete(declared)
    home = home_of(spec)
    if check:
        return {"changed": False, "msg": "the lease is taken only in earnest"}
    if request.get("release"):
        try:  # as it was found, at the end of each run
            tune.untune(declared, request, check)
            if cleanup.left_over(home):
                with lease.held(home, request):
                    tune.undo(home)
        finally:
            changed = lease.drop(home, request)
        if not any((home / name).exists() for name in ("claim.json", "images.json", "journal.json")):
            claim.forget(spec)  # it was never claimed, because that was refused for one
        return {"changed": changed, "msg": f"target {home.name} is free"}
    if not request.get("holder"):
        raise Refusal("the request names no run, and runs hold targets: `snakemake STUDY` is one; nothing was touched")
    if request.get("claim"):  # of the launcher's copy: once a run, what each state would refuse
        claimed = claim_of(spec)
        refuse_other_claim(request, claimed)
        refuse_other_clients(request, claimed)
        lease.refuse_if_held(home, request)
        refuse_unfit(spec, claimed, request)
    with lease.held(home, request):
        pass
    tune.untune(declared, request, check)  # what a killed run of this target left
    return {"changed": True, "msg": f"target {home.name} is held by {lease.describe(request['holder'] or {})}"}


def question(text: bytes) -> Json:
    """What came on stdin. Raises Refusal."""
    try:
        given = message.read_block(text, QUESTION_BYTES)
    except message.Unacceptable as why:
        raise Refusal(f"what came on standard input {why}; nothing was touched") from None
    if not isinstance(given.get("target"), dict):
        raise Refusal("what came on standard input has no target; nothing was touched")
    return given


VERBS: dict[str, Verb] = {
    "probe": checks.check_site,
    "create": claim.create,
    "remove": claim.remove,
    "claim": claim.claim,
    "release": claim.release,
    "hold": hold,
    "recover": tune.recover,
    "diagnose": states.diagnose,
    "tune": tune.tune,
    "untune": tune.untune,
    "leave": claim.leave,
    "restore_tunables": tune.restore,
    "prealloc": preallocation.prealloc,
    "scrub": states.scrub,
    "apply_step": states.apply_step,
    "evidence": states.evidence,
    "measure": measure.measure_all,
    "bundle": observed.bundle,
    "acknowledge": observed.acknowledge,
}
"""Those of every target; a kind has `verbs` of its own."""
QUESTION_BYTES = 128 * MIB


def verbs() -> dict[str, Verb]:
    """What a host can do, by name."""
    return {**VERBS, **{name: verb for kind in targets.every() for name, verb in kind.verbs.items()}}


def load() -> None:
    """Import what verbs find by its name, for a process that begins many agents as forks."""
    verbs()
    structure.kinds()
    instruments.found()


def of_one_host(spec: JsonView) -> bool:
    """Whether a declared target is mounted where only fsage's are."""
    kind = kinds.get(spec.get("kind", usual(Spec)["kind"]))
    return kind is not None and kind.of_one_host


def among_mounts(spec: Json) -> contextlib.AbstractContextManager[None]:
    """Where a target's file systems are mounted, if this process can mount; before there are threads."""
    if of_one_host(spec) and not capabilities.obstacles(capabilities.LOOP_TARGET):
        whole = complete(spec)
        images = [whole["image_dir"]] if whole["image_dir"] else space.CANDIDATES
        return namespace.entered([*images, whole["home"], whole["mount_dir"], *filter(None, [whole["containers"]])])
    return contextlib.nullcontext()


def end_with_parent() -> None:
    """Take SIGTERM, and the end of the process that started us, as an interruption: whatever runs is stopped.

    Ansible's workers are sessions of their own, so that no signal to the run's process group comes here. Over SSH it
    is sshd that started us, and lives on: then nobody is left to read our answer.
    """
    signal.signal(signal.SIGTERM, commands.interrupt)
    kernel.library.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
    threading.Thread(target=end_unread, daemon=True).start()


def end_unread() -> None:
    """Wait until the other end of stdout is closed, and interrupt this process."""
    stdout = select.poll()
    stdout.register(sys.stdout, 0)  # errors and hang-ups alone
    stdout.poll()
    os.kill(os.getpid(), signal.SIGTERM)


def perform(verb: str, given: Json, request: Request, check: bool) -> Json:
    """The answer to a verb, by this process. Raises Refusal, Failure, OSError."""
    act = VERBS.get(verb) or verbs()[verb]
    return act(given["target"], request, check)


UNANSWERED = (errno.EIO, errno.ESHUTDOWN, errno.ENOTCONN, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ESTALE)
"""Errors of a file system whose server is away."""


def way_out(error: OSError, spec: JsonView) -> str:
    """What helps a user where only root, or another user, may look, or what does not answer; '' if it is unknown."""
    if error.errno in UNANSWERED and "kind" in spec:
        return targets.named(complete(spec)["kind"]).behind(complete(spec))
    if not isinstance(error, PermissionError) or os.geteuid() == 0:
        return ""
    remedy = f"; give the command as root, or as the user who claimed target {spec.get('name')}"
    if of_one_host(spec):
        return f"{remedy}, or take a target that needs no root: --target directory"
    return remedy


def main(arguments: list[str]) -> int:
    """Run one verb."""
    find_administrators()
    check = "--check" in arguments
    verb = next((word for word in arguments if not word.startswith("-")), "")
    if verb not in VERBS and verb not in verbs():  # not of all kinds, which takes time
        print(json.dumps({"failed": True, "msg": f"no verb {verb!r}; there are {', '.join(verbs())}"}))
        return 2
    spec: Json = {}
    try:
        given = question(sys.stdin.buffer.read())
        spec = given.get("target") or {}
        with among_mounts(spec):
            end_with_parent()
            request = checks.checked(given.get("request") or {}, given.get("hosts"))
            checks.needed(verb, request)
            if not check and verb != "probe":
                tune.settle(request)
            of_kind = targets.named(complete(spec)["kind"]).answered(verb, given, request, check)
            answer = perform(verb, given, request, check) if of_kind is None else of_kind
    except lease.Held as held:
        return ended(1, str(held), held_by=held.holder)
    except Refusal as refusal:
        return ended(1, str(refusal))
    except Failure as failure:
        return ended(2, str(failure))
    except OSError as error:
        return ended(2, f"{verb}: {in_words(error)}{way_out(error, spec)}")
    except KeyboardInterrupt:
        return ended(2, f"{verb} was interrupted")
    print(json.dumps(answer))
    return 0


def ended(code: int, msg: str, **more: object) -> int:
    """Answer that a verb was refused (1), or failed (2)."""
    print(json.dumps({"failed": True, "changed": code == 2, "msg": msg, **more}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
