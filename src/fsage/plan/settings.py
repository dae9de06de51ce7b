"""What `snakemake --config KEY=VALUE` may say, and the commands that messages and reports name.

Settings say on which target, which part of a study, until when. Commands are whole, so that who copies one can give it
as it stands.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from fsage.statistics import MARGIN
from fsage.study import StudyError
from fsage.text.strict import unknown_key

PLACES = {"results": "results", "studies": "config", "inventories": "inventories", "target": ""}
"""Where things are, by default; the `fsage` commands that jobs call take them from FSAGE_RESULTS and so on."""
KEYS = (*PLACES, "lost", "until", "only", "batch_states", "budget", "precision")
EXAMPLES = "write it as target=local, budget=45m, precision=3%, until=18:00 or 'only={capacity: 80}', or leave it out"
USUAL_PRECISION = MARGIN
PRECISIONS = (0.001, 0.5)


def check(config: Mapping[str, object]) -> None:
    """Raise StudyError for a key that is not known or has no value, or a `batch_states` that is no number of states."""
    for key, value in config.items():
        if key not in KEYS:
            raise StudyError(f"--config {key}=…: {unknown_key(key, KEYS)}")
        if value in (None, ""):
            raise StudyError(f"--config {key}= has no value: {EXAMPLES}")
    if not isinstance(given := config.get("batch_states", 1), int) or isinstance(given, bool) or given < 1:
        raise StudyError(f"batch_states is {given!r}; a job visits 1 state or more")


def precision(config: Mapping[str, object]) -> float | None:
    """How well a study within a budget is to know its rates: 0.03 for '3%'; None: it is measured whole.

    Raises StudyError.
    """
    if "precision" not in config:
        if "budget" in config:
            return USUAL_PRECISION
        return None
    text = str(config["precision"]).strip()
    low, high = PRECISIONS
    if re.fullmatch(r"[0-9.]+", text):
        raise StudyError(f"precision: {text!r} has no unit: write precision={text}% for {text} percent, such as 3%")
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not low <= share <= high:
        raise StudyError(f"precision: {text!r} is not between {low:.1%} and {high:.0%}; write precision=3%")
    return share


def window_end(text: str, now: datetime) -> datetime:
    """'18:00' is when the clock shows that next; else ISO 8601, such as 2026-11-21T18:00. Raises StudyError.

    What names no zone is this machine's time, which until then may be summer time or no more.
    """
    try:
        if "T" not in text and " " not in text and ":" in text:
            wanted = datetime.strptime(text, "%H:%M")
            here = now.astimezone().replace(tzinfo=None)
            moment = here.replace(hour=wanted.hour, minute=wanted.minute, second=0, microsecond=0)
            if moment <= here:
                moment += timedelta(days=1)
            return moment.astimezone()
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.astimezone()
    except (ValueError, OverflowError):
        raise StudyError(f"until: {text!r} is no time; write 18:00 or 2026-11-21T18:00") from None
    if moment <= now:
        raise StudyError(
            f"until: {text!r} is over: it is {now:%Y-%m-%d %H:%M} by this machine's clock; name a later time"
        )
    return moment


def length(text: str) -> timedelta:
    """'45m', '8h', '1h30m', '90s'. Raises StudyError."""
    match = re.fullmatch(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", text)
    if not text or not match:
        raise StudyError(f"budget: {text!r} is no length of time; write 45m, 8h or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def until(config: Mapping[str, object], now: datetime) -> datetime | None:
    """When the run ends, by `until` or `budget`; None where neither is given. Raises ValueError."""
    text = str(config.get("until", "")).strip()
    if "budget" in config:
        if text:
            raise ValueError("budget=… and until=… both say when it ends: give one")
        return now + length(str(config["budget"]).strip())
    if text:
        return window_end(text, now)
    return None


def places(config: Mapping[str, object], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that say where things are: as configured, else as they are set, else by default."""
    variables = {}
    for key, usual in PLACES.items():
        name = f"FSAGE_{key.upper()}"
        variables[name] = str(config.get(key, environment.get(name) or usual))
    return variables


def requested(words: Iterable[str], studies: Iterable[str]) -> list[str]:
    """The studies that a command line requests: by name, or by a file below results/ that is a study's."""
    named: set[str] = set()
    for word in words:
        if "=" not in word:
            named |= {word, *Path(word).parts}
    return sorted(named & set(studies))


def mentioned(words: Iterable[str], studies: Iterable[str]) -> list[str]:
    """The studies whose names occur anywhere on a command line, in a rule's name too; all where none does.

    What nobody can ask for by these words needs no plan and no rules, which take most of a dry run's time.
    """
    studies = list(studies)
    command_line = "\n".join(words)
    return [name for name in studies if name in command_line] or studies


def narrowed(config: Mapping[str, object], requested: Sequence[str]) -> dict[str, object]:
    """Study -> the entry of `only` that narrows it. Raises StudyError where no study is requested."""
    if "only" not in config:
        return {}
    if not requested:
        raise StudyError(
            "--config only=… narrows the requested studies, and none is requested: name one, or a file of it"
        )
    return dict.fromkeys(requested, config["only"])


def unusual(results: object, studies: object, inventories: object) -> list[str]:
    """The places that are not the usual ones, such as results=/data/results."""
    given = {"results": results, "studies": studies, "inventories": inventories}
    return [f"{name}={place}" for name, place in given.items() if str(place) != PLACES[name]]


PREPARED = re.compile(r"age_[0-9a-f]{12}")
"""Names of the studies that `fsage age` makes, each in a folder of its own (fsage.studies.replica.age)."""


@dataclass(frozen=True)
class Commands:
    """Commands on one study and target (several: joined by commas); only places that are not the usual are named."""

    study: str
    target: str
    results: str = PLACES["results"]
    studies: str = PLACES["studies"]
    inventories: str = PLACES["inventories"]

    @classmethod
    def usual(cls, study: str, target: str) -> Commands:
        """Those of a report, which may be read elsewhere than where it was made."""
        return cls(study, target, studies=str(prepared(Path(PLACES["results"]), study) or PLACES["studies"]))

    def fsage(self, *words: str) -> str:
        """A command of fsage, of these words."""
        options = [f"--{setting}" for setting in self._unusual]
        return shlex.join(["./run", "fsage", *options, f"--target={self.target}", *words])

    @property
    def measure_words(self) -> list[str]:
        """What measures the cells that have no record, and makes the report."""
        return ["snakemake", "--config", *self._unusual, f"target={self.target}", "--", self.study]

    @property
    def measure(self) -> str:
        """The command as a user types it."""
        return shlex.join(["./run", *self.measure_words])

    def remeasure(self, *which: str) -> str:
        """What sets some records aside and measures these cells again; `which`: options of `fsage remeasure`."""
        return f"{self.fsage('remeasure', self.study, *which)} && {self.measure}"

    @property
    def _unusual(self) -> list[str]:
        return unusual(self.results, self.studies, self.inventories)


def prepared(results: Path, study: str) -> Path | None:
    """The folder of a study that `fsage age` made; None for any other."""
    if PREPARED.fullmatch(study):
        return results / "age" / study
    return None
