"""What targets of a run have in common: hosts, and parts that were declared. Measured at once they would be slower.

Each part is a resource of Snakemake, of which there is one: those who share it take turns. Device models that bound
what each target takes are no way around it. Two disks that charge for seeks, each bound to 11% of what the machine's
disk had just written, wrote 150 to 275 MiB/s at once where each alone writes 281.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from fsage.study.study import StudyError, read_yaml
from fsage.text.strict import show

DECLARED = "fsage_target_shares"
HERE = "this machine"


def shared(inventories: Sequence[Path]) -> dict[str, set[str]]:
    """Return, by target, the parts that another target of the run has too. Raises StudyError."""
    if len(inventories) < 2:
        return {path.name: set() for path in inventories}
    parts = {path.name: hosts(path) | declared(path) for path in inventories}
    counts = Counter(part for found in parts.values() for part in found)
    return {name: {part for part in found if counts[part] > 1} for name, found in parts.items()}


def hosts(inventory: Path) -> set[str]:
    """Return the hosts of an inventory by the address at which they are reached; this machine is one of them."""
    from ansible.inventory.manager import InventoryManager  # half a second, which only several targets pay
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    loader = DataLoader()
    known = InventoryManager(loader=loader, sources=[str(inventory)])
    variables = VariableManager(loader=loader, inventory=known)
    found = set()
    for host in known.get_hosts():
        of_host = variables.get_vars(host=host, include_hostvars=False)
        local = of_host.get("ansible_connection") == "local"
        found.add(HERE if local else str(of_host.get("ansible_host", host.name)))
    return found


def declared(inventory: Path) -> set[str]:
    """Return the parts that a target's declaration names: a switch, a rack of disks. Raises StudyError."""
    path = inventory / "group_vars" / "all" / "target.yml"
    names = (read_yaml(path) or {}).get(DECLARED, [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise StudyError(f"{path}: {DECLARED}: {show(names)} is not a list of names, such as [switch-3]")
    return {f"{name} (declared)" for name in names}


def resources(target: str, parts: Collection[str]) -> dict[str, int]:
    """Return the resources of Snakemake that a job on a target takes: the target itself, and each part."""
    names = [f"target_{target.replace('-', '_')}"]
    names += [f"shared_{hashlib.sha256(part.encode()).hexdigest()[:12]}" for part in sorted(parts)]
    return dict.fromkeys(names, 1)
