"""Numbers, states and findings as they stand in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fsage.base.sizes import ratio_text
from fsage.statistics import ALPHA, MARGIN, Ratio, reachable

NONE = "\u2013"
"""In a table, for what is not known."""
TWICE = 2.0


def joined(parts: Sequence[str], last: str = "and") -> str:
    """'a', 'a and b', 'a, b and c'."""
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}" if parts else ""


def bounds(low: float | None, high: float | None, digits: int = 4) -> str:
    """An interval behind its value, ' (312.4 to 314)'; '' where there is none."""
    if low is None or high is None or math.isnan(low):
        return ""
    return f" ({low:.{digits}g} to {high:.{digits}g})"


def times(ratio: Ratio | None) -> str:
    """A ratio in a table: '0.52x (0.50 to 0.55)', a dash where there is none."""
    if ratio is None or ratio.value is None:
        return NONE
    if ratio.interval:
        ends = f" ({ratio_text(ratio.interval.low)} to {ratio_text(ratio.interval.high)})"
    else:
        ends = ""
    return f"{ratio_text(ratio.value)}x{ends}"


SAID = {
    "unknown": "cannot be compared{against} ({why})",
    "alike": "shows no difference{from_} (within {margin})",
    "slight": "shows no difference that matters{from_} ({reach}{over}, less than {margin})",
    "open": "shows no difference beyond chance{from_} ({reach}{over})",
    "chance": "may be {size}{than} ({ends}{over})",
    "sure": "is {size}{than} ({ends}{over})",
}
"""A finding as the predicate of a sentence, by its kind."""


@dataclass(frozen=True)
class Finding:
    """A ratio of rates in words. `p`: adjusted over its `family` of comparisons, none where it could not be tested."""

    ratio: Ratio
    p: float | None = None
    family: int = 1
    tested: bool = True
    """Whether a test goes with it; else its interval alone decides."""

    @property
    def kind(self) -> str:
        """A key of SAID. That no difference matters comes before whether there is one beyond chance."""
        if self.ratio.value is None or self.ratio.interval is None:
            return "unknown"
        if self.ratio.alike:
            if self.ratio.direction and self._beyond_chance:
                return "slight"
            return "alike"
        if not self.ratio.direction:
            return "open"
        if self._beyond_chance:
            return "sure"
        return "chance"

    @property
    def sure(self) -> bool:
        """Whether a difference that matters, or may matter, is beyond chance."""
        return self.kind == "sure"

    @property
    def effect(self) -> float:
        """How large a sure difference is, as a logarithm; 0 for all others."""
        if self.sure and self.ratio.value:
            return abs(math.log(self.ratio.value))
        return 0.0

    @property
    def _beyond_chance(self) -> bool:
        return not self.tested or (self.p is not None and self.p <= ALPHA)

    @property
    def doubt(self) -> str:
        """Why a difference may be chance."""
        if self.p is None or not reachable(self.ratio.n, self.ratio.n_reference, self.family):
            return f"{self.ratio.n} against {self.ratio.n_reference} samples are too few to rule out chance"
        return "chance is not ruled out"

    def said(self, subject: str, than: str = "", over: bool = True) -> str:
        """'SUBJECT is 21% slower than THAN (17 to 23% over 5 layouts)', or like this.

        `than`: with what it is compared, such as 'at 10% full'; '' where that is plain. `over`: whether it says what
        the interval is over.
        """
        return f"{subject} {self._filled(than, over)}"

    def brief(self) -> str:
        """The finding without subject and reference: '21% slower (17 to 23%)'."""
        words = self._filled("", False).removeprefix("is ").removeprefix("shows ")
        if self.kind == "chance":
            return f"{words}; {self.doubt}"
        return words

    def _filled(self, than: str, over: bool) -> str:
        """The template of SAID with what the finding has."""
        size, ends = self._size()
        unit = self.ratio.over if over else ""
        conjunction = "as" if size.endswith("as fast") else "than"
        return SAID[self.kind].format(
            against=f" with the rate {than}" if than else "",
            from_=f" from the rate {than}" if than else "",
            than=f" {conjunction} {than}" if than else "",
            why=self.ratio.why,
            margin=f"{MARGIN:.0%}",
            size=size,
            ends=ends,
            reach=self._reach(ends),
            over=unit,
            doubt=self.doubt,
        )

    def _reach(self, ends: str) -> str:
        """'0.3 to 2.5% faster', '4.8% slower to 4.1% faster'."""
        interval = self.ratio.interval
        if interval is None:
            return ""
        if self.ratio.direction:
            return f"{ends} {'slower' if self.ratio.direction < 0 else 'faster'}"
        return f"{_reach(interval.low)} to {_reach(interval.high)}"

    def _size(self) -> tuple[str, str]:
        """'21% slower' and '17 to 23%', or '3.96 times as fast' and '3.87 to 3.97'."""
        interval = self.ratio.interval
        value = self.ratio.value
        if interval is None or value is None:
            return "", ""
        if value >= TWICE:
            return f"{_times(value)} times as fast", f"{_times(interval.low)} to {_times(interval.high)}"
        ends = sorted(abs(1 - end) * 100 for end in (interval.low, interval.high))
        size = f"{_percent(abs(1 - value) * 100)}% {'slower' if value < 1 else 'faster'}"
        return size, f"{_percent(ends[0])} to {_percent(ends[1])}%"


def _times(value: float) -> str:
    if value < 100:
        return f"{value:.3g}"
    return f"{value:.0f}"


def _reach(value: float) -> str:
    """'2.1% slower', '3% faster', 'as fast'."""
    if value == 1:
        return "as fast"
    return f"{_percent(abs(1 - value) * 100)}% {'slower' if value < 1 else 'faster'}"


def _percent(value: float) -> str:
    """Whole percents from 10 on; below as many digits as it takes not to read as nothing."""
    if value >= 9.95:
        return f"{value:.0f}"
    digits = 1
    while value and not round(value, digits) and digits < 4:
        digits += 1
    return f"{value:.{digits}f}"
