"""The PaF notation: equal and different spellings, errors with their caret, properties of all inputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsage.studies.paf.notation import Generation, NotationError, PaF, parse

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "structure"),
    [  # the longest form of the source, then a form for each rule of the grammar
        (
            "PAF:70.30,20.40:67005@264M,40M<24253639848",
            PaF((Generation(70, 30), Generation(20, 40)), 67005, (264 * MIB, 40 * MIB), 24_253_639_848),
        ),
        ("PAF:10.00@264M", PaF((Generation(10, 0),), None, (264 * MIB,))),
        ("PAF:01.99:0@1", PaF((Generation(1, 99),), 0, (1,))),
        ("PAF:40.10@264M,40M,1M", PaF((Generation(40, 10),), None, (264 * MIB, 40 * MIB, MIB))),
        ("PAF:99.50,50.00@1G", PaF((Generation(99, 50), Generation(50, 0)), None, (1024 * MIB,))),
    ],
)
def test_reads_and_writes_canonical_text(text, structure):
    assert parse(text) == structure
    assert str(structure) == text


@pytest.mark.parametrize(
    ("messy", "canonical"),
    [
        ("paf:70.30@264m", "PAF:70.30@264M"),
        ("PaF:5.0@264M", "PAF:05.00@264M"),
        ("PAF:70.30@1024M", "PAF:70.30@1G"),
        ("PAF:70.30@1048576", "PAF:70.30@1M"),
        ("PAF:70.30:0067005@0264M<0012", "PAF:70.30:67005@264M<12"),
        ("PAF:70.30,20.40@264M,264M", "PAF:70.30,20.40@264M"),
        ("PAF:70.30@264M,264M", "PAF:70.30@264M"),
    ],
)
def test_writes_other_spellings_canonically(messy, canonical):
    assert str(parse(messy)) == canonical
    assert parse(messy) == parse(canonical)


_PREFIX = "a structure begins with PAF:, such as PAF:70.30@264M"
_AA = "AA is 01 to 99 (% of the capacity)"
_BB = "BB is two digits, 00 to 99 (% deleted)"
_SIZE = "SIZE is a whole number with K, M, G or T, such as 264M"


@pytest.mark.parametrize(
    ("text", "caret", "message"),
    [
        ("", "^", f"the text ends too early; {_PREFIX}"),
        ("70.30@264M", "^^", f"'70' is not allowed here; {_PREFIX}"),
        ("PAF:", "    ^", f"the text ends too early; {_AA}"),
        ("PAF: 70.30@264M", "    ^", f"a blank is not allowed here; {_AA}"),
        ("PAF:100.30@264M", "    ^^^", f"100 is not a share of the capacity; {_AA}"),
        ("PAF:00.30@264M", "    ^^", f"00 is not a share of the capacity; {_AA}"),
        ("PAF:70@264M", "      ^", "'@' is not allowed here; AA and BB are joined by a dot: AA.BB"),
        ("PAF:70.3@264M", "       ^", f"3 may mean 03 or 30; {_BB}"),
        ("PAF:70.30", "         ^", "the text ends too early; next comes ,AA.BB or :SEED or @SIZE"),
        ("PAF:70.30:x@1M", "          ^", "'x' is not allowed here; SEED is a whole number"),
        ("PAF:70.30@264X", "          ^^^^", f"'264X' is not allowed here; {_SIZE}"),
        ("PAF:70.30@0M", "          ^^", "0M is out of range; SIZE is 1 to 2^63 - 1 bytes"),
        ("PAF:70.30@1M<", "             ^", "the text ends too early; KBLOCKS is a whole number (free KiB)"),
        (
            "PAF:70.30@1M<0",
            "             ^",
            "0 is out of range; KBLOCKS is a whole number (free KiB), 1 to 2^63 - 1",
        ),
        (
            "PAF:70.30@1M!",
            "            ^",
            "'!' is not allowed here; next comes ,SIZE or <KBLOCKS or the end",
        ),
        ("PAF:70.30@1M<9\n", "              ^", "a blank is not allowed here; nothing follows"),
        (
            "PAF:70.30,60.00@264M",
            "          ^^^^^",
            "generation 2 adds 60% to the 49% that the ones before it leave: more than the target holds; "
            "AA is at most 51 here",
        ),
        (
            "PAF:10.00,10.00,10.00@264M,40M",
            "                      ^^^^^^^^",
            "2 sizes for 3 generations; one size for all of them, or 3 that pair up",
        ),
    ],
)
def test_errors_point_at_the_place(text, caret, message):
    with pytest.raises(NotationError) as caught:
        parse(text)
    shown = text.replace("\n", "\N{REPLACEMENT CHARACTER}")
    assert str(caught.value) == f"{message}\n    {shown}\n    {caret}"


def test_capacities_may_fill_the_target_exactly():
    assert parse("PAF:70.30,51.00@1M").fullness_percent == 100
    with pytest.raises(NotationError, match="AA is at most 50 here"):
        parse("PAF:70.29,51.00@1M")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("PAF:10.00,10.00@2M", [(2 * MIB,), (2 * MIB,)]),
        ("PAF:10.00,10.00@2M,1M", [(2 * MIB,), (MIB,)]),
        ("PAF:10.00@2M,1M", [(2 * MIB, MIB)]),
    ],
)
def test_sizes_serve_all_pair_up_or_mix(text, sizes):
    assert [parse(text).sizes_of(number) for number in range(len(sizes))] == sizes


whole = st.from_regex(
    r"PAF:[1-9][0-9]\.[0-9]{2}(,0[1-9]\.[0-9]{2})?(:[0-9]{1,9})?@[1-9][0-9]{0,5}[KMGT]?(,[1-9]M)?(<[1-9][0-9]{0,9})?",
    fullmatch=True,
)


@given(whole)
def test_what_is_written_reads_back_equal(text):
    """What is no structure is a NotationError: tests/test_hostile.py."""
    structure = parse(text)
    assert parse(str(structure)) == structure
