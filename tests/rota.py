"""--rota K/N: the long tests of one of N shares, so that all of them run in N days, for a test that nobody runs rots.

A test's share is the CRC-32 of its id: it stays the same while other tests come and go, on each machine. Tests of a
file are spread over all shares, because a few files have most of the minutes; what they share is made in seconds.
"""

from __future__ import annotations

import re
import time
import zlib

import pytest

DAY_S = 24 * 60 * 60


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option."""
    what = "only the long tests of share K of N, from 1 to N; `today` as K is another one each day"
    parser.addoption("--rota", metavar="K/N", help=what)


@pytest.hookimpl(tryfirst=True)  # tests/tiers.py looks which tests are wanted
def pytest_configure(config: pytest.Config) -> None:
    """Want long tests alone; name the share by its number, which workers are told."""
    given = config.getoption("rota")
    if given:
        share, shares = read(given, time.time())
        config.option.rota = f"{share}/{shares}"
        config.option.markexpr = "long"


def read(given: str, now: float) -> tuple[int, int]:
    """The share that is wanted, and how many there are; `now` in seconds since 1970. Raises UsageError."""
    found = re.fullmatch(r"(\d+|today)/([1-9]\d*)", given)
    if not found:
        raise pytest.UsageError(f"--rota {given}: write it as 3/14 or today/14")
    shares = int(found[2])
    if found[1] == "today":
        return int(now // DAY_S) % shares + 1, shares
    share = int(found[1])
    if not 1 <= share <= shares:
        raise pytest.UsageError(f"--rota {given}: the shares are 1 to {shares}")
    return share, shares


def share_of(test: str, shares: int) -> int:
    """The share of a test, by its id."""
    return zlib.crc32(test.encode()) % shares + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is of other shares."""
    given = config.getoption("rota")
    if not given:
        return
    share, shares = read(given, time.time())
    wanted = []
    others = []
    for item in items:
        if share_of(item.nodeid, shares) == share:
            wanted.append(item)
        else:
            others.append(item)
    items[:] = wanted
    config.hook.pytest_deselected(items=others)
