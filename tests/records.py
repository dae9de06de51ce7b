"""Records and evidence as the agent and fsage.records leave them, made at will; the page made from them, read back."""

import json
import random
import re
import resource
import runpy
from contextlib import contextmanager
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from fsage import dataset, report
from fsage.analysis import comparisons as of_rows
from fsage.analysis.groups import labelled_samples
from fsage.figures.style import Panel
from fsage.layouts.fragmentation import Extent, FileLayouts
from fsage.layouts.freespace import ONCE, Buckets, FreeSpace
from fsage.layouts.store import Store
from fsage.plan.target import load_target
from fsage.recipes import expand

MIB = 1 << 20
CONFIG = Path(__file__).parents[1] / "config"
LINT = SimpleNamespace(**runpy.run_path(str(CONFIG.parent / ".ci/lint-words")))
PLAIN = Path(__file__).parent / "data/plain"
"""Quickstart and Series 1 with one layout a state, and all iterations at one place."""
TARGET = load_target(CONFIG.parent / "inventories" / "local")
MODEL = {"label": "modelled device (IOCost, 362 MiB/s, 20000 sequential and 100 random I/Os a second)"}
CLAIM = {"amount_mib": 384, "amount_source": "calibrated", "calibration": {"write_mib_s": 361.5}}


def bandwidth(capacity, fragmentation, transfer, phase):
    """Like the modelled device: fullness and broken free space cost, more at large transfers, writes most."""
    full = capacity * (1 - fragmentation / 100) / 100
    weight = {"write": 0.4, "read": 0.25}[phase] * (0.5 + 0.5 * transfer / (64 * MIB))
    return 360 * (1 - weight * full**2 - 0.3 * weight * (full * fragmentation / 100)) * (1 - 0.08 * MIB / transfer)


def make_record(study, state, cell, draw, number):
    """One record of a planned cell, as the agent and fsage.records leave it; numbers from `draw`."""
    capacity, fragmentation = state.axes["capacity"], state.axes["fragmentation"]
    file_bytes, structure = state.axes["file_size"] // 8, state.nominal.get("structure", 0)
    amount, capacity_bytes = 384 * MIB, 16 << 30
    transfer, phases = cell.params.get("transfer_size", MIB), cell.params.get("phases", ["read"])
    metrics = {}
    for phase in phases:
        bw = bandwidth(capacity, fragmentation, transfer, phase)
        bw *= draw.lognormvariate(0, 0.015) * (0.93 if file_bytes < 33 * MIB else 1)
        metrics |= {f"{phase}_bw_mib_s": bw, f"{phase}_seconds": amount / MIB / bw, f"{phase}_bytes": amount}
        typical_ms = 1000 * transfer / MIB / bw
        metrics[f"{phase}_latency_p50_ms"] = 0.97 * typical_ms
        if amount >= 100 * transfer:
            metrics[f"{phase}_latency_p99_ms"] = typical_ms * (2 + fragmentation / 10)
    if operations := cell.params.get("operations"):
        rates = {"create": 20_000, "stat": 90_000, "remove": 30_000}
        metrics = {
            f"{operation}_per_s": rates[operation] * (1 - capacity / 400) * draw.lognormvariate(0, 0.02)
            for operation in operations
        }
    used = capacity * (1 - fragmentation / 100) / 100
    files = int(capacity_bytes * capacity / 100 / file_bytes)
    deleted = round(files * fragmentation / 100)
    return {
        "schema": 1,
        "id": f"{draw.getrandbits(128):032x}",
        "study": study.name,
        "target": "local",
        "state": state.name,
        "nominal": state.nominal,
        "cell": cell.name,
        "kind": cell.kind,
        "attempt": 1,
        "order": cell.order,
        "params": cell.params,
        "run": "r1",
        "began": f"2026-11-21T01:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        "ended": "2026-11-21T03:00:00.000Z",
        "host": "node1",
        "kernel": "6.18.0",
        "status": "valid",
        "why": None,
        "check": {"state": "x", "epoch": 7, "agreed": True, "rebuilt": False, "seconds": 0.004},
        "layout": {
            "digest": f"{capacity:02d}{fragmentation:02d}{structure:02d}{file_bytes % 97:02d}" * 4,
            "filler_files": files - deleted,
            "filler_bytes": (files - deleted) * file_bytes,
            "filler_extents": files - deleted + 3,
            "capacity_bytes": capacity_bytes,
            "used_bytes": int(capacity_bytes * used),
            "free_bytes": int(capacity_bytes * (1 - used)),
            "state_known": True,
            "generations": [
                {
                    "generation": 1,
                    "capacity_percent": capacity,
                    "capacity_percent_achieved": capacity - 0.08,
                    "files": files,
                    "bytes": files * file_bytes,
                    "fragmentation_percent": fragmentation,
                    "deleted_files": deleted,
                    "deleted_share_files": deleted / files,
                    "deleted_share_bytes": deleted / files,
                }
            ],
        },
        "conditions": {
            "device_model": MODEL,
            "filesystem": "ext4",
            "mount_options": ["rw,noatime"],
            "allocator_reset": "remount",
            "tunables": {"read_ahead_kb": {"asked": 128, "before": ["4096"], "now": ["128"]}},
            "tools": {"fio": "3.33", "ior": None},
            "amount_mib": 384,
            "amount_source": "calibrated",
        },
        "phases": [
            {
                "name": phase,
                "argv": [
                    "fio",
                    "--output-format=json",
                    f"--rw={phase}",
                    f"--bs={transfer}",
                    f"--size={amount}",
                ],
                "rc": 0,
                "wall_s": 1.4,
                "cache_drop_s": 0.02,
                "cached_pages": 0,
                "extents": {
                    "files": 1,
                    "extents": 6 + capacity // 10,
                    "bytes": amount,
                    "mean_position": 0.05 + 0.0085 * capacity - 0.0005 * fragmentation,
                    "mean_extent_bytes": amount / (6 + capacity // 10),
                    "layout_score": 1 - (5 + capacity // 10) / (amount / 4096 - 1),
                },
            }
            for phase in phases
        ],
        "seconds": {"check": 0.004, "reset": 0.02, "drop": 0.04, "run": 2.8, "clean": 0.05, "total": 2.95},
        "metrics": metrics,
        "raw": {"path": "raw/x.json", "sha256": "0" * 64},
    }


def make_records(study, seed=1):
    """Records of all cells of a study, in the order in which they are taken."""
    draw = random.Random(seed)
    cells = [(state, cell) for state in expand(study) for cell in study.cells_of(state)]
    return [make_record(study, state, cell, draw, number) for number, (state, cell) in enumerate(cells)]


def planned(study):
    """What `Plan.all_cells` gives."""
    return [(state.name, cell) for state in expand(study) for cell in study.cells_of(state)]


def store(records, root):
    """Write records where the DAG keeps them; their paths."""
    paths = []
    for record in records:
        path = root / record["target"] / record["study"] / record["state"] / f"{record['cell']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))
        paths.append(path)
    return paths


def contents(study, records, tmp_path, evidence=None, **more):
    """What the report of records says and shows, by way of their files; none of its sentences is long."""
    frame = dataset.load(store(records, tmp_path / "records"))
    known = {"plan_cells": planned(study), "states": evidence or {}, "claim": CLAIM}
    page = report.contents(study, TARGET, frame, **known, **more)
    sections = [text for section in page.sections for text in (section.text, section.answer, *section.warnings)]
    texts = [*page.answer.sentences, page.answer.codes, *page.rest["doubts"], *page.rest["verdicts"], *sections]
    found = [sentence for text in texts for sentence in LINT.split(LINT._CODE.sub(LINT.CODE, text))]
    long = [sentence.text for sentence in found if sentence.words > LINT.LONGEST]
    assert not long, long
    return page


def table_of(rows):
    """A table of records from what its rows have; all else is missing."""
    types = {name: column.type for name, column in dataset.COLUMNS.items()}
    types |= {name: "str" for row in rows for name in row if "." in name}
    return pd.DataFrame(rows, columns=list(types)).astype(types)


@contextmanager
def longest_file(size):
    """A file that would be longer than this ends like one on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def gave_nothing(record, why, status="failed"):
    """Let a record be one of a cell without a result."""
    record.update(status=status, why=why, metrics={}, phases=[])


def titled(parts, title):
    """The one of some figures, or of some sections, that has this title."""
    [found] = [part for part in parts if part.title == title]
    return found


def comparisons(frame, study):
    """What a study compares, of a table of its records."""
    return of_rows.comparisons(of_rows.at_largest_transfer(labelled_samples(frame)), study.headline)


def title_alone(figure):
    """A figure's title in place of its drawing."""
    return Panel(figure.title, figure.name, f'<svg role="img" aria-label="{escape(figure.title)}"></svg>', b"")


def undrawn(page, drawn=None):
    """A page's HTML with the titles of figures in place of drawings, which take most of a report's time.

    `drawn`: panels of those that are drawn all the same.
    """
    return page.html({figure.name: title_alone(figure) for figure in page.figures} | (drawn or {}))


def build(study, records, tmp_path, evidence=None, **more):
    """The page made from records, by way of their files, its figures undrawn."""
    return undrawn(contents(study, records, tmp_path, evidence, **more))


def free_extents(capacity, fragmentation, device_bytes=16 << 30, file_bytes=33 * MIB):
    """(start, length) of what is free when files lie one behind the other and some were deleted."""
    draw, files = random.Random(67005), int(device_bytes * capacity / 100 / file_bytes)
    fates = [draw.random() < fragmentation / 100 for _ in range(files)]
    holes = [(number * file_bytes, file_bytes) for number, deleted in enumerate(fates) if deleted]
    joined = []
    for start, length in [*holes, (files * file_bytes, device_bytes - files * file_bytes)]:
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((start, length))
    return joined


def make_store(capacity, fragmentation, number=0, device_bytes=16 << 30):
    """One store of the key `layout` of an evidence file, summed up by the agent's own counters."""
    free = free_extents(capacity, fragmentation, device_bytes)
    space, groups, files = FreeSpace(ONCE, device_bytes, 4096), Buckets("block group"), FileLayouts(4096)
    space.add(free)
    for start in range(0, device_bytes, 128 * MIB):
        end = start + 128 * MIB
        groups.add_all([128 * MIB], [sum(max(0, min(end, at + length) - max(start, at)) for at, length in free)])
    for file in range(100):
        parts = range(1 + (file % 10 == 0))
        files.add([Extent(MIB * part, MIB * (4 * file + 2 * part), MIB, False) for part in parts])
    found = {"device_bytes": device_bytes, "block_bytes": 4096, **space.summary(), "groups": groups.summary()}
    found["files"] = {"filler": files.summary()}
    return Store("ext4", {"free": "block bitmaps", "files": "FIEMAP"}, found).summary(number)


def make_evidence(study, root, stores=1):
    """Evidence files of all states of a study below `root`; their paths by state."""
    draw, paths = random.Random(2), {}
    for state in expand(study):
        record = make_record(study, state, study.cells_of(state)[0], draw, 0)
        capacity, fragmentation = state.axes["capacity"], state.axes["fragmentation"]
        layout = [make_store(capacity, fragmentation, number) for number in range(stores)]
        content = record["layout"] | {
            "token": {"instance": "i1", "claim": "c1"},
            "notes": {},
            "state": state.name,
            "study": study.name,
            "steps": [{"kind": "populate", "generation": 1, "percent": 1, "file_bytes": [4096], "seed": 67005}],
            "layout": {"schema": 1, "seconds": 0.21, "stores": layout},
        }
        paths[state.name] = root / f"{state.name}.json"
        root.mkdir(parents=True, exist_ok=True)
        paths[state.name].write_text(json.dumps(content))
    return paths


def traced(record, requests=300, lost=0):
    """The record as one of a traced cell: each phase with the requests of 512 KiB that it made."""
    draw = random.Random(record["state"])
    holes = 1 + 12 * int(record["nominal"]["fragmentation_percent"] > 0)
    for phase in record["phases"]:
        starts = sorted(draw.randrange(16 << 30) for _ in range(holes))
        offsets = [starts[number * holes // requests] + number * 512 * 1024 for number in range(requests)]
        phase["trace"] = {
            "source": "tracefs block:block_rq_issue",
            "device": "7:0",
            "lost_events": lost,
            "columns": {
                "seconds": [number * 1.1 / requests for number in range(requests)],
                "offset_bytes": offsets,
                "bytes": [512 * 1024] * requests,
                "write": [phase["name"] == "write" or number % 40 == 0 for number in range(requests)],
            },
        }
    return record | {"kind": "traced", "cell": "traced_1"}


class Page(HTMLParser):
    """What a browser would fetch, the ids, and whether tags close in order."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.ids, self.open, self.text = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.fetched += [attributes[key] for key in ("src", "href") if key in attributes]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_data(self, data):
        self.text.append(data)


def words(page):
    return re.sub(r"\s+", " ", " ".join(Page(page).text))
