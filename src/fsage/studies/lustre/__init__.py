"""Targets of kind `lustre`: its clients, servers and OSTs, and what surrounds a cell there. It is no study itself."""
