"""What spares others on a shared machine: limits, a probe with `stop_if`, signs of trouble. It is no study itself."""
