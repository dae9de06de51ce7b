"""How cold caches were before a phase, as records and root's helper name it."""

COLD = "cold"
WARM = "warm"
KEPT = "kept: without root they cannot be dropped"
UNASKED = "not checked: Linux before 5.12"
"""How names of files were before a phase."""
SERVERS_KEPT = "kept"
"""Caches of servers are as they are."""
