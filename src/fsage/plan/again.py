"""The commands that messages and reports name: whole, so that who copies one can give it as it stands."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from fsage.plan.settings import PLACES

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
        options = [f"--{name}={getattr(self, name)}" for name in self._unusual]
        return shlex.join(["./run", "fsage", *options, f"--target={self.target}", *words])

    @property
    def measure_words(self) -> list[str]:
        """What measures the cells that have no record, and makes the report."""
        config = [f"{name}={getattr(self, name)}" for name in self._unusual]
        return ["snakemake", "--config", *config, f"target={self.target}", "--", self.study]

    @property
    def measure(self) -> str:
        """The command as a user types it."""
        return shlex.join(["./run", *self.measure_words])

    def remeasure(self, *which: str) -> str:
        """What sets some records aside and measures these cells again; `which`: options of `fsage remeasure`."""
        return f"{self.fsage('remeasure', self.study, *which)} && {self.measure}"

    @property
    def _unusual(self) -> list[str]:
        return [name for name in ("results", "studies", "inventories") if getattr(self, name) != PLACES[name]]


def prepared(results: Path, study: str) -> Path | None:
    """The folder of a study that `fsage age` made; None for any other."""
    return results / "age" / study if PREPARED.fullmatch(study) else None
