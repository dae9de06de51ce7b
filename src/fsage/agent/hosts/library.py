"""The agent as one zip from which Python can run it, for hosts that have nothing of fsage."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]


def packed() -> bytes:
    """All of the agent: the zip that it runs from, else one made of its files (the same files give the same bytes)."""
    if (whole := PACKAGE.parent).is_file():
        return whole.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in [PACKAGE / "__init__.py", *sorted((PACKAGE / "agent").rglob("*.py"))]:
            archive.writestr(zipfile.ZipInfo(str(path.relative_to(PACKAGE.parent))), path.read_bytes())
    return buffer.getvalue()
