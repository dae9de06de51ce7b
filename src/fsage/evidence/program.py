"""`python -m fsage.evidence.program fsage.pyz`: fsage.evidence.server as one file that Python 3.9 runs."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import zipfile
from pathlib import Path

from fsage import seam

PACKAGE = Path(__file__).absolute().parents[1]
MODULES = (
    *(f"evidence/{name}.py" for name in ("__init__", "forecast", "monitoring", "server", "terminal", "verdict")),
    *("seam.py", "text/__init__.py", "text/sizes.py"),
)
NOT_OURS = "prometheus_client"
FIRST_LINE = b"#!/usr/bin/env python3\n"
START = "import sys\nfrom fsage.evidence.server import main\nsys.exit(main())\n"


def program() -> bytes:
    """The file: the same modules give the same bytes."""
    buffer = io.BytesIO(FIRST_LINE + seam.packed())
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for name in MODULES:
            archive.writestr(zipfile.ZipInfo(f"fsage/{name}"), (PACKAGE / name).read_bytes())
        spec = importlib.util.find_spec(NOT_OURS)
        assert spec and spec.origin
        library = Path(spec.origin).parent
        for path in sorted(library.rglob("*.py")):
            # The library's own beginning loads its HTTP servers, which nobody needs there, in a tenth of a second.
            if path == library / "__init__.py":
                content = b""
            else:
                content = path.read_bytes()
            archive.writestr(zipfile.ZipInfo(f"{NOT_OURS}/{path.relative_to(library)}"), content)
        archive.writestr(zipfile.ZipInfo("__main__.py"), START)
    return buffer.getvalue()


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(program())
    os.chmod(sys.argv[1], 0o755)
