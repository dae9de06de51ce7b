"""What is counted on each kernel."""
