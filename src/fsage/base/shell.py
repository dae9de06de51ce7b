"""Run a command; its error output becomes the message of a failure."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from fsage.base import Failure

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "UpdateHostKeys=no")
"""The words before a command for another host; ssh must not ask for a password, nor change the user's known hosts."""


ADMINISTRATORS = ("/usr/sbin", "/sbin")
"""The directories of lctl, wipefs and the like. On Debian an ordinary user's PATH lacks them."""


class Silent(Failure):
    """A command that did not end in time."""


def find_administrators() -> None:
    """Append the directories of administrators' programs to PATH."""
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    lacking = [place for place in ADMINISTRATORS if place not in places]
    os.environ["PATH"] = os.pathsep.join([*places, *lacking])


QUICK = {
    *("findmnt", "stat", "modprobe", "wipefs", "sudo", "lfs", "lctl", "lnetctl", "zfs"),
    "tunefs.lustre",
}
"""Programs that only ask the kernel, or change one thing."""
QUICK_S = 900
LIMIT_S = 6 * 3600  # Lustre may wait for a server that starts again; a large mkfs takes long


def run(argv: Sequence[str], *, ok: Sequence[int] = (0,), **kw: Any) -> subprocess.CompletedProcess[str]:
    """Run `argv` without a shell, standard input closed, messages in English; return the completed process.

    `ok` lists the exit statuses that are answers; any other, or a missing program, raises `Failure` with
    argv, status and standard error. A command that does not end in time raises `Silent`. Further keywords go to
    `subprocess.run`; a `timeout` of None is no limit.
    """
    kw.setdefault("timeout", QUICK_S if argv[0] in QUICK else LIMIT_S)
    kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("env", {**os.environ, "LC_ALL": "C"})
    command = " ".join(argv)
    try:
        done = subprocess.run(list(argv), capture_output=True, text=True, errors="replace", check=False, **kw)
    except FileNotFoundError as error:
        raise Failure(f"{argv[0]}: no such program on {os.uname().nodename} (wanted for: {command})") from error
    except subprocess.TimeoutExpired as error:
        raise Silent(f"`{command}` did not end within {error.timeout} s") from error
    if done.returncode not in ok:
        output = (done.stderr or done.stdout).strip() or "(it printed nothing)"
        raise Failure(f"`{command}` ended with status {done.returncode}: {output}")
    return done


UNLIMITED = "`ulimit -f unlimited`, or ask the administrator where a hard limit is set (limits.conf(5))"


def why_files_limited(wanted_bytes: int) -> str | None:
    """Why this process may not write files of so many bytes; None where it may."""
    most_bytes = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if most_bytes == resource.RLIM_INFINITY or most_bytes >= wanted_bytes:
        return None
    return f"this process may write files of {most_bytes} bytes at most (ulimit -f), and {wanted_bytes} are wanted"


def stop(process: subprocess.Popen[str]) -> None:
    """End a command with its children (it leads a session of its own)."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=2)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return
