"""What `command`, `doctor` and `inputs` of a study use, beside fsage.api.model.

- `command` offers `app`, a typer.Typer. A command finds `Where` in its context: target, folders of studies and results;
- `doctor` offers `checks`, which returns a list: a `Check` is one row: its name, a detail, and what it lacks here;
- `inputs` offers `needed(plan, step) -> (digest, text)`, for a step with a field `input`. It gets the `Plan` of a study
  on a target, and raises `StudyError`, one sentence.

A module `command` is read whenever `fsage` starts, so it imports what takes long where it is used.
"""

from fsage.commands.common import Where
from fsage.plan.plan import Plan
from fsage.site.doctor import Check
from fsage.study.study import StudyError
