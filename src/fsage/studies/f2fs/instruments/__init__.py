"""What counts the requests of a read."""
