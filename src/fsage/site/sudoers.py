"""What the administrator of a host installs so that a user may measure there without being root: a helper and rules."""

from __future__ import annotations

import io
import zipfile

from fsage.agent import helper
from fsage.agent.hosts.library import packed
from fsage.agent.privilege import HELPER

RULES = "/etc/sudoers.d/fsage"
MAIN = "import sys\nfrom fsage.agent.helper import main\nsys.exit(main(sys.argv[1:]))\n"


def program() -> bytes:
    """The helper: the agent as a zip that Python runs, alone: no variables, no packages (-IS)."""
    buffer = io.BytesIO(packed())
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py"), MAIN)
    return b"#!/usr/bin/python3 -IS\n" + buffer.getvalue()


def rules(user: str) -> str:
    """Rules of sudoers(5) that suffice for a user; every command to the letter."""
    commands = ", \\\n    ".join(f"{HELPER} {verb}" for verb in [helper.ENTER, *helper.VERBS])
    return f"""\
# What fsage may ask of root for user {user}. On each host the administrator installs the helper and these rules by
#   ./run fsage site --helper | sudo install -D -o root -g root -m 0755 /dev/stdin {HELPER}
#   ./run fsage site --sudoers | sudo install -o root -g root -m 0440 /dev/stdin {RULES}
Cmnd_Alias FSAGE = {commands}
{user} ALL = (root) NOPASSWD: FSAGE
"""
