"""What `doctor`, `inputs` and the work of a `command` use, beside fsage.api.model.

- `doctor` offers `checks`, which returns a list: a `Check` is one row: its name, a detail, and what it lacks here;
- `inputs` offers `needed(plan, step) -> (digest, text)`, for a step with a field `input`. It gets the `Plan` of a study
  on a target, and raises `StudyError`, one sentence. Where a step lays free space, `free_bytes(plan, step)` says how
  much that is.

What a command works with, beside `Where`:

- `DeclaredTarget`: a target as its inventory declares it; `targets_in(folder)`: those of a folder of inventories;
- `claim_of(copy)`: the copy of a target's claim, which `Where.claim_copy` names;
- `load_plan(study, inventory, results)`: the plan of a study that a command wrote itself;
- `fitting_amount(plan, claim)`: the claim with the amount that all states of the study have room for;
- `quarantine(plan, chosen, statuses)`: have cells measured again;
- `enough_units(family, most)`: how many units tell one difference of a family from chance.
"""

from fsage.plan.plan import Plan, load_plan
from fsage.plan.target import Target as DeclaredTarget
from fsage.plan.target import targets_in
from fsage.records.store import claim_of, quarantine
from fsage.run.request import fitting_amount
from fsage.site.doctor import Check
from fsage.statistics import enough as enough_units
from fsage.study.study import StudyError
