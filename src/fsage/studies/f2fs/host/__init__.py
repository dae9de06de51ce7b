"""What hosts do for it: the file system."""
