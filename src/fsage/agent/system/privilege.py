"""What needs root: called as it stands where the agent is root, else asked of the helper that root has installed.

The helper (fsage.agent.helper) does for a user what it can prove to concern his own image alone. It is called as
`sudo -n HELPER VERB`, one JSON object on standard input, and answers as the agent does.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from fsage.agent import message
from fsage.agent.errors import Failure, Refusal

HELPER = Path("/usr/local/libexec/fsage/fsage-helper")
INSTALL = f"./run fsage site --helper | sudo install -D -o root -g root -m 0755 /dev/stdin {HELPER}"
ENTER = ["sudo", "-n", str(HELPER), "enter"]
INSIDE = "--inside"  # tells the agent that the helper has started it where targets are mounted
PACKAGE = str(Path(__file__).parents[3])  # a folder, or a zip in this process's memory, which lives as long
MAIN = "sys.exit(agent.main(sys.argv[1:]))"
CODE = (
    *("errors", "message", "plugins", "stores/filesystem", "stores/filesystems", "lustre/granted", "lustre/params"),
    *(f"system/{name}" for name in ("caches", "files", "holders", "journal", "mounting", "namespace", "places")),
    *(f"system/{name}" for name in ("privilege", "shell")),
    *(f"helper/{name}" for name in ("__init__", "caller", "groups", "lustre", "volumes")),
    *(f"device/{name}" for name in ("cgroups", "iocost", "loops", "model", "queue")),
    *(f"filesystems/{name}" for name in ("ext4", "xfs")),
)
"""Modules of the agent that the helper is made of; root runs no others of them."""
UNMOUNTS = ("release", "remove", "recover")  # verbs of the agent after which nothing may be mounted any more
ANSWER_BYTES = 16 * message.MIB
_granted = False
_caller: int | None = None  # in the helper: the process that has called it
Function = TypeVar("Function", bound=Callable[..., Any])


def privileged(verb: str) -> Callable[[Function], Function]:
    """Make a function that needs root callable by a user, as a verb of the helper; arguments and result are JSON."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kw: Any) -> Any:
            if os.geteuid() == 0:
                return function(*args, **kw)
            return ask(verb, signature.bind(*args, **kw).arguments)

        return cast(Function, call)

    return decorate


def texts() -> dict[str, bytes]:
    """The modules of CODE, by their paths in the agent."""
    found = {f"{name}.py": pkgutil.get_data("fsage.agent", f"{name}.py") for name in CODE}
    return {path: text for path, text in found.items() if text is not None}


@functools.cache
def version() -> str:
    """Which helper belongs to this agent, and which version a helper is."""
    whole = hashlib.sha256()
    for path, text in texts().items():
        whole.update(f"{path} {len(text)}\n".encode() + text)
    return whole.hexdigest()


def ask(verb: str, given: dict[str, Any]) -> Any:
    """What the helper answers. Raises Refusal, also where there is no helper or no leave to call it, and Failure."""
    words = command(verb)
    try:
        done = subprocess.run(
            words, input=json.dumps(given, default=str), capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError as error:
        raise Refusal(_unheard(f"{error.filename}: no such program")) from None
    return value(done.stdout, done.stderr, f"`{' '.join(words)}`")


def command(verb: str) -> list[str]:
    """What asks the helper of this host."""
    return ["sudo", "-n", str(HELPER), verb]


def value(text: str, errors: str, who: str) -> Any:
    """What is in an answer of the helper's. Raises Refusal, Failure."""
    try:
        answer = message.read(text, ANSWER_BYTES) if text else {"refused": _unheard(errors)}
    except message.Unacceptable as why:
        raise Failure(f"{who} gave an answer that {why}") from None
    if not isinstance(answer, dict) or not answer.keys() & {"failed", "refused", "value"}:
        raise Failure(f"{who} gave no answer: {message.shown(answer)}")
    if "failed" in answer:
        raise Failure(answer["failed"])
    if "refused" in answer:
        raise Refusal(answer["refused"])
    return answer["value"]


def is_granted() -> None:
    """The helper has started this process: nobody is asked again."""
    global _granted
    _granted = True


@functools.cache
def why_not() -> str | None:
    """Why this process may not do what needs root; None when it may.

    Raises Refusal where the helper is of another version: it might do what is asked otherwise.
    """
    if os.geteuid() == 0 or _granted:
        return None
    if not HELPER.exists():  # not asked: sudo would report it
        return _unheard("it is not installed")
    try:
        found = ask("hello", {})
    except (Refusal, Failure) as why:
        return str(why)
    if found != version():
        raise Refusal(
            f"{HELPER} on {os.uname().nodename} belongs to another version of fsage; nothing was touched. The "
            f"administrator installs the present one: {INSTALL}"
        )
    return None


def caller() -> int:
    """The process that does what needs root: this one, or that for which the helper does it."""
    return _caller or os.getpid()


def is_called_by(pid: int) -> None:
    """This process is the helper, and does what it does for another."""
    global _caller
    _caller = pid


def need(name: str) -> None:
    """Refusal where loop devices and mounts cannot be had for a target."""
    if why := why_not():
        raise Refusal(
            f"target {name} (kind: loop) needs root on {os.uname().nodename} for loop devices and mounts, or its "
            f"helper: {why}; or declare `kind: directory`, which measures in a plain directory"
        )


def go_inside(arguments: list[str], given: dict[str, Any]) -> int:
    """Run this very command of the agent, as the user who we are, where targets are mounted; its exit status."""
    start = f"import sys; sys.path.insert(0, {PACKAGE!r}); from fsage.agent import __main__ as agent; {MAIN}"
    agent = [sys.executable, "-I", "-S", "-c", start, INSIDE, *arguments]
    text = _front(agent) + json.dumps(given)
    inner = subprocess.Popen(ENTER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert inner.stdin and inner.stdout
    try:
        inner.stdin.write(text)
        inner.stdin.close()
        said = inner.stdout.read()
    except BrokenPipeError:
        said = inner.stdout.read()
    finally:  # interrupted, it hears of it: nobody reads its answer any more, and a signal from us sudo would not take
        inner.stdout.close()
        code = inner.wait()
        if arguments[-1] in UNMOUNTS:
            ask("leave", {})
    answer = json.loads(said) if said else {"refused": _unheard(f"`sudo -n {HELPER} enter` ended with status {code}")}
    if "refused" in answer:
        answer = {"failed": True, "changed": False, "msg": answer["refused"]}
    print(json.dumps(answer))
    return code


def run_inside(command: list[str]) -> int:
    """Run any command as the user who we are where targets are mounted, its standard input empty; its exit status."""
    return subprocess.run(ENTER, input=_front(command), text=True, check=False).returncode


def _front(command: list[str]) -> str:
    return json.dumps({"argv": command, "env": dict(os.environ), "cwd": os.getcwd()}) + "\n"


def _unheard(said: str) -> str:
    host, why = os.uname().nodename, said.strip().rpartition("\n")[2] or "it said nothing"
    return (
        f"user {os.geteuid()} of {host} may not call {HELPER}: {why}; nothing was touched. `fsage site --sudoers` "
        "prints the rules that suffice and how the administrator installs them"
    )
