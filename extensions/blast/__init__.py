"""A workload of striping studies: a search for sequences by blastn."""
