"""What launcher and hosts both need of kernels that are programs: which are here, starting one, and keeping images."""
