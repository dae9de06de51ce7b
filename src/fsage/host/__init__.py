"""What runs on the hosts of a target: Python's standard library only, Python 3.9 and later."""
