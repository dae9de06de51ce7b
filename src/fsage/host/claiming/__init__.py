"""What claims have in common: images are made, rates measured, the claim written."""
