"""Parameters of cells, and what of a claim their commands depend on."""

from fsage.base import MIB

FIO_ONLY = {"fio": "fio-3.33", "ior": None, "mdtest": None, "mpirun": None}
ALL = {"fio": "fio-3.33", "ior": "IOR-3.3.0", "mdtest": "mdtest-3.3.0", "mpirun": "mpirun (Open MPI) 4.1.4"}
CLAIM = {
    "stores": [{"mount": "/m/0"}, {"mount": "/m/1"}],
    "amount_mib": 32,
    "tasks": 2,
    "tools": FIO_ONLY,
    "free_inodes_empty": 1000,
    "calibration": {"cell_overhead_s": 1.0, "write_mib_s": 128.0, "read_mib_s": 64.0},
}
SEQUENTIAL = {"workload": "sequential", "transfer_size": 4 * MIB, "iteration": 1}
METADATA = {"workload": "metadata", "files_per_task": 50, "iteration": 1}
