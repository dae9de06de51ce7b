"""What hosts do for it: a module for each kind of step, named after it."""
