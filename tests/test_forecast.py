"""Small file systems that fill with files until the first is refused: does the forecast of half time hold?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fsage.base import Json
from fsage.studies.kernels.model import boot, programs

NUMBER = 60
SIZE_BYTES = 320 << 20
TOGETHER = 2
"""Guests, one on each processor."""


def churned(number: int) -> Json:
    """What a guest tells of one file system (tests/churning_guest.py)."""
    with boot.folder(boot.roomy(SIZE_BYTES)) as place:
        disk = boot.disk(place / "disk", SIZE_BYTES)
        return boot.answer_to(programs.some(None), {"do": "churn", "filesystem": "ext4", "number": number}, disk)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not programs.here(), reason="no kernel that is a program is here")
def test_the_first_refusal_comes_where_half_time_said(monkeypatch: pytest.MonkeyPatch) -> None:
    package = boot.package()
    monkeypatch.setattr(boot, "package", lambda: f"{package}:{Path(__file__).parent}")
    monkeypatch.setattr(boot, "GUEST", "churning_guest")
    with ThreadPoolExecutor(TOGETHER) as pool:
        seen = list(pool.map(churned, range(NUMBER)))
    said = []
    kept = 0
    for each in seen:
        is_right = each["low_percent"] - 0.1 <= each["at_percent"] <= each["high_percent"] + 0.1
        kept += is_right
        interval = f"{each['low_percent']:.2f} to {each['high_percent']:.2f}%"
        said.append(f"{is_right} {each['what']}: {each['at_percent']:.2f}% in {interval}, {each['lacks']}")
        print(said[-1])
    assert kept >= 0.9 * NUMBER, "\n".join(said)
