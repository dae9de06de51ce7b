"""A state: reached step by step, told by a fingerprint, with evidence of its layout."""
