"""The helper that root installs, for users who measure without being root: `sudo -n HELPER VERB`.

It drops caches, reads the kernel's log, and does what the folders `helper` of studies say (fsage.api.helper). No verb
runs a command, or takes a path or a device. A user gives a list of names, or a number, and each is checked. What costs
others something is done at a limited rate. The caller's limits, timers and ignored signals pass through sudo(8), so the
helper sets its own before it reads anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from fsage.base import Failure, Json, Refusal, in_words, message
from fsage.host.system import caches, files, kernel_log, privilege
from fsage.model import plugins

MOST_BYTES = 1 << 20
LIMITS = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: 1024, resource.RLIMIT_STACK: 8 << 20} | dict.fromkeys(
    (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC),
    resource.RLIM_INFINITY,
)
"""Limits of setrlimit(2): what the helper may use, whatever its caller may."""
PACED = Path("/run/fsage/helper.json")
"""When a verb that costs others something may be done next."""
AT_ONCE = 20
EVERY_S = 1.0
"""How often a costly verb is done at once, by all users together; then it waits, for once every EVERY_S."""
Given = Json
"""What the caller says: the arguments of a verb, as JSON; with his number (`user`), and `fsname` of the command."""


def hello(given: Given) -> str:
    """That the user may call, and whom: the version of this helper."""
    return privilege.version()


def drop_caches(given: Given) -> None:
    """Drop the page cache of the machine, once."""
    pace("drop-caches")
    caches.drop_all_pages()


def kernel_log_lines(given: Given) -> object:
    """Lines of the kernel's log that tell of trouble."""
    return kernel_log.since(kernel_log.check_number(given.get("number")))


def undo(given: Given) -> list[str]:
    """Put back all that was set for anybody. No rule allows it: it is for administrators."""
    back = []
    with undisturbed():
        for package in packages():
            back += package.undo()
    return back


Verb = Callable[[Given], object]
VERBS: dict[str, Verb] = {"hello": hello, "drop-caches": drop_caches, "kernel-log": kernel_log_lines}
UNDO = "undo"
CLIENTS = "clients"
SERVERS = "servers"


def packages() -> list[ModuleType]:
    """The folder `helper` of each study that has one."""
    return [plugins.of_study(study, plugins.HELPER) for study in plugins.having(plugins.HELPER)]


def main(arguments: list[str]) -> int:
    """Do one verb for the user who asks. Exit status as the agent's: 1 refused, 2 failed."""
    of_packages: dict[str, Verb] = {}
    for package in packages():
        of_packages |= {**package.VERBS[CLIENTS], **package.VERBS[SERVERS]}
    verbs = {**VERBS, **of_packages, UNDO: undo}
    try:
        caller = os.environ.get("SUDO_UID", "")
        verb = (arguments or [""])[0]
        words = arguments[1:]
        if os.geteuid() != 0 or not (verb == UNDO or re.fullmatch("[1-9][0-9]*", caller)):
            raise Refusal("this is for users, by way of `sudo -n`; root needs no helper")
        _be_independent()
        os.environ.clear()
        os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C")
        os.umask(0o022)
        os.chdir("/")
        if verb not in verbs or len(words) != (verb in of_packages):
            raise Refusal(
                f"no verb {' '.join(arguments)!r:.100}; there are {', '.join(verbs)}, and "
                f"{', '.join(of_packages)} want the name of a file system"
            )
        if verb == UNDO:
            given = {}
        else:
            given = message.read_block(sys.stdin.buffer.read(MOST_BYTES + 1), MOST_BYTES)
        given["user"] = int(caller or 0)
        if words:
            given["fsname"] = words[0]
        answer = {"value": verbs[verb](given)}
        code = 0
    except message.Unacceptable as why:
        answer = {"refused": f"what came on standard input {why}"}
        code = 1
    except Refusal as why:
        answer = {"refused": str(why)}
        code = 1
    except (Failure, OSError) as why:
        answer = {"failed": f"{' '.join(arguments)}: {in_words(why)}"}
        code = 2
    print(json.dumps(answer))
    if code:  # for who does not read answers, but a program's text
        print(*answer.values(), file=sys.stderr)
    return code


def pace(verb: str) -> None:
    """Wait until a verb may be done: AT_ONCE times at once, then once every EVERY_S, whoever asks."""
    with files.locked(PACED.with_suffix(".lock")):
        now = time.monotonic()
        noted = files.read_json(PACED) or {}
        due = max(noted.get(verb, now), now) + EVERY_S
        if due - now > 2 * AT_ONCE * EVERY_S:
            raise Refusal(f"{verb} was called more than {AT_ONCE} times in {AT_ONCE * EVERY_S:g} s; wait a minute")
        files.write_json(PACED, {**noted, verb: due})
    time.sleep(max(0.0, due - now - AT_ONCE * EVERY_S))


def _be_independent() -> None:
    """Have limits and signals of our own; where root lacks CAP_SYS_RESOURCE (a container) the hard limits stay."""
    for limit, most in LIMITS.items():
        try:
            resource.setrlimit(limit, (most, most))
        except (OSError, ValueError):
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (hard, hard))
    for number in (signal.SIGINT, signal.SIGCHLD):  # ends us without a traceback; with it ignored no child is seen fail
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold all signals, ours and those of programs that are started, until the block has ended.

    A user may signal what runs from his terminal (Ctrl-C), and would leave the request half done.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
