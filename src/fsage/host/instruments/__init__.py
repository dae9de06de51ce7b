"""What looks on while a target is worked on: instruments, around a cell, a phase of it, or a step of a state."""
