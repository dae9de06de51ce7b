"""`python -m fsage.evidence.program FILE`: the exporter as one file that Python 3.9 runs, with all that it needs."""

from __future__ import annotations

import importlib.util
import io
import sys
import zipfile
from pathlib import Path

from fsage import seam

PACKAGE = Path(__file__).absolute().parents[1]
MODULES = ("evidence/*.py", "seam.py")
NOT_OURS = "prometheus_client"
START = "import sys\nfrom fsage.evidence.exporter import main\nsys.exit(main())\n"


def program() -> bytes:
    """The file: the same modules give the same bytes."""
    buffer = io.BytesIO(seam.here().packed())
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for pattern in MODULES:
            for path in sorted(PACKAGE.glob(pattern)):
                archive.writestr(zipfile.ZipInfo(f"fsage/{path.relative_to(PACKAGE)}"), path.read_bytes())
        found = importlib.util.find_spec(NOT_OURS)
        assert found and found.origin
        library = Path(found.origin).parent
        for path in sorted(library.rglob("*.py")):
            # The library's own beginning loads its HTTP servers, which nobody needs there, in a tenth of a second.
            content = b"" if path == library / "__init__.py" else path.read_bytes()
            archive.writestr(zipfile.ZipInfo(f"{NOT_OURS}/{path.relative_to(library)}"), content)
        archive.writestr(zipfile.ZipInfo("__main__.py"), START)
    return buffer.getvalue()


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(program())
