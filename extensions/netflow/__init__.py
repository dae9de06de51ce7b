"""A workload of striping studies: flow records that are indexed, then read model by model."""
