"""What the administrator of a host installs so that a user may measure there without being root: a helper and rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from fsage.host import helper
from fsage.host.system.library import zipped
from fsage.host.system.privilege import HELPER, INSTALL, texts

RULES = {helper.CLIENTS: "/etc/sudoers.d/fsage", helper.SERVERS: "/etc/sudoers.d/fsage-servers"}
WHAT = {
    "": "They drop the caches of the host, and read its kernel's log.",
    helper.CLIENTS: "They drop the caches of the host, cancel unused locks and set\n# known tunables between bounds.",
    helper.SERVERS: "They drop the caches of the host, have it commit, and read\n# counters and free space (dumpe2fs).",
}
MAIN = "import sys\nfrom fsage.host.helper import main\nsys.exit(main(sys.argv[1:]))\n"


def program() -> bytes:
    """The helper: some of the agent as a zip that Python runs, alone: no variables, no packages (-IS)."""
    modules = {f"fsage/{path}": text for path, text in texts().items()}
    packages: dict[str, bytes] = {}
    for path in modules:
        for parent in list(PurePath(path).parents)[:-1]:
            packages[f"{parent}/__init__.py"] = b""
    return b"#!/usr/bin/python3 -IS\n" + zipped({**packages, **modules, "__main__.py": MAIN.encode()})


def rules(user: str, of_kind: Sequence[Sequence[str]] = (), role: str = helper.CLIENTS) -> str:
    """Rules of sudoers(5) that suffice for a user on the hosts of one role; every command to the letter.

    `of_kind`: the calls that his kind of target needs there besides (`granted`).
    """
    commands = [f"{HELPER} {verb}" for verb in helper.VERBS]
    commands += [" ".join((str(HELPER), *words)) for words in of_kind]
    option = "" if role == helper.CLIENTS else f" --{role}"
    listed = ", \\\n    ".join(commands)
    return f"""\
# What fsage may ask of root for user {user} on its {role}. {WHAT[role] if of_kind else WHAT[""]}
# On each of the {role} the administrator installs the helper and these rules:
#   {INSTALL}
#   ./run fsage site --sudoers{option} | sudo install -o root -g root -m 0440 /dev/stdin {RULES[role]}
# `sudo {HELPER} {helper.UNDO}` puts back every tunable that was set by it.
Cmnd_Alias FSAGE_{role.upper()} = {listed}
{user} ALL = (root) NOPASSWD: FSAGE_{role.upper()}
"""
