"""What its cells run."""
