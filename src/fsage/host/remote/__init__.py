"""The hosts beside the one that launches: reached, compared, told what to do."""
