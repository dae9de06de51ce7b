"""`python -m fsage.layouts.program fsage.pyz`: this package's command line as one file that Python 3.9 runs."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import zipfile
from pathlib import Path

import fsage
from fsage.base.message import check_place

FSAGE = Path(__file__).absolute().parents[1]
LIBRARY = "prometheus_client"
FIRST_LINE = b"#!/usr/bin/env python3\n"
START = """import sys
if sys.version_info < (3, 9):
    sys.exit("fsage: this is Python %d.%d, and 3.9 or newer is needed: name one, as in `python3.9 fsage.pyz ...`"
             % sys.version_info[:2])
from fsage.layouts.__main__ import main
sys.exit(main())
"""


def program() -> bytes:
    """The file: the same modules give the same bytes."""
    spec = importlib.util.find_spec(LIBRARY)
    assert spec and spec.origin
    library = Path(spec.origin).parent
    contents: dict[str, str | bytes] = {}
    for folder, name in ((FSAGE / "base", "fsage/base"), (FSAGE / "layouts", "fsage/layouts"), (library, LIBRARY)):
        for path in sorted(folder.rglob("*.py")):
            contents[f"{name}/{path.relative_to(folder)}"] = path.read_bytes()
    # The library's own beginning loads its HTTP servers, which nobody needs there, in a tenth of a second.
    contents[f"{LIBRARY}/__init__.py"] = ""
    contents["fsage/__init__.py"] = f'__version__ = "{fsage.__version__}"\n'
    contents["__main__.py"] = START
    buffer = io.BytesIO(FIRST_LINE)
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


if __name__ == "__main__":
    check_place(Path(sys.argv[1]))
    Path(sys.argv[1]).write_bytes(program())
    os.chmod(sys.argv[1], 0o755)
