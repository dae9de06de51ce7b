"""Each is found by its name, as a part of every measurement."""
