"""What is changed outside a target."""

from pathlib import Path


def settle(home: Path) -> None:
    return


def undo(home: Path) -> list[str]:
    return []


def entries(home: Path) -> list[dict]:
    return []
