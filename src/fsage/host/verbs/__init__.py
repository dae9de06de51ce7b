"""What a host can be asked to do, where it is no more than a few lines on what lies below."""
