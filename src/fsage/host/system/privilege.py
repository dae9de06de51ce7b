"""What needs root: called as it stands where the agent is root, else asked of the helper that root has installed.

The helper (fsage.host.helper) drops caches and does what Lustre wants of root. It is called as `sudo -n HELPER VERB`,
one JSON object on standard input, and answers as the agent does.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import pkgutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

from fsage.model import MIB, message
from fsage.model.errors import Failure, Refusal

HELPER = Path("/usr/local/libexec/fsage/fsage-helper")
INSTALL = f"./run fsage site --helper | sudo install -D -o root -g root -m 0755 /dev/stdin {HELPER}"
CODE = (
    *(f"model/{name}" for name in ("__init__", "errors", "message", "tuning", "words")),
    *("host/helper", "host/lustre/granted", "host/lustre/params"),
    *(f"host/system/{name}" for name in ("caches", "libc", "privilege", "shell")),
)
"""Modules of fsage that the helper is made of; root runs no others of them."""
ANSWER_BYTES = 16 * MIB
Function = TypeVar("Function", bound=Callable[..., object])


def privileged(verb: str) -> Callable[[Function], Function]:
    """Make a function that needs root callable by a user, as a verb of the helper; arguments and result are JSON."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: object, **kw: object) -> object:
            if os.geteuid() == 0:
                return function(*args, **kw)
            return ask(verb, signature.bind(*args, **kw).arguments)

        return cast(Function, call)

    return decorate


def texts() -> dict[str, bytes]:
    """The modules of CODE, by their paths in the package fsage."""
    sources = {f"{name}.py": pkgutil.get_data("fsage", f"{name}.py") for name in CODE}
    return {path: text for path, text in sources.items() if text is not None}


@functools.cache
def version() -> str:
    """Which helper belongs to this agent, and which version a helper is."""
    whole = hashlib.sha256()
    for path, text in texts().items():
        whole.update(f"{path} {len(text)}\n".encode() + text)
    return whole.hexdigest()


def ask(verb: str, given: dict[str, object]) -> object:
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


def value(text: str, errors: str, who: str) -> object:
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


@functools.cache
def unavailable_because() -> str | None:
    """Why this process may not do what needs root; None when it may.

    Raises Refusal where the helper is of another version: it might do what is asked otherwise.
    """
    if os.geteuid() == 0:
        return None
    if not HELPER.exists():  # not asked: sudo would report it
        return _unheard("it is not installed")
    try:
        answer = ask("hello", {})
    except (Refusal, Failure) as why:
        return str(why)
    if answer != version():
        raise Refusal(
            f"{HELPER} on {os.uname().nodename} belongs to another version of fsage; nothing was touched. The "
            f"administrator installs the present one: {INSTALL}"
        )
    return None


def _unheard(output: str) -> str:
    host, why = os.uname().nodename, output.strip().rpartition("\n")[2] or "it said nothing"
    return (
        f"user {os.geteuid()} of {host} may not call {HELPER}: {why}; nothing was touched. `fsage site --sudoers` "
        "prints the rules that suffice and how the administrator installs them"
    )
