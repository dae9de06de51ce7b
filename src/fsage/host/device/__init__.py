"""What lies below a local target: loop devices, copies of file systems, models of slower disks, control groups."""
