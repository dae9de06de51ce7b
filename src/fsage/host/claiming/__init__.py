"""What claims have in common: images are made, rates found, the claim written."""
