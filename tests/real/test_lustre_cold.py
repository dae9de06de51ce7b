"""Names on a real Lustre are as cold to mdtest and fio as after umount and mount: cold, warm and ours side by side."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import LustreProject

from fsage.workloads import metadata

pytestmark = real.MARKS
STATE, FILES, TIMES = "10.00@64M", 300, {"mdtest": 3, "fio": 1}
ONE = {"states__capacity": [10], "states__fragmentation": [0], "states__file_size": ["64M"], "headline": []}
CELLS = {"workload": "metadata", "files_per_task": FILES, "iterations": 1}
SAYS = {"mdtest": "cold", "fio": metadata.LOOKED_UP}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target on all of the file system."""
    with real.at_work(tmp_path_factory.mktemp("cold")) as made:
        yield made


@pytest.mark.parametrize("tool", sorted(TIMES))
def test_names_are_as_cold_as_after_an_unmount(project: LustreProject, tool: str) -> None:
    """By the requests that reach the servers; rates are printed."""
    project.measured(**ONE, cells={**CELLS, "tool": tool})
    request = json.loads(project.done("fsage", "request", "small", STATE))
    times, program = TIMES[tool], Path(__file__).with_name("cold_names.py")
    found = real.run_there(program, spec=project.spec, request=request, times=times)
    sent = {name: {way: [each["requests"] for each in of] for way, of in ways.items()} for name, ways in found.items()}
    seconds = {way: [each["wall_s"] for each in of] for way, of in found["stat"].items()}
    print(sent, seconds, {way: of[0]["operations"] for way, of in found["stat"].items()}, sep="\n")
    for name in ("stat", "remove"):
        middle = {way: statistics.median(counts) for way, counts in sent[name].items()}
        assert middle["ours"] > 0.9 * middle["cold"], sent
        assert {each["metadata"] for each in found[name]["ours"]} == {SAYS[tool]}
    assert statistics.median(sent["stat"]["ours"]) > 3 * statistics.median(sent["stat"]["warm"]), sent
