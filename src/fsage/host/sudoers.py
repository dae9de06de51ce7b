"""What the administrator of a host installs so that a user may measure there without being root: a helper and rules."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from pathlib import PurePath

from fsage.host import helper
from fsage.host.system.privilege import HELPER, INSTALL, texts

RULES = "/etc/sudoers.d/fsage"
MAIN = "import sys\nfrom fsage.host.helper import main\nsys.exit(main(sys.argv[1:]))\n"


def program() -> bytes:
    """The helper: some of the agent as a zip that Python runs, alone: no variables, no packages (-IS)."""
    modules = {f"fsage/{path}": text for path, text in texts().items()}
    packages = {f"{parent}/__init__.py": b"" for path in modules for parent in list(PurePath(path).parents)[:-1]}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in {**packages, **modules, "__main__.py": MAIN.encode()}.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return b"#!/usr/bin/python3 -IS\n" + buffer.getvalue()


def rules(user: str, lustre: bool) -> str:
    """Rules of sudoers(5) that suffice for a user; every command to the letter. `lustre`: for a target of that kind."""

    def commands(verbs: Iterable[str]) -> str:
        return ", \\\n    ".join(f"{HELPER} {verb}" for verb in verbs)

    of_lustre = f"""\
# Clients of Lustre: locks, known tunables, connections. Servers: commit, counters, free space (dumpe2fs).
# They are of all who use that client, or file system.
Cmnd_Alias FSAGE_LUSTRE = {commands(helper.OF_LUSTRE)}
"""
    return f"""\
# What fsage may ask of root for user {user}. On each host the administrator installs the helper and these rules:
#   {INSTALL}
#   ./run fsage site --sudoers | sudo install -o root -g root -m 0440 /dev/stdin {RULES}
Cmnd_Alias FSAGE = {commands(helper.VERBS)}
{of_lustre if lustre else ""}{user} ALL = (root) NOPASSWD: FSAGE{", FSAGE_LUSTRE" if lustre else ""}
"""
