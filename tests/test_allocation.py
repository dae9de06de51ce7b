"""What jobs ask of Slurm (tests/cluster/test_srun.py submits them)."""

import pytest

from fsage.run import resources

THREE = {"launcher": "srun", "hosts": ["n2", "n1", "n3"]}


@pytest.mark.parametrize(
    ("claim", "asked"),
    [
        (None, {}),
        ({**THREE, "launcher": "openmpi", "tasks": 4}, {}),
        ({**THREE, "hosts": [], "tasks": 1}, {}),
        ({**THREE, "tasks": 4}, {"nodes": 3, "tasks_per_node": 4, "slurm_extra": "--nodelist=n2,n1,n3"}),
        ({**THREE, "tasks": 1}, {"nodes": 3, "tasks": 3, "slurm_extra": "--nodelist=n2,n1,n3"}),
        ({**THREE, "hosts": ["n1"], "tasks": 4}, {"nodes": 1, "tasks_per_node": 4, "slurm_extra": "--nodelist=n1"}),
        ({"launcher": "srun", "tasks": 4}, {"nodes": 1, "tasks_per_node": 4, "slurm_extra": ""}),
    ],
)
def test_a_job_asks_for_all_clients_as_the_plugin_takes_it(claim, asked):
    assert resources.requested(claim) == ({"mpi": "srun", **asked} if asked else {})
