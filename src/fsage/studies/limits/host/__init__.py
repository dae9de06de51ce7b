"""Its command, which runs as whoever measures."""
