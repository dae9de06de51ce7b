"""Its workload."""
