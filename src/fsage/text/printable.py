"""Names and texts of others on a terminal: what would steer it, or cannot be encoded, is shown as an escape."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """The text with whatever is no printable character written as in Python: '\\x1b[2J', '\\n', '\\udcff'.

    That is control characters, those that change the direction of writing, and bytes that are no UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else _escaped(one) for one in text)


def lines(text: str) -> str:
    """The same for a text of several lines."""
    return printable(text, keep="\n")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
