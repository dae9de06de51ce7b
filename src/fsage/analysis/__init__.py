"""What records say, before anybody words or draws it."""
