"""Disks of known costs below a target, and how groups of processes share them. It is no study itself.

A device model is IOCost of the kernel, or a disk that charges for seeks. A study that builds on it may use on hosts:

- `host.iocost`: `unavailable_because` says why not, and `groups_unavailable_because` where no cost is to be charged;
- `host.groups`: control groups with a weight. `make` one, and what it has read is `counted`, as `Counted`.
  `put_scheduler` for a target's devices; `why_no_scheduler`, and `v1_unavailable_because`. No other cell finds it;
- `host.cgroups`: be `inside` a group.
"""
