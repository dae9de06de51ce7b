"""The kind of target whose file systems are mounted by kernels that run as programs."""
