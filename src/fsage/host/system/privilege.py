"""Functions that need root: called directly where the agent is root, else through the helper that root installed.

The helper (fsage.host.helper) is called as `sudo -n HELPER VERB`, one JSON object on standard input, and answers as the
agent does.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import pkgutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar, cast

from fsage.base import MIB, Failure, Json, Refusal, message
from fsage.model import plugins

HELPER = Path("/usr/local/libexec/fsage/fsage-helper")
INSTALL = f"./run fsage site --helper | sudo install -D -o root -g root -m 0755 /dev/stdin {HELPER}"
CODE = (
    *(f"base/{name}" for name in ("__init__", "message", "shell")),
    *("model/tuning", "model/caches", "model/plugins"),
    *("host/helper", "api/helper"),
    *(f"host/system/{name}" for name in ("caches", "files", "kernel_log", "kernel", "places", "privilege", "settings")),
)
"""Modules of fsage that the helper is made of, beside the folders `helper` of studies; root runs no others of them."""
HELLO = "hello"
"""The verb that changes and tells nothing: it shows that the helper may be called, and of which version it is."""
ANSWER_BYTES = 16 * MIB
Function = TypeVar("Function", bound=Callable[..., object])


def privileged(verb: str) -> Callable[[Function], Function]:
    """Make a function that needs root callable by a user, as a verb of the helper; arguments and result are JSON.

    The argument `fsname`, where there is one, is a word of the command, so that rules of sudo may say which it is.
    """

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
    """The modules that the helper is made of, by their paths in the package fsage."""
    sources = {f"{name}.py": pkgutil.get_data("fsage", f"{name}.py") for name in CODE}
    for study in plugins.having(plugins.HELPER):
        package = plugins.of_study(study, plugins.HELPER).__name__
        for name in ("__init__", *plugins.modules_of(package)):
            path = f"studies/{study}/{plugins.HELPER}/{name}.py"
            sources[path] = pkgutil.get_data(package, f"{name}.py")
    return {path: text for path, text in sources.items() if text is not None}


@functools.cache
def version() -> str:
    """The version of the helper that belongs to this agent: a digest of its modules."""
    return digest_of(texts())


def digest_of(contents: Mapping[str, bytes]) -> str:
    """A digest of files and their names."""
    whole = hashlib.sha256()
    for name in sorted(contents):
        whole.update(f"{name} {len(contents[name])}\n".encode() + contents[name])
    return whole.hexdigest()


def ask(verb: str, given: Json) -> object:
    """The helper's answer. Raises Failure, and Refusal where there is no helper or no permission to call it.

    Where that is so, sudo is not asked again: it reports each try to the administrator.
    """
    why = None if verb == HELLO else unavailable_because()
    if why:
        raise Refusal(why)
    words = command(verb, str(given.get("fsname", "")))
    passed = {key: value for key, value in given.items() if key != "fsname"}
    try:
        done = subprocess.run(
            words, input=json.dumps(passed, default=str), capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError as error:
        raise Refusal(_unheard(f"{error.filename}: no such program")) from None
    return value(done.stdout, done.stderr, f"`{' '.join(words)}`")


def command(verb: str, fsname: str = "") -> list[str]:
    """The command that calls the helper of this host; `fsname`: the file system that a study's verb is about."""
    return ["sudo", "-n", str(HELPER), verb, *([fsname] if fsname else [])]


def value(text: str, errors: str, who: str) -> object:
    """The value in an answer of the helper. Raises Refusal, Failure."""
    try:
        if text:
            answer = message.read(text, ANSWER_BYTES)
        else:
            answer = {"refused": _unheard(errors)}
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
    """Why this process cannot call what needs root; None when it can.

    Raises Refusal where the helper is of another version, which might work in another way.
    """
    if os.geteuid() == 0:
        return None
    if not HELPER.exists():
        return _unheard("it is not installed")
    try:
        answer = ask(HELLO, {})
    except (Refusal, Failure) as why:
        return str(why)
    if answer != version():
        raise Refusal(
            f"{HELPER} on {os.uname().nodename} belongs to another version of fsage; nothing was touched. The "
            f"administrator installs the present one: {INSTALL}"
        )
    return None


def _unheard(output: str) -> str:
    host = os.uname().nodename
    why = output.strip().rpartition("\n")[2] or "it printed nothing"
    return (
        f"user {os.geteuid()} of {host} may not call {HELPER}: {why}; nothing was touched. `fsage site --sudoers` "
        "prints the rules that suffice and how the administrator installs them"
    )
