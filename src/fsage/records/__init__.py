"""Records: what hosts answer, accepted only as requested, and judged."""
