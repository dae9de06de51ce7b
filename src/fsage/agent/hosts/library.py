"""The agent as one zip from which Python can run it, for hosts that have nothing of fsage."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).absolute().parents[2]  # not resolved: a file without a name has no other path than this
# It lies in memory, in a file without a name: there is nothing on disk that others could have put there. Its path is by
# process number, so that the agent's own programs find it while the agent lives.
BOOT = (
    "import os, sys; read = sys.stdin.buffer; fd = os.memfd_create('fsage'); "
    "open(fd, 'wb', closefd=False).write(read.read(int(read.readline()))); "
    "sys.path.insert(0, f'/proc/{os.getpid()}/fd/{fd}'); "
)
"""What `python3 -c` runs on another host, followed by what it shall do: the agent is read from standard input."""


def sent(code: bytes) -> bytes:
    """An agent as BOOT reads it, before all else that is said on its standard input."""
    return f"{len(code)}\n".encode() + code


def packed() -> bytes:
    """All of the agent: the zip that it runs from, else one made of its files (the same files give the same bytes)."""
    if (whole := PACKAGE.parent).is_file():
        return whole.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in [PACKAGE / "__init__.py", *sorted((PACKAGE / "agent").rglob("*.py"))]:
            archive.writestr(zipfile.ZipInfo(str(path.relative_to(PACKAGE.parent))), path.read_bytes())
    return buffer.getvalue()
