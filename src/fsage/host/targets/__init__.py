"""A target: its kind, its declaration, its claim, who holds it, and what it is once it is opened."""
