"""The two ways in which a verb ends without having done its work."""


class Refusal(Exception):
    """The verb may not or must not act: nothing was touched. The text says what to do next (exit status 1)."""


class Failure(Exception):
    """The verb tried and something failed: the text says what, on which file, and with which value (exit status 2)."""
