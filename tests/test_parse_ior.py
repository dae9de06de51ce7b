"""IOR's text, five versions: every recorded run comes out as it should, nothing cut gives another number."""

import re

import pytest
from corpus import BAD, BY_NAME, GOOD, of
from hypothesis import given
from hypothesis import strategies as st

from fsage.parse import MIB, BadOutput, ior

SWEEP = BY_NAME["ior-3.3.0/sweep-np2-t1m"]


@pytest.mark.parametrize("case", of(GOOD, "ior"), ids=lambda case: case.name)
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
        for transfer in transfers:
            assert transfer.moved_bytes == expected["bytes"]
            assert transfer.moved_bytes / MIB / transfer.seconds == pytest.approx(transfer.bw_mib_s, rel=0.005)


@pytest.mark.parametrize("case", of(BAD, "ior"), ids=lambda case: case.name)
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


@given(st.sampled_from(of(GOOD, "ior")), st.floats(0, 1))
def test_cut_short(case, share):
    unchanged_or_refused(case, case.stdout[: int(share * len(case.stdout))])


@given(st.sampled_from(of(GOOD, "ior")), st.data())
def test_a_line_is_lost(case, data):
    lines = case.stdout.splitlines(keepends=True)
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    unchanged_or_refused(case, "".join(lines))


@given(st.sampled_from(of(GOOD, "ior")), st.data())
def test_another_rank_writes_into_a_line(case, data):
    at = data.draw(st.integers(0, len(case.stdout)))
    unchanged_or_refused(case, case.stdout[:at] + "unable to stt/ext4/md" + case.stdout[at:])


def test_a_program_that_is_not_there():
    with pytest.raises(BadOutput, match=r"ended with code 127: .Errno 2. No such file or directory: 'mpirun'"):
        ior.parse("", "[Errno 2] No such file or directory: 'mpirun'", 127)


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
        (r"(?m)^(write|read) .*\n", "", "summary is empty"),
        (r"IOR-3.3.0: MPI", "MPI", "no line 'IOR-<version>'"),
        (r"#Tasks", "#T", "not that of a known version"),
        (r"Finished  ", "WARNING: fsync(17) failed\nFinished  ", "WARNING: fsync"),
    ],
)
def test_a_run_that_looks_whole_but_is_not(old, new, reason):
    bent = re.sub(old, new, SWEEP.stdout)
    assert bent != SWEEP.stdout
    with pytest.raises(BadOutput, match=reason):
        SWEEP.parse(bent)
