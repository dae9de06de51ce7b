"""Types of what is declared of a target, of its claim, and of its hosts; each is declared here alone."""
