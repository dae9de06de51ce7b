"""Sizes: what is read, what is refused, and the one canonical spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsage.base.sizes import LARGEST_BYTES, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes", "canonical"),
    [
        ("264m", 276_824_064, "264M"),
        ("8 MiB", 8_388_608, "8M"),
        ("1024M", 1 << 30, "1G"),
        ("1536M", 1536 << 20, "1536M"),
        ("0033M", 33 << 20, "33M"),
        ("4K", 4096, "4K"),
        ("1000", 1000, "1000"),
        ("2T", 2 << 40, "2T"),
    ],
)
def test_reads_and_writes(text, size_bytes, canonical):
    assert parse_size(text) == size_bytes
    assert format_size(size_bytes) == canonical


@pytest.mark.parametrize(
    "text", ["", "M", "1.5G", "-1M", "8  M", " 8M", "8M ", "8X", "\u0663M", "0M", "9" * 19 + "T", "9" * 5000]
)
def test_refuses(text):
    with pytest.raises(ValueError, match="allowed"):
        parse_size(text)


def test_refuses_powers_of_ten_with_both_right_spellings():
    with pytest.raises(ValueError) as caught:
        parse_size("264MB")
    assert str(caught.value) == ("'264MB' may be a power of ten; sizes are powers of two: write 264M or 264MiB")


@given(st.integers(1, LARGEST_BYTES))
def test_every_size_survives_writing_and_reading(size_bytes):
    assert parse_size(format_size(size_bytes)) == size_bytes
