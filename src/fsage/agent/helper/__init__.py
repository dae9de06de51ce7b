"""The helper that root installs, so that a user may have a loop target without being root: `sudo -n HELPER VERB`.

Nothing that the caller says is believed. An image must be a regular file of his own, opened without following links; a
device must be one that was attached for him, by a note of root's; a mount point lies below root's own directory and is
nobody else's; a control group is fsage's, and made for him, by such a note. There is no verb that runs a command as
root: `enter` gives root up first, for good.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from fsage.agent.errors import Failure, Refusal
from fsage.agent.helper import groups, lustre, volumes
from fsage.agent.helper.caller import LOCK, Caller, Given
from fsage.agent.system import files, namespace, privilege

MOST_BYTES = 1 << 20
ENTER = "enter"


def hello(caller: Caller, given: Given) -> str:
    """That the user may call, and whom: the version of this helper."""
    return privilege.version()


VERBS: dict[str, Callable[[Caller, Given], Any]] = {"hello": hello, "leave": hello, **volumes.VERBS}
OF_GROUPS, OF_LUSTRE = groups.VERBS, lustre.VERBS
ALONE = {**OF_GROUPS, **OF_LUSTRE}
"""They may wait, concern no mount, and lock for themselves what they change."""


def main(arguments: list[str]) -> int:
    """Do one verb for the user who asks. Exit status as the agent's: 1 refused, 2 failed."""
    try:
        caller = Caller()
        os.environ.clear()
        os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C")
        os.umask(0o022)
        os.chdir("/")
        if arguments == [ENTER]:
            return enter(caller)
        verbs = {**VERBS, **ALONE}
        if len(arguments) != 1 or arguments[0] not in verbs:
            raise Refusal(f"no verb {' '.join(arguments)!r:.100}; there are {', '.join([ENTER, *verbs])}")
        given = _read(sys.stdin.buffer.read(MOST_BYTES + 1))
        if arguments[0] in ALONE:
            answer, code = {"value": ALONE[arguments[0]](caller, given)}, 0
        else:
            with files.locked(LOCK), namespace.entered():
                answer, code = {"value": VERBS[arguments[0]](caller, given)}, 0
    except Refusal as why:
        answer, code = {"refused": str(why)}, 1
    except (Failure, OSError) as why:
        answer, code = {"failed": f"{' '.join(arguments)}: {why}"}, 2
    print(json.dumps(answer))
    return code


def enter(caller: Caller) -> int:
    """Become the user for good, where targets are mounted, and run what the first line of standard input says."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) <= MOST_BYTES:
        if not (byte := os.read(0, 1)):  # no more than the line: what follows is the command's
            break
        line += byte
    given = _read(bytes(line))
    argv, env, cwd = given.get("argv"), given.get("env"), given.get("cwd")
    if not _texts(argv) or not argv or not isinstance(env, dict) or not _texts([*env, *env.values()]):
        raise Refusal("argv, a list of texts, and env, an object of texts, are wanted")
    namespace.enter()
    os.initgroups(caller.user.pw_name, caller.user.pw_gid)
    os.setresgid(caller.user.pw_gid, caller.user.pw_gid, caller.user.pw_gid)
    os.setresuid(caller.uid, caller.uid, caller.uid)
    os.chdir(cwd if isinstance(cwd, str) else "/")
    os.execvpe(argv[0], argv, env)


def _read(text: bytes) -> Given:
    if len(text) > MOST_BYTES:
        raise Refusal(f"more than {MOST_BYTES} bytes on standard input")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"standard input is not JSON ({error})") from error
    if not isinstance(given, dict):
        raise Refusal("standard input is not a JSON object")
    return given


def _texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) and "\0" not in one for one in given)
