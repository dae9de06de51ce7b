"""What hosts do for it: planted free space, and the calls that are timed, each where it can be left behind."""
