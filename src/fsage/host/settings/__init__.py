"""Host settings: what is changed on a target's host outside the target, and how it is restored."""
