"""What is changed outside a target, on its host, and how it is put back."""
