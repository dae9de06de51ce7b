"""The command `fsage evidence`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fsage import seam
from fsage.evidence.terminal import show
from fsage.model.message import printable
from fsage.text.terminal import Terminal


def run(what: str, as_json: bool, html: Path | None, files_at_most: int, save: Path | None = None) -> None:
    """Look at `what`, print it, and write the page and its list of free extents if wanted. Raises ValueError."""
    if save:
        from fsage.evidence import free

        free.save(what, save)
        print(printable(f"fsage: free extents {save}"), file=sys.stderr)
        what = str(save) if what == "-" else what  # it is read once
    layout = seam.here().inspect(what, files_at_most)
    if html:
        from fsage.evidence.page import page  # what draws takes a second to load

        html.write_text(page(layout), encoding="utf-8")
        print(printable(f"fsage: page {html}"), file=sys.stderr)
    if as_json:
        print(json.dumps(layout, indent=1))
    else:
        show(layout, Terminal())
