"""An edit of a claimed target's declaration is applied, or refused with what must be released: never ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_targets import claimed
from studies import blocks
from workload_cells import ALL

from fsage.base import Refusal
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.model import declaration
from fsage.model.declaration import complete, edits
from fsage.model.target import ANOTHER, CLAIMED, LIVE, MADE, NOTED
from fsage.plan.plan import load_plan
from fsage.run import request as requests

DECIDED = edits()

BASE: dict[str, Any] = {
    "name": "site",
    "kind": "lustre",
    "directory": "/mnt/lustre/fsage",
    "home": "/var/lib/fsage",
    "lustre": {"fsname": "scratch", "mgs": "10.0.0.1@tcp", "capacity_gib": 4},
}
LOOP: dict[str, Any] = {"name": "site", "kind": "loop", "home": "/var/lib/fsage", "sparse": True}
EDITS: dict[str, Any] = {
    "name": "other",
    "home": "/elsewhere",
    "kind": "directory",
    "filesystem": "xfs",
    "stores": 2,
    "size_gib": 17,
    "sparse": True,
    "geometry": {
        **{"blocks": 1 << 20, "block_bytes": 4096, "group_blocks": 32768, "inodes": 4096, "inode_bytes": 512},
        "features": ["flex_bg"],
    },
    "minimum_gib": 5,
    "image_dir": "/srv",
    "mount_dir": "/mnt",
    "scale.file_size": 0.5,
    "scale.tasks": 4,
    "allocator_reset": "none",
    "amount_mib": 128,
    "launcher": "mpich",
    "launcher_options": ["--mca", "btl", "tcp"],
    "device_model": {"kind": "seek"},
    "directory": "/mnt/lustre/other",
    "budget_gib": 3,
    "containers": "/images",
    "run_as": "daemon",
    "stop_if": {"slower": 3},
    "lustre.fsname": "work",
    "lustre.mgs": "10.0.0.2@tcp",
    "lustre.capacity_gib": 5,
    "lustre.stripe_count": 2,
    "lustre.stripe_size_mib": 4,
    "lustre.first_ost": 3,
    "lustre.free_percent": 10,
    "lustre.pool": "fast",
    "lustre.osts": [3],
    "lustre.mdt_index": 1,
    "lustre.mdt_count": 2,
    "limits.bandwidth_mib_s": 100,
    "limits.operations_s": 1000,
    "limits.clients": 2,
    "limits.hours": "22:00-06:00",
    "limits.gib_a_day": 5,
    "lustre.oss": ["oss1"],
    "lustre.tolerance_mib": 512,
}


def edited(key: str, base: dict[str, Any] = BASE) -> dict[str, Any]:
    block, _, name = key.rpartition(".")
    if block:
        return {**base, block: {**base.get(block, {}), name: EDITS[key]}}
    new = {**base, key: EDITS[key]}
    if key == "kind":
        del new["lustre"]
    return new


def test_each_key_of_a_declaration_is_decided_on_and_tried() -> None:
    """Who adds a key says here what becomes of an edit of it."""
    assert set(DECIDED) == set(EDITS)
    assert set(DECIDED.values()) == {ANOTHER, LIVE, NOTED, CLAIMED, MADE}


@pytest.mark.parametrize("key", sorted(EDITS))
def test_an_edit_is_applied_or_refused_as_decided(key: str) -> None:
    base = LOOP if key == "geometry" else BASE
    before, after = complete(base), complete(edited(key, base))
    claimed = {
        "target": "site",
        "launcher": "openmpi",
        "launcher_options": [],
        "declared": declaration.declared_again(before),
    }
    declaration.refuse_edits(claimed, before)
    assert declaration.as_declared(claimed, before) is claimed
    if DECIDED[key] in (CLAIMED, MADE):
        with pytest.raises(Refusal) as refused:
            declaration.refuse_edits(claimed, after)
        said = str(refused.value)
        assert said.startswith(f"target site was claimed with {key} ") and said.endswith(f" again, or {DECIDED[key]}")
        return
    declaration.refuse_edits(claimed, after)
    now = declaration.as_declared(claimed, after)
    if DECIDED[key] == NOTED:
        assert now[key] == EDITS[key]
        (edit,) = now["edits"]
        assert (edit["key"], edit["from"], edit["to"]) == (key, claimed[key], EDITS[key])
        assert declaration.as_declared(now, after) is now
    else:
        assert now is claimed


def claim_file(spec: dict) -> Path:
    return Path(spec["home"]) / spec["name"] / "claim.json"


def test_a_claimed_directory_is_opened_as_declared_or_not_at_all(directory_target: dict) -> None:
    claimed(directory_target)
    before = claim_file(directory_target).read_text()
    for key in ("amount_mib", "budget_gib", "scale.tasks", "mount_dir", "device_model", "directory"):
        with pytest.raises(Refusal, match=f"was claimed with {key} .* is declared now; nothing was touched. Declare"):
            open_target(edited(key, directory_target))
        for check in (False, True):  # as ansible-playbook local_target.yml claim.yml, and with --check
            with pytest.raises(Refusal, match=f"was claimed with {key} "):
                claim.create(edited(key, directory_target), {}, check)
            with pytest.raises(Refusal, match=f"was claimed with {key} "):
                claim.claim(edited(key, directory_target), {}, check)
        assert claim_file(directory_target).read_text() == before
    new = edited("launcher_options", directory_target)
    target = open_target(new)
    assert target.claim["launcher_options"] == EDITS["launcher_options"]
    kept = json.loads(claim_file(directory_target).read_text())
    assert kept == target.claim and kept["edits"][0]["from"] == [] and kept["id"] == json.loads(before)["id"]


@pytest.mark.root
def test_a_claimed_loop_target_is_opened_as_declared_or_not_at_all(spec: dict) -> None:
    before = claim_file(spec).read_text()
    for key in ("filesystem", "stores", "size_gib", "minimum_gib", "image_dir", "mount_dir", "amount_mib"):
        with pytest.raises(Refusal, match=f"was claimed with {key} "):
            open_target(edited(key, spec))
        assert claim_file(spec).read_text() == before
    assert open_target(edited("allocator_reset", spec)).allocator_reset == "none"


def test_commands_are_launched_as_declared_now_and_cells_say_so(tmp_path: Path, directory_target: dict) -> None:
    """The copy of the claim that a plan reads was fetched when the target was claimed."""
    claim.create(directory_target, {}, False)
    claimed = claim.claim(directory_target, {}, False)["claim"]
    inventory = tmp_path / "inventories" / directory_target["name"]
    (inventory / "group_vars/all").mkdir(parents=True)
    new = edited("launcher_options", directory_target)
    (inventory / "group_vars/all/target.yml").write_text(yaml.safe_dump({"fsage_target": new}))
    study = tmp_path / "small.yaml"
    cells = {"workload": "sequential", "tool": "ior", "transfer_size": ["1M"], "iterations": 1}
    states = {"recipe": "paf", "capacity": [10], "fragmentation": [0], "file_size": "8M"}
    study.write_text(yaml.safe_dump(blocks(states=states, cells=cells)))
    plan = load_plan(study, inventory, tmp_path)
    plan.results.claim.parent.mkdir(parents=True)
    plan.results.claim.write_text(json.dumps({**claimed, "tools": ALL}))
    plan = load_plan(study, inventory, tmp_path)
    state, cells_of = next(iter(plan.cells.items()))
    made = requests.make(plan, state, cells_of[:1])
    argv = made["cells"][0]["phases"][0]["argv"]
    assert argv[argv.index("--mca") :][:3] == EDITS["launcher_options"]
    assert made["cells"][0]["makes_bytes"] == claimed["amount_mib"] << 20
