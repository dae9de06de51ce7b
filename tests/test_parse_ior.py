"""IOR's text, five versions: every recorded run comes out as it should, nothing cut gives another number."""

import re

import pytest
from corpus import BAD, BY_NAME, GOOD, of_tool
from hypothesis import given
from hypothesis import strategies as st

from fsage.base import MIB
from fsage.parse import BadOutput, ior

SWEEP = BY_NAME["ior-3.3.0/sweep-np2-t1m"]


@pytest.mark.parametrize("case", of_tool(GOOD, "ior"), ids=lambda case: case.name)
def test_good(case):
    run, expected = case.parse(), case.numbers()
    assert run.tasks == expected["tasks"]
    assert run.version == {"ior-main": "IOR-4.1.0+dev"}.get(case.name.split("/")[0], case.name.split("/")[0].upper())
    for kind, transfers in (("write", run.write), ("read", run.read)):
        if f"{kind}_max_mib_s" not in expected:
            assert transfers == ()
            continue
        assert len(transfers) == expected["repetitions"]
        # The table has whole MiB/s from 3600 on.
        assert max(t.bw_mib_s for t in transfers) == pytest.approx(expected[f"{kind}_max_mib_s"], abs=0.5)
        moved = expected["bytes"]  # with -D each repetition has its own
        for transfer, moved_bytes in zip(transfers, moved if isinstance(moved, list) else [moved] * 9, strict=False):
            assert transfer.moved_bytes == moved_bytes
            assert transfer.moved_bytes / MIB / transfer.seconds == pytest.approx(transfer.bw_mib_s, rel=0.005)


@pytest.mark.parametrize("case", of_tool(BAD, "ior"), ids=lambda case: case.name)
def test_bad(case):
    with pytest.raises(BadOutput, match=case.expected):
        case.parse()


def unchanged_or_refused(case, stdout):
    try:
        run = case.parse(stdout)
    except BadOutput:
        return
    whole = case.parse()
    assert (run.write, run.read, run.tasks) == (whole.write, whole.read, whole.tasks)


@given(st.sampled_from(of_tool(GOOD, "ior")), st.floats(0, 1))
def test_text_that_is_cut_short_or_misses_a_line_or_has_another_ranks_words_gives_no_other_number(case, share):
    at = int(share * len(case.stdout))
    unchanged_or_refused(case, case.stdout[:at])
    unchanged_or_refused(case, case.stdout[:at] + "unable to stt/ext4/md" + case.stdout[at:])
    lines = case.stdout.splitlines(keepends=True)
    del lines[int(share * (len(lines) - 1))]
    unchanged_or_refused(case, "".join(lines))


@pytest.mark.parametrize(
    ("stderr", "rc", "reason"),
    [
        ("[Errno 2] No such file: 'mpirun'", 127, "did not run to its end: .Errno 2. No such file: 'mpirun'"),
        ("", 255, "code 255: without a word, as a launcher ends that was ended itself .a kill"),
    ],
)
def test_a_launcher_that_is_not_there_or_was_ended(stderr, rc, reason):
    with pytest.raises(BadOutput, match=reason):
        ior.parse(SWEEP.stdout[:900], stderr, rc)


def test_an_amount_is_compared_within_the_rounding_of_its_version():
    """IOR 3.3.0 says of 800.75 MiB that they are 800.8; what is farther off was not moved."""
    case, moved = BY_NAME["ior-3.3.0/w-192k-np4"], {"800.8": 4 * 209911808, "800.7": 4 * 209911808}
    for shown in ("800.8", "800.7", "800.6", "800.9"):
        stdout = case.stdout.replace("196608    65536       0.8", f"209911808    65536       {shown}")
        assert case.parse(stdout).write[0].moved_bytes == moved.get(shown, round(float(shown) * MIB))
    exact = BY_NAME["ior-3.0.1/w-192k-np4"]
    assert exact.parse(exact.stdout.replace("65536 786432", "65536 786431")).write[0].moved_bytes == 786431


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (r"(?m)^write .* 3 *\n", "", "4 of its 5 repetitions of write"),
        (r"write     4816", "write     4916", "table gives 52.* of write where its summary gives 5218.88"),
        (
            r"write     6924",
            "write     7024",
            "table gives 7024.0 MiB/s of write where its summary gives 6923.9",
        ),
        (r"(?m)^(read +)8828.77", r"\1    nan", "gives nan"),
        (r"(?m)^(read +8828.77.*\n)", r"\1\1", "2 rows of read"),
        (r"(?m)^(write|read) .*\n", "", "summary has no whole row"),
        (r"IOR-3.3.0: MPI", "MPI", "no line 'IOR-<version>'"),
        (r"IOR-3.3.0: MPI", "IOR-2.10.3: MPI", "output of IOR 2, whose table has other columns: run IOR 3"),
        (r"#Tasks", "#T", "not that of a known version, or its lines were wrapped .*: no column '#Tasks'"),
        (r"(\d)\.(\d)", r"\1,\2", "or its numbers changed: could not convert"),
        (r"Finished  ", "WARNING: fsync(17) failed\nFinished  ", "WARNING: fsync"),
    ],
)
def test_a_run_that_looks_whole_but_is_not(old, new, reason):
    bent = re.sub(old, new, SWEEP.stdout)
    assert bent != SWEEP.stdout
    with pytest.raises(BadOutput, match=reason):
        SWEEP.parse(bent)
