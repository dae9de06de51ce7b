"""Files defragmented, or ranges of them moved."""
