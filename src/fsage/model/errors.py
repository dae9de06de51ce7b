"""The two ways in which a verb ends without having done its work."""


class Refusal(Exception):
    """The verb must not act; nothing was touched, and the text says what to do next (exit status 1)."""


class Failure(Exception):
    """The verb tried and failed; the text says what, on which file, which value (exit status 2)."""
