"""The stores of a target, which are local file systems: made, mounted, identified, their free space read."""
