"""Counting: where a new file lies, exactly as a timed cell would meet it, and what that costs a declared device."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import preloaded
import pytest
import yaml
from machine import LIBRARY
from measuring import cell, observed
from session import wait_until
from states import MIB, bring, fragment, populate
from studies import blocks

from fsage.base.shell import run
from fsage.count import Counted, expected, kept_page, page, pieces, table, write_tables
from fsage.count.tables import FILE
from fsage.host.cells import measure
from fsage.host.verbs import count
from fsage.model import counting
from fsage.model.declaration import device_model
from fsage.plan import load_plan

GIB = 1 << 30
DISK = device_model({"bytes_per_s": 380_000_000})
SPINNING = device_model({"kind": "seek", "bytes_per_s": 100 * MIB, "seek_s": 0.01, "outer_to_inner": 2.0})
COUNT = ("fsage", "count", "quickstart", "--layouts", "2")


@pytest.mark.parametrize(
    ("extents", "joined", "jumps", "requests"),  # MiB: place in the file, on the device, length; transfers of 4 MiB
    [
        ([(0, 0, 4), (4, 4, 4)], 1, [], 8),  # ext4 cuts what lies in one piece
        ([(0, 0, 4), (4, 20, 4)], 2, [16], 8),  # exactly the limit is not beyond it
        ([(0, 100, 4), (4, 0, 4)], 2, [104], 8),  # backwards: from the end to the other's beginning
        ([(0, 0, 2.5), (2.5, 50, 5.5)], 2, [47.5], 9),  # a request more where an extent ends within one
        ([(0, 0, 4), (8, 100, 4)], 2, [96], 8),  # a hole is no request
    ],
)
def test_extents_become_jumps_and_requests(extents, joined, jumps, requests):
    in_bytes = [[int(number * MIB) for number in extent] for extent in extents]
    runs = counting.joined(in_bytes)
    assert len(runs) == joined
    assert [distance / MIB for distance in counting.jumps(runs)] == jumps
    assert len(counting.jumps(runs, 16 * MIB)) == sum(distance > 16 for distance in jumps)
    assert counting.requests(runs, 4 * MIB) == requests
    assert counting.requests(runs, 64 << 10) == 16 * sum(length for *_, length in extents)


TRACKS_S = 2048 / 100 * (math.log(1024 / 974) + math.log(946 / 896))
"""The time of each track, summed: 100 MiB from the first on, and from the 156th, of 1024."""


@pytest.mark.parametrize(
    ("device", "extents", "whole_s", "jumps_s"),
    [
        (DISK, [(0, 0, 380)], 380 * MIB / 380e6 + 380 * 39.22e-6, 0.0),
        (DISK, [(0, 0, 190), (190, 1000, 190)], 380 * MIB / 380e6 + 380 * 39.22e-6, 9.95e-3),
        (SPINNING, [(0, 0, 100), (100, 156, 100)], TRACKS_S, 0.01),  # slower towards the inner end
    ],
)
def test_a_cost_is_computed_from_charges(device, extents, whole_s, jumps_s):
    in_bytes = [[int(number * MIB) for number in extent] for extent in extents]
    cost = counting.cost(device, in_bytes, 64 * MIB, GIB)
    assert cost["whole_seconds"] == pytest.approx(whole_s, rel=1e-4)
    assert cost["seconds"] == pytest.approx(whole_s + jumps_s, rel=1e-4)
    assert cost["loss"] == pytest.approx(jumps_s / (whole_s + jumps_s), rel=1e-3)


def test_a_device_is_told_in_words_and_one_without_a_fixed_cost_is_refused():
    assert counting.device_words(DISK) == (
        "362 MiB/s, 0.039 ms a request and 9.95 ms for each jump of more than 16 MiB"
    )
    assert counting.device_words(SPINNING) == (
        "100 MiB/s at its outer tracks, 2 times as much as at its inner ones and 10 ms for each jump"
    )
    with pytest.raises(ValueError, match="no one cost"):
        counting.cost({**SPINNING, "noise_cov": 0.1}, [(0, 0, MIB)], MIB, GIB)


def job(spec: dict[str, Any], *states: tuple[str, list], places: int = 1, **more: Any) -> counting.Job:
    shown = {key: value for key, value in spec.items() if value is not None}
    return {
        "spec": {**shown, "device_model": None, "sparse": True, "image_dir": None},
        "device_bytes": GIB,
        "capacity_bytes": None,
        "rotational": 1,
        "populations": [[(name, [step.to_json() for step in steps]) for name, steps in states]],
        "inputs": {},
        "wanted": [{"file_bytes": 64 * MIB, "transfer_bytes": 4 * MIB, "direct": True}],
        "places": places,
        "cpu": min(os.sched_getaffinity(0)),
        "kernel": None,
        **more,
    }


@pytest.mark.root
def test_a_file_is_counted_where_a_timed_cell_has_it_twice_alike(spec):
    steps = [populate(70), fragment(50)]
    bring(spec, *steps)
    asked = {"study": "test", "state": "wanted", "nominal": {"recipe": "paf"}, "steps": steps, "reuse": "nested"}
    assert measure.measure(spec, {**asked, "cells": [cell(spec, "timed")]}, False)["measured"] == 1
    seen, _ = observed(spec, "timed")
    rotational = seen["conditions"]["disks"][0]["rotational"]
    wanted = job(spec, ("70.20", [populate(70), fragment(20)]), ("70.50", steps), places=2, rotational=rotational)
    rows = list(count.count(wanted))
    first, other = rows[2:]
    assert [(row["state"], row["place"]) for row in (first, other)] == [("70.50", 1), ("70.50", 2)]
    assert first["capacity_bytes"] == seen["layout"]["capacity_bytes"]
    assert first["layout_digest"] == seen["layout"]["digest"], "reached by deleting more"
    pieces = f"measured.0.0 {[tuple(extent) for extent in first['extents']]}\n".encode()
    assert hashlib.blake2b(pieces, digest_size=16).hexdigest() == seen["phases"][0]["extents"]["digest"]
    assert first["extents"] != other["extents"] and sum(extent[2] for extent in other["extents"]) == 64 * MIB
    assert first["allocator"]["reqs"] > 0
    again = list(count.count(wanted))
    for row in (*rows, *again):
        del row["seconds"]
    assert rows == again


@pytest.mark.root
def test_a_killed_count_leaves_no_loop_device_and_no_mount(new_target):
    states = [(f"60.{share}", [populate(60), fragment(share)]) for share in range(10, 90)]
    process = subprocess.Popen(
        [sys.executable, "-m", "fsage.host.verbs.count"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": LIBRARY},
    )
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(job(new_target, *states)))
    process.stdin.close()
    assert json.loads(process.stdout.readline())["state"] == "60.10"
    lines = [line.split() for line in Path(f"/proc/{process.pid}/mounts").read_text().splitlines()]
    [device] = {source for source, point, *_ in lines if point.startswith("/run/fsage/count/")}
    backing = Path("/sys/block") / Path(device).name / "loop/backing_file"
    assert "/run/fsage/count/image" in backing.read_text()
    process.kill()
    process.wait()
    wait_until(lambda: not backing.exists() or "/run/fsage/count/image" not in backing.read_text())
    assert "/run/fsage/count" not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.root
def test_a_user_without_root_is_told_what_counting_needs(new_target):
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); from fsage.host.verbs import count\n"
        "try: list(count.count(json.loads(sys.argv[2])))\n"
        "except Exception as why: print(type(why).__name__, why)"
    )
    given = json.dumps(job(new_target, ("60.00", [populate(60)])))
    front = ["setpriv", "--reuid=65534", "--clear-groups"]
    said = run([*front, sys.executable, "-c", program, LIBRARY, given], cwd="/").stdout
    assert said.startswith("Refusal counting needs a file system of its own") and "root" in said


@pytest.mark.root
def test_what_a_budget_expects_of_a_cell_is_computed_from_where_its_layout_was_counted(tmp_path):
    study = blocks()
    study["states"] |= {"capacity": [60], "fragmentation": [0, 50], "file_size": "4M", "seed": 1, "structures": 2}
    study["cells"] |= {"transfer_size": ["4M", "64M"], "iterations": 1}
    place = tmp_path / "inventories/disk/group_vars/all"
    place.mkdir(parents=True)
    target = {"name": "disk", "kind": "loop", "size_gib": 1, "amount_mib": 64, "device_model": {"kind": "iocost"}}
    (place / "target.yml").write_text(yaml.safe_dump({"fsage_target": target}))
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(study))
    plan = load_plan(tmp_path / "small.yaml", place.parents[1], tmp_path / "results")
    found = expected(plan, 1e9)
    planned = {(state, cell.name) for state, cell in plan.all_cells() if cell.kind == "planned"}
    counted = Counted.of(plan, 2, 1, None, plan.results.counts / "budget")
    rows = {(layout.state, layout.number): counted.kept(layout)[0] for layout in counted.all_layouts()}
    assert len(rows) == 3, "what does not depend on the seed is counted once"
    for state, name in planned:
        number = int(state.partition("+")[2].partition("@")[0] or 1)
        row = rows[state.replace(f"+{number}", ""), number]
        size = 64 * MIB if "64M" in name else 4 * MIB
        cost = counting.cost(counted.device, row["extents"], size, GIB)
        assert found[state, name] == pytest.approx(cost["whole_seconds"] / cost["seconds"])
    assert len({found[state, name] for state, name in planned if "64M" in name}) == 3, "each layout has its own"
    flat = table(counted)
    of_pieces = pieces(counted).groupby(FILE)
    assert of_pieces.size().to_list() == flat.set_index(FILE)["extents"].sort_index().to_list()
    assert (of_pieces["length_bytes"].sum() == 64 * MIB).all()
    shutil.copytree(counted.folder, plan.results.counts, dirs_exist_ok=True)
    write_tables(flat, pieces(counted), plan.results.counts)
    page = kept_page(plan)
    page.write_text("of more layouts, made by hand")
    assert kept_page(plan) is None and page.read_text() == "of more layouts, made by hand"


def test_the_interval_of_five_counted_layouts_has_the_level_that_it_says():
    layouts = pd.DataFrame({"computed_loss_percent": [1.0, 2, 3, 4, 5]}).assign(extents=1, jumps=1, requests=1)
    files = pd.DataFrame({"layout_digest": list("abcde"), "real_fullness_percent": 40.0})
    assert page._table([page.OfState("80.50@264M", layouts, files)]).table[1][-1] == "1.0 to 5.0 (93.75%)"


def test_a_file_that_found_no_room_leaves_its_place_in_the_table_free():
    files = pd.DataFrame({"layout": 1, "place": [1, 2], "jumps": [3, 5], "computed_whole_seconds": 1.0})
    files = files.assign(computed_seconds=2.0, extents=1, requests=1, mean_position=0.5)
    states = [page.OfState(f"{len(some)}0.00", page._layouts(some), some) for some in (files[:1], files)]
    assert page._over_places(states).table[1:] == [
        ["10.00", "3.0", "\u2013", "50.0%", "50.0%"],
        ["20.00", "3.0", "5.0", "50.0%", "50.0%"],
    ]
    assert len(page._over_places([]).table) == 1, "none found any"


@pytest.mark.root
@pytest.mark.long
def test_the_same_states_are_counted_on_other_file_systems_and_stand_in_one_figure(tmp_path):
    made = preloaded.call(*COUNT, "--filesystem", "xfs,btrfs,xfs,ext4", FSAGE_TARGET="local", FSAGE_RESULTS=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "On XFS it lies in" in made.stdout and "On btrfs it lies in" in made.stdout
    folder = tmp_path / "counts/local/quickstart"
    counts = pd.read_parquet(folder / "counts.parquet")
    assert counts.groupby("filesystem").size().to_dict() == {"ext4": 5, "xfs": 5, "btrfs": 5}
    drawn = (folder / "figures/computed-loss-by-file-system.csv").read_text(encoding="utf-8")
    assert {line.split(",")[0] for line in drawn.splitlines()[1:]} == {"ext4 (ldiskfs)", "XFS", "btrfs"}
