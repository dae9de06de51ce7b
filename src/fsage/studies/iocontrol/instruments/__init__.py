"""Groups that share a device by weight, run and counted as one phase."""
