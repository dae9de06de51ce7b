"""Numbers as text that does not say more than they do."""

from __future__ import annotations


def ratio_text(value: float, digits: int = 2) -> str:
    """'0.79'; what is not 1 never reads as 1: '0.997' where two digits would be '1.00'."""
    while round(value, digits) == 1 != value and digits < 6:
        digits += 1
    return f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds // 3600:.0f} h {seconds % 3600 / 60:.0f} min"
