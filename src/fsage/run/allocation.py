"""What a job asks of Slurm where srun shall start steps in it: all the target's clients, as the plugin takes it.

snakemake-executor-plugin-slurm gives a job one task, and Slurm then cuts its nodes to one, unless resource `mpi` is
asked for; `tasks_per_node` it takes from 2 on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from fsage.model.claim import Claim
from fsage.plan.plan import Plan
from fsage.plan.target import load_claim

RESOURCES = ("mpi", "nodes", "tasks", "tasks_per_node", "slurm_extra")


def of_jobs(plan: Plan, own: Collection[str]) -> dict[str, Callable[[object], int | str | None]]:
    """Return resources of the jobs that measure a plan, each a function: a run may claim the target itself.

    None where srun starts no steps in them; `own` are those that the site sets, which must then name the nodes itself.
    """

    def of_job(resource: str) -> Callable[[object], int | str | None]:
        return lambda wildcards: requested(load_claim(plan.results.claim)).get(resource)

    return {name: of_job(name) for name in RESOURCES if name not in own} if plan.target.launcher == "srun" else {}


def requested(claim: Claim | None) -> dict[str, int | str]:
    """Resources of a job that measures on a claimed target; none where its tasks are not steps of the job."""
    if claim is None or claim.get("launcher") != "srun":
        return {}
    names, each = claim.get("hosts", []), claim.get("tasks", 1)
    nodes = max(1, len(names))
    if nodes * each == 1:
        return {}
    tasks = {"tasks_per_node": each} if each > 1 else {"tasks": nodes}
    return {"mpi": "srun", "nodes": nodes, **tasks, "slurm_extra": f"--nodelist={','.join(names)}" if names else ""}
