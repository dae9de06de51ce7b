"""The requests of every study that is shipped, on its usual target: each cell has commands, or a reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiers import first_of

from fsage import recipes
from fsage.model import structure
from fsage.plan import results
from fsage.plan.plan import load_plan
from fsage.run import request

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
        "capacity_bytes": 1 << 40,
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


@pytest.mark.parametrize("states", first_of(40, 1000))
@pytest.mark.parametrize("study", STUDIES)
def test_every_cell_can_be_asked_for(study: str, states: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of about so many states, evenly among all."""
    first = load_plan(ROOT / f"config/{study}.yaml", ROOT / "inventories/local", tmp_path)
    kind = "lustre" if study in NODES else "loop"
    target = first.study.target or ("lustre" if study in NODES else "local")
    stores = 16 if target == "osts" else 1
    results.write(tmp_path / f"targets/{target}.json", claim_of(study, kind, stores))
    plan = load_plan(ROOT / f"config/{study}.yaml", ROOT / f"inventories/{target}", tmp_path)
    playbooks = {path.name for path in (ROOT / "playbooks").glob("*.yml")}
    cells = 0
    names = list(plan.states)[:: max(1, len(plan.states) // states)]
    for name in names:
        asked = request.make(plan, name, plan.cells[name])
        assert set(plan.states[name].playbooks) <= playbooks
        assert len(asked["cells"]) == len(plan.cells[name])
        for cell in asked["cells"]:
            cells += 1
            assert bool(cell["phases"]) != bool(cell["unsupported"]), cell["name"]
            assert all(phase["name"] and (phase["argv"] or phase["io_groups"]) for phase in cell["phases"])
            assert cell["estimate_s"] >= 0
        assert recipes.built(plan.study.states.recipe, structure.read_all(asked["steps"]), plan.claim["capacity_bytes"])
    assert cells == sum(len(plan.cells[name]) for name in names) > 0
