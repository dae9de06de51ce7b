"""Records: what hosts answer, accepted only as it was asked, and judged."""
