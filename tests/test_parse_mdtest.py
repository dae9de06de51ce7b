"""mdtest's text, three versions: each recorded run comes out right, and nothing cut gives other numbers."""

import contextlib
import re

import pytest
from corpus import BAD, BY_NAME, GOOD, of_tool
from hypothesis import given
from hypothesis import strategies as st

from fsage.parse import BadOutput

RUN = BY_NAME["mdtest-main/u-F-i3"]


@pytest.mark.parametrize("case", of_tool(GOOD, "mdtest"), ids=lambda case: case.name)
def test_good(case):
    run, expected = case.parse(), case.numbers()
    assert run.files == expected.pop("files")
    assert dict(run.per_s) == expected
    assert run.tasks == 2


@pytest.mark.parametrize("case", of_tool(BAD, "mdtest"), ids=lambda case: case.name)
def test_bad(case):
    with pytest.raises(BadOutput, match=case.expected):
        case.parse()


@given(st.sampled_from(of_tool(GOOD, "mdtest")), st.floats(0, 1))
def test_what_is_cut_short_or_has_another_ranks_words_gives_no_other_number(case, share):
    at = int(share * len(case.stdout))
    with contextlib.suppress(BadOutput):
        assert case.parse(case.stdout[:at]) == case.parse()
    with contextlib.suppress(BadOutput):
        run = case.parse(case.stdout[:at] + "unable to stt/ext4/md" + case.stdout[at:])
        assert run.per_s.items() <= case.parse().per_s.items(), "a row may be missed, and is then missing"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("43994.734", "-nan", "File creation is nan"),
        ("43994.734", "abc", "File creation is not a number"),
        ("Max            Min", "Min            Max", "columns Operation Min Max Mean"),
        ("   Operation", "   Operations", "columns Operations"),
        ("2 tasks, 2000 files", "", "no line like"),
    ],
)
def test_a_run_that_looks_whole_but_is_not(old, new, reason):
    assert old in RUN.stdout
    with pytest.raises(BadOutput, match=reason):
        RUN.parse(RUN.stdout.replace(old, new))


def test_times_are_no_rates_when_another_rank_writes_into_their_heading():
    times = BY_NAME["mdtest-4.0.0/P-C"]
    with pytest.raises(BadOutput, match="two rows of File creation in one table"):
        times.parse(times.stdout.replace("SUMMARY time", "unable to stt/ext4/mdSUMMARY time"))


def test_a_row_that_mail_wrapped_is_missing_and_a_command_is_joined():
    """Of 3.3.0 a row without its last column has four words too: a colon and three numbers."""
    run = BY_NAME["mdtest-3.3.0/u-F-i3"]
    with pytest.raises(BadOutput, match="no row is whole"):
        run.parse(re.sub(r"(?m)^( +File .*) (\S+)$", r"\1\n\2", run.stdout))
    wrapped = run.stdout.replace(" '-u'", "\n'-u'")
    assert wrapped != run.stdout and run.parse(wrapped).command == run.parse().command
