"""Populate and fragment: what fullness costs, and what fragmentation costs."""
