"""What lies below a local target: loop devices, models of slower disks over or under them, queues, control groups."""
