"""What runs in a guest, on its own kernel."""
