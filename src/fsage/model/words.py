"""Words that hosts write into observations, where others compare with them."""

COLD, WARM, KEPT, UNASKED = "cold", "warm", "kept: without root they cannot be dropped", "not asked: Linux before 5.12"
"""How names of files were before a phase."""
SERVERS_KEPT = "kept"
"""Caches of servers are as they are."""
