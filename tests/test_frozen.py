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
from fsage.plan import load_plan, results
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


def test_each_key_of_a_declaration_is_decided_on_and_tried():
    """Who adds a key says here what becomes of an edit of it."""
    assert set(DECIDED) == set(EDITS)
    assert set(DECIDED.values()) == {ANOTHER, LIVE, NOTED, CLAIMED, MADE}


@pytest.mark.parametrize("key", sorted(EDITS))
def test_an_edit_is_applied_or_refused_as_decided(key):
    base = LOOP if key == "geometry" else BASE
    before = complete(base)
    after = complete(edited(key, base))
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


def test_a_claimed_directory_is_opened_as_declared_or_not_at_all(directory_target, tmp_path):
    """Commands are launched as declared now; the copy of the claim that a plan reads was fetched at the claim."""
    claimed(directory_target)
    path = Path(directory_target["home"]) / directory_target["name"] / "claim.json"
    before = path.read_text()
    for key in ("amount_mib", "scale.tasks", "directory"):
        wrong = edited(key, directory_target)
        why = f"was claimed with {key} .* is declared now; nothing was touched. Declare"
        with pytest.raises(Refusal, match=why):
            open_target(wrong)
        for verb in (claim.create, claim.claim):  # as ansible-playbook local_target.yml claim.yml, and with --check
            for check in (False, True):
                with pytest.raises(Refusal, match=why):
                    verb(wrong, {}, check)
        assert path.read_text() == before
    new = edited("launcher_options", directory_target)
    kept = open_target(new).claim
    assert kept["launcher_options"] == EDITS["launcher_options"]
    assert kept == json.loads(path.read_text())
    fetched = json.loads(before)
    assert kept["edits"][0]["from"] == [] and kept["id"] == fetched["id"]

    inventory = tmp_path / "inventories" / directory_target["name"]
    (inventory / "group_vars/all").mkdir(parents=True)
    (inventory / "group_vars/all/target.yml").write_text(yaml.safe_dump({"fsage_target": new}))
    results.write(tmp_path / f"targets/{inventory.name}.json", {**fetched, "tools": ALL})
    study = blocks()
    study["states"]["file_size"] = "8M"
    study["cells"] |= {"tool": "ior", "transfer_size": "1M"}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(study))
    plan = load_plan(tmp_path / "small.yaml", inventory, tmp_path)
    state, cells = next(iter(plan.cells.items()))
    cell = requests.make(plan, state, cells[:1])["cells"][0]
    argv = cell["phases"][0]["argv"]
    assert argv[argv.index("--mca") :][:3] == EDITS["launcher_options"]
    assert cell["makes_bytes"] == fetched["amount_mib"] << 20
