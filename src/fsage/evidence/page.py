"""The page of `fsage evidence --html`: tables and plots in one file, which opens offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2

import fsage
from fsage.evidence.tables import extents_per_file, tables, title
from fsage.figures import bars_panel, strips_panel
from fsage.text.sizes import format_size


def page(layout: dict[str, Any]) -> str:
    """HTML of what `fsage.evidence.look` found; the same bytes each time for the same layout."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    stores = [
        {"title": title(store), "panels": list(_panels(store, layout["what"])), "tables": list(tables(store))}
        for store in layout["stores"]
    ]
    template = environment.get_template("page.html.j2")
    return template.render(what=layout["what"], seconds=layout["seconds"], stores=stores, version=fsage.__version__)


def _panels(store: dict[str, Any], what: str) -> Iterator[str]:
    """SVG of each plot that the store's summary is enough for."""
    stamp = f"{what}: {title(store)}"
    if bitmap := store["bitmap"]:
        yield strips_panel("Free space", {"": bitmap["free_share"]}, store["device_bytes"], stamp).svg
    if store["free_extents"] and store["free_bytes"]:
        classes = store["free_extents"]["histogram"]
        yield bars_panel(
            "Free space by size of its extents",
            [format_size(one["from_bytes"]) for one in classes],
            {"": [100 * one["bytes"] / store["free_bytes"] for one in classes]},
            "size of a free extent, from (each class up to twice that)",
            "share of free bytes, %",
            stamp,
        ).svg
    if groups := store["groups"]:
        yield bars_panel(
            f"{groups['kind'].capitalize()}s by free share",
            [one["label"] for one in groups["buckets"]],
            {"": [100 * one["groups"] / groups["count"] for one in groups["buckets"]]},
            f"free share of a {groups['kind']}",
            f"share of all {groups['count']:,} groups, %",
            stamp,
        ).svg
    for name, files in (store["files"] or {}).items():
        counts = extents_per_file(files)
        yield bars_panel(
            f"Extents of files {name}",
            list(counts),
            {"": list(counts.values())},
            "extents of a file",
            "files",
            stamp,
        ).svg
