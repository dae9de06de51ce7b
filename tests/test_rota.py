"""The rota (tests/rota.py): each long test has its turn."""

from __future__ import annotations

import pytest
import rota

pytest_plugins = ["pytester"]
TESTS = """\
import pytest

@pytest.mark.long
@pytest.mark.parametrize("number", range(40))
def test_long(number):
    pass

def test_short():
    pass
"""


def test_each_long_test_is_in_one_share_and_no_other_test_is(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers = long\naddopts = -m 'not long' -p rota -p no:tiers -p no:cacheprovider")
    ran = []
    for share in (1, 2, 3):
        result = pytester.inline_run("--rota", f"{share}/3")
        passed, skipped, failed = result.listoutcomes()
        assert not skipped and not failed
        names = [report.nodeid for report in passed]
        assert 5 <= len(names) <= 25, "shares are about alike"
        assert {rota.share_of(name, 3) for name in names} == {share}
        ran += names
    assert len(ran) == len(set(ran)) == 40
    assert not [name for name in ran if "test_short" in name]


def test_a_share_stays_the_same_and_each_day_has_the_next() -> None:
    assert rota.share_of("tests/test_rota.py::test_long[3]", 14) == 4, "on each machine, in each year"
    assert rota.read("3/14", now=0) == (3, 14)
    days = [rota.read("today/14", now=day * rota.DAY_S + 5)[0] for day in range(20_000, 20_014)]
    assert sorted(days) == list(range(1, 15))
    assert days == [*range(days[0], 15), *range(1, days[0])]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("3", "write it as 3/14 or today/14"),
        ("1/0", "write it as"),
        ("0/3", "the shares are 1 to 3"),
        ("4/3", "the shares are 1 to 3"),
    ],
)
def test_a_share_that_is_not_there_is_refused(given: str, why: str) -> None:
    with pytest.raises(pytest.UsageError, match=f"--rota {given}: {why}"):
        rota.read(given, now=0)
