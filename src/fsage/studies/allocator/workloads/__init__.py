"""The workload."""
