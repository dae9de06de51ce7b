"""Two groups that share a device by weight, of which one reads a fragmented file."""
