"""The page of `fsage evidence --html`: tables and plots in one file, which opens offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jinja2

import fsage
from fsage.base import Json
from fsage.base.sizes import format_size
from fsage.figures import Axis, Bars, Figure, Strips
from fsage.figures.drawing import draw
from fsage.layouts.terminal import extents_per_file, tables, title
from fsage.layouts.verdict import verdicts


def page(layout: Json) -> str:
    """HTML of what `fsage.layouts.inspect` found, the verdict first; the same bytes each time for the same layout."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    stores = [
        {
            "title": title(store),
            "says": verdict.sentences,
            "panels": [draw(figure, f"{layout['what']}: {title(store)}").svg for figure in _figures(store)],
            "tables": list(tables(store)),
        }
        for store, verdict in zip(layout["stores"], verdicts(layout), strict=True)
    ]
    template = environment.get_template("page.html.j2")
    return template.render(what=layout["what"], seconds=layout["seconds"], stores=stores, version=fsage.__version__)


def _figures(store: Json) -> Iterator[Figure]:
    """Each plot that the store's summary is enough for."""
    bitmap = store["bitmap"]
    if bitmap:
        yield Strips("Free space", {"": tuple(bitmap["free_share"])}, store["device_bytes"])
    if store["free_extents"] and store["free_bytes"]:
        classes = store["free_extents"]["histogram"]
        yield Bars(
            "Free space by size of its extents",
            tuple(format_size(size_class["from_bytes"]) for size_class in classes),
            {"": tuple(100 * size_class["bytes"] / store["free_bytes"] for size_class in classes)},
            Axis("size of a free extent, from (each class up to twice that)"),
            Axis("share of free bytes, %"),
        )
    groups = store["groups"]
    if groups:
        yield Bars(
            f"{groups['kind'].capitalize()}s by free share",
            tuple(bucket["label"] for bucket in groups["buckets"]),
            {"": tuple(100 * bucket["groups"] / groups["count"] for bucket in groups["buckets"])},
            Axis(f"free share of each {groups['kind']}"),
            Axis(f"share of all {groups['count']:,} groups, %"),
        )
    for name, files in (store["files"] or {}).items():
        counts = extents_per_file(files)
        yield Bars(
            f"Extents of files {name}",
            tuple(counts),
            {"": tuple(counts.values())},
            Axis("extents of a file"),
            Axis("files"),
        )
