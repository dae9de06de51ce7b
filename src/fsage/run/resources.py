"""What jobs take of Snakemake and of Slurm: a target, what targets have in common, a target's clients.

Targets may share hosts, and parts that were declared; measured at once they would be slower. Each part is a resource of
Snakemake, of which a job takes all: those who share it take turns. Only guests, whose counts and virtual seconds know
nothing of their neighbours, are visited two at a time. Device models that bound what each target takes are no
way around it. Two disks that charge for seeks were each bound to 11% of what the machine's disk had just written. At
once they wrote 150 to 275 MiB/s, where each alone writes 281.

snakemake-executor-plugin-slurm gives a job one task, and Slurm then cuts its nodes to one, unless resource `mpi` is
requested. It takes `tasks_per_node` from 2 on.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from fsage.model.claim import Claim
from fsage.plan import Plan
from fsage.plan.target import DECLARATION, load_claim
from fsage.study import StudyError
from fsage.study.files import read_yaml
from fsage.text.strict import show

DECLARED = "fsage_target_shares"
HERE = "this machine"


def shared(inventories: Sequence[Path]) -> dict[str, set[str]]:
    """Return, by target, the parts that another target of the run has too. Raises StudyError."""
    if len(inventories) < 2:
        return {path.name: set() for path in inventories}
    parts = {path.name: hosts(path) | declared(path) for path in inventories}
    shared: dict[str, set[str]] = {}
    for name, used in parts.items():
        others = [of_other for other, of_other in parts.items() if other != name]
        shared[name] = used.intersection(set().union(*others))
    return shared


def hosts(inventory: Path) -> set[str]:
    """Return the hosts of an inventory by the address at which they are reached; this machine is one of them."""
    from ansible.inventory.manager import InventoryManager  # half a second, which only several targets pay
    from ansible.parsing.dataloader import DataLoader
    from ansible.vars.manager import VariableManager

    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[str(inventory)])
    variables = VariableManager(loader=loader, inventory=manager)
    names = set()
    for host in manager.get_hosts():
        of_host = variables.get_vars(host=host, include_hostvars=False)
        local = of_host.get("ansible_connection") == "local"
        names.add(HERE if local else str(of_host.get("ansible_host", host.name)))
    return names


def declared(inventory: Path) -> set[str]:
    """Return the parts that a target's declaration names: a switch, a rack of disks. Raises StudyError."""
    path = inventory / DECLARATION
    names = (read_yaml(path) or {}).get(DECLARED, [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise StudyError(f"{path}: {DECLARED}: {show(names)} is not a list of names, such as [switch-3]")
    return {f"{name} (declared)" for name in names}


EACH = 2
"""So much there is of each resource: all of it for a job that works alone, half for one that does not mind another."""


def of_target(target: str, parts: Collection[str], beside_another: bool = False) -> dict[str, int]:
    """Return the resources of Snakemake that a job on a target takes: the target itself, and each part.

    `beside_another`: another such job may work on the target at the same time.
    """
    taken = {f"target_{target.replace('-', '_')}": EACH // 2 if beside_another else EACH}
    for part in sorted(parts):
        taken[f"shared_{hashlib.sha256(part.encode()).hexdigest()[:12]}"] = EACH
    return taken


RESOURCES = ("mpi", "nodes", "tasks", "tasks_per_node", "slurm_extra")


def of_slurm(plan: Plan, own: Collection[str]) -> dict[str, Callable[[object], int | str | None]]:
    """Return resources of the jobs that measure a plan, each a function: a run may claim the target itself.

    None where srun starts no steps in them; `own` are those that the site sets, which must then name the nodes itself.
    """

    def of_job(resource: str) -> Callable[[object], int | str | None]:
        return lambda wildcards: requested(load_claim(plan.results.claim)).get(resource)

    if plan.target.spec["launcher"] != "srun":
        return {}
    return {name: of_job(name) for name in RESOURCES if name not in own}


def requested(claim: Claim | None) -> dict[str, int | str]:
    """Resources of a job that measures on a claimed target; none where its tasks are not steps of the job."""
    if claim is None or claim.get("launcher") != "srun":
        return {}
    names = claim.get("hosts", [])
    each = claim.get("tasks", 1)
    nodes = max(1, len(names))
    if nodes * each == 1:
        return {}
    resources: dict[str, int | str] = {"mpi": "srun", "nodes": nodes, "slurm_extra": ""}
    if each > 1:
        resources["tasks_per_node"] = each
    else:
        resources["tasks"] = nodes
    if names:
        resources["slurm_extra"] = f"--nodelist={','.join(names)}"
    return resources


def check_partitions(names: str) -> None:
    """Raises StudyError unless Slurm has all partitions of `names` (separated by commas)."""
    partitions = _partitions()
    unknown = [name for name in names.split(",") if name not in partitions]
    if unknown:
        raise StudyError(
            f"Slurm has no partition {', '.join(unknown)}; it has {', '.join(partitions) or 'none'}: name one as "
            "slurm_partition in profiles/slurm/config.yaml; nothing was touched"
        )


def _partitions() -> list[str]:
    command = ["sinfo", "--noheader", "--all", "--format=%R"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise StudyError(
            "sinfo: this program is not here: --profile slurm is for a host that submits to Slurm"
        ) from None
    if ran.returncode:
        raise StudyError(f"`{' '.join(command)}`: {ran.stderr.strip()}; nothing was touched")
    return sorted(set(ran.stdout.split()))
