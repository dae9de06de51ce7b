"""Sizes as people write them ('264M', '8 MiB', '1G') and bytes, powers of two only; and other numbers as text."""

from __future__ import annotations

import re

_SIZE = re.compile(r"0*([0-9]{1,19}) ?(?:([KMGT])(?:iB)?)?", re.IGNORECASE)
_DECIMAL = re.compile(r"[0-9]+ ?[KMGT]B", re.IGNORECASE)
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")

LARGEST_BYTES = (1 << 63) - 1
"""The largest file offset Linux has."""

ALLOWED = "a whole number with K, M, G or T (powers of two), such as 264M or 8 MiB"


def parse_size(text: str) -> int:
    """Return the bytes that `text` names; without a suffix it is bytes already.

    Raises ValueError on anything else; on 'MB' too, which is a power of ten elsewhere.
    """
    if _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} may be a power of ten; sizes are powers of two: write {text[:-1]} or {text[:-1]}iB")
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a size; allowed: {ALLOWED}")
    size_bytes = int(match[1]) * _FACTORS[(match[2] or "").upper()]
    if not 1 <= size_bytes <= LARGEST_BYTES:
        raise ValueError(f"{text!r} is out of range; allowed: 1 byte to 2^63 - 1 bytes")
    return size_bytes


def format_size(size_bytes: int) -> str:
    """Return the shortest exact spelling without a blank: 276824064 -> '264M', 1000 -> '1000'."""
    for suffix in "TGMK":
        if size_bytes and size_bytes % _FACTORS[suffix] == 0:
            return f"{size_bytes // _FACTORS[suffix]}{suffix}"
    return str(size_bytes)


def round_size(size_bytes: float) -> str:
    """Three digits for people: 7813095424 -> '7.28 GiB', 4096 -> '4 KiB'."""
    power = min(max(int(size_bytes), 1).bit_length() - 1, 59) // 10
    size = size_bytes / (1 << 10 * power)
    if size >= 1000:
        return f"{size:.0f} {UNITS[power]}"
    return f"{size:.3g} {UNITS[power]}"


def ratio_text(value: float, digits: int = 2) -> str:
    """'0.79'; what is not 1 or 0 never reads as 1 or 0: '0.997' where two digits would be '1.00'."""
    while round(value, digits) in (0, 1) and value not in (0, 1) and digits < 6:
        digits += 1
    return f"{value:.{digits}f}"


def significant(value: float, digits: int = 3) -> str:
    """So many digits, or all of a whole number that has more: '0.315', '90123', never '9.01e+04'."""
    if abs(value) < 10 ** (digits - 1):
        return f"{value:.{digits}g}"
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds // 3600:.0f} h {seconds % 3600 / 60:.0f} min"


def counted(count: int, noun: str) -> str:
    """'1 state', '2 states'."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun}s"
