"""Every study that is shipped, on its usual target: each cell has commands, or a reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from tiers import first_of

from fsage import recipes
from fsage.model import structure
from fsage.plan import Plan, load_plan, results, words
from fsage.run import request
from fsage.study.cells import level_text
from fsage.study.comparisons import Axes
from fsage.study.files import usual_target

ROOT = Path(__file__).resolve().parents[1]
STUDIES = sorted(path.stem for path in (ROOT / "config").glob("*.yaml"))
NODES = {"striping_scaling": 512}
TOOLS = ("fio", "ior", "mdtest", "mpirun", "blastn", "makeblastdb")


def claim_of(study: str, kind: str, stores: int) -> dict:
    """What of a claim requests and estimates depend on."""
    hosts = [f"n{number}" for number in range(NODES.get(study, 0))]
    return {
        "id": "c1",
        "target": "t",
        "kind": kind,
        "capacity_bytes": 1 << (38 if hosts else 36),
        "stores": [
            {"mount": f"/m/{number}", "filesystem": "ext4", "image_id": {"bytes": 1 << 34}} for number in range(stores)
        ],
        "amount_mib": 158 if hosts else 384,
        "tasks": 3 if hosts else 1,
        "hosts": hosts,
        "tools": dict.fromkeys(TOOLS, "1"),
        "calibration": {"cell_overhead_s": 0.5, "write_mib_s": 64.0, "read_mib_s": 64.0},
        "device_model": {"kind": "none"},
        "lustre": {"osts": dict.fromkeys(map(str, range(128)))},
    }


@pytest.fixture(scope="module", params=STUDIES)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    study = request.param
    path = ROOT / f"config/{study}.yaml"
    place = tmp_path_factory.mktemp(study)
    of_nodes = study in NODES
    target = usual_target(path) or ("lustre" if of_nodes else "local")
    claim = claim_of(study, "lustre" if of_nodes else "loop", 16 if target == "osts" else 1)
    results.write(place / f"targets/{target}.json", claim)
    return load_plan(path, ROOT / f"inventories/{target}", place)


@pytest.mark.parametrize("states", first_of(4, 1000))
def test_every_cell_can_be_asked_for(plan, states):
    """Of about so many states, evenly among all."""
    playbooks = {path.name for path in (ROOT / "playbooks").glob("*.yml")}
    for name in list(plan.states)[:: max(1, len(plan.states) // states)]:
        asked = request.make(plan, name, plan.cells[name])
        assert set(plan.states[name].playbooks) <= playbooks
        assert len(asked["cells"]) == len(plan.cells[name]) > 0
        for cell in asked["cells"]:
            assert bool(cell["phases"]) != bool(cell["unsupported"]), cell["name"]
            assert all(phase["name"] and (phase["argv"] or phase["io_groups"]) for phase in cell["phases"])
            assert cell["estimate_s"] >= 0
        assert recipes.built(plan.study.states.recipe, structure.read_all(asked["steps"]), plan.claim["capacity_bytes"])


def test_no_study_is_unable_to_reach_its_own_verdict(plan):
    assert not [note for note in words.notes(plan) if "never be significant" in note]


def test_each_axis_can_be_narrowed_down_to_a_level_and_not_to_another(plan):
    axes = Axes(plan.study.states, plan.study.cells, plan.study.mkfs)
    for axis, levels in axes.levels.items():
        for level in list(levels)[:8]:
            plain = isinstance(level, int | float) and not axis.endswith("_size")
            written = list(level) if isinstance(level, tuple) else level if plain else level_text(axis, level)
            assert level in axes.read({axis: written})[axis]
        with pytest.raises(ValidationError):
            axes.read({axis: "nosuch"})
