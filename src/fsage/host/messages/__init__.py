"""What passes between hosts: requests, tokens, observations; each is declared here alone."""
