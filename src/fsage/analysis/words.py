"""Numbers, states and findings as they stand in sentences and tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2

from fsage.base.sizes import counted, duration, format_size, ratio_text, round_size, significant
from fsage.model import plugins
from fsage.statistics import ALPHA, MARGIN, Ratio, reachable

NONE = "\u2013"
"""In a table, for what is not known."""
TWICE = 2.0


def joined(parts: Sequence[str], last: str = "and", between: str = ", ") -> str:
    """'a', 'a and b', 'a, b and c'."""
    *most, end = parts or [""]
    if most:
        return f"{between.join(most)} {last} {end}"
    return end


def few(parts: Sequence[str], most: int, between: str = ", ") -> str:
    """'a, b and 3 more', where there are more than so many."""
    if len(parts) > most:
        return f"{between.join(parts[:most])} and {len(parts) - most} more"
    return between.join(parts)


def short_names(states: Iterable[str]) -> dict[str, str]:
    """'80.50@264M' -> '80.50', or of several '80.50-b_1024' with what else tells it apart, or the whole name."""
    names = list(dict.fromkeys(states))
    for left_out in ("@.*", "@[^-]*"):
        short = {name: re.sub(left_out, "", name) for name in names}
        if len(set(short.values())) == len(names):
            return short
    return {name: name for name in names}


def line(text: object) -> str:
    """A text from elsewhere without its line ends."""
    return " ".join(str(text).split())


def bounds(low: float | None, high: float | None, digits: int = 4) -> str:
    """An interval behind its value, ' (312.4 to 314)'; '' where there is none."""
    if low is None or high is None or math.isnan(low):
        return ""
    return f" ({significant(low, digits)} to {significant(high, digits)})"


def times(ratio: Ratio | None) -> str:
    """A ratio in a table: '0.52x (0.50 to 0.55)', a dash where there is none."""
    if ratio is None or ratio.value is None:
        return NONE
    if ratio.interval:
        ends = f" ({ratio_text(ratio.interval.low)} to {ratio_text(ratio.interval.high)})"
    else:
        ends = ""
    return f"{ratio_text(ratio.value)}x{ends}"


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
        """What its sentence says. That no difference matters comes before whether there is one beyond chance."""
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
        return str(_finding().said(self, subject, than, over))

    def brief(self) -> str:
        """The finding without subject and reference: '21% slower (17 to 23%)'."""
        words = str(_finding().predicate(self)).removeprefix("is ").removeprefix("shows ")
        if self.kind == "chance":
            return f"{words}; {self.doubt}"
        return words


def percent(value: float) -> str:
    """Whole percents from 10 on; as many digits as it takes not to read as nothing, or as all, and 99.99 at most."""
    if value < 100:
        value = min(value, 99.99)
    digits = int(value < 9.95)
    while round(value, digits) in (0, 100) and value not in (0, 100) and digits < 4:
        digits += 1
    return f"{value:.{digits}f}"


def _source(name: str) -> str:
    """A template of this package, or as STUDY/NAME one in the folder of a study."""
    study, _, file = name.rpartition("/")
    folder = plugins.folder(study) if study else Path(__file__).parent / "templates"
    return (folder / file).read_text(encoding="utf-8")


@cache
def environment() -> jinja2.Environment:
    """The sentences as templates; findings are data."""
    templates = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    templates.filters.update(times=significant, percent=percent, joined=joined, counted=counted, few=few, line=line)
    templates.filters.update(
        ratio=partial(ratio_text, digits=3), size=round_size, exact_size=format_size, duration=duration
    )
    templates.globals.update(twice=TWICE, margin=f"{MARGIN:.0%}")
    return templates


@cache
def _finding() -> Any:
    return environment().get_template("finding.j2").module


def sentences(name: str, /, **data: object) -> list[str]:
    """What a template says of data, a line each. `name`: of this package, or STUDY/NAME of a study's folder."""
    text = environment().get_template(f"{name}.j2").render(data)
    return [line for line in text.splitlines() if line]


def paragraph(clauses: Iterable[str]) -> str:
    """Each with a capital and its end: 'a b', 'c' -> 'A b. C.'."""
    return " ".join(f"{clause[:1].upper()}{clause[1:]}." for clause in clauses)
